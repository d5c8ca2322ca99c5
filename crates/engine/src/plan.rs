//! First a plan, on which a person decides. The agent looks and changes nothing; then the turn is given back, with no sandbox
//! and no lease, until someone has approved the plan, asked for another one, or rejected it.

use std::time::Duration;

use harvest_core::{BranchName, Event, EventBody, FailureReason, SandboxPurpose, Task, TaskKind, Trust, Workflow};
use harvest_workspace::{SessionRepository, script};

use crate::conversation::Memory;
use crate::deliver::Progress;
use crate::error::Halt;
use crate::execute::{Attempts, Execution};
use crate::opinion::Opinion;
use crate::place::Place;
use crate::reattach::Returned;
use crate::turn::{Turn, Worked};
use crate::{Error, Failure, failpoint};

/// Where a turn is with its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// None is asked for.
    None,
    /// One has to be made, perhaps in place of one that was rejected.
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
    /// Where a session is with its plan.
    pub(crate) fn read(events: &[Event]) -> Self {
        let (mut proposed, mut state) = (None, Self::Wanted { turned_down: None });
        for event in events {
            match &event.body {
                EventBody::PlanProposed { text } => proposed = Some(text),
                // What is decided from here on is not about a plan.
                EventBody::DeliveryProposed { .. } => proposed = None,
                EventBody::PlanDecided { approved, plan, comment, .. } => {
                    let Some(text) = proposed.take() else { continue };
                    state = if *approved {
                        Self::Approved(plan.as_ref().unwrap_or(text).clone())
                    } else {
                        let turned_down =
                            |comment: &String| TurnedDown { plan: text.clone(), comment: comment.clone() };
                        Self::Wanted { turned_down: comment.as_ref().map(turned_down) }
                    };
                }
                _ => {}
            }
        }
        state
    }

    /// Where one turn is with its plan; `of_turn` are those of the session's events that belong to it. No turn changes anything
    /// before a plan of its session was approved: the first may have failed, or its plan may have been rejected.
    pub(crate) fn of(task: &Task, number: u32, events: &[Event], of_turn: &[Event]) -> Self {
        if !task.settings.plan {
            return Self::None;
        }
        // What was approved of a stranger's change is the commit of that time: each review is approved by itself.
        if task.settings.trust == Trust::Stranger && task.kind == TaskKind::PrReview {
            return Self::read(of_turn);
        }
        Self::read(events).in_turn(number, of_turn)
    }

    /// An approved plan is carried out in the turn that proposed it; those behind it go on from there.
    fn in_turn(self, number: u32, of_this_turn: &[Event]) -> Self {
        let is_earlier = number > 1 && !matches!(Self::read(of_this_turn), Self::Approved(_));
        match self {
            Self::Approved(_) if is_earlier => Self::None,
            plan => plan,
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted { .. })
    }

    /// What is asked of the agent, in place of the prompt alone.
    pub(crate) fn prompt(&self, prompt: &str) -> String {
        const PLAN: &str = "Make a plan, and change nothing yet: no file, no commit, nothing outside. Look at whatever you need. \
                            Your last message has to be the plan itself, complete: what is to be changed and where, in which \
                            order, and how it will be tested. A person reads it and decides. The task:";
        match self {
            Self::None => prompt.to_owned(),
            Self::Wanted { turned_down: None } => format!("{PLAN}\n\n{prompt}"),
            Self::Wanted { turned_down: Some(TurnedDown { plan, comment }) } => format!(
                "{PLAN}\n\n{prompt}\n\nThis plan was rejected:\n\n{plan}\n\nWhat was said about it:\n\n{comment}"
            ),
            Self::Approved(plan) => {
                format!("{prompt}\n\nThe plan for it is approved. Carry it out now, as it is here:\n\n{plan}")
            }
        }
    }
}

/// What is asked of whoever looks around first.
const RESEARCH: &str = "Look around, and change nothing: no file, no commit, nothing outside. Find out what there is to know before \
                        anyone plans what follows: which parts are concerned and how they work together, what depends on them, \
                        what was tried before, what could go wrong. Your last message has to be what you found, complete, with \
                        the paths it is about. The task that follows later:";

/// What is asked of whoever reads a plan.
const REVIEW: &str = "Another agent has made the plan below. Find what is wrong with it; change nothing. Check what it claims against \
                      the repository: paths, names, behaviour. Say what it misses, what would break, what is riskier than it \
                      looks, and how its tests could pass while the task is not done. Your last message has to be the list of \
                      your findings, the worst first, each with its reason. If there is nothing, say so.";

/// Where a plan is written that is delivered by itself.
const PLAN_FILE: &str = "PLAN.md";
const SCRIPT_LIMIT: Duration = Duration::from_secs(120);

impl Turn {
    /// Makes a plan and gives the turn back until a person has decided on it.
    pub(crate) async fn propose(&self) -> Result<Worked, Error> {
        let made = match self.make_plan().await {
            Ok(proposal) => self.as_wanted(None).map_or(Ok(proposal), Err),
            Err(Halt::Engine(error)) => return Err(error),
            Err(Halt::Turn(failure)) => Err(self.as_wanted(Some(failure.clone())).unwrap_or(failure)),
        };
        let failure = match made {
            Ok(proposal) => {
                self.tell_of_plan(&proposal).await?;
                self.journal.ask_approval(proposal).await?;
                failpoint::reach("plan::asked")?;
                return Ok(Worked::AwaitsApproval);
            }
            Err(failure) => failure,
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

    /// Tells of the plan where it was asked for, before anyone is asked to decide on it.
    async fn tell_of_plan(&self, proposal: &[EventBody]) -> Result<(), Error> {
        let plan = proposal.iter().find_map(|event| match event {
            EventBody::PlanProposed { text } => Some(text.as_str()),
            _ => None,
        });
        match self.tell(Progress::PlanWaits { plan: plan.unwrap_or_default() }).await {
            Err(Halt::Engine(error)) => Err(error),
            Err(Halt::Turn(_)) | Ok(()) => Ok(()),
        }
    }

    /// The plan, and what was said about it.
    async fn make_plan(&self) -> Result<Vec<EventBody>, Halt> {
        failpoint::reach("plan::before")?;
        if let Some(Returned { place, .. }) = self.take_returned() {
            // A plan may take several agents: it is made again.
            self.leave(place).await?;
        }
        self.check_possible()?;
        // Beside the work: whoever is to hear of it must not hold it up.
        let (told, made) = tokio::join!(self.tell(Progress::Planning), self.plan_and_review());
        let made = told.and(made);
        if !matches!(made, Err(Halt::Engine(_))) {
            self.meter.close().await;
        }
        made
    }

    async fn plan_and_review(&self) -> Result<Vec<EventBody>, Halt> {
        let text = self.in_a_place(SandboxPurpose::Execute, async |place| self.plan_in(place).await).await?;
        let reviewed = match &self.task.settings.plan_review {
            Some(reviewer) => self.review(reviewer, &text).await?,
            None => None,
        };
        Ok([Some(EventBody::PlanProposed { text }), reviewed].into_iter().flatten().collect())
    }

    async fn plan_in(&self, place: &Place) -> Result<String, Halt> {
        if !place.is_settled() {
            self.settle(place).await?;
        }
        let (agent, memory) = (self.agent()?, Memory::default());
        self.prepare_workspace(place, &memory, &self.start).await?;
        if self.task.settings.workflow != Workflow::ResearchPlanImplement {
            let ended = self.attempt(place, agent, &memory, Attempts::First).await?;
            self.bring_out(place, agent, ended.conversation, "").await?;
            return self.last_word(agent, ended.failure, "a plan").await;
        }
        let choice = self.engine.model_choice(agent, &self.task);
        let research = format!("{RESEARCH}\n\n{}", self.task.prompt.as_str());
        let ended = self.attempt_asking(place, agent, &memory, (&research, &choice), Attempts::First).await?;
        let found = self.last_word(agent, ended.failure, "what it found").await?;
        let asked = format!("{}\n\nWhat was found out before:\n\n{found}", self.plan.prompt(self.task.prompt.as_str()));
        let ended = self.attempt_asking(place, agent, &memory, (&asked, &choice), Attempts::Another).await?;
        self.bring_out(place, agent, ended.conversation, "").await?;
        let plan = self.last_word(agent, ended.failure, "a plan").await?;
        self.deliver_plan(place, &plan).await?;
        Ok(plan)
    }

    /// What another agent finds wrong with a plan. A review that does not come about keeps nobody from deciding.
    async fn review(&self, reviewer: &str, plan: &str) -> Result<Option<EventBody>, Halt> {
        let asked = format!("{REVIEW}\n\nThe task:\n\n{}\n\nThe plan:\n\n{plan}", self.task.prompt.as_str());
        match self.opinion(reviewer, &asked, &self.start, "a review").await {
            Ok(Opinion { agent, text }) => Ok(Some(EventBody::PlanReviewed { agent, text })),
            Err(Halt::Turn(failure)) => {
                self.journal.warn(format!("the plan is not reviewed: {}", failure.message)).await?;
                Ok(None)
            }
            Err(halt) => Err(halt),
        }
    }

    /// Shows the plan where people look for work: as a branch of its own.
    async fn deliver_plan(&self, place: &Place, plan: &str) -> Result<(), Halt> {
        let branch = BranchName::for_plan(self.task.prompt.title(), &self.session.id);
        let reference = format!("{}plan", SessionRepository::namespace(&self.session.id));
        let (remote, title) = (Self::remote(place), self.task.prompt.title());
        let subject: String = format!("[PLAN] {title}").chars().take(72).collect();
        let env = [
            ("REMOTE", remote.as_str()),
            ("REFERENCE", &reference),
            ("START", &self.start),
            ("FILE", PLAN_FILE),
            ("PLAN", plan),
            ("SUBJECT", &subject),
        ];
        let ran = self.run(place, "plan", &script::commit_one_file(), &env, SCRIPT_LIMIT).await?;
        let commit = self.repository.tip(&reference).await?.filter(|_| ran.succeeded());
        let Some(commit) = commit else {
            let message = format!("the plan could not be brought out of the sandbox: {}", ran.last_line());
            return Err(Failure::new(FailureReason::Sandbox, message).into());
        };
        self.repository.set_branch(&branch, &commit).await?;
        let previous = self.journal.last_delivered(&branch).await?;
        // Who has lost the lease must not publish.
        self.journal.write(Vec::new()).await?;
        let forge = self.forge().await?;
        forge.publish(self.repository.path(), &branch, &commit, previous.as_deref()).await?;
        self.journal.tell_once(EventBody::BranchDelivered { branch, commit }).await?;
        Ok(())
    }
}
