//! First a plan, on which a person decides. The agent looks and changes nothing; then the turn is given back, with no sandbox
//! and no lease, until someone has approved the plan, asked for another one, or rejected it.

use harvest_agents::Agent;
use harvest_core::{EventBody, FailureReason, SandboxPurpose};

use crate::conversation::Memory;
use crate::error::Halt;
use crate::execute::{Attempts, Execution};
use crate::place::Place;
use crate::reattach::{Returned, Run};
use crate::turn::{Turn, Worked};
use crate::watch::Ended;
use crate::{Error, Failure, failpoint};

/// Where a turn is with its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// None is asked for.
    None,
    /// One has to be made, perhaps in place of one that was turned down.
    Wanted { turned_down: Option<TurnedDown> },
    /// It is to be carried out.
    Approved(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnedDown {
    pub(crate) plan: String,
    pub(crate) comment: String,
}

impl Plan {
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted { .. })
    }

    /// What is asked of the agent, in place of the prompt alone.
    pub(crate) fn prompt(&self, prompt: &str) -> String {
        const PLAN: &str = "Make a plan, and change nothing yet: no file, no commit, nothing outside. Look at whatever you need. \
                            Your last message has to be the plan itself, complete: what is to be changed and where, in which \
                            order, and how it will be tested. A person reads it and decides. What is to be done:";
        match self {
            Self::None => prompt.to_owned(),
            Self::Wanted { turned_down: None } => format!("{PLAN}\n\n{prompt}"),
            Self::Wanted { turned_down: Some(TurnedDown { plan, comment }) } => format!(
                "{PLAN}\n\n{prompt}\n\nThis plan was turned down:\n\n{plan}\n\nWhat was said about it:\n\n{comment}"
            ),
            Self::Approved(plan) => {
                format!("{prompt}\n\nThe plan for it is approved. Carry it out now, as it is here:\n\n{plan}")
            }
        }
    }
}

impl Turn {
    /// Makes a plan and gives the turn back until a person has decided on it.
    pub(crate) async fn propose(&self) -> Result<Worked, Error> {
        let failure = match self.make_plan().await {
            Ok(text) => {
                self.journal.ask_approval(text.clone()).await?;
                failpoint::reach("plan::asked")?;
                return Ok(Worked::AwaitsApproval { plan: text });
            }
            Err(Halt::Engine(error)) => return Err(error),
            Err(Halt::Turn(failure)) => failure,
        };
        if failure.reason == FailureReason::Interrupted {
            return self.suspend(&self.start).await;
        }
        if self.may_retry(&failure) {
            return self.retry_later(&failure).await;
        }
        let execution = Execution::failed(self.start.clone(), failure.clone());
        self.record(&execution, None, None, Some(failure)).await
    }

    async fn make_plan(&self) -> Result<String, Halt> {
        failpoint::reach("plan::before")?;
        let (place, result) = match self.take_returned() {
            Some(Returned { place, run }) => {
                let result = self.plan_on_in(&place, run).await;
                (place, result)
            }
            None => {
                self.check_possible()?;
                let place = self.place(SandboxPurpose::Execute, self.meter.clone()).await?;
                let result = self.plan_in(&place).await;
                (place, result)
            }
        };
        // Whatever happened, the sandbox goes, and with it all that was changed there.
        if !matches!(result, Err(Halt::Engine(_))) {
            self.leave(place).await?;
            self.meter.close().await;
        }
        result
    }

    async fn plan_in(&self, place: &Place) -> Result<String, Halt> {
        if !place.is_settled() {
            self.settle(place).await?;
        }
        let (agent, memory) = (self.agent()?, Memory::default());
        self.prepare_workspace(place, &memory, &self.start).await?;
        let ended = self.attempt(place, agent, &memory, Attempts::First).await?;
        self.read_plan(place, agent, ended).await
    }

    /// The same behind an agent that was taken over.
    async fn plan_on_in(&self, place: &Place, run: Run) -> Result<String, Halt> {
        let agent = self.agent_of(&run)?;
        let ended = self.follow(place, agent, &Memory::default(), run).await?;
        self.read_plan(place, agent, ended).await
    }

    async fn read_plan(&self, place: &Place, agent: &Agent, ended: Ended) -> Result<String, Halt> {
        self.bring_out(place, agent, ended.conversation, "").await?;
        if let Some(failure) = ended.failure {
            return Err(failure.into());
        }
        let events = self.journal.all().await?;
        let begun = events.iter().rposition(|event| matches!(event.body, EventBody::AgentStarted { .. })).unwrap_or(0);
        let plan = events[begun..].iter().rev().find_map(|event| harvest_agents::plan_in(&event.body));
        match plan.map(str::trim).filter(|plan| !plan.is_empty()) {
            Some(plan) => Ok(plan.to_owned()),
            None => Err(Failure::new(FailureReason::Agent, "the agent ended without a plan").into()),
        }
    }
}
