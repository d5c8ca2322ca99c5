//! A private PostgreSQL: a cluster in a temporary folder, reached by a Unix socket in it, run by an unprivileged user.
//!
//! A small shell watches over it. It starts and stops the server on request, and when its standard input closes, which
//! happens however the tests end, it stops the server and removes the folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

const SKIP: &str = "HARVEST_TEST_SKIP_POSTGRES";
/// The reason that a test gives when it skips itself.
pub const WITHOUT: &str = "HARVEST_TEST_SKIP_POSTGRES is set";
/// The one who installs Debian's package gets this user with it; where there is none, nobody will do.
const USER: &str = "postgres";
const NOBODY: u32 = 65534;

const WATCH: &str = r#"
trap '' INT TERM HUP
folder=$1; bin=$2; fsync=$3; shift 3; server=
stop() { [ -n "$server" ] && kill -QUIT "$server" && wait "$server"; server=; }
while read -r word; do
  case $word in
    start) "$bin/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= -c max_connections=400 \
             -c fsync="$fsync" -c shared_buffers=128MB -c log_min_messages=fatal "$@" >>"$folder/log" 2>&1 </dev/null & server=$! ;;
    stop) stop ;;
  esac
done
stop; rm -rf "$folder"
"#;

/// Someone who signs, a server that is signed for, and the rule that no one comes over TCP without encryption.
const CERTIFY: &str = r#"
set -e; cd "$1"; umask 077
sign() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "$@" 2>&1; }
sign -keyout ca.key -out ca.pem -subj /CN=ca -addext basicConstraints=critical,CA:TRUE
sign -keyout other.key -out other.pem -subj /CN=other -addext basicConstraints=critical,CA:TRUE
sign -keyout server.key -out server.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost \
     -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca.key
printf 'local all all trust\nhostssl all all samehost trust\n' >data/pg_hba.conf
"#;

#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
    /// Where it is not the usual one; the socket is named after it, too.
    port: Option<String>,
    watcher: Mutex<Child>,
}

/// Whether a power cut is survived; tests that do not care are faster without.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sync {
    On,
    Off,
}

impl Cluster {
    /// The one that all tests of this binary share, unless the person asked to do without.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(|| wanted().then(|| Self::start(Sync::Off, &[]))).as_ref()
    }

    /// One of its own, for tests that stop it.
    pub fn private() -> Option<Self> {
        wanted().then(|| Self::start(Sync::On, &[]))
    }

    /// One that is reached by TCP as well, and there only encrypted, with a certificate for `localhost`. Returns its port; the
    /// certificate of who signed is `ca.pem` in its folder.
    pub fn encrypted() -> Option<(Self, u16)> {
        if !wanted() {
            return None;
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = [
            "-c",
            "ssl=on",
            "-c",
            "ssl_cert_file=../server.pem",
            "-c",
            "ssl_key_file=../server.key",
            "-c",
            "listen_addresses=localhost",
            "-p",
        ];
        let options: Vec<String> = options.into_iter().map(str::to_owned).chain([port.to_string()]).collect();
        Some((Self::start(Sync::Off, &options), port))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn start(sync: Sync, options: &[String]) -> Self {
        let bin = programs().unwrap_or_else(|| {
            panic!("PostgreSQL is not installed: run `apt install postgresql`, or set {SKIP}=1 to leave its tests out")
        });
        // Short, since the path of a socket is limited to 108 bytes; removed by the watcher.
        let folder = tempfile::Builder::new().prefix("hvpg").tempdir_in("/tmp").unwrap().keep();
        if let Some(user) = unprivileged() {
            std::os::unix::fs::chown(&folder, Some(user), Some(user)).unwrap();
        }
        let made = command(&bin.join("initdb"))
            .args(["--username=harvest", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--pgdata"])
            .arg(folder.join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        if !options.is_empty() {
            let made = command(Path::new("/bin/sh")).args(["-c", CERTIFY, "sh"]).arg(&folder).output().unwrap();
            assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        }
        let watcher = command(Path::new("/bin/sh"))
            .args(["-c", WATCH, "sh"])
            .args([&folder, &bin])
            .arg(if sync == Sync::On { "on" } else { "off" })
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = options.last().cloned();
        let cluster = Self { folder, bin, port, watcher: Mutex::new(watcher) };
        cluster.up();
        cluster
    }

    /// Starts the server and returns once it answers.
    pub fn up(&self) {
        self.say("start");
        for _ in 0..500 {
            if self.answers() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("PostgreSQL did not start: {}", std::fs::read_to_string(self.folder.join("log")).unwrap_or_default());
    }

    /// Stops the server at once, as a power cut would, and returns when it no longer answers.
    pub fn down(&self) {
        self.say("stop");
        while self.answers() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn url(&self, database: &str) -> String {
        format!("host={} user=harvest dbname={database}", self.folder.display())
    }

    fn answers(&self) -> bool {
        let port = self.port.iter().flat_map(|port| ["-p", port]);
        let asked = command(&self.bin.join("pg_isready")).arg("-q").arg("-h").arg(&self.folder).args(port).status();
        asked.is_ok_and(|status| status.success())
    }

    fn say(&self, word: &str) {
        let mut watcher = self.watcher.lock().unwrap();
        writeln!(watcher.stdin.as_mut().unwrap(), "{word}").unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut watcher = self.watcher.lock().unwrap();
        drop(watcher.stdin.take());
        let _ = watcher.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a switch for people who run the tests")]
fn wanted() -> bool {
    !std::env::var(SKIP).is_ok_and(|value| !value.is_empty())
}

/// The folder with `initdb` and `postgres`: Debian keeps one for each version; the newest is taken.
fn programs() -> Option<PathBuf> {
    let version = |path: &PathBuf| path.parent()?.file_name()?.to_str()?.parse::<f32>().ok();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    debian.sort_by(|a, b| version(b).partial_cmp(&version(a)).unwrap_or(std::cmp::Ordering::Equal));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let complete =
        |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).exists());
    debian.into_iter().chain(std::env::split_paths(&path)).find(complete)
}

/// PostgreSQL refuses to run as root.
fn unprivileged() -> Option<u32> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == USER);
    Some(found.and_then(|fields| fields.get(2)?.parse().ok()).unwrap_or(NOBODY))
}

#[expect(clippy::disallowed_methods, reason = "starts the database with a cleared environment")]
fn command(program: &Path) -> Command {
    let mut command = match unprivileged() {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg("--clear-groups").arg(program);
            command
        }
        None => Command::new(program),
    };
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/");
    command
}
