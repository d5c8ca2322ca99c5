//! Work that someone interrupted: it is kept with what the agent remembers, and goes on from there when someone resumes it.

use harvest_core::{Event, EventBody, Move, Prompt, StageName, Stopping, TaskStatus};
use harvest_store::Step;

use crate::deliver::{Finished, Progress};
use crate::error::Halt;
use crate::execute::Execution;
use crate::turn::{Turn, Worked};
use crate::{Error, failpoint};

/// What a turn goes on from that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interruption {
    /// The work so far.
    pub(crate) commit: String,
    /// What whoever resumed it has to say.
    prompt: Option<Prompt>,
}

impl Interruption {
    /// The last one in these events, if its turn goes on from it.
    pub(crate) fn last_of(events: &[Event]) -> Option<Self> {
        let mut last: Option<Self> = None;
        for event in events {
            match &event.body {
                EventBody::SessionInterrupted { commit, .. } => {
                    last = Some(Self { commit: commit.clone(), prompt: None });
                }
                EventBody::SessionResumed { prompt, .. } => {
                    if let Some(last) = &mut last {
                        last.prompt.clone_from(prompt);
                    }
                }
                _ => {}
            }
        }
        last
    }

    /// What is asked of the agent now, who may remember what it was asked before.
    pub(crate) fn prompt(&self, asked: &str, remembers: bool) -> String {
        let now = self.prompt.as_ref().map(Prompt::as_str);
        match (remembers, now) {
            (true, Some(now)) => now.to_owned(),
            (true, None) => "You were interrupted. Go on with what you were doing.".to_owned(),
            (false, now) => {
                let now = now.unwrap_or("Go on with it.");
                format!("{asked}\n\nThis was interrupted. The workspace is as it was left then.\n\n{now}")
            }
        }
    }
}

impl Turn {
    /// Gives the turn back with the work so far, until someone resumes it.
    pub(crate) async fn suspend(&self, commit: &str) -> Result<Worked, Error> {
        let (author, reason) = match self.stop.how() {
            Some(Stopping::Interrupt { author, reason }) => (author, reason),
            Some(Stopping::Cancel | Stopping::Terminate | Stopping::Lose { .. }) | None => (String::new(), None),
        };
        // What never got as far as an agent has not run yet, and only what runs can be interrupted.
        let now = self.engine.options.store.task(&self.task.id).await?.task;
        if now.status == TaskStatus::Provisioning {
            self.journal.step(Step::new(self.journal.now(), Vec::new()).moving(Move::Start)).await?;
        }
        if let Err(Halt::Engine(error)) = self.tell(Progress::Interrupted).await {
            return Err(error);
        }
        failpoint::reach("interrupt::before")?;
        // A cancel of the same moment counts for more: the work is delivered now, by whoever has it.
        self.engine.heed(&self.owner, self.lease(), &self.stop).await?;
        if self.stop.how().is_some_and(|how| how.is_for_good()) {
            return self.end_stopped(commit).await;
        }
        let (turn_id, commit) = (self.lease().turn.clone(), commit.to_owned());
        let interrupted = EventBody::SessionInterrupted { turn_id, author, reason, commit };
        self.journal.interrupt(interrupted).await?;
        failpoint::reach("interrupt::after")?;
        // The store itself cancels what someone cancels in between.
        let now = self.engine.options.store.task(&self.task.id).await?.task;
        let ended = (now.status == TaskStatus::Cancelled).then_some(self.journal.outcome().await?).flatten();
        Ok(ended.map_or(Worked::Interrupted, |outcome| Worked::Finished(Box::new(outcome))))
    }

    /// Ends a turn that was stopped for good, with the work so far.
    async fn end_stopped(&self, commit: &str) -> Result<Worked, Error> {
        let mut failure = self.stop.failure();
        let mut branch = None;
        // A plan has no work, and of a race only the winner's leaves.
        if self.race().is_none() && !self.plan.is_wanted() {
            let finished = Finished { commit, evidence: None, failure: Some(&failure) };
            match self.resume_or(StageName::Deliver, self.deliver_or_keep(finished)).await {
                Ok(delivered) => branch = delivered,
                Err(Halt::Engine(error)) => return Err(error),
                Err(Halt::Turn(undelivered)) => {
                    failure.message = format!("{}; {}", failure.message, undelivered.message);
                }
            }
        }
        let execution = Execution::failed(commit.to_owned(), failure.clone());
        self.record(&execution, None, branch, Some(failure)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::journal;

    fn interrupted(commit: &str) -> EventBody {
        let turn_id = "0000000000000002".parse().unwrap();
        EventBody::SessionInterrupted { turn_id, author: "ada".into(), reason: None, commit: commit.into() }
    }

    fn resumed(prompt: Option<&str>) -> EventBody {
        let turn_id = "0000000000000002".parse().unwrap();
        let prompt = prompt.map(|prompt| Prompt::new(prompt).unwrap());
        EventBody::SessionResumed { turn_id, author: "ada".into(), prompt }
    }

    #[test]
    fn the_last_interruption_counts_and_says_what_is_asked() {
        assert_eq!(Interruption::last_of(&journal(vec![resumed(None)])), None);
        let twice = vec![interrupted("a"), resumed(Some("First")), interrupted("b"), resumed(Some("Use tabs"))];
        let last = Interruption::last_of(&journal(twice)).unwrap();
        assert_eq!(last.commit, "b");
        assert_eq!(last.prompt("Mend it", true), "Use tabs");
        assert!(last.prompt("Mend it", false).starts_with("Mend it\n"));
        let silent = Interruption::last_of(&journal(vec![interrupted("a"), resumed(None)])).unwrap();
        assert!(silent.prompt("Mend it", true).contains("Go on"));
    }
}
