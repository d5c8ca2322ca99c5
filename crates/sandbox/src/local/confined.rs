//! Trusted programs of the host on untrusted data.

use std::path::{Path, PathBuf};

use harvest_link::{Access, Bind, Launch, Owner};

use super::Local;
use super::view::{Arguments, STAGE};
use crate::Confined;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(super) fn command(local: &Local, helper: Confined) -> tokio::process::Command {
    let Confined { program, args, read_only, writable, mut env, cwd, memory_bytes } = helper;
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".to_owned(), PATH.to_owned()));
    }
    let mut arguments = Arguments::default();
    arguments.add(&[&local.tool.path.to_string_lossy(), "--unshare-all", "--uid", "1000", "--gid", "1000"]);
    // The launcher has begun a session without a terminal. In one process group all of it can be ended at every moment.
    arguments.add(&["--cap-drop", "ALL", "--die-with-parent"]).add(&local.mark.arguments());
    arguments.system().add(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    arguments.add(&["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]);
    arguments.add(&["--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]);
    let mut shown: Vec<(&PathBuf, &str, Owner)> = Vec::new();
    shown.extend(read_only.iter().map(|path| (path, "--ro-bind", Owner::Mapped)));
    shown.extend(writable.iter().map(|path| (path, "--bind", Owner::Kept)));
    // One may lie inside the other, either way round: the outer one first.
    shown.sort_by_key(|(path, ..)| path.components().count());
    let mut binds = Vec::new();
    for (path, option, owner) in shown {
        let name = format!("confined{}", binds.len());
        arguments.bind(option, &format!("{STAGE}/{name}"), path);
        let access = if option == "--bind" { Access::Writable } else { Access::ReadOnly };
        binds.push(Bind { name, source: path.clone(), owner, access });
    }
    if let Some(folder) = cwd.as_ref().or(writable.first()) {
        arguments.add(&["--chdir", &folder.to_string_lossy()]);
    }
    arguments.add(&["--seccomp", "{filter}", "--", &program]);
    let mut argv = arguments.into_vec();
    argv.extend(args);
    let launch = Launch {
        stage: Path::new(STAGE).to_owned(),
        identity: local.uids.change_to(local.uids.helper()),
        binds,
        open_files: Some(4096),
        processes: Some(512),
        memory_bytes,
        filter: Some(local.filters.process.clone()),
        argv,
        env,
        ..Launch::default()
    };
    let mut command = tokio::process::Command::from(local.launch_now(&launch));
    command.kill_on_drop(true);
    command
}
