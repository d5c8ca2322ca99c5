//! What a process has started, and what that has started: a git that is killed leaves the program behind that it reaches a
//! host with.
//!
//! Processes are ended through descriptors. The number of one that has ended may be given to another, which is left alone.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// Kills a child that has not ended, with all its descendants, when it is dropped.
///
/// It has to be made before anyone waits for the child, and dropped before the handle of the child: whoever kills the child alone
/// loses sight of the others.
#[derive(Debug)]
pub(crate) struct KillAll(Option<Process>);

impl KillAll {
    pub(crate) fn new(child: Option<u32>) -> Self {
        Self(child.and_then(|id| Process::open(Pid::from_raw(i32::try_from(id).ok()?)?)))
    }

    /// The child has ended, and was waited for.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for KillAll {
    fn drop(&mut self) {
        let mut found: Vec<Process> = self.0.take().into_iter().collect();
        let mut looked = 0;
        while let Some(parent) = found.get(looked) {
            // One that is stopped starts no other while its children are looked for.
            parent.signal(Signal::STOP);
            found.extend(parent.children());
            looked += 1;
        }
        for process in found {
            process.signal(Signal::KILL);
        }
    }
}

#[derive(Debug)]
struct Process {
    pid: Pid,
    /// `None` where there was no room for another descriptor.
    handle: Option<OwnedFd>,
    stat: Stat,
}

/// What the kernel says of the process that has a number now.
#[derive(Debug, Clone, Copy)]
struct Stat {
    parent: i32,
    /// Clock ticks since the machine started.
    started: u64,
}

impl Process {
    /// What is read of it is read after its handle is open. If the number has passed to another in between, the handle is that of
    /// a process that has ended, and signals to it go nowhere.
    fn open(pid: Pid) -> Option<Self> {
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
        Some(Self { pid, handle, stat: Stat::of(pid)? })
    }

    fn signal(&self, signal: Signal) {
        let _ = match &self.handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None if self.has_its_number() => kill_process(self.pid, signal),
            None => Ok(()),
        };
    }

    fn has_its_number(&self) -> bool {
        Stat::of(self.pid).is_some_and(|now| now.started == self.stat.started)
    }

    /// The processes that it has started, by any of its threads, and that have not ended.
    fn children(&self) -> Vec<Self> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid.as_raw_nonzero())).into_iter().flatten().flatten();
        let listed: Vec<String> =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
        let pids = listed.iter().flat_map(|line| line.split_whitespace());
        let children = pids.filter_map(|pid| Self::open(Pid::from_raw(pid.parse().ok()?)?));
        let children = children.filter(|child| child.stat.parent == self.pid.as_raw_nonzero().get()).collect();
        // Looked at last: until here the number was its own, so those were its children.
        if self.has_its_number() { children } else { Vec::new() }
    }
}

impl Stat {
    fn of(pid: Pid) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name in parentheses may hold anything, so count from its end: the parent is field 4, the start time field 22.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        Some(Self { parent, started: fields.nth(17)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child for the test, without anyone's environment")]
    fn a_number_that_has_passed_to_another_process_leads_to_none_of_its_children() {
        let mut child = std::process::Command::new("/bin/sleep").arg("600").env_clear().spawn().unwrap();
        let own = || Process::open(rustix::process::getpid()).unwrap();
        let is_child = |process: &Process| u32::try_from(process.pid.as_raw_nonzero().get()) == Ok(child.id());
        assert!(own().children().iter().any(is_child));
        let mut earlier = own();
        earlier.stat.started -= 1;
        assert!(earlier.children().is_empty());
        // The handle of a process that has ended leads to no other, whoever has its number by then.
        let ended = KillAll::new(Some(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let handle = ended.0.as_ref().unwrap().handle.as_ref().unwrap();
        assert!(pidfd_send_signal(handle, Signal::KILL).is_err());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child for the test, without anyone's environment")]
    fn without_room_for_a_descriptor_a_process_is_ended_by_its_number_while_that_is_its_own() {
        let mut child = std::process::Command::new("/bin/sleep").arg("600").env_clear().spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let stat = Stat::of(pid).unwrap();
        Process { pid, handle: None, stat: Stat { started: stat.started - 1, ..stat } }.signal(Signal::KILL);
        assert!(child.try_wait().unwrap().is_none(), "its number has not passed to it");
        Process { pid, handle: None, stat }.signal(Signal::KILL);
        assert!(!child.wait().unwrap().success());
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a child for the test, without anyone's environment")]
    async fn whoever_a_child_has_started_ends_with_it() {
        let mut command = tokio::process::Command::new("/bin/sh");
        // The innermost holds the pipe open, and outlives those above it.
        command.args(["-c", "/bin/sh -c 'sleep 600 & echo begun; wait' & wait"]).env_clear().stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut begun = [0; 6];
        out.read_exact(&mut begun).await.unwrap();
        drop(KillAll::new(child.id()));
        // Read to the end: nobody holds the other end any more. The innermost would end by itself, too, but not so soon.
        let mut rest = Vec::new();
        let read = tokio::time::timeout(std::time::Duration::from_secs(60), out.read_to_end(&mut rest)).await;
        assert_eq!(read.expect("whoever the child has started lives on").unwrap(), 0);
    }
}
