//! What a dead process left behind: its sandboxes are removed, its tasks ended and told about, its work kept. Agents at work
//! are left for the next worker to take over, unless it is that worker who asks.

use std::fs::File;
use std::sync::Arc;

use harvest_core::{
    Clock, EventBody, FailureReason, Hook, HookStage, Move, Outcome, SandboxId, SandboxPurpose, SessionId, Stopping,
    Task, TaskId, TaskKind, TaskStatus,
};
use harvest_forge::Forge;
use harvest_sandbox::Provider;
use harvest_store::{Lease, Owner, OwnerKind, SandboxRecord, Step, Store};
use harvest_vault::Redactor;

use crate::journal::Journal;
use crate::left::newest;
use crate::meter::charge_unsettled;
use crate::place::remove_workspace;
use crate::race::race_of;
use crate::{DataFolder, Error, Failure, failpoint, owner, record};

/// What was found and put right.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Tasks of a `harvest run`, which end with it, and those that were cancelled.
    pub ended: Vec<TaskId>,
    /// Tasks of a worker, for the next one to take.
    pub queued_again: Vec<TaskId>,
    /// Tasks of a `harvest run` that a person left at once: they continue when someone resumes them.
    pub interrupted: Vec<TaskId>,
    /// Agents of a dead worker that were left at work.
    pub left: usize,
    pub sandboxes: usize,
}

/// What becomes of agents that a dead worker has left at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// The next worker takes them over.
    Leave,
    /// Nobody will.
    Remove,
}

/// What cleaning up needs.
#[derive(Debug)]
pub struct Recovery {
    pub data: DataFolder,
    pub store: Arc<dyn Store>,
    /// Asked for the sandboxes they made.
    pub providers: Vec<Arc<dyn Provider>>,
    pub redactor: Arc<Redactor>,
    pub clock: Arc<dyn Clock>,
}

impl Recovery {
    /// Cleans up after every owner that is no longer alive. `open_forge` finds the repository that a task's branch
    /// belongs to.
    pub async fn run(
        &self,
        orphans: Orphans,
        open_forge: impl AsyncFn(&str) -> Option<Box<dyn Forge>>,
    ) -> Result<Recovered, Error> {
        let mut recovered = Recovered::default();
        // The locks are held to the end: of several who come, one clears up.
        let mut dead = owner::dead(&self.data, self.store.owners().await?).await;
        if orphans == Orphans::Leave {
            recovered.left = self.agents_of(&dead).await?;
            // One may have died while it took over from another, so it is all of them or none.
            dead.retain(|(_, dead)| dead.kind == OwnerKind::Run || recovered.left == 0);
        }
        for (_, dead) in &dead {
            let Some(removed) = self.remove_sandboxes(dead).await? else { continue };
            recovered.sandboxes += removed;
            let asked = self.store.stops(&dead.id).await?;
            // The turns stay the dead owner's, so that whoever comes next finds them should this process die too.
            for lease in self.store.take_over(&dead.id, &dead.id, None).await? {
                let is_cancelled = asked.iter().any(|(known, how)| known.turn == lease.turn && how.is_for_good());
                if !is_cancelled && dead.kind == OwnerKind::Server {
                    // Now, and not by whoever takes the turn next: it may be cancelled before anyone does.
                    let mut task = self.store.task(&lease.task).await?.task;
                    charge_unsettled(&self.journal(lease), &mut task).await?;
                    continue;
                }
                let interrupted = asked.iter().find_map(|(known, how)| match how {
                    Stopping::Interrupt { author, reason } if known.turn == lease.turn => Some((author, reason)),
                    _ => None,
                });
                if let Some((author, reason)) = interrupted.filter(|_| !is_cancelled) {
                    recovered.interrupted.push(lease.task.clone());
                    self.interrupt(lease, author, reason.clone()).await?;
                    continue;
                }
                let failure = if is_cancelled {
                    cancelled()
                } else {
                    let message = format!("the process working on it (pid {}) was killed or crashed", dead.pid);
                    Failure::new(FailureReason::Internal, message)
                };
                recovered.ended.push(lease.task.clone());
                self.end(&open_forge, lease, failure).await?;
            }
            if dead.kind == OwnerKind::Server {
                let released = self.store.release(&dead.id, self.clock.now()).await?;
                recovered.queued_again.extend(released.into_iter().map(|lease| lease.task));
            }
            self.store.remove_owner(&dead.id).await?;
            let _ = std::fs::remove_file(owner::lock_path(&self.data, &dead.id));
        }
        owner::remove_unknown(&self.data, self.store.as_ref()).await?;
        recovered.sandboxes += self.remove_strangers().await?;
        Ok(recovered)
    }

    /// Ends a task that a dead worker has left: its agent, and with that the turn. False when it is no dead worker's.
    pub async fn cancel(
        &self,
        task: &TaskId,
        open_forge: impl AsyncFn(&str) -> Option<Box<dyn Forge>>,
    ) -> Result<bool, Error> {
        let sessions: Vec<SessionId> =
            self.store.task(task).await?.sessions.into_iter().map(|session| session.id).collect();
        for dead in self.store.owners().await?.into_iter().filter(|owner| owner.kind == OwnerKind::Server) {
            let Some(_lock) = owner::lock_of_dead(&self.data, &dead).await else { continue };
            // Still the dead one's, should this process die too.
            let leases = self.store.take_over(&dead.id, &dead.id, Some(&sessions)).await?;
            if leases.is_empty() {
                continue;
            }
            let is_its = |record: &SandboxRecord| record.owner == dead.id && sessions.contains(&record.session);
            for record in self.store.sandboxes().await?.into_iter().filter(is_its) {
                let provider = self.providers.iter().find(|provider| provider.name() == record.provider);
                let Some(provider) = provider else { return Ok(false) };
                self.remove_sandbox(provider, &record.id).await?;
            }
            for lease in leases {
                self.end(&open_forge, lease, cancelled()).await?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    async fn remove_sandbox(&self, provider: &Arc<dyn Provider>, id: &SandboxId) -> Result<(), Error> {
        provider.destroy(id).await?;
        remove_workspace(&self.data.workspace(id)).await?;
        Ok(self.store.forget_sandbox(id).await?)
    }

    /// How many agents of dead workers are still at work.
    async fn agents_of(&self, dead: &[(File, Owner)]) -> Result<usize, Error> {
        let workers = || dead.iter().map(|(_, dead)| dead).filter(|dead| dead.kind == OwnerKind::Server);
        let mut sessions: Vec<SessionId> = Vec::new();
        for worker in workers() {
            let turns = self.store.turns_of(&worker.id).await?;
            sessions.extend(turns.into_iter().map(|lease| lease.session));
        }
        // Whose turn someone else has by now is at work for nobody.
        let is_at_work = |record: &SandboxRecord| {
            sessions.contains(&record.session)
                && workers().any(|worker| worker.id == record.owner)
                && record.purpose == SandboxPurpose::Execute
                && self.providers.iter().any(|known| known.name() == record.provider && known.is_alive(&record.id))
        };
        Ok(self.store.sandboxes().await?.iter().filter(|record| is_at_work(record)).count())
    }

    fn journal(&self, lease: Lease) -> Journal {
        Journal::new(self.store.clone(), lease, self.redactor.clone(), self.clock.clone())
    }

    /// `None` when one belongs to a provider that does not work here now: its owner is kept in mind until it does.
    async fn remove_sandboxes(&self, dead: &Owner) -> Result<Option<usize>, Error> {
        let mut removed = 0;
        for record in self.store.sandboxes().await?.into_iter().filter(|record| record.owner == dead.id) {
            let provider = self.providers.iter().find(|provider| provider.name() == record.provider);
            let Some(provider) = provider else { return Ok(None) };
            self.remove_sandbox(provider, &record.id).await?;
            removed += 1;
        }
        Ok(Some(removed))
    }

    /// Sandboxes on disk that no one has recorded. The disk is read first: a sandbox is recorded before it is made.
    async fn remove_strangers(&self) -> Result<usize, Error> {
        let mut removed = 0;
        for provider in &self.providers {
            provider.tidy().await?;
            let found = provider.list().await?;
            if found.is_empty() {
                continue;
            }
            let known = self.store.sandboxes().await?;
            for id in found.iter().filter(|id| !known.iter().any(|record| record.id == **id)) {
                provider.destroy(id).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Gives a turn back until someone resumes it, with the work up to its last checkpoint.
    async fn interrupt(&self, lease: Lease, author: &str, reason: Option<String>) -> Result<(), Error> {
        let detail = self.store.task(&lease.task).await?;
        let (mut task, turn_id) = (detail.task, lease.turn.clone());
        let session = detail.sessions.into_iter().find(|known| known.id == lease.session);
        let journal = self.journal(lease);
        charge_unsettled(&journal, &mut task).await?;
        let origin = task.settings.origin.as_ref().map(|origin| origin.commit.clone());
        let start = journal.left_before().await?.or(origin).unwrap_or_else(|| task.base.clone());
        let repository = session.as_ref().and_then(|session| self.data.existing_repository(&session.id));
        let commit = match (&repository, &session) {
            (Some(repository), Some(session)) => {
                repository.break_locks().await?;
                newest(&journal, repository, session, &start).await?
            }
            _ => start,
        };
        // Only what runs can be interrupted.
        if task.status == TaskStatus::Provisioning {
            journal.step(Step::new(journal.now(), Vec::new()).moving(Move::Start)).await?;
        }
        let author = author.to_owned();
        journal.interrupt(EventBody::SessionInterrupted { turn_id, author, reason, commit }).await?;
        Ok(())
    }

    async fn end(
        &self,
        open_forge: &impl AsyncFn(&str) -> Option<Box<dyn Forge>>,
        lease: Lease,
        failure: Failure,
    ) -> Result<(), Error> {
        let repository = self.store.task(&lease.task).await?.task.repository;
        let forge = open_forge(&repository).await;
        self.end_in(forge.as_deref(), lease, failure).await.map(drop)
    }

    /// Ends a task that nobody works on, and keeps what was done.
    pub(crate) async fn end_in(
        &self,
        forge: Option<&dyn Forge>,
        lease: Lease,
        failure: Failure,
    ) -> Result<Outcome, Error> {
        let detail = self.store.task(&lease.task).await?;
        let mut task = detail.task;
        let Some(session) = detail.sessions.into_iter().find(|known| known.id == lease.session) else {
            return Err(harvest_store::Error::UnknownSession(lease.session.to_string()).into());
        };
        let journal = self.journal(lease);
        charge_unsettled(&journal, &mut task).await?;
        let repository = self.data.existing_repository(&session.id);
        let origin = task.settings.origin.as_ref().map(|origin| origin.commit.clone());
        let start = journal.left_before().await?.or(origin).unwrap_or_else(|| task.base.clone());
        let commit = match &repository {
            Some(repository) => {
                repository.break_locks().await?;
                newest(&journal, repository, &session, &start).await?
            }
            None => start.clone(),
        };
        let may_leave = match race_of(&task, &session, &journal.lease().turn) {
            Some(race) => self.store.winner(&race.id).await?.is_some_and(|winner| winner == task.id),
            None => true,
        };
        let mut branch = task.branch.clone();
        let stays = if may_leave { why_it_stays(&task, forge) } else { Some("only the winner of a race is delivered") };
        if let Some(repository) = &repository
            && commit != start
            && stays.is_none()
        {
            repository.set_branch(&session.branch, &commit).await?;
            if let Some(forge) = forge {
                let previous = journal.last_delivered(&session.branch).await?;
                // A repository that has gone meanwhile must not keep the task from ending: the work stays in Harvest's own.
                let published = forge.publish(repository.path(), &session.branch, &commit, previous.as_deref()).await;
                failpoint::reach("cancel::published")?;
                if published.is_ok() {
                    let delivered =
                        EventBody::BranchDelivered { branch: session.branch.clone(), commit: commit.clone() };
                    journal.tell_once(delivered).await?;
                }
            }
            branch = Some(session.branch.clone());
        }
        let kept = match (stays, &branch) {
            (Some(why), _) if commit != start => format!(
                "; {why}; the work up to the last checkpoint is kept in Harvest: harvest task diff {}",
                task.id.short()
            ),
            (_, Some(_)) => "; the work up to the last checkpoint is on its branch".to_owned(),
            (_, None) => String::new(),
        };
        let outcome = Outcome {
            task_id: task.id,
            session_id: session.id,
            status: record::status_of(Some(&failure)),
            reason: Some(failure.reason),
            error: Some(format!("{}{kept}", failure.message)),
            branch,
            commit,
            base: task.base,
            evidence: None,
            usage: task.usage,
            cost_usd: task.cost_usd,
        };
        let outcome = record::with_earlier_result(&journal, outcome).await?;
        record::finish(&journal, outcome.clone()).await?;
        Ok(outcome)
    }
}

/// Why work that ended without its worker is not delivered; `None` when it is.
fn why_it_stays(task: &Task, forge: Option<&dyn Forge>) -> Option<&'static str> {
    let refuses = |hook: &Hook| hook.required && hook.stage == HookStage::BeforeDeliver;
    if task.kind == TaskKind::PrReview {
        return Some("a review changes nothing");
    }
    if task.settings.gate {
        return Some("nobody has approved its delivery");
    }
    if task.settings.hooks.iter().any(refuses) {
        return Some("the hooks that its delivery needs have not run");
    }
    // Others would take it for a result.
    forge.and_then(Forge::hosting).map(|_| "work that is not finished is not pushed")
}

/// What a turn comes to that nobody works on and someone wants over.
fn cancelled() -> Failure {
    Failure::new(FailureReason::Cancelled, "stopped by a user after its worker was lost")
}
