//! A private PostgreSQL with the settings that it comes with: a cluster in a temporary folder on a real disk, reached by a
//! Unix socket in it, run by an unprivileged user.
//!
//! A small shell watches over it: when its standard input closes, which happens however the run ends, it stops the server and
//! removes the folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::programs::PATH;

/// Whoever installs Debian's package gets this user with it; where there is none, nobody will do.
const USER: &str = "postgres";
const NOBODY: u32 = 65534;
const START: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

const WATCH: &str = r#"
trap '' INT TERM HUP
"$2/postgres" -D "$1/data" -k "$1" -c listen_addresses= -c max_connections=400 -c fsync=on >"$1/log" 2>&1 </dev/null &
while read -r _; do :; done
kill -QUIT $!; wait; rm -rf "$1"
"#;

#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
    watcher: Child,
}

impl Cluster {
    pub async fn start() -> anyhow::Result<Self> {
        let bin = programs().context("PostgreSQL is not installed; on Debian: apt install postgresql")?;
        let builder = || tempfile::Builder::new().prefix("hvpg-").to_owned();
        let folder = builder().tempdir_in("/var/tmp").or_else(|_| builder().tempdir())?;
        if let Some(user) = unprivileged() {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(user))?;
        }
        let mut initdb = command(&bin.join("initdb"));
        initdb.args(["--username=harvest", "--auth=trust", "--encoding=UTF8", "--locale=C", "--pgdata"]);
        finish(initdb.arg(folder.path().join("data")))?;
        let watcher = command(Path::new("/bin/sh"))
            .args(["-c", WATCH, "sh"])
            .args([folder.path(), &bin])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // From here on the watcher removes it.
        let cluster = Self { folder: folder.keep(), bin, watcher };
        cluster.wait().await?;
        Ok(cluster)
    }

    async fn wait(&self) -> anyhow::Result<()> {
        for _ in 0..START.as_millis() / LOOK.as_millis() {
            if finish(self.client("pg_isready").arg("-q")).is_ok() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("PostgreSQL did not start: {}", std::fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    pub fn socket(&self) -> &Path {
        &self.folder
    }

    pub fn url(&self, database: &str) -> String {
        format!("host={} user=harvest dbname={database}", self.folder.display())
    }

    pub fn create(&self, database: &str) -> anyhow::Result<()> {
        finish(self.client("createdb").arg("--username=harvest").arg(database))
    }

    pub fn remove(&self, database: &str) -> anyhow::Result<()> {
        finish(self.client("dropdb").args(["--username=harvest", "--force"]).arg(database))
    }

    fn client(&self, name: &str) -> Command {
        let mut command = command(&self.bin.join(name));
        command.arg("-h").arg(&self.folder);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}

/// The folder with the programs: Debian keeps one for each version; the newest is taken.
fn programs() -> Option<PathBuf> {
    let version = |path: &PathBuf| path.parent()?.file_name()?.to_str()?.parse::<f32>().ok();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    debian.sort_by(|a, b| version(b).partial_cmp(&version(a)).unwrap_or(std::cmp::Ordering::Equal));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let needed = ["initdb", "postgres", "pg_isready", "createdb", "dropdb"];
    let complete = |folder: &PathBuf| needed.iter().all(|name| folder.join(name).exists());
    debian.into_iter().chain(std::env::split_paths(&path)).find(complete)
}

/// PostgreSQL refuses to run as root.
fn unprivileged() -> Option<u32> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found =
        users.lines().find_map(|line| line.strip_prefix(USER)?.strip_prefix(':')?.split(':').nth(1)?.parse().ok());
    Some(found.unwrap_or(NOBODY))
}

#[expect(clippy::disallowed_methods, reason = "the environment is cleared")]
fn command(program: &Path) -> Command {
    let mut command = match unprivileged() {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg("--clear-groups").arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env_clear().envs([("PATH", PATH), ("LC_ALL", "C")]).current_dir("/");
    command
}

fn finish(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().context("a program of PostgreSQL cannot be started")?;
    ensure!(output.status.success(), "PostgreSQL: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
