//! Helpers that have lost whoever started them.
//!
//! A helper ends with its parent, but not at every moment: bubblewrap's inner half waits for the outer one to let it begin, and
//! waits for ever when that is killed before it could. So the command line of each says whose it is, and the next process
//! that tidies up ends those that are nobody's any more.

use std::fs;

use crate::Error;
use crate::pid::{self, Identity};

const PREFIX: &str = "harvest-helper-of-";

/// Tells the helpers of one process of one installation from all other processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark(String);

impl Mark {
    pub fn of_this_process(installation: &str) -> Result<Self, Error> {
        let own = i32::try_from(std::process::id()).ok().and_then(Identity::of);
        let own = own.ok_or_else(|| Error::failed("this process is not in /proc"))?;
        Ok(Self::of(installation, own))
    }

    fn of(installation: &str, owner: Identity) -> Self {
        Self(format!("{PREFIX}{installation}-{}-{}", owner.pid, owner.started))
    }

    /// That of a command line, if it has one of this installation, and whose it is.
    fn read(cmdline: &[u8], installation: &str) -> Option<(Self, Identity)> {
        let text = String::from_utf8_lossy(cmdline);
        let prefix = format!("{PREFIX}{installation}-");
        let (_, rest) = text.split_once(&prefix)?;
        let end = rest.find(|next: char| next != '-' && !next.is_ascii_digit()).unwrap_or(rest.len());
        let (pid, started) = rest.get(..end)?.split_once('-')?;
        let owner = Identity { pid: pid.parse().ok()?, started: started.parse().ok()? };
        Some((Self::of(installation, owner), owner))
    }

    /// For bubblewrap, which does nothing about it: no program inside has such a variable.
    pub fn arguments(&self) -> [&str; 2] {
        ["--unsetenv", &self.0]
    }
}

/// Ends every helper of this installation that has lost whoever started it.
pub(super) async fn end_orphans(installation: &str) -> Result<(), Error> {
    let orphans = || pid::all().filter(|pid| is_orphan(*pid, installation)).filter_map(Identity::of).collect();
    if pid::kill_all(orphans).await {
        Ok(())
    } else {
        Err(Error::failed("helpers that a killed process has left would not end"))
    }
}

/// A helper's parent is its owner or another half of itself.
fn is_orphan(pid: i32, installation: &str) -> bool {
    let mark_of = |pid: i32| Mark::read(&fs::read(format!("/proc/{pid}/cmdline")).ok()?, installation);
    let Some((mark, owner)) = mark_of(pid) else { return false };
    let Some(parent) = parent_of(pid) else { return false };
    let is_owners = parent == owner.pid && Identity::of(parent) == Some(owner);
    !is_owners && mark_of(parent).is_none_or(|(of_parent, _)| of_parent != mark)
}

/// `None` for a process that is gone.
fn parent_of(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use tokio::process::{Child, Command};

    use super::*;

    const INSTALLATION: &str = "1f-2e";

    /// A process that goes by such a command line.
    #[expect(
        clippy::disallowed_methods,
        reason = "a program of the test's own, which needs nothing of the environment"
    )]
    fn marked(mark: &Mark) -> Child {
        let mut command = Command::new("sh");
        command.env_clear().args(["-c", "read never"]).args(mark.arguments()).stdin(Stdio::piped());
        command.kill_on_drop(true).spawn().unwrap()
    }

    #[tokio::test]
    async fn helpers_end_whose_owner_is_gone_and_no_others() {
        let gone = Identity { pid: i32::try_from(std::process::id()).unwrap(), started: 1 };
        let mut orphan = marked(&Mark::of(INSTALLATION, gone));
        let mut own = marked(&Mark::of_this_process(INSTALLATION).unwrap());
        let mut others = marked(&Mark::of("1f-2e5", gone));
        end_orphans(INSTALLATION).await.unwrap();
        assert_eq!(orphan.wait().await.unwrap().signal(), Some(9));
        assert_eq!((own.try_wait().unwrap(), others.try_wait().unwrap()), (None, None));
    }

    #[test]
    fn a_mark_is_found_among_arguments_and_in_an_order() {
        let owner = Identity { pid: 17, started: 4711 };
        let mark = Mark::of(INSTALLATION, owner);
        for text in [format!("bwrap\0--unsetenv\0{}\0--\0git\0", mark.0), format!("{{\"argv\":[\"{}\"]}}", mark.0)] {
            assert_eq!(Mark::read(text.as_bytes(), INSTALLATION), Some((mark.clone(), owner)));
            assert_eq!(Mark::read(text.as_bytes(), "f-2e"), None);
        }
        assert_eq!(Mark::read(b"harvest-helper-of-1f-2e-17", INSTALLATION), None);
    }
}
