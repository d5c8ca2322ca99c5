//! `harvest-runner attempt`: what stands between the runner and a process where there can be no namespaces for each process,
//! as in most containers.
//!
//! The process becomes someone else, who can neither signal nor look into the runner and may enter none of its folders. What it
//! leaves behind when its parents end comes to us, however often it forks and whatever session it leads, so that all of it can
//! be found and ended. We stay who we are, so that it cannot end us before.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use harvest_link::Identity;
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions};

use crate::command::command;
use crate::process::prefer_to_us;
use crate::usage::Census;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("usage: harvest-runner attempt UID GID FILTER -- PROGRAM [ARGUMENT]...")]
    Usage,
    #[error("a process must not run as root: another uid is needed")]
    NotAsRoot,
    #[error("the system call filter: {0}")]
    Filter(io::Error),
    #[error("{0}")]
    Wait(io::Error),
    #[error("`{program}` could not be started: {source}")]
    Start { program: String, source: io::Error },
}

/// Tells us to end everything.
pub const END: Signal = Signal::QUIT;

/// The arguments after `attempt`. Returns the code to exit with.
pub fn run(arguments: &[&str]) -> Result<u8, Error> {
    let [uid, gid, filter, "--", program, rest @ ..] = arguments else { return Err(Error::Usage) };
    let number = |text: &str| text.parse::<u32>().map_err(|_| Error::Usage);
    let identity = Identity { uid: number(uid)?, gid: number(gid)? };
    if identity.uid == 0 || identity.gid == 0 {
        return Err(Error::NotAsRoot);
    }
    let filter = read_filter(filter)?;
    rustix::process::set_child_subreaper(Some(Pid::INIT)).map_err(|error| Error::Wait(error.into()))?;
    let signals = Signals::block().map_err(Error::Wait)?;
    let mut child = command(program);
    child.args(rest).envs(std::env::vars_os());
    prefer_to_us(&mut child);
    become_other(&mut child, identity, filter);
    let child = child.spawn().map_err(|source| Error::Start { program: (*program).to_owned(), source })?;
    let status = see_through(&child, &signals).map_err(Error::Wait)?;
    while kill_below() {
        // Each comes to us as its parent goes.
        while rustix::process::wait(WaitOptions::empty()).is_ok() {}
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(125);
    Ok(u8::try_from(code).unwrap_or(125))
}

/// Reads the filter from a descriptor that the runner opened for us.
fn read_filter(descriptor: &str) -> Result<Vec<libc::sock_filter>, Error> {
    let descriptor = descriptor.parse().ok().filter(|number| *number > 2).ok_or(Error::Usage)?;
    let mut bytes = Vec::new();
    File::from(adopt(descriptor)).read_to_end(&mut bytes).map_err(Error::Filter)?;
    let one = |chunk: &[u8]| {
        let [code, code2, jt, jf, k @ ..] = *<&[u8; 8]>::try_from(chunk).ok()?;
        Some(libc::sock_filter { code: u16::from_ne_bytes([code, code2]), jt, jf, k: u32::from_ne_bytes(k) })
    };
    let filter: Option<Vec<_>> = bytes.chunks(8).map(one).collect();
    filter.filter(|filter| !filter.is_empty()).ok_or_else(|| Error::Filter(io::ErrorKind::InvalidData.into()))
}

#[expect(unsafe_code, reason = "a number in the arguments is how a descriptor is handed over")]
fn adopt(descriptor: i32) -> OwnedFd {
    // SAFETY: the runner opened it for this program, which has opened nothing itself yet and closes it nowhere else.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

#[expect(unsafe_code, reason = "the process has to do this to itself before it becomes the program")]
fn become_other(child: &mut Command, Identity { uid, gid }: Identity, mut filter: Vec<libc::sock_filter>) {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let steps = move || {
        Signals::unblock()?;
        rustix::process::setsid()?;
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        // All capabilities go with root's uid.
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        rustix::thread::set_no_new_privs(true)?;
        let length = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
        // SAFETY: the program and its instructions are live for the call, which copies them.
        let outcome = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec there are only system calls, with arguments that were there before.
    unsafe { child.pre_exec(steps) };
}

/// Passes signals on and reaps whatever ends, until the process itself has ended.
fn see_through(child: &Child, signals: &Signals) -> io::Result<ExitStatus> {
    let own = pid_of(child);
    loop {
        match signals.wait()? {
            libc::SIGCHLD => {
                if let Some(status) = reap(own) {
                    return Ok(status);
                }
            }
            libc::SIGINT => pass_on(own, Signal::INT),
            libc::SIGTERM => pass_on(own, Signal::TERM),
            number if number == END.as_raw() => {
                kill_below();
            }
            _ => {}
        }
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn pass_on(child: Option<Pid>, signal: Signal) {
    if let Some(child) = child {
        let _ = rustix::process::kill_process_group(child, signal);
    }
}

/// Reaps everyone who has ended; the status of `wanted` when it was among them.
fn reap(wanted: Option<Pid>) -> Option<ExitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if Some(pid) == wanted {
            found = Some(ExitStatus::from_raw(status.as_raw()));
        }
    }
    found
}

/// Kills everything below us. False when there was nothing.
///
/// All are stopped before the first is killed. One that is stopped starts nothing new and yet takes its place in what the sandbox
/// may run at once, so that not even those who start others as fast as they can are faster than this.
fn kill_below() -> bool {
    let Some(own) = i32::try_from(std::process::id()).ok().and_then(Pid::from_raw) else { return false };
    let mut stopped = HashSet::new();
    loop {
        let census = Census::take().below(own);
        let family = census.entries();
        let before = stopped.len();
        for process in family {
            if stopped.insert(process.identity()) {
                process.signal(Signal::STOP);
            }
        }
        if stopped.len() == before {
            family.iter().for_each(|process| process.signal(Signal::KILL));
            return !family.is_empty();
        }
    }
}

/// Signals that come one at a time, when asked for.
struct Signals(libc::sigset_t);

impl Signals {
    fn block() -> io::Result<Self> {
        let all = Self::set(libc::sigfillset);
        Self::mask(&all)?;
        Ok(Self(all))
    }

    /// In a process that was started by one that blocks them.
    fn unblock() -> io::Result<()> {
        Self::mask(&Self::set(libc::sigemptyset))
    }

    #[expect(unsafe_code, reason = "rustix leaves signal masks to libc")]
    fn set(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> i32) -> libc::sigset_t {
        // SAFETY: all-zero bytes are a valid set, a struct of integers, and `fill` writes nothing else.
        unsafe {
            let mut set = std::mem::zeroed();
            fill(&raw mut set);
            set
        }
    }

    #[expect(unsafe_code, reason = "rustix leaves signal masks to libc")]
    fn mask(set: &libc::sigset_t) -> io::Result<()> {
        // SAFETY: the set is initialised and the old one is not asked for; there is one thread, whose mask this is.
        match unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[expect(unsafe_code, reason = "rustix leaves waiting for signals to libc")]
    fn wait(&self) -> io::Result<i32> {
        loop {
            // SAFETY: the set is initialised, and no information is asked for.
            let number = unsafe { libc::sigwaitinfo(&raw const self.0, std::ptr::null_mut()) };
            if number > 0 {
                return Ok(number);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}
