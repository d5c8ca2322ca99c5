//! A container as a sandbox, beside what the engine's own `run` takes: Podman with runc, in storage of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use harvest_sandbox::{Binaries, Workspace, container};
use tokio::net::UnixStream;
use tokio::process::Command;

use super::place::Place;
use super::programs::{output, program};
use super::statistics::median;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size, sandbox};

/// What a sandbox may take beyond `podman run`.
const ADDED: Duration = Duration::from_secs(1);
const IMAGE: &str = "localhost/harvest-bench:1";
const NEEDED: [&str; 2] = ["/usr/bin/podman", "/usr/sbin/runc"];

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let missing = NEEDED.iter().find(|path| !Path::new(path).exists());
    if let Some(missing) = missing.copied().or((!rustix::process::geteuid().is_root()).then_some("root")) {
        let note = format!("container: not measured, since there is no {missing} (Podman and runc, as root)");
        return Ok(Findings { rows: Vec::new(), notes: vec![note] });
    }
    let podman = Podman::new(place)?;
    podman.import(place).await?;
    let mut service = podman.serve().await?;
    let measured = compare(place, size, &podman).await;
    service.kill().await?;
    output(podman.command().args(["rm", "--all", "--force", "--time", "0"])).await?;
    // The storage is a mount of its own, which would keep the folder around it from being removed.
    let _ = program("umount").arg("--lazy").arg(podman.storage.join("root/overlay")).output().await;
    std::fs::remove_dir_all(&podman.run)?;
    measured
}

async fn compare(place: &Place, size: Size, podman: &Podman) -> anyhow::Result<Findings> {
    let folder = place.folder("container")?;
    let provider = container::Container::new(container::Options {
        sockets: vec![podman.socket()],
        image: IMAGE.to_owned(),
        runtime: None,
        state: folder.join("state"),
        runtime_folder: folder.join("run"),
        binaries: Binaries::in_folder(harvest_sandboxed::write_to(&folder.join("bin"))?),
    })?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // The first of each only warms up.
    for _ in 0..=size.pick(20, 3) {
        theirs.push(podman.bare().await?);
        let path = place.folder("container/workspace")?;
        ours.push(sandbox::first_instruction(&provider, Workspace::Folder { path }).await?.0);
    }
    let row = Row {
        name: "container, create to first instruction",
        ours: Amount::Time(median(&ours[1..])),
        theirs: Some(Amount::Time(median(&theirs[1..]))),
        against: "podman run --runtime runc ... true",
        bound: Bound::Added(ADDED),
    };
    Ok(Findings { rows: vec![row], notes: Vec::new() })
}

struct Podman {
    storage: PathBuf,
    /// Short: sockets lie in there.
    run: PathBuf,
}

impl Podman {
    fn new(place: &Place) -> anyhow::Result<Self> {
        let storage = place.folder("podman")?;
        let run = PathBuf::from(format!("/tmp/harvest-bench-podman-{}", std::process::id()));
        std::fs::create_dir_all(&run)?;
        // Locks of its own: those in shared memory are everyone's on this host.
        std::fs::write(storage.join("containers.conf"), "[engine]\nlock_type = \"file\"\nevents_logger = \"none\"\n")?;
        Ok(Self { storage, run })
    }

    fn socket(&self) -> PathBuf {
        self.run.join("podman.sock")
    }

    fn command(&self) -> Command {
        let mut command = program("podman");
        command.arg("--root").arg(self.storage.join("root")).arg("--runroot").arg(self.run.join("run"));
        command.arg("--tmpdir").arg(self.run.join("tmp"));
        command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--log-level", "error"]);
        command.env("HOME", &self.storage).env("CONTAINERS_CONF", self.storage.join("containers.conf"));
        command
    }

    /// An image of two programs of this host and the libraries they need.
    async fn import(&self, place: &Place) -> anyhow::Result<()> {
        let root = place.folder("image")?;
        for folder in ["dev", "etc", "home", "proc", "run", "sys", "tmp", "var/tmp"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        for name in ["/bin/true", "/bin/date"] {
            let needs = output(program("ldd").arg(name)).await?;
            let libraries = needs.split_ascii_whitespace().filter(|word| word.starts_with('/'));
            for path in libraries.chain([name]) {
                let target = root.join(path.trim_start_matches('/'));
                std::fs::create_dir_all(target.parent().context("a library at the top")?)?;
                std::fs::copy(path, target)?;
            }
        }
        let archive = self.storage.join("image.tar");
        output(program("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".")).await?;
        output(self.command().args(["import", "--quiet"]).arg(&archive).arg(IMAGE)).await?;
        Ok(())
    }

    /// Ends with us.
    async fn serve(&self) -> anyhow::Result<tokio::process::Child> {
        let socket = self.socket();
        let mut command = self.command();
        command.args(["system", "service", "--time", "0"]).arg(format!("unix://{}", socket.display()));
        let service =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("podman cannot be started")?;
        let answers = async {
            while UnixStream::connect(&socket).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), answers).await.context("podman's service does not answer")?;
        Ok(service)
    }

    async fn bare(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
        output(self.command().args(["run", "--rm", "--network", "none"]).args(limits).args([IMAGE, "true"])).await?;
        Ok(began.elapsed())
    }
}
