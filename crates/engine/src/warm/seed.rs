//! What a spare is made of, as a task wants it.

use std::time::Duration;

use harvest_core::Task;
use harvest_gateway::egress::Policy;
use harvest_sandbox::Limits;
use harvest_workspace::Mirror;

use crate::place::GRACE;
use crate::{Engine, ModelChoice};

#[derive(Debug, Clone)]
pub(crate) struct Seed {
    pub(crate) repository: String,
    pub(crate) person: String,
    pub(crate) mirror: Mirror,
    pub(crate) base: String,
    pub(crate) agent: String,
    pub(crate) choice: ModelChoice,
    pub(crate) max_turns: u32,
    pub(crate) limits: Limits,
    pub(crate) policy: Policy,
    pub(crate) waits: Waits,
}

/// What waits in a spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Waits {
    /// The agent itself, started and waiting for its prompt.
    Agent,
    /// A held process that becomes the agent: for an agent that cannot wait, and for a turn whose agent is started with more
    /// than is known before it: a conversation that goes on, a plan to make, tools of MCP servers.
    Process,
}

impl Engine {
    /// `None` for an agent that there is not. A task that has a result, a plan to make or MCP servers starts its agent
    /// anew in the spare.
    pub(crate) fn seed(&self, task: &Task, mirror: &Mirror) -> Option<Seed> {
        let agent = self.options.registry.get(&task.agent)?;
        let goes_on = task.commit.is_some() || task.settings.origin.is_some();
        let is_plain = !goes_on && !task.settings.plan && task.settings.mcp.is_empty();
        Some(Seed {
            repository: task.repository.clone(),
            person: task.requested_by.clone(),
            mirror: mirror.clone(),
            base: task.base.clone(),
            agent: agent.id.clone(),
            choice: self.model_choice(agent, task),
            max_turns: task.settings.max_turns,
            limits: self.limits_of(task),
            policy: self.policy_of(task),
            waits: if agent.warm && is_plain { Waits::Agent } else { Waits::Process },
        })
    }

    pub(crate) fn limits_of(&self, task: &Task) -> Limits {
        let wall = Duration::from_millis(task.settings.timeout_ms).saturating_add(GRACE);
        Limits { wall, ..self.options.limits }
    }
}
