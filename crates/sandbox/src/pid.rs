//! Finding and ending processes by more than their pid, which the kernel gives to someone else sooner or later.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A process, told apart from later ones with the same number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Identity {
    pub pid: i32,
    /// Clock ticks since the machine started.
    pub started: u64,
}

impl Identity {
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, so count from its end: state is field 3, start time field 22.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (state != "Z" && state != "X").then_some(Self { pid, started })
    }

    /// A handle of the process, if it is still the same one and alive.
    pub fn open(self) -> Option<OwnedFd> {
        let handle = rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Looked at after opening: from here on the number cannot pass to another.
        (Self::of(self.pid) == Some(self)).then_some(handle)
    }

    /// Since when it has been there, by the kernel's own count.
    pub fn age(self) -> Option<Duration> {
        let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split(' ').next()?.parse().ok()?;
        let started = Duration::from_millis(self.started * 1000 / rustix::param::clock_ticks_per_second());
        Some(Duration::try_from_secs_f64(uptime).ok()?.saturating_sub(started))
    }

    /// The same handle, to wait on: it becomes readable when the process has ended.
    #[expect(deprecated, reason = "an owned descriptor is just what makes this call sound; its replacement is unsafe")]
    pub fn watch(self) -> Option<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(self.open()?, Interest::READABLE).ok()
    }
}

/// Every process of which `test` holds, told from its command line and its environment (empty where it may not be read).
pub(crate) fn find(test: impl Fn(&[u8], &[u8]) -> bool) -> Vec<Identity> {
    let is_wanted = |pid: &i32| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        test(&read("cmdline"), &read("environ"))
    };
    all().filter(is_wanted).filter_map(Identity::of).collect()
}

/// Every process that can be seen.
pub(crate) fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether this is the command line of the runner of the sandbox `id`, or of the bubblewrap around it.
pub(crate) fn is_runner_of(cmdline: &[u8], id: &str) -> bool {
    let arguments: Vec<&[u8]> = cmdline.strip_suffix(b"\0").unwrap_or(cmdline).split(|byte| *byte == 0).collect();
    match arguments.as_slice() {
        [.., program, mode, _, last] => {
            program.ends_with(b"harvest-runner") && *mode == b"run" && *last == id.as_bytes()
        }
        _ => false,
    }
}

/// Kills what `find` finds until it finds nothing. False when some of it would not go.
pub(crate) async fn kill_all(find: impl Fn() -> Vec<Identity>) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    let mut pause = Duration::from_micros(200);
    loop {
        let found = find();
        if found.is_empty() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        for process in found {
            if let Some(handle) = process.open() {
                let _ = rustix::process::pidfd_send_signal(handle, Signal::KILL);
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runners_of_this_sandbox_are_recognised() {
        assert!(is_runner_of(b"/x/harvest-runner\0run\0/b.json\0abc\0", "abc"));
        assert!(is_runner_of(b"bwrap\0--\0/harvest/bin/harvest-runner\0run\0/b.json\0abc\0", "abc"));
        assert!(!is_runner_of(b"/x/harvest-runner\0run\0/b.json\0abcd\0", "abc"));
        assert!(!is_runner_of(b"harvest\0destroy\0x\0abc\0", "abc"));
        assert!(!is_runner_of(b"", "abc"));
    }

    #[test]
    fn this_process_is_itself_and_not_one_that_started_later() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let identity = Identity::of(pid).unwrap();
        assert!(identity.open().is_some());
        assert!(Identity { started: identity.started + 1, ..identity }.open().is_none());
        assert!(identity.age().unwrap() < Duration::from_secs(24 * 60 * 60));
    }
}
