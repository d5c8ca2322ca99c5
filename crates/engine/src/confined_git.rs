//! How git runs for the gateway: outside of every session's sandbox, and in one of its own.

use std::path::PathBuf;
use std::sync::Arc;

use harvest_gateway::git;
use harvest_sandbox::{Confined, Provider};
use harvest_workspace::durable;

/// What git may allocate for a push, whose content decides how much that is.
const PUSH_MEMORY: u64 = 2 << 30;

/// Git for the gateway: on the session's repository alone, without network or privileges, with nothing of anyone's settings.
#[derive(Debug)]
pub struct ConfinedGit {
    provider: Arc<dyn Provider>,
    repository: PathBuf,
    objects: PathBuf,
}

impl ConfinedGit {
    /// `objects` are the mirror's, which it reads and never writes.
    pub fn new(provider: Arc<dyn Provider>, repository: PathBuf, objects: PathBuf) -> Self {
        Self { provider, repository, objects }
    }
}

impl git::Command for ConfinedGit {
    fn git(&self, args: &[&str], protocol: Option<&str>) -> tokio::process::Command {
        let fixed = [
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C.UTF-8"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ];
        let settings = [("safe.directory", "*"), ("core.hooksPath", "/dev/null")];
        let settings: Vec<(&str, &str)> = settings.into_iter().chain(durable::SETTINGS).collect();
        let count = ("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string());
        let settings = settings.iter().enumerate().flat_map(|(index, (key, value))| {
            [
                (format!("GIT_CONFIG_KEY_{index}"), (*key).to_owned()),
                (format!("GIT_CONFIG_VALUE_{index}"), (*value).to_owned()),
            ]
        });
        self.provider.confined(Confined {
            program: "git".to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            read_only: vec![self.objects.clone(), self.repository.join("config")],
            writable: vec![self.repository.clone()],
            env: fixed
                .iter()
                .copied()
                .chain(protocol.map(|version| ("GIT_PROTOCOL", version)))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .chain([count])
                .chain(settings)
                .collect(),
            cwd: None,
            memory_bytes: args.contains(&"receive-pack").then_some(PUSH_MEMORY),
        })
    }
}
