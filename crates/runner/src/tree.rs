//! Looks at processes through `/proc`: children of a wrapper, and what a process without one left behind.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The first child of `parent`: for bubblewrap, the init of the namespace it made.
pub fn child_of(parent: Pid) -> Option<Pid> {
    pids().find(|pid| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
            return false;
        };
        // The name in parentheses may hold anything, so count from its end.
        let ppid = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        ppid == Some(parent.as_raw_nonzero().get())
    })
}

/// Kills every process with `mark` in the environment it was started with, until there is none. Only for sandboxes without a
/// pid namespace, which would do this properly.
pub async fn kill_marked(mark: &str) {
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let marked: Vec<Pid> = pids().filter(|pid| is_marked(*pid, mark)).collect();
        if marked.is_empty() {
            return;
        }
        for pid in marked {
            // Looked at again with the handle open: the number may have passed to another process.
            if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
                && is_marked(pid, mark)
            {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn is_marked(pid: Pid, mark: &str) -> bool {
    let environ = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}
