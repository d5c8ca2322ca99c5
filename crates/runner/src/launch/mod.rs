//! `harvest-runner launch`: from a process of the host to bubblewrap, with everything in place that bubblewrap cannot do.
//!
//! Order matters. Everything is opened while we may still open it; then the mounts are made in a namespace of our own; then
//! we become who the sandbox is; and only then does bubblewrap start, which has no more rights than anyone with that uid.
//!
//! A launcher can be started before there is anything to launch. It then joins its control groups, which can take the kernel
//! longer than all the rest, and waits for its order.

mod attributes;
mod fork;
mod group;
mod idmap;
mod mounts;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use harvest_link::{Identity, Launch};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::{Gid, Resource, Rlimit, Uid};
use rustix::thread::{CpuSet, UnshareFlags};

use self::idmap::Namespaces;
use crate::command::command;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the order cannot be read: {0}")]
    Order(io::Error),
    #[error("root may not be mapped into a sandbox: another uid is needed")]
    NotAsRoot,
    #[error("only root can become another uid")]
    OnlyRoot,
    #[error("a new user namespace: {0}")]
    UserNamespace(io::Error),
    #[error("a new mount namespace: {0}")]
    MountNamespace(io::Error),
    #[error("joining the control group {}: {source}", path.display())]
    Group { path: PathBuf, source: io::Error },
    #[error("{what} {}: {source}", path.display())]
    Mount { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    Identity { what: &'static str, source: io::Error },
    #[error("{}: {source}", path.display())]
    Exec { path: PathBuf, source: io::Error },
}

/// Joins the groups whose `cgroup.procs` these are, and launches what comes on standard input. When nothing comes, whoever
/// started us has ended or thought better of it.
pub fn when_told(groups: &[OsString]) -> Result<(), Error> {
    // Ctrl-C is for whoever started us.
    let _ = rustix::process::setsid();
    for group in groups {
        fs::write(group, "0").map_err(|source| Error::Group { path: group.into(), source })?;
    }
    let mut namespaces = Namespaces::default();
    if rustix::process::geteuid().is_root() {
        namespaces.prepare();
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(Error::Order)?;
    if text.is_empty() {
        return Ok(());
    }
    forget_who_told_us().map_err(Error::Order)?;
    match launch(&parse(&text)?, namespaces)? {}
}

/// The pipe to whoever started us is not for the sandbox.
fn forget_who_told_us() -> io::Result<()> {
    let nothing = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::stdio::dup2_stdin(&nothing)?)
}

pub fn inline(text: &str) -> Result<(), Error> {
    match launch(&parse(text)?, Namespaces::default())? {}
}

fn parse(text: &str) -> Result<Launch, Error> {
    serde_json::from_str(text).map_err(|error| Error::Order(error.into()))
}

fn launch(order: &Launch, namespaces: Namespaces) -> Result<Infallible, Error> {
    let joining = group::join(&order.join)?;
    // Fails only when we lead a session already.
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let info = order.info.as_deref().map(open_info).transpose()?;
    let filter = order.filter.as_deref().map(open_filter).transpose()?;
    enter_namespaces(order.identity)?;
    mounts::make(order, namespaces)?;
    joining.finish()?;
    limit(order)?;
    if let Some(identity) = order.identity {
        become_other(identity)?;
    }
    become_program(order, info.as_ref(), filter.as_ref())
}

fn enter_namespaces(identity: Option<Identity>) -> Result<(), Error> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    match identity {
        Some(Identity { uid: 0, .. } | Identity { gid: 0, .. }) => return Err(Error::NotAsRoot),
        Some(_) if !uid.is_root() => return Err(Error::OnlyRoot),
        None if uid.is_root() => return Err(Error::NotAsRoot),
        Some(_) => unshare(UnshareFlags::NEWNS).map_err(Error::MountNamespace)?,
        None => {
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(Error::UserNamespace)?;
            // Uid 0 in here is the user outside; mounting needs it. bubblewrap maps it to another uid again.
            for (file, content) in [
                ("setgroups", "deny".to_owned()),
                ("uid_map", format!("0 {} 1", uid.as_raw())),
                ("gid_map", format!("0 {} 1", gid.as_raw())),
            ] {
                fs::write(format!("/proc/self/{file}"), content).map_err(Error::UserNamespace)?;
            }
        }
    }
    let flags = rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
    rustix::mount::mount_change("/", flags).map_err(|error| Error::MountNamespace(error.into()))
}

#[expect(unsafe_code, reason = "rustix has made unshare unsafe for the sake of CLONE_FILES")]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the launcher has one thread and does not ask for CLONE_FILES, so no descriptor changes its meaning.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

fn limit(order: &Launch) -> Result<(), Error> {
    let failed = |error: rustix::io::Errno| Error::Identity { what: "limits", source: error.into() };
    let set = |resource, value: u64| {
        let value = rustix::process::getrlimit(resource).maximum.map_or(value, |hard| value.min(hard));
        rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) }).map_err(failed)
    };
    // A core file would carry what was in memory to wherever the host keeps them. One byte is too little for a file, and it is
    // the one limit that also keeps the kernel from starting a program for it (`core_pattern`).
    set(Resource::Core, 1)?;
    let limits = [
        (Resource::Nofile, order.open_files),
        (Resource::Nproc, order.processes),
        (Resource::Fsize, order.file_bytes),
        (Resource::Data, order.memory_bytes),
    ];
    for (resource, value) in limits {
        value.map_or(Ok(()), |value| set(resource, value))?;
    }
    order.cores.map_or(Ok(()), |cores| stay_on(cores).map_err(failed))
}

/// Some of the cores we may run on; others than those of the launcher before us, as far as pids go round.
fn stay_on(cores: u64) -> rustix::io::Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let cores = usize::try_from(cores).unwrap_or(usize::MAX);
    if cores >= all.len() {
        return Ok(());
    }
    let first = std::process::id() as usize % all.len();
    let mut chosen = CpuSet::new();
    all.iter().cycle().skip(first).take(cores.max(1)).for_each(|core| chosen.set(*core));
    rustix::thread::sched_setaffinity(None, &chosen)
}

fn become_other(Identity { uid, gid }: Identity) -> Result<(), Error> {
    let failed = |what| move |error: rustix::io::Errno| Error::Identity { what, source: error.into() };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // These are of the calling thread alone, and there is no other.
    rustix::thread::set_thread_groups(&[]).map_err(failed("supplementary groups"))?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(failed("gid"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(failed("uid"))?;
    if rustix::process::getuid() != uid || rustix::process::geteuid() != uid {
        return Err(Error::NotAsRoot);
    }
    Ok(())
}

fn open_info(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map_err(|error| Error::Mount {
        what: "writing",
        path: path.to_owned(),
        source: error.into(),
    })
}

fn open_filter(path: &Path) -> Result<OwnedFd, Error> {
    let failed =
        |error: rustix::io::Errno| Error::Mount { what: "reading", path: path.to_owned(), source: error.into() };
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)
}

fn become_program(order: &Launch, info: Option<&OwnedFd>, filter: Option<&OwnedFd>) -> Result<Infallible, Error> {
    let failed = |path: &str, source: io::Error| Error::Exec { path: path.into(), source };
    let descriptor = |handle: Option<&OwnedFd>| match handle {
        Some(handle) => {
            rustix::io::fcntl_setfd(handle, FdFlags::empty()).map_err(|error| failed("a descriptor", error.into()))?;
            Ok(handle.as_raw_fd().to_string())
        }
        None => Ok(String::new()),
    };
    let (info, filter) = (descriptor(info)?, descriptor(filter)?);
    let mut argv = order.argv.iter().map(|argument| match argument.as_str() {
        "{info}" => &info,
        "{filter}" => &filter,
        _ => argument,
    });
    let program = argv.next().ok_or_else(|| failed("", io::ErrorKind::InvalidInput.into()))?;
    let error =
        command(program).args(argv).envs(order.env.iter().map(|(name, value)| (name, value))).current_dir("/").exec();
    Err(failed(program, error))
}
