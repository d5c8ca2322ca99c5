//! Cloning a large repository from inside a sandbox: through the runner's loopback port and the gateway, from the session's
//! repository, which stands on the mirror; beside git's own transport between the same two places.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use harvest_core::{BranchName, SandboxId};
use harvest_engine::ConfinedGit;
use harvest_gateway::{Gateway, NoCredentials, Options, Serving, Session, egress, git};
use harvest_sandbox::{Limits, Output, ProcessSpec, Provider, Sandbox, Spec, Workspace};
use harvest_workspace::{Git, Home, Mirror, SessionRepository};
use tokio::io::{AsyncWriteExt, BufWriter};

use super::gateway::Books;
use super::place::{self, Place};
use super::programs::{output, program};
use super::statistics::median;
use super::table::{Amount, Bound, Row};
use super::workspace::{Words, mirrored};
use super::{Findings, Size};

const TIMES: f64 = 1.2;
const GIT_LIMIT: Duration = Duration::from_secs(600);
const NAME: &str = "repository";
/// Files of this size, so many in a commit.
const FILE_BYTES: usize = 32 << 10;
const FILES_IN_A_COMMIT: usize = 64;
const POOL_BYTES: usize = 4 << 20;
const SLICE_BYTES: usize = 512;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let bare = generate(&place.folder("clone")?, size.pick(512, 16)).await?;
    let provider: Arc<dyn Provider> = Arc::new(place.sandboxes("clones")?);
    let served = Served::new(place, provider, &bare).await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // The first of each only warms up.
    for number in 0..=size.pick(5, 2) {
        theirs.push(directly(&bare, &place.folder("clones/direct")?).await?);
        ours.push(served.clone(number).await?);
    }
    served.stop().await?;
    let row = Row {
        name: if size == Size::Full { "clone of 1 GB in a sandbox" } else { "clone of 34 MB in a sandbox" },
        ours: Amount::Time(median(&ours[1..])),
        theirs: Some(Amount::Time(median(&theirs[1..]))),
        against: "git clone --no-local of the bare repository",
        bound: Bound::Times(TIMES),
    };
    let packed: u64 = packs(&bare)?.iter().filter_map(|pack| pack.metadata().ok()).map(|pack| pack.len()).sum();
    let note = format!(
        "clone: {} of packed objects, without a checkout; bubblewrap, runner and gateway included",
        Amount::Bytes(packed)
    );
    Ok(Findings { rows: vec![row], notes: vec![note] })
}

fn packs(bare: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(bare.join("objects/pack"))?.filter_map(Result::ok).map(|entry| entry.path());
    Ok(entries.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).collect())
}

/// Git alone, from one folder to the other.
async fn directly(bare: &Path, folder: &Path) -> anyhow::Result<Duration> {
    let target = folder.join("clone");
    let mut clone = program("git");
    clone.args(["clone", "--quiet", "--no-local", "--no-checkout"]).arg(bare).arg(&target);
    let began = Instant::now();
    output(&mut clone).await?;
    let took = began.elapsed();
    tokio::fs::remove_dir_all(&target).await?;
    Ok(took)
}

/// A session with the repository, and a sandbox to clone it in.
struct Served {
    provider: Arc<dyn Provider>,
    serving: Serving,
    sandbox: Sandbox,
    branch: BranchName,
    workspace: PathBuf,
}

impl Served {
    async fn new(place: &Place, provider: Arc<dyn Provider>, bare: &Path) -> anyhow::Result<Self> {
        let git = Git::new(Home::Nobody).with_limit(GIT_LIMIT);
        let commit = git.line(bare, &["rev-parse", "refs/heads/main"]).await?;
        let mirror = mirrored(place, &git, bare, &commit).await?;
        let task = place::new_task()?;
        let path = place.folder("clones/session")?.join("repository.git");
        let repository = SessionRepository::open(path.clone(), &mirror, &commit, &task.branch).await?;
        repository.set_branch(&task.branch, &commit).await?;
        provider.adopt(&path).await?;
        let access = git::Access {
            name: NAME.to_owned(),
            directory: path.clone(),
            branch: task.branch.as_ref_name(),
            namespace: SessionRepository::namespace(&task.session),
            writable: true,
            command: Arc::new(ConfinedGit::new(Arc::clone(&provider), path, mirror.objects())),
        };
        let session = Session {
            id: task.session.to_string(),
            meter: Arc::<Books>::default(),
            credentials: Arc::new(NoCredentials),
            git: Some(access),
            egress: egress::Access::none(),
            server_tools: harvest_gateway::ServerTools::default(),
        };
        let id = place::sandbox_id();
        provider.prepare(&id).await?;
        let serving = Gateway::new(Options::default())?.serve(provider.listen(&id)?, session);
        let workspace = place.folder("clones/workspace")?;
        let sandbox = provider.create(spec(id, workspace.clone(), &mirror)).await?;
        Ok(Self { provider, serving, sandbox, branch: task.branch, workspace })
    }

    async fn clone(&self, number: u32) -> anyhow::Result<Duration> {
        let url = format!("http://127.0.0.1:{}/git/{NAME}", self.sandbox.gateway_port());
        let target = format!("clone{number}");
        let argv = ["git", "clone", "--quiet", "--no-checkout", "--branch", self.branch.as_str(), &url, &target];
        let argv = argv.map(str::to_owned).into();
        let began = Instant::now();
        let mut process =
            self.sandbox.start(ProcessSpec { id: target.clone(), argv, ..ProcessSpec::default() }).await?;
        let mut said = String::new();
        let exit = loop {
            match process.next().await {
                Output::Line { line, .. } => said.push_str(&String::from_utf8_lossy(&line)),
                Output::Exited(exit) => break exit,
                other => bail!("the sandbox did not clone: {other:?}"),
            }
        };
        let took = began.elapsed();
        ensure!(exit.code == Some(0), "the clone in the sandbox failed: {said}");
        tokio::fs::remove_dir_all(self.workspace.join(target)).await?;
        Ok(took)
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.serving.stop().await;
        Ok(self.provider.destroy(self.sandbox.id()).await?)
    }
}

fn spec(id: SandboxId, path: PathBuf, mirror: &Mirror) -> Spec {
    Spec { id, workspace: Workspace::Folder { path }, objects: Some(mirror.objects()), limits: Limits::default() }
}

/// A bare repository whose history is so many commits, each with new files.
async fn generate(folder: &Path, commits: usize) -> anyhow::Result<PathBuf> {
    let bare = folder.join("generated.git");
    output(program("git").args(["init", "--quiet", "--bare", "--initial-branch=main"]).arg(&bare)).await?;
    let mut import = program("git");
    import.args(["-c", "pack.compression=1", "fast-import", "--quiet", "--depth=0"]).current_dir(&bare);
    let mut import = import.stdin(Stdio::piped()).spawn().context("git cannot be started")?;
    let input = import.stdin.take().context("git was started without a pipe")?;
    history(&mut BufWriter::with_capacity(1 << 20, input), commits).await?;
    ensure!(import.wait().await?.success(), "the repository could not be generated");
    Ok(bare)
}

async fn history(input: &mut BufWriter<tokio::process::ChildStdin>, commits: usize) -> anyhow::Result<()> {
    let mut words = Words(0x2545_f491_4f6c_dd1d);
    let pool = words.text(POOL_BYTES).into_bytes();
    for commit in 0..commits {
        let head = format!(
            "commit refs/heads/main\ncommitter Bench <bench@localhost> {} +0000\ndata 5\nWork\n\n",
            1_700_000_000 + commit
        );
        input.write_all(head.as_bytes()).await?;
        for file in 0..FILES_IN_A_COMMIT {
            let head = format!("M 100644 inline part{}/file{commit}-{file}.txt\ndata {FILE_BYTES}\n", commit / 16);
            input.write_all(head.as_bytes()).await?;
            // Slices of the same words in another order each time: as compressible as text is, and never the same twice.
            for _ in 0..FILE_BYTES / SLICE_BYTES {
                let at = words.next_below(POOL_BYTES - SLICE_BYTES);
                input.write_all(&pool[at..at + SLICE_BYTES]).await?;
            }
            input.write_all(b"\n").await?;
        }
    }
    input.write_all(b"done\n").await?;
    input.shutdown().await?;
    Ok(())
}
