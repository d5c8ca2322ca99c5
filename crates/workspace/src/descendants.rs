//! What a process has started, and what that has started: a git that is killed leaves the program behind that it reaches a
//! host with.

use rustix::process::{Pid, Signal, kill_process};

/// Kills a child that has not ended, with all its descendants, when it is dropped.
///
/// It has to be dropped before the handle of the child: whoever kills the child alone loses sight of the others.
#[derive(Debug)]
pub(crate) struct KillAll(Option<Pid>);

impl KillAll {
    pub(crate) fn new(child: Option<u32>) -> Self {
        Self(child.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    /// The child has ended, and was waited for.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for KillAll {
    fn drop(&mut self) {
        let mut found: Vec<Pid> = self.0.into_iter().collect();
        let mut looked = 0;
        while let Some(parent) = found.get(looked) {
            found.extend(children(*parent));
            looked += 1;
        }
        for process in found {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

fn children(parent: Pid) -> Vec<Pid> {
    let id = parent.as_raw_nonzero();
    let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use tokio::io::AsyncReadExt;

    use super::*;

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
        // Read to the end: nobody holds the other end any more.
        assert_eq!(out.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
}
