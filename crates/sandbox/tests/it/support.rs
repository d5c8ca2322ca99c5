//! Providers in throw-away folders, and short ways to run things in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harvest_core::{Entropy, OutputStream, SandboxId};
use harvest_sandbox::{
    Binaries, Exit, Limits, Output, Process, ProcessSpec, Provider, Sandbox, Spec, Workspace, local, none,
};

pub const PATIENCE: Duration = Duration::from_secs(30);

/// A provider and the folders it lives in.
pub struct Place {
    pub provider: Arc<dyn Provider>,
    pub folder: tempfile::TempDir,
}

#[derive(Debug)]
struct Random;
impl Entropy for Random {
    fn bytes(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
        bytes
    }
}

pub fn id() -> SandboxId {
    SandboxId::generate(&Random)
}

pub fn local() -> Place {
    let folder = tempfile::Builder::new().prefix("hv").tempdir().unwrap();
    let options = local::Options {
        state: folder.path().join("state"),
        runtime: folder.path().join("run"),
        binaries: binaries(folder.path()),
        tools: Vec::new(),
    };
    Place { provider: Arc::new(local::Local::new(options).unwrap()), folder }
}

/// The same place, as a server that was started later sees it.
pub fn local_again(place: &Place) -> Arc<dyn Provider> {
    let folder = place.folder.path();
    let options = local::Options {
        state: folder.join("state"),
        runtime: folder.join("run"),
        binaries: binaries(folder),
        tools: Vec::new(),
    };
    Arc::new(local::Local::new(options).unwrap())
}

pub fn none() -> Place {
    let folder = tempfile::Builder::new().prefix("hv").tempdir().unwrap();
    let options = none::Options {
        state: folder.path().join("state"),
        runtime: folder.path().join("run"),
        binaries: binaries(folder.path()),
    };
    Place { provider: Arc::new(none::Unisolated::new(options).unwrap()), folder }
}

pub fn binaries(folder: &Path) -> Binaries {
    Binaries::in_folder(harvest_sandboxed::write_to(&folder.join("bin")).unwrap())
}

impl Drop for Place {
    /// Also when a test failed midway: nothing stays behind.
    fn drop(&mut self) {
        let provider = self.provider.clone();
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for id in provider.list().await.unwrap() {
                    provider.destroy(&id).await.unwrap();
                }
            });
        });
        let _ = cleaning.join();
        // The workspaces of tests may hold what an ordinary removal cannot.
        for entry in std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let _ = harvest_sandbox::remove_tree(&entry.path());
        }
    }
}

impl Place {
    /// A workspace with one file in it, layered where the provider can.
    pub fn workspace(&self) -> Workspace {
        let path = self.folder.path().join("snapshot");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("given.txt"), "given\n").unwrap();
        if self.provider.capabilities().overlay { Workspace::Overlay { lower: path } } else { self.folder_workspace() }
    }

    pub fn folder_workspace(&self) -> Workspace {
        let path = self.folder.path().join(format!("work-{}", id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("given.txt"), "given\n").unwrap();
        Workspace::Folder { path }
    }

    pub fn spec(&self) -> Spec {
        Spec { id: id(), workspace: self.workspace(), objects: None, limits: Limits::default() }
    }

    pub async fn create(&self) -> Sandbox {
        self.provider.create(self.spec()).await.unwrap()
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

pub fn shell(id: &str, script: &str) -> ProcessSpec {
    ProcessSpec { id: id.to_owned(), argv: ["sh", "-c", script].map(str::to_owned).to_vec(), ..ProcessSpec::default() }
}

/// What came out of a process, stream by stream.
#[derive(Debug, Default)]
pub struct Outcome {
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
    pub exit: Option<Exit>,
}

impl Outcome {
    pub fn text(&self) -> String {
        self.stdout.join("\n")
    }

    pub fn code(&self) -> Option<i32> {
        self.exit.and_then(|exit| exit.code)
    }
}

pub async fn next(process: &mut Process) -> Output {
    tokio::time::timeout(PATIENCE, process.next()).await.expect("nothing came for a long time")
}

pub async fn finish(process: &mut Process) -> Outcome {
    let mut outcome = Outcome::default();
    loop {
        match next(process).await {
            Output::Line { stream, line, .. } => {
                let line = String::from_utf8_lossy(&line).into_owned();
                match stream {
                    OutputStream::Stdout => outcome.stdout.push(line),
                    OutputStream::Stderr => outcome.stderr.push(line),
                }
            }
            Output::Exited(exit) => {
                outcome.exit = Some(exit);
                return outcome;
            }
            other => panic!("{other:?} after {outcome:?}"),
        }
    }
}

pub async fn run(sandbox: &Sandbox, id: &str, script: &str) -> Outcome {
    finish(&mut sandbox.start(shell(id, script)).await.unwrap()).await
}
