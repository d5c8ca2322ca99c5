//! What keeps agents within bounds on this host, layer by layer, for `harvest doctor`.

use crate::host::{Fact, State};
use crate::{Provider, Strength};

use super::Local;
use super::uid::Uids;

const DELEGATE: &str =
    "run harvest in its own control group, for example with `systemd-run --user --scope -p Delegate=yes`";

impl Local {
    pub(crate) fn layers(&self) -> Vec<Fact> {
        vec![
            Fact::layer("namespaces", Strength::Hard, "user, pid, mount, ipc, uts, cgroup; no network but loopback"),
            self.nested(),
            Fact::layer("system calls", Strength::Hard, "a seccomp filter on the runner and a stricter one on agents"),
            Fact::layer("privileges", Strength::Hard, "no capabilities, no new privileges, no setuid"),
            self.identity(),
            self.overlay(),
            self.memory(),
            self.cpu(),
            self.processes(),
            Fact::layer(
                "limit: disk",
                Strength::Soft,
                "the runner measures what was written; the size of one file is a hard limit",
            ),
            Fact::layer("limit: files", Strength::Soft, "the runner counts files"),
            Fact::layer("limit: open files", Strength::Hard, "by RLIMIT_NOFILE"),
            Fact::layer("limit: output", Strength::Hard, "the runner stops reading"),
            Fact::layer("limit: time", Strength::Hard, "the runner ends with everything in its sandbox"),
        ]
    }

    fn nested(&self) -> Fact {
        let name = "nested namespaces";
        if self.tool.is_recent() {
            Fact::layer(name, Strength::Hard, "agents cannot create any: refused by bubblewrap and by the filter")
        } else {
            Fact::layer(name, Strength::Hard, "agents cannot create any: refused by the filter alone")
                .with_fix("install bubblewrap 0.8 or newer for a second refusal")
        }
    }

    fn identity(&self) -> Fact {
        let detail = match self.uids {
            Uids::Own { uid, .. } => format!("uid {uid} for every sandbox, the user who runs harvest"),
            Uids::High => "each sandbox has its own unprivileged uid".to_owned(),
            Uids::Within { count } => format!("each sandbox has its own unprivileged uid, out of {count}"),
        };
        let strength = if matches!(self.uids, Uids::Own { .. }) { Strength::Soft } else { Strength::Hard };
        Fact::layer("uid mapping", strength, detail)
    }

    fn overlay(&self) -> Fact {
        let name = "overlay workspaces";
        let (state, detail, fix) = match &self.no_overlay {
            None => (State::Ok, "mounted without copying".to_owned(), None),
            Some(reason) => (
                State::Degraded,
                format!("workspaces are copied, since {reason}"),
                Some("use a kernel from 5.19 on and a data folder on ext4, xfs or btrfs".to_owned()),
            ),
        };
        Fact { name, state, detail, strength: None, fix }
    }

    fn memory(&self) -> Fact {
        let name = "limit: memory";
        match self.groups.memory() {
            Some(place) => Fact::layer(name, Strength::Hard, format!("by a control group below {place}")),
            None => Fact::layer(name, Strength::Soft, "the runner measures ten times a second").with_fix(DELEGATE),
        }
    }

    fn cpu(&self) -> Fact {
        let name = "limit: cpu";
        match self.groups.cpu() {
            Some(place) => Fact::layer(name, Strength::Hard, format!("by a control group below {place}")),
            None => Fact::layer(name, Strength::Soft, "rounded up to whole cores, by affinity").with_fix(DELEGATE),
        }
    }

    fn processes(&self) -> Fact {
        let name = "limit: processes";
        let strength = self.capabilities().limits.processes;
        match self.groups.processes() {
            Some(place) => Fact::layer(name, strength, format!("by a control group below {place}, and RLIMIT_NPROC")),
            None => Fact::layer(name, strength, "by RLIMIT_NPROC; the runner counts violations"),
        }
    }
}
