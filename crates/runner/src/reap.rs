//! Waits for a child and learns what it used, which no safe wrapper tells.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How a child ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub user_ms: u64,
    pub system_ms: u64,
    pub max_rss_kb: u64,
}

#[derive(Debug)]
pub struct Child {
    pid: Pid,
    handle: AsyncFd<OwnedFd>,
}

impl Child {
    /// `pid` must be a child that nothing else waits for.
    #[expect(deprecated, reason = "an owned descriptor is just what makes this call sound; its replacement is unsafe")]
    pub fn new(pid: Pid) -> io::Result<Self> {
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { pid, handle: AsyncFd::with_interest(handle, Interest::READABLE)? })
    }

    /// How it ended, when it has. Says so once.
    pub fn try_wait(&self) -> io::Result<Option<Ended>> {
        wait4(self.pid)
    }

    /// When it has ended. Until it has been waited for, its number is nobody else's.
    pub async fn ended(&self) -> io::Result<()> {
        self.handle.readable().await.map(drop)
    }

    pub async fn wait(&self) -> io::Result<Ended> {
        loop {
            let mut ready = self.handle.readable().await?;
            if let Some(ended) = wait4(self.pid)? {
                return Ok(ended);
            }
            ready.clear_ready();
        }
    }
}

#[expect(unsafe_code, reason = "only wait4 tells what a child used, and rustix has no wrapper for it")]
fn wait4(pid: Pid) -> io::Result<Option<Ended>> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage, which is a struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live, writable locals of the types that wait4 fills in.
    let waited = unsafe { libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, libc::WNOHANG, &raw mut usage) };
    match waited {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(Ended {
            code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            user_ms: milliseconds(usage.ru_utime),
            system_ms: milliseconds(usage.ru_stime),
            max_rss_kb: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        })),
    }
}

fn milliseconds(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds * 1000 + micros / 1000
}
