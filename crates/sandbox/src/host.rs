//! What this host offers: bubblewrap, user namespaces, overlayfs.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::{Error, Strength};

/// One thing `harvest doctor` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub name: &'static str,
    pub state: State,
    pub detail: String,
    /// For what keeps agents within bounds: how firmly.
    pub strength: Option<Strength>,
    /// What to do about it, when something can be done.
    pub fix: Option<String>,
}

impl Fact {
    pub(crate) fn layer(name: &'static str, strength: Strength, detail: impl Into<String>) -> Self {
        let state = match strength {
            Strength::Hard | Strength::Soft => State::Ok,
            Strength::Absent => State::Degraded,
        };
        Self { name, state, detail: detail.into(), strength: Some(strength), fix: None }
    }

    pub(crate) fn with_fix(mut self, fix: &str) -> Self {
        self.fix = Some(fix.to_owned());
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ok,
    /// Works, but something is slower or weaker than it could be.
    Degraded,
    Missing,
}

/// bubblewrap, as installed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tool {
    pub path: PathBuf,
    pub version: (u32, u32, u32),
}

/// That of Debian 11 and RHEL 9.
const MINIMUM: (u32, u32, u32) = (0, 4, 0);
const PLACES: &[&str] = &["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

impl Tool {
    pub fn find() -> Result<Self, Error> {
        let path = PLACES.iter().map(Path::new).find(|path| path.exists()).ok_or(Error::ToolMissing)?;
        let path = path.to_owned();
        // In a group of its own: a Ctrl-C at the terminal is for Harvest.
        let asked = command(&path).process_group(0).arg("--version").output();
        let output = asked.map_err(|error| Error::io(&path, error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = parse_version(&text).ok_or_else(|| Error::failed(format!("`bwrap --version` says {text:?}")))?;
        if version < MINIMUM {
            let found = text.trim().trim_start_matches("bubblewrap ").to_owned();
            return Err(Error::ToolTooOld { found, needed: "0.4" });
        }
        Ok(Self { path, version })
    }

    /// Whether it knows `--perms`. Without it, a folder in memory has the mode 0755 and belongs to the sandbox's own user.
    pub fn sets_modes(&self) -> bool {
        self.version >= (0, 5, 0)
    }

    /// `--disable-userns` and `--size`.
    pub fn is_recent(&self) -> bool {
        self.version >= (0, 8, 0)
    }
}

fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.trim().rsplit(' ').next()?.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next().unwrap_or(Ok(0)).ok()?))
}

/// A program of the host, started without any of our environment.
#[expect(clippy::disallowed_methods, reason = "this crate's one place for it; the environment is cleared here")]
pub(crate) fn command(program: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.env_clear().stdin(std::process::Stdio::null());
    command
}

/// Why user namespaces do not work, and what to do, as far as the kernel tells.
pub(crate) fn namespaces_forbidden(detail: &str) -> Error {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_owned());
    let fix = if setting("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        "set `sysctl -w kernel.unprivileged_userns_clone=1`".to_owned()
    } else if setting("user/max_user_namespaces").as_deref() == Some("0") {
        "set `sysctl -w user.max_user_namespaces=15000`".to_owned()
    } else if setting("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        "set `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give bubblewrap and harvest an AppArmor profile \
         that allows `userns`"
            .to_owned()
    } else {
        "inside a container, allow it `unshare` and `mount` (for example `--security-opt seccomp=unconfined`), or run \
         on the host"
            .to_owned()
    };
    Error::NamespacesForbidden { detail: detail.trim().to_owned(), fix }
}

/// What `harvest doctor` says about sandboxes on this host. `local` is what came of trying to make the provider.
pub fn report(local: Result<&crate::local::Local, &Error>) -> Vec<Fact> {
    let missing = |name, detail: &str, fix: Option<String>| Fact {
        name,
        state: State::Missing,
        detail: detail.to_owned(),
        strength: None,
        fix,
    };
    let mut facts = Vec::new();
    match Tool::find() {
        Ok(tool) => {
            let (major, minor, patch) = tool.version;
            let detail = format!("{} {major}.{minor}.{patch}", tool.path.display());
            facts.push(Fact { name: "bubblewrap", state: State::Ok, detail, strength: None, fix: None });
        }
        Err(error) => {
            facts.push(missing("bubblewrap", &error.to_string(), Some("apt install bubblewrap".to_owned())));
        }
    }
    match local {
        Ok(local) => facts.extend(local.layers()),
        Err(Error::NamespacesForbidden { detail, fix }) => {
            facts.push(missing("namespaces", detail, Some(fix.clone())));
        }
        Err(Error::ToolMissing | Error::ToolTooOld { .. }) => {}
        Err(error) => facts.push(missing("sandbox", &error.to_string(), None)),
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_every_form() {
        assert_eq!(parse_version("bubblewrap 0.8.0\n"), Some((0, 8, 0)));
        assert_eq!(parse_version("bubblewrap 0.11"), Some((0, 11, 0)));
        assert_eq!(parse_version("nonsense"), None);
    }
}
