//! What can be seen inside: the arguments of bubblewrap, for the sandbox and for each process nested in it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::Tool;

/// Where everything that is not part of the system is staged before bubblewrap starts; see [`harvest_link::Launch`].
pub(super) const STAGE: &str = "/tmp";

pub(super) const WORKSPACE: &str = "/workspace";
pub(super) const HOME: &str = "/home/harvest";
pub(super) const OBJECTS: &str = "/harvest/objects";
pub(super) const BIN: &str = "/harvest/bin";
/// The runner's own; not there for the processes it starts.
pub(super) const PRIVATE: &str = "/run/harvest";

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

    fn scratch(&mut self, tool: &Tool) -> &mut Self {
        self.add(&["--proc", "/proc", "--dev", "/dev"]);
        for folder in ["/tmp", "/var/tmp"] {
            if tool.is_recent() {
                // Memory of the host, so not without end.
                self.add(&["--size", "2147483648"]);
            }
            self.add(&["--perms", "1777", "--tmpfs", folder]);
        }
        self.add(&["--tmpfs", "/run"])
    }
}

/// What a sandbox shows besides the system.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub tool: &'a Tool,
    /// Read-only host folders that appear under their own path.
    pub tools: &'a [PathBuf],
    pub objects: bool,
}

impl View<'_> {
    /// The sandbox itself, in which only the runner runs. Sources are names in the stage.
    pub fn sandbox(&self) -> Arguments {
        let mut args = Arguments::default();
        args.add(&[&self.tool.path.to_string_lossy()]);
        args.add(&["--unshare-all", "--uid", INSIDE, "--gid", INSIDE, "--hostname", "harvest", "--cap-drop", "ALL"]);
        args.system();
        args.add(&["--ro-bind", &format!("{STAGE}/etc"), "/etc"]);
        args.scratch(self.tool);
        for (number, path) in self.tools.iter().enumerate() {
            args.bind("--ro-bind", &format!("{STAGE}/tool{number}"), path);
        }
        args.add(&["--ro-bind", &format!("{STAGE}/bin"), BIN]);
        if self.objects {
            args.add(&["--ro-bind", &format!("{STAGE}/objects"), OBJECTS]);
        }
        args.add(&["--bind", &format!("{STAGE}/home"), HOME]);
        args.add(&["--bind", &format!("{STAGE}/workspace"), WORKSPACE]);
        args.add(&["--ro-bind", &format!("{STAGE}/link"), &format!("{PRIVATE}/link")]);
        args.add(&["--bind", &format!("{STAGE}/spool"), &format!("{PRIVATE}/spool")]);
        args.add(&["--ro-bind", &format!("{STAGE}/boot"), &format!("{PRIVATE}/boot.json")]);
        args.add(&["--ro-bind", &self.tool.path.to_string_lossy(), &format!("{PRIVATE}/bwrap")]);
        args
    }

    /// What goes before each process: namespaces of its own inside the sandbox, which it shares only the network with.
    pub fn process(&self) -> Arguments {
        let mut args = Arguments::default();
        args.add(&[&format!("{PRIVATE}/bwrap")]);
        args.add(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        args.add(&["--uid", INSIDE, "--gid", INSIDE, "--hostname", "harvest", "--cap-drop", "ALL"]);
        args.add(&["--die-with-parent", "--new-session"]);
        if self.tool.is_recent() {
            args.add(&["--disable-userns"]);
        }
        args.system().add(&["--ro-bind", "/etc", "/etc", "--ro-bind", "/harvest", "/harvest"]);
        args.scratch(self.tool);
        for path in self.tools {
            args.bind("--ro-bind", &path.to_string_lossy(), path);
        }
        args.add(&["--bind", HOME, HOME, "--bind", WORKSPACE, WORKSPACE]);
        // What is left is the empty file system that bubblewrap puts everything into.
        args.add(&["--remount-ro", "/", "--"]);
        args
    }
}
