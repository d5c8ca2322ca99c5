//! Everything that is decided before the prompt. Spares and tasks meet only when all of it is equal.

use std::path::Path;

use harvest_workspace::Snapshot;

use super::seed::{Seed, Waits};
use crate::Engine;
use crate::execute::Briefing;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key(Vec<(&'static str, String)>);

impl Key {
    pub(crate) fn of(engine: &Engine, seed: &Seed, snapshot: &Snapshot) -> Self {
        let options = &engine.options;
        let anywhere = Path::new("");
        let waiting = options.registry.get(&seed.agent).filter(|_| seed.waits == Waits::Agent);
        let command = waiting.map(|agent| {
            let briefing = Briefing {
                prompt: "",
                choice: &seed.choice,
                max_turns: seed.max_turns,
                resume: None,
                plan: false,
                mcp: &[],
            };
            agent.command(&briefing.turn(0, anywhere, anywhere, anywhere, ""))
        });
        Self(vec![
            ("repository", seed.mirror.key().to_owned()),
            ("base", seed.base.clone()),
            // Its name says which lockfiles it was installed from, and is never used twice.
            ("snapshot", snapshot.path().display().to_string()),
            ("provider", options.provider.name().to_owned()),
            ("limits", format!("{:?}", seed.limits)),
            // Its program, model, settings, rules and files, whatever the registry says they are. A held process becomes
            // any agent.
            ("agent", waiting.map(|agent| agent.id.clone()).unwrap_or_default()),
            ("command", format!("{command:?}")),
            ("egress", seed.policy.lines().collect::<Vec<_>>().join(" ")),
            ("toolchain", format!("{:?}", options.toolchain)),
        ])
    }
}
