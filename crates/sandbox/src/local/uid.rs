//! Which uid of the host a sandbox runs as.
//!
//! Run by root, each sandbox gets one of its own, far above those of people and services, so that sandboxes cannot signal or
//! read each other's processes and files even where a namespace would fail to keep them apart. Run by a user, it is that user.

use harvest_core::SandboxId;
use harvest_link::Identity;

use crate::Error;

const FIRST: u32 = 0x6000_0000;
const SPREAD: u32 = 1 << 28;
/// Programs that read untrusted data on the host's behalf.
const HELPER: u32 = 0x7000_0000;

/// Whom sandboxes and helpers run as on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uids {
    /// We are an ordinary user and so is every sandbox.
    Own { uid: u32, gid: u32 },
    /// We are root, and the host has all uids.
    High,
    /// We are root in a container that has only so many uids.
    Within { count: u32 },
}

impl Uids {
    pub fn of_this_process() -> Result<Self, Error> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if !uid.is_root() {
            return Ok(Self::Own { uid: uid.as_raw(), gid: gid.as_raw() });
        }
        let map =
            std::fs::read_to_string("/proc/self/uid_map").map_err(|error| Error::io("/proc/self/uid_map", error))?;
        Self::from_map(&map)
    }

    fn from_map(map: &str) -> Result<Self, Error> {
        let ranges = map.lines().filter_map(|line| {
            let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
            let (first, _, count) = (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
            Some((first, count))
        });
        let from_zero = ranges.filter(|(first, _)| *first == 0).map(|(_, count)| count).max().unwrap_or(0);
        if from_zero > HELPER {
            Ok(Self::High)
        } else if from_zero >= 2048 {
            Ok(Self::Within { count: from_zero })
        } else {
            // Uid 0 in a container with a single uid is an ordinary user outside, but not one that can be told apart here.
            Err(Error::failed(format!(
                "this process is root in a user namespace with {from_zero} uids, too few to give sandboxes their own; \
                 run it as an ordinary user or as root with a full range of uids"
            )))
        }
    }

    /// Whom the sandbox runs as, seen from outside.
    pub fn sandbox(self, id: &SandboxId) -> Identity {
        let hash =
            id.as_str().bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        // The high bits of this hash depend on every character.
        let hash = hash ^ hash >> 15;
        match self {
            Self::Own { uid, gid } => Identity { uid, gid },
            Self::High => same(FIRST + hash % SPREAD),
            // The lower half belongs to the container's own users.
            Self::Within { count } => same(count / 2 + hash % (count / 2 - 1)),
        }
    }

    pub fn helper(self) -> Identity {
        match self {
            Self::Own { uid, gid } => Identity { uid, gid },
            Self::High => same(HELPER),
            Self::Within { count } => same(count - 1),
        }
    }

    /// Whom the launcher has to become, if anyone.
    pub fn change_to(self, identity: Identity) -> Option<Identity> {
        match self {
            Self::Own { .. } => None,
            Self::High | Self::Within { .. } => Some(identity),
        }
    }
}

fn same(id: u32) -> Identity {
    Identity { uid: id, gid: id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_map_ever_yields_root_or_a_uid_that_does_not_exist() {
        let id: SandboxId = "0123456789abcdef".parse().unwrap();
        for map in ["0 0 4294967295", "0 100000 65536", "0 0 1\n1 5 3000\n", "0 1000 1", "", "junk"] {
            let Ok(uids) = Uids::from_map(map) else { continue };
            let limit = if let Uids::Within { count } = uids { count } else { u32::MAX };
            for identity in [uids.sandbox(&id), uids.helper()] {
                assert!(identity.uid > 1000 && identity.uid < limit, "{map}: {identity:?}");
            }
            assert_ne!(uids.sandbox(&id), uids.helper());
        }
        assert!(Uids::from_map("0 1000 1").is_err());
    }
}
