//! The finished branch goes where the person can see it, also when the task failed: work is kept.
//!
//! Where a repository is hosted, what others will read has another measure: a turn becomes one commit with a proper message,
//! the branch is pushed, and its pull request opened or brought up to date. What failed is kept here, unless policy wants to
//! see it as a draft.

mod account;
mod describe;
mod patience;
mod review;
mod statement;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use harvest_core::{BranchName, EventBody, Evidence, MessageRole, TaskKind, TurnId};
use harvest_forge::{Forge, Hosting, Proposal, Published, codeowners};
use harvest_store::{Link, LinkKind};
use harvest_workspace::NewCommit;

use crate::carry::base_of;
use crate::error::Halt;
use crate::turn::Turn;
use crate::{Attests, Failure, People, failpoint};

pub use review::{Change, REVIEW};
pub use statement::evidence_statement;
pub use status::issue_number;
pub(crate) use status::{Progress, say};

/// How work is handed over where it is hosted.
#[derive(Debug, Clone)]
pub struct DeliveryPolicy {
    /// What failed its tests is proposed as a draft, rather than kept here.
    pub failed_as_draft: bool,
    /// What pull requests are labelled with.
    pub labels: Vec<String>,
    /// The login that people speak to in comments.
    pub login: String,
    /// Where people reach this Harvest, for links.
    pub public_url: Option<String>,
    /// Signs the evidence.
    pub attestor: Option<Arc<dyn Attests>>,
    /// In whose name pull requests are opened, where they signed in.
    pub people: Option<Arc<dyn People>>,
}

impl Default for DeliveryPolicy {
    fn default() -> Self {
        Self {
            failed_as_draft: false,
            labels: vec!["harvest".to_owned()],
            login: "harvest".to_owned(),
            public_url: None,
            attestor: None,
            people: None,
        }
    }
}

impl DeliveryPolicy {
    /// How someone with write access decides on a plan or a result in a comment.
    pub(crate) fn ways_to_decide(&self) -> String {
        let mention = harvest_forge::github::webhook::mention(&self.login);
        format!("Someone with write access decides with the comment `{mention} approve` or `{mention} reject`")
    }
}

/// What a turn came to, as it is handed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished<'r> {
    pub(crate) commit: &'r str,
    pub(crate) evidence: Option<&'r Evidence>,
    pub(crate) failure: Option<&'r Failure>,
}

impl Turn {
    /// The delivered branch; `None` when nothing ever changed. Doing it twice is the same as once.
    pub(crate) async fn deliver(&self, result: Finished<'_>) -> Result<Option<BranchName>, Halt> {
        failpoint::reach("deliver::before")?;
        if self.only_reads() {
            let forge = self.forge().await?;
            match forge.hosting() {
                Some(hosting) => self.deliver_review(forge.as_ref(), hosting, result).await?,
                None => self.warn_without_account().await?,
            }
            return Ok(None);
        }
        if result.commit == self.task.base && self.task.branch.is_none() {
            return Ok(None);
        }
        self.hooks_before_delivery(result.commit).await?;
        let forge = self.forge().await?;
        match forge.hosting() {
            Some(hosting) => self.deliver_hosted(forge.as_ref(), hosting, result).await,
            None => self.deliver_branch(forge.as_ref(), result.commit).await.map(Some),
        }
    }

    /// What is asked for is an opinion: nothing that the agent changes is tested or leaves.
    pub(crate) fn only_reads(&self) -> bool {
        self.task.kind == TaskKind::PrReview
    }

    async fn deliver_branch(&self, forge: &dyn Forge, commit: &str) -> Result<BranchName, Halt> {
        self.repository.set_branch(&self.session.branch, commit).await?;
        self.warn_without_account().await?;
        let published = self.publish(forge, commit).await?;
        if published == Published::KeptHere {
            let message = format!(
                "the branch is kept in Harvest; merge it in a clone: harvest task apply {}",
                self.task.id.short()
            );
            self.journal.warn(message).await?;
        }
        Ok(self.session.branch.clone())
    }

    async fn publish(&self, forge: &dyn Forge, commit: &str) -> Result<Published, Halt> {
        let branch = &self.session.branch;
        let previous = self.journal.last_delivered(&self.session.branch).await?;
        // Who loses the lease right now meets the branch where it does not expect it.
        let publish =
            || async { Ok(forge.publish(self.repository.path(), branch, commit, previous.as_deref()).await?) };
        let published = self.patiently(publish).await?;
        failpoint::reach("deliver::published")?;
        let delivered = EventBody::BranchDelivered { branch: branch.clone(), commit: commit.to_owned() };
        self.journal.tell_once(delivered).await?;
        Ok(published)
    }

    async fn deliver_hosted(
        &self,
        forge: &dyn Forge,
        hosting: &dyn Hosting,
        result: Finished<'_>,
    ) -> Result<Option<BranchName>, Halt> {
        let (policy, branch) = (&self.engine.options.delivery, &self.session.branch);
        self.repository.set_branch(branch, result.commit).await?;
        if result.failure.is_some() && !policy.failed_as_draft && !self.delivers {
            let message = format!(
                "the work is not pushed, since it failed; it is kept here: harvest task diff {}",
                self.task.id.short()
            );
            self.journal.warn(message).await?;
            return Ok(self.task.branch.clone());
        }
        let clean;
        let result = match result.failure {
            Some(failure) => {
                clean = Failure { message: self.journal.clean(&failure.message), ..failure.clone() };
                Finished { failure: Some(&clean), ..result }
            }
            None => result,
        };
        let commit = self.squashed(result.commit, &self.summary().await?).await?;
        self.publish(forge, &commit).await?;
        let proposal = self.proposal(result, &commit).await?;
        let person = match &policy.people {
            Some(people) => people.forge_token(&self.actor).await,
            None => None,
        };
        let pull = self.patiently(|| async { Ok(hosting.propose(&proposal, person.as_ref()).await?) }).await?;
        failpoint::reach("deliver::proposed")?;
        let link = Link {
            url: pull.url.clone(),
            kind: LinkKind::PullRequest,
            session: self.session.id.clone(),
            repository: self.task.repository.clone(),
            opened_at: self.journal.now(),
            end: None,
        };
        self.engine.options.store.link(link).await?;
        let delivered = EventBody::PullRequestDelivered { number: pull.number, url: pull.url, draft: pull.draft };
        self.journal.tell_once(delivered).await?;
        Ok(Some(branch.clone()))
    }

    /// What the turn changed as one commit on top of what was delivered before. The same each time it is made.
    async fn squashed(&self, commit: &str, summary: &str) -> Result<String, Halt> {
        let parent = self.parent(commit).await?;
        if self.repository.changes(&parent, commit).await?.is_empty() {
            return Ok(parent);
        }
        let turn = self.session.turns.iter().find(|turn| turn.id == self.lease().turn);
        let new = NewCommit {
            content: commit.to_owned(),
            parent,
            message: self.journal.clean(&describe::commit_message(
                self.request(),
                summary,
                &self.trailers(self.last_model().await?.as_deref()),
            )),
            author: self.author(),
            seconds: turn.map_or(self.task.created_at, |turn| turn.created_at).as_second(),
        };
        Ok(self.repository.commit(&new).await?)
    }

    /// What was delivered before, as long as it stands on the same base; else the base that the work stands on now.
    async fn parent(&self, commit: &str) -> Result<String, Halt> {
        let base = base_of(&self.repository, &self.journal.moved().await?, &self.task.base, commit).await?;
        match self.journal.last_delivered(&self.session.branch).await? {
            Some(last) if self.repository.is_ancestor(&base, &last).await? => Ok(last),
            _ => Ok(base),
        }
    }

    async fn proposal(&self, result: Finished<'_>, commit: &str) -> Result<Proposal, Halt> {
        let policy = &self.engine.options.delivery;
        let changes = self.repository.changes(&self.task.base, commit).await?;
        let mut reviewers = Vec::new();
        for path in codeowners::PATHS {
            if let Some(file) = self.mirror.file(&self.task.base, path).await? {
                let text = String::from_utf8_lossy(&file);
                reviewers = codeowners::owners(&text, changes.iter().map(|change| change.path.as_str()));
                break;
            }
        }
        let model = self.last_model().await?;
        // A follow-up changes what the pull request holds, not what it is for.
        let asked_first = self.engine.options.store.task(&self.task.id).await?.task;
        // What is signed is about the delivered commit only if that has the tree that was tested.
        let delivered = self.repository.tree(commit).await?;
        let subject = |evidence: &Evidence| match &evidence.tree {
            Some(tested) if delivered.as_ref() != Some(tested) => evidence.commit.clone(),
            _ => commit.to_owned(),
        };
        let attestor = policy.attestor.as_ref().and_then(|attests| attests.attestor());
        let about = describe::About {
            task: &self.task,
            session: &self.session,
            result,
            turns: &self.reports().await?,
            cost: self.meter.spent().cost,
            changed: changes.len(),
            public_url: policy.public_url.as_deref(),
            envelope: attestor.zip(result.evidence).map(|(attestor, evidence)| {
                let subject = subject(evidence);
                attestor.sign(&evidence_statement(&self.task, &self.session, model.as_deref(), &subject, evidence))
            }),
            model: model.as_deref(),
        };
        Ok(Proposal {
            branch: self.session.branch.clone(),
            into: self.task.settings.base_branch.clone(),
            title: self.journal.clean(&describe::title(&asked_first.prompt)),
            body: self.journal.clean(&about.body()),
            draft: result.failure.is_some(),
            labels: policy.labels.clone(),
            reviewers,
        })
    }

    /// The model that the agent was last started with, as the journal says.
    async fn last_model(&self) -> Result<Option<String>, Halt> {
        let events = self.journal.all().await?;
        let started = events.into_iter().rev().find_map(|event| match event.body {
            EventBody::AgentStarted { model, .. } => Some(model),
            _ => None,
        });
        Ok(started.flatten())
    }

    /// Each turn up to this one, with what its agent said last. A turn that only delivers has nothing of its own to tell.
    async fn reports(&self) -> Result<Vec<describe::TurnReport>, Halt> {
        let events = self.journal.all().await?;
        let only_delivers = |turn: &TurnId| {
            events.iter().any(
                |event| matches!(&event.body, EventBody::TurnQueued { turn_id, delivers: true, .. } if turn_id == turn),
            )
        };
        let mut said: BTreeMap<TurnId, String> = BTreeMap::new();
        let mut current = None;
        for event in &events {
            match &event.body {
                EventBody::TurnStarted { turn_id, .. } => {
                    said.entry(turn_id.clone()).or_default();
                    current = Some(turn_id);
                }
                EventBody::Message { role: MessageRole::Assistant, text } if !text.trim().is_empty() => {
                    if let Some(said) = current.and_then(|turn| said.get_mut(turn)) {
                        said.clone_from(text);
                    }
                }
                _ => {}
            }
        }
        let reports = self.session.turns.iter().filter(|turn| turn.number == 1 || !only_delivers(&turn.id));
        let reports = reports.filter_map(|turn| {
            said.remove(&turn.id).map(|summary| describe::TurnReport { title: turn.prompt.title().to_owned(), summary })
        });
        Ok(reports.collect())
    }

    /// What the agent said last about its work.
    async fn summary(&self) -> Result<String, Halt> {
        let events = self.journal.all().await?;
        let said = events.into_iter().rev().find_map(|event| match event.body {
            EventBody::Message { role: MessageRole::Assistant, text } if !text.trim().is_empty() => Some(text),
            _ => None,
        });
        Ok(said.unwrap_or_default())
    }
}
