//! Providers in throw-away folders, and short ways to run things in them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harvest_core::{Entropy, OutputStream, SandboxId};
use harvest_sandbox::{
    Binaries, Exit, Limit, Limits, Output, Process, ProcessSpec, Provider, Sandbox, Spec, Workspace, local, none,
};

pub const PATIENCE: Duration = Duration::from_secs(30);

/// A provider and the folders it lives in, with what the suite has to know about its kind.
pub struct Place {
    pub provider: Arc<dyn Provider>,
    pub folder: tempfile::TempDir,
    /// The same provider, as a server that was started later sees it.
    pub again: fn(&Path) -> Arc<dyn Provider>,
    /// Ends a sandbox behind the provider's back, as a crash would.
    pub crash: fn(&Path, &SandboxId),
    /// Whatever is left of a sandbox on this host, by name.
    pub traces: fn(&Path, &SandboxId) -> Vec<String>,
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

pub fn place(provider: fn(&Path) -> Arc<dyn Provider>) -> Place {
    let folder = tempfile::Builder::new().prefix("hv").tempdir().unwrap();
    Place { provider: provider(folder.path()), folder, again: provider, crash: kill_init, traces }
}

pub fn local() -> Place {
    place(local_in)
}

pub fn local_in(folder: &Path) -> Arc<dyn Provider> {
    let options = local::Options {
        state: folder.join("state"),
        runtime: folder.join("run"),
        binaries: binaries(folder),
        tools: Vec::new(),
    };
    Arc::new(local::Local::new(options).unwrap())
}

pub fn none() -> Place {
    place(|folder| {
        let options =
            none::Options { state: folder.join("state"), runtime: folder.join("run"), binaries: binaries(folder) };
        Arc::new(none::Unisolated::new(options).unwrap())
    })
}

fn kill_init(folder: &Path, id: &SandboxId) {
    let state = folder.join("state").join(id.as_str());
    let read = |name: &str| -> Option<serde_json::Value> {
        Some(serde_json::from_slice(&std::fs::read(state.join(name)).ok()?).unwrap())
    };
    let init = match read("init.json") {
        Some(info) => info["child-pid"].as_i64().unwrap(),
        None => read("sandbox.json").unwrap()["runner"]["pid"].as_i64().unwrap(),
    };
    std::process::Command::new("kill").args(["-9", &init.to_string()]).status().unwrap();
}

pub fn traces(folder: &Path, id: &SandboxId) -> Vec<String> {
    let mut found = Vec::new();
    for path in ["state", "run"].map(|part| folder.join(part).join(id.as_str())) {
        found.extend(path.exists().then(|| path.display().to_string()));
    }
    found.extend(processes_with(id.as_str()));
    found.extend(forgotten_groups(folder));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(id.as_str())).map(str::to_owned));
    found
}

/// The command lines of live processes with this in them.
pub fn processes_with(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|line| line.contains(text)).collect()
}

/// Control groups of this place.
pub fn groups(folder: &Path) -> Vec<String> {
    let data = std::fs::metadata(folder.join("state")).unwrap();
    groups_of(Path::new("/sys/fs/cgroup"), &format!("harvest-{:x}-{:x}-", data.dev(), data.ino()))
}

/// Those that are nobody's: neither a sandbox's nor those of a launcher that waits.
fn forgotten_groups(folder: &Path) -> Vec<String> {
    let groups = groups(folder);
    // Read in the order in which a group changes hands, so that none is missed on its way.
    let launchers = std::fs::read_dir(folder.join("state/.launchers")).into_iter().flatten().flatten();
    let mut known: Vec<String> =
        launchers.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default()).collect();
    let sandboxes = std::fs::read_dir(folder.join("state")).into_iter().flatten().flatten();
    known.extend(sandboxes.map(|entry| std::fs::read_to_string(entry.path().join("sandbox.json")).unwrap_or_default()));
    groups.into_iter().filter(|group| !known.iter().any(|text| text.contains(group.as_str()))).collect()
}

/// Control groups with this in their name.
fn groups_of(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let named = entry.file_name().to_string_lossy().contains(text);
            found.extend(named.then(|| entry.path().display().to_string()));
            found.extend(groups_of(&entry.path(), text));
        }
    }
    found
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

    pub fn traces(&self, id: &SandboxId) -> Vec<String> {
        (self.traces)(self.folder.path(), id)
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

/// Reads to the end of a process that goes beyond a limit. Says which, in what words, and how much it had printed.
pub async fn exceed(process: &mut Process) -> (Limit, String, usize) {
    tokio::time::timeout(PATIENCE, beyond(process)).await.expect("it went on for a long time")
}

async fn beyond(process: &mut Process) -> (Limit, String, usize) {
    let mut printed = 0;
    loop {
        match next(process).await {
            Output::Line { line, .. } => printed += line.len() + 1,
            Output::Failed { limit: Some(limit), message } => return (limit, message, printed),
            other => panic!("{other:?} after {printed} bytes"),
        }
    }
}

pub fn python(id: &str, script: &str) -> ProcessSpec {
    ProcessSpec { argv: ["python3", "-c", script].map(str::to_owned).to_vec(), ..shell(id, "") }
}

pub async fn run(sandbox: &Sandbox, id: &str, script: &str) -> Outcome {
    finish(&mut sandbox.start(shell(id, script)).await.unwrap()).await
}
