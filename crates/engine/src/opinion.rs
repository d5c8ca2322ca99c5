//! What another agent thinks: of a plan, or of the work of several. It is asked in a sandbox of its own, where nobody before it has
//! left anything, that offers no tools from outside and takes nothing back. All that stays is what it says last.

use harvest_agents::Agent;
use harvest_core::{EventBody, FailureReason, SandboxPurpose};

use crate::Failure;
use crate::conversation::Memory;
use crate::error::Halt;
use crate::execute::Attempts;
use crate::place::Place;
use crate::turn::{Turn, for_agent};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opinion {
    pub(crate) agent: String,
    pub(crate) text: String,
}

/// The agent's id, and the model if one is named behind a colon.
pub(crate) fn agent_and_model(named: &str) -> (&str, Option<&str>) {
    named.split_once(':').map_or((named, None), |(id, model)| (id, Some(model)))
}

impl Turn {
    /// Asks whoever is named, with the workspace at `commit`. `what` is what its last message has to be.
    pub(crate) async fn opinion(&self, named: &str, asked: &str, commit: &str, what: &str) -> Result<Opinion, Halt> {
        let (id, model) = agent_and_model(named);
        let Some(agent) = self.engine.options.registry.get(id) else {
            return Err(Failure::new(FailureReason::Agent, format!("there is no agent {id}")).into());
        };
        let mut choice = self.engine.model_choice(agent, &for_agent(&self.task, id));
        choice.model = model.map(str::to_owned).or(choice.model);
        let asking = self.in_a_place(SandboxPurpose::Opinion, async |place| {
            if !place.is_settled() {
                self.settle(place).await?;
            }
            let memory = Memory::default();
            self.prepare_workspace(place, &memory, commit).await?;
            let ended = self.attempt_asking(place, agent, &memory, (asked, &choice), Attempts::Another).await?;
            self.last_word(agent, ended.failure, what).await
        });
        Ok(Opinion { text: asking.await?, agent: id.to_owned() })
    }

    /// Whatever happens there, the sandbox goes, and with it all that was changed in it.
    pub(crate) async fn in_a_place<T>(
        &self,
        purpose: SandboxPurpose,
        work: impl AsyncFnOnce(&Place) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let place = self.place(purpose, self.meter.clone()).await?;
        let result = work(&place).await;
        if !matches!(result, Err(Halt::Engine(_))) {
            self.leave(place).await?;
        }
        result
    }

    /// What an agent that has just run said last.
    pub(crate) async fn last_word(&self, agent: &Agent, failure: Option<Failure>, what: &str) -> Result<String, Halt> {
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        let events = self.journal.all().await?;
        let begun = events.iter().rposition(|event| matches!(event.body, EventBody::AgentStarted { .. })).unwrap_or(0);
        let said: Vec<&str> = events[begun..].iter().filter_map(|event| harvest_agents::plan_in(&event.body)).collect();
        let said =
            if agent.speaks_in_lines() { said.join("\n") } else { said.last().copied().unwrap_or_default().into() };
        match said.trim() {
            "" => Err(Failure::new(FailureReason::Agent, format!("the agent ended without {what}")).into()),
            said => Ok(said.to_owned()),
        }
    }
}
