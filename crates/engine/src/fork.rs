//! A new session that goes on from a moment of another one: what its workspace was like then, and what had been said.

use harvest_core::{
    BranchName, Cost, Event, EventBody, OnFailedDependency, Origin, Prompt, SessionId, Settings, Source, TaskId,
    TokenId, Trust, TurnId,
};
use harvest_store::{IdempotencyKey, NewTask, Submitted};
use harvest_workspace::{Author, SessionRepository};

use crate::journal::events_up_to;
use crate::turn::as_of;
use crate::{Engine, Error, authorship, failpoint};

/// What a person asks for.
#[derive(Debug, Clone)]
pub struct Fork {
    pub session: SessionId,
    /// The last event that counts.
    pub at: u64,
    pub prompt: Prompt,
    pub author: String,
    /// `None`: whoever worked on it then.
    pub agent: Option<String>,
    pub model: Option<String>,
    pub key: Option<IdempotencyKey>,
    /// What the new task may cost at most, when the session's may cost more; `None`: as much as that.
    pub most: Option<Cost>,
    /// The way it was asked for.
    pub source: Source,
    /// The token that it was asked for with; its quota counts too.
    pub token: Option<TokenId>,
}

impl Engine {
    /// Queues a task of its own that begins where the session was at that event. The session itself may still be at work.
    pub async fn fork(&self, asked: Fork) -> Result<Submitted, Error> {
        let options = &self.options;
        if let Some(agent) = &asked.agent {
            self.check_agent(agent)?;
        }
        let session = options.store.session(&asked.session).await?;
        let task = options.store.task(&session.task_id).await?.task;
        let events = events_up_to(options.store.as_ref(), &session.id, asked.at).await?;
        let last = events.last().map_or(0, |event| event.seq);
        if last < asked.at || asked.at == 0 {
            return Err(Error::BeyondTheEnd { at: asked.at, last });
        }
        let commit =
            match events.iter().rev().find_map(saved).or(task.settings.origin.as_ref().map(|origin| &origin.commit)) {
                Some(commit) => commit.clone(),
                None => return Err(self.nothing_saved(&session.id, asked.at).await?),
            };
        let turn = events.iter().rev().find_map(|event| match &event.body {
            EventBody::TurnStarted { turn_id, .. } => Some(turn_id.clone()),
            _ => None,
        });
        let then = match &turn {
            Some(turn) => as_of(task, &session, turn),
            None => task,
        };
        let entropy = options.entropy.as_ref();
        let id = SessionId::generate(entropy);
        let prompt = self.without_secrets(asked.prompt);
        let branch = BranchName::for_session(prompt.title(), &id);
        let (_, mirror) = self.mirror_of(&then).await?;
        let from = options.data.existing_repository(&session.id);
        let from = from.ok_or(Error::WorkElsewhere)?;
        if from.tip(&commit).await?.is_none() {
            return Err(Error::WorkElsewhere);
        }
        let (folder, path) = (options.data.sessions().join(id.as_str()), options.data.session_repository(&id));
        // Before the task exists: whoever takes it finds what it begins with.
        let repository = SessionRepository::open(path, &mirror, &then.base, &branch).await?;
        repository.bring(&from, &commit, &then.base).await?;
        let same_agent = asked.agent.as_ref().is_none_or(|agent| *agent == then.agent);
        let provider = then.settings.provider.clone().filter(|_| same_agent);
        let convoy = then.convoy.filter(|_| then.settings.race.is_none());
        let admission = self.admission(&asked.author, &then.repository, asked.token.clone());
        let author = match asked.author == then.requested_by {
            true => Author { name: then.settings.author_name.clone(), email: then.settings.author_email.clone() },
            false => authorship::by_harvest(authorship::person(&asked.author)),
        };
        let agent = asked.agent.unwrap_or(then.agent);
        let used = self.provider_of(&agent, provider.as_deref());
        let new = NewTask {
            id: TaskId::generate(entropy),
            turn: TurnId::generate(entropy),
            session: id,
            kind: then.kind,
            source: asked.source,
            source_url: then.source_url,
            branch,
            prompt,
            agent,
            model: asked.model.map(|model| self.clean(&model)).or(then.model.filter(|_| same_agent)),
            caps: self.caps(&then.repository, &asked.author, used.as_deref()),
            repository: then.repository,
            base: then.base,
            settings: Settings {
                provider,
                origin: Some(Origin { session: session.id, seq: asked.at, commit }),
                // A fork begins with what was said before: of a stranger's, a member approves a plan first.
                plan: then.settings.trust == Trust::Stranger,
                author_name: author.name,
                author_email: author.email,
                token: asked.token.map(|token| token.to_string()),
                // What is tried on the side wins and loses nothing.
                race: None,
                ..then.settings
            },
            budget: asked.most.map_or(then.budget_usd, |most| most.min(then.budget_usd)),
            priority: then.priority,
            after: Vec::new(),
            on_failed_dependency: OnFailedDependency::Hold,
            convoy,
            retries: then.retries_left,
            claim_for: None,
            extra: None,
            key: asked.key,
            warnings: Vec::new(),
            admission,
            requested_by: asked.author,
            at: options.clock.now(),
        };
        let forked = new.session.clone();
        failpoint::reach("fork::brought")?;
        match options.store.create_tasks(vec![new]).await {
            Ok(mut made) => {
                let made = made.pop().ok_or(Error::Store(harvest_store::Error::Closed))?;
                if made.session != forked {
                    // The key was known: the session of that time is there already.
                    let _ = tokio::fs::remove_dir_all(&folder).await;
                }
                Ok(made)
            }
            Err(error) => {
                // Nobody else would ever look for it.
                let _ = tokio::fs::remove_dir_all(&folder).await;
                Err(error.into())
            }
        }
    }

    async fn nothing_saved(&self, session: &SessionId, at: u64) -> Result<Error, Error> {
        let all = events_up_to(self.options.store.as_ref(), session, u64::MAX).await?;
        let first = all.iter().find(|event| saved(event).is_some()).map(|event| event.seq);
        Ok(Error::NothingSaved { at, first })
    }
}

/// The commit that an event says has arrived.
fn saved(event: &Event) -> Option<&String> {
    match &event.body {
        EventBody::CheckpointCreated { commit, .. }
        | EventBody::CommitCreated { commit, .. }
        | EventBody::BranchDelivered { commit, .. } => Some(commit),
        _ => None,
    }
}
