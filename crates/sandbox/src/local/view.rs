//! What can be seen inside: the arguments of bubblewrap, for the sandbox and for each process nested in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harvest_link::{Access, Again, Bind, Launch, Owner};

use crate::host::Tool;

/// Where everything that is not part of the system is staged before bubblewrap starts; see [`harvest_link::Launch`].
pub(super) const STAGE: &str = "/tmp";

/// In the stage: what a process is to see, and what only the runner sees.
const ROOT: &str = "root";
const CLOSED: &str = "private";

pub(super) const WORKSPACE: &str = "/workspace";
pub(super) const HOME: &str = "/home/harvest";
pub(super) const OBJECTS: &str = "/harvest/objects";
pub(super) const BIN: &str = "/harvest/bin";
/// The runner's own; an empty folder for the processes it starts.
pub(super) const PRIVATE: &str = "/run";

/// Devices without which programs do not run.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// What `/proc` tells about the hardware and the keys of the host, where it is not closed to all but root anyway. Each of them
/// costs time at every start, so what tells little is not among them.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/firmware",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
];

/// Folders in memory that every process gets for itself.
const SCRATCH_FOLDERS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// The largest of the file systems in memory that a process gets.
const SCRATCH: u64 = 2 << 30;

/// The sandbox's own uid, as seen inside.
const INSIDE: &str = "1000";

/// Arguments of one bubblewrap.
#[derive(Debug, Clone, Default)]
pub(super) struct Arguments(Vec<String>);

impl Arguments {
    pub fn add(&mut self, arguments: &[&str]) -> &mut Self {
        self.0.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    pub fn bind(&mut self, option: &str, source: &str, target: &Path) -> &mut Self {
        self.add(&[option, source, &target.to_string_lossy()])
    }

    pub fn into_vec(self) -> Vec<String> {
        self.0
    }

    /// `/usr`, the folders that are links into it on most systems, and `/opt`.
    pub fn system(&mut self) -> &mut Self {
        self.add(&["--ro-bind", "/usr", "/usr"]);
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let path = format!("/{name}");
            match fs::read_link(&path) {
                Ok(target) => self.add(&["--symlink", &target.to_string_lossy(), &path]),
                Err(_) => self.add(&["--ro-bind-try", &path, &path]),
            };
        }
        self.add(&["--ro-bind-try", "/opt", "/opt"])
    }

    /// An empty folder in memory of its own.
    fn scratch(&mut self, tool: &Tool, bytes: u64, mode: &str, path: &str) -> &mut Self {
        if tool.is_recent() {
            // Memory of the host, so not without end.
            self.add(&["--size", &bytes.to_string()]);
        }
        if tool.sets_modes() {
            self.add(&["--perms", mode]);
        }
        self.add(&["--tmpfs", path])
    }

    fn masked(&mut self, tool: &Tool) -> &mut Self {
        for path in MASKED {
            match fs::metadata(path) {
                Ok(data) if data.is_dir() => {
                    self.scratch(tool, 4096, "0555", path);
                }
                // What only root can read stays closed: root is not mapped into any sandbox.
                Ok(data) if data.permissions().mode() & 0o004 != 0 => {
                    self.add(&["--ro-bind", "/dev/null", path]);
                }
                _ => {}
            }
        }
        self
    }
}

/// What a sandbox shows besides the system.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub tool: &'a Tool,
    /// Read-only host folders that appear under their own path.
    pub tools: &'a [PathBuf],
}

impl View<'_> {
    /// What the launcher prepares, but for what belongs to one sandbox alone: everything that a process will see, so that
    /// bubblewrap has little left to do.
    pub fn stage(&self) -> Launch {
        let mut launch = Launch {
            stage: STAGE.into(),
            folders: ["proc", "dev/shm", "run", "tmp", "var/tmp"].map(inside).to_vec(),
            terminals: Some(inside("dev/pts")),
            again: Some(Again { from: ROOT.to_owned(), to: private("root") }),
            ..Launch::default()
        };
        let shown = |path: &Path, access| Bind {
            name: inside(&path.to_string_lossy()),
            source: path.to_owned(),
            // Not mapped: what only root may read there is not for agents.
            owner: Owner::Kept,
            access,
        };
        for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"] {
            let path = Path::new("/").join(name);
            match fs::read_link(&path) {
                Ok(target) => launch.links.push((inside(name), target.to_string_lossy().into_owned())),
                Err(_) if path.exists() => launch.binds.push(shown(&path, Access::ReadOnly)),
                Err(_) => {}
            }
        }
        launch.binds.extend(self.tools.iter().map(|path| shown(path, Access::ReadOnly)));
        let devices = DEVICES.iter().map(|name| Path::new("/dev").join(name)).filter(|path| path.exists());
        launch.binds.extend(devices.map(|path| shown(&path, Access::Device)));
        let links = [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ];
        launch.links.extend(links.map(|(name, target)| (inside(&format!("dev/{name}")), target.to_owned())));
        launch
    }

    /// The sandbox itself, in which only the runner runs.
    pub fn sandbox(&self) -> Arguments {
        let mut args = Arguments::default();
        args.add(&[&self.tool.path.to_string_lossy()]);
        args.add(&["--unshare-all", "--uid", INSIDE, "--gid", INSIDE, "--hostname", "harvest", "--cap-drop", "ALL"]);
        args.add(&["--dev-bind", &format!("{STAGE}/{ROOT}"), "/"]);
        args.add(&["--dev-bind", &format!("{STAGE}/{CLOSED}"), PRIVATE, "--proc", "/proc"]);
        args.add(&["--seccomp", "{filter}"]);
        args
    }

    /// What goes before each process: namespaces of its own inside the sandbox, which it shares only the network with.
    pub fn process(&self, memory_bytes: u64) -> Arguments {
        let mut args = Arguments::default();
        args.add(&[&format!("{PRIVATE}/bwrap")]);
        args.add(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        args.add(&["--uid", INSIDE, "--gid", INSIDE, "--hostname", "harvest", "--cap-drop", "ALL"]);
        args.add(&["--die-with-parent", "--new-session"]);
        if self.tool.is_recent() {
            args.add(&["--disable-userns"]);
        }
        args.add(&["--dev-bind", &format!("{PRIVATE}/root"), "/", "--proc", "/proc"]);
        args.masked(self.tool);
        for path in SCRATCH_FOLDERS {
            args.scratch(self.tool, SCRATCH.min(memory_bytes / 2), "1777", path);
        }
        // Scratch folders cover the tools that lie below them on the host: show those again.
        for path in self.tools.iter().filter(|path| SCRATCH_FOLDERS.iter().any(|folder| path.starts_with(folder))) {
            args.bind("--ro-bind", &format!("{PRIVATE}/root{}", path.display()), path);
        }
        args.add(&["--seccomp", "{filter}", "--"]);
        args
    }
}

/// The name in the stage of what a process sees at `path`.
pub(super) fn inside(path: &str) -> String {
    format!("{ROOT}/{}", path.trim_start_matches('/'))
}

/// The name in the stage of something only the runner sees.
pub(super) fn private(name: &str) -> String {
    format!("{CLOSED}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bubblewrap_gets_only_options_that_it_knows() {
        let scratch = |version| {
            let tool = Tool { path: "/usr/bin/bwrap".into(), version };
            let mut args = Arguments::default();
            args.scratch(&tool, 4096, "1777", "/tmp");
            args.into_vec().join(" ")
        };
        assert_eq!(scratch((0, 4, 1)), "--tmpfs /tmp");
        assert_eq!(scratch((0, 5, 0)), "--perms 1777 --tmpfs /tmp");
        assert_eq!(scratch((0, 8, 0)), "--size 4096 --perms 1777 --tmpfs /tmp");
    }
}
