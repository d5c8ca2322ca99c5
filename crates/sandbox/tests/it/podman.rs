//! A real Podman for the tests: its own storage, an image made from programs of this host, a service for this process alone.
//!
//! The service dies with the process that started it, however that ends. Containers that a killed test left behind are removed by
//! the next one that finds itself alone.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

pub const IMAGE: &str = "localhost/harvest-test:2";

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// What the tests call inside.
const PROGRAMS: &str = "sh bash ls cat echo sleep seq head tail tr fold date mkdir chmod rm touch cp ln stat wc id env sort \
                        cut grep find kill readlink setsid yes unshare mount umount mknod chroot true python3";
/// Parts of Python that no test imports.
const LEFT_OUT: &[&str] = &[
    "./test",
    "./dist-packages",
    "./config-*",
    "./idlelib",
    "./tkinter",
    "./lib2to3",
    "./ensurepip",
    "./site-packages",
];

/// Everything but containers stays for the next run, so that the image is made once.
#[derive(Debug)]
pub struct Podman {
    pub socket: PathBuf,
    storage: PathBuf,
    /// Short: sockets lie in there.
    run: PathBuf,
    /// Shared by everyone who uses the storage.
    _using: File,
}

/// The one of this process, or why there is none.
pub fn get() -> Result<&'static Podman, &'static str> {
    static PODMAN: OnceLock<Result<Podman, String>> = OnceLock::new();
    PODMAN.get_or_init(start).as_ref().map_err(String::as_str)
}

fn start() -> Result<Podman, String> {
    if std::env::var_os("HARVEST_TEST_SKIP_PODMAN").is_some() {
        return Err("HARVEST_TEST_SKIP_PODMAN is set".to_owned());
    }
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Err("an ordinary user has no subordinate uids for Podman here".to_owned());
    }
    for program in ["podman", "runc"] {
        let found = PATH.split(':').any(|folder| Path::new(folder).join(program).exists());
        assert!(found, "{program} is not installed: apt install podman runc, or set HARVEST_TEST_SKIP_PODMAN=1");
    }
    let storage = Path::new(env!("CARGO_TARGET_TMPDIR")).join("podman");
    fs::create_dir_all(&storage).unwrap();
    let run = PathBuf::from(format!("/tmp/hv-podman-{:x}", fs::metadata(&storage).unwrap().ino()));
    fs::create_dir_all(&run).unwrap();
    let using = File::create(storage.join("lock")).unwrap();
    let podman = Podman { socket: run.join(format!("{}.sock", std::process::id())), storage, run, _using: using };
    podman.set_up();
    podman.serve();
    Ok(podman)
}

impl Podman {
    fn command(&self) -> Command {
        // Dies with the thread that starts it.
        let mut command = program("setpriv");
        command.args(["--pdeathsig", "KILL", "podman", "--root"]).arg(self.storage.join("root"));
        command.arg("--runroot").arg(self.run.join("run")).arg("--tmpdir").arg(self.run.join("tmp"));
        command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--log-level", "error"]);
        command.env("HOME", &self.storage).env("CONTAINERS_CONF", self.storage.join("containers.conf"));
        // Its monitors leave a file named `oom` in the folder they are started in.
        command.current_dir(&self.run);
        command
    }

    pub fn output(&self, arguments: &[&str]) -> String {
        let output = self.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Makes the image, unless it is there, and removes what was left behind, unless someone else is at work.
    fn set_up(&self) {
        let setting_up = File::create(self.storage.join("set-up")).unwrap();
        rustix::fs::flock(&setting_up, FlockOperation::LockExclusive).unwrap();
        // Locks of its own: those in shared memory are everyone's on this host.
        fs::write(self.storage.join("containers.conf"), "[engine]\nlock_type = \"file\"\nevents_logger = \"none\"\n")
            .unwrap();
        if rustix::fs::flock(&self._using, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.output(&["rm", "--all", "--force", "--time", "0"]);
            for entry in fs::read_dir(&self.run).unwrap().flatten() {
                if entry.file_name().to_string_lossy().ends_with(".sock") {
                    fs::remove_file(entry.path()).unwrap();
                }
            }
        }
        rustix::fs::flock(&self._using, FlockOperation::LockShared).unwrap();
        if !self.command().args(["image", "exists", IMAGE]).status().unwrap().success() {
            let folder = tempfile::tempdir().unwrap();
            let (root, archive) = (folder.path().join("root"), folder.path().join("image.tar"));
            make_root(&root);
            let made = program("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status().unwrap();
            assert!(made.success());
            self.output(&["import", "--quiet", archive.to_str().unwrap(), IMAGE]);
        }
    }

    fn serve(&self) {
        let mut command = self.command();
        command.args(["system", "service", "--time", "0"]).arg(format!("unix://{}", self.socket.display()));
        let log = File::create(self.socket.with_extension("log")).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        // This thread never ends, so the service ends when the process does.
        std::thread::spawn(move || {
            let mut service = command.spawn().unwrap();
            let _ = service.wait();
            loop {
                std::thread::park();
            }
        });
        let end = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(&self.socket).is_err() {
            assert!(Instant::now() < end, "{}", fs::read_to_string(self.socket.with_extension("log")).unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A root file system of a few programs of this host with the libraries they need.
fn make_root(root: &Path) {
    for folder in
        ["usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "proc", "dev", "sys", "tmp", "var/tmp", "run", "etc", "home"]
    {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for folder in ["tmp", "var/tmp"] {
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o1777)).unwrap();
    }
    // A trap: runc gives what it mounts there the mode it finds in the image.
    fs::create_dir_all(root.join("harvest/private")).unwrap();
    fs::set_permissions(root.join("harvest/private"), fs::Permissions::from_mode(0o777)).unwrap();
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name)).unwrap();
    }
    let script = format!(
        "set -e; for p in {PROGRAMS}; do f=$(command -v $p); [ -f \"$f\" ] || f=/usr/bin/$p; echo $f; \
         ldd $(readlink -f $f) 2>/dev/null | grep -o '/[^ ]*' || true; done | sort -u | xargs -d '\\n' cp -L --parents -t {}; \
         python3 -c 'import sysconfig; print(sysconfig.get_paths()[\"stdlib\"])'",
        root.display()
    );
    let output = program("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let target = root.join(library.trim_start_matches('/'));
    fs::create_dir_all(&target).unwrap();
    let mut packing = program("tar")
        .arg("-C")
        .arg(&library)
        .args(LEFT_OUT.iter().map(|part| format!("--exclude={part}")))
        .args(["-chf", "-", "."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let packed = packing.stdout.take().unwrap();
    let unpacked = program("tar").arg("-C").arg(&target).args(["-xf", "-"]).stdin(packed).status().unwrap();
    assert!(unpacked.success() && packing.wait().unwrap().success());
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_clear().env("PATH", PATH).stdin(Stdio::null());
    command
}
