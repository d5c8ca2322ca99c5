//! A request becomes a task with a session and a first turn.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use harvest_core::repository::Place;
use harvest_core::{
    BranchName, Cost, EventBody, Hook, McpServer, OnFailedDependency, OwnerId, Priority, Prompt, Race, SessionId,
    Settings, Source, Supervision, Task, TaskId, TaskKind, TokenId, Trust, Turn, TurnId, Workflow, is_automatic,
};
use harvest_forge::{Base, Forge};
use harvest_store::{Admission, IdempotencyKey, NewTask, NewTurn, PlanDecision, PlanVerdict, Requester, Submitted};
use harvest_vault::Redactor;
use harvest_workspace::Author;

use crate::journal::events_up_to;
use crate::opinion::agent_and_model;
use crate::{Engine, Error, ModelChoice, authorship, unserved, verify};

/// What a person asks for, checked.
#[derive(Debug, Clone)]
pub struct Request {
    pub forge: Arc<dyn Forge>,
    pub base: Base,
    pub prompt: Prompt,
    pub agent: String,
    /// `None`: whoever works on it decides.
    pub model: Option<ModelChoice>,
    /// Given by the person; found in the repository otherwise.
    pub test: Option<String>,
    pub require_tests: bool,
    pub accept_unchanged: bool,
    pub timeout: std::time::Duration,
    pub max_turns: u32,
    pub supervision: Supervision,
    pub hooks: Vec<Hook>,
    pub budget: Cost,
    /// What the repository narrows its sandboxes to, of what its worker allows.
    pub egress: Option<Vec<String>>,
    /// Who goes on when an agent's model has no more quota.
    pub on_quota: Vec<String>,
    /// First a plan, on which a person decides.
    pub plan: bool,
    /// Who looks for what is wrong with a plan, before a person decides on it.
    pub plan_review: Option<String>,
    pub workflow: Workflow,
    /// A person decides on the tested result before anything leaves.
    pub gate: bool,
    /// How far the words are trusted that it asks with.
    pub trust: Trust,
    /// What offers tools to the agent.
    pub mcp: Vec<McpServer>,
    pub source: Source,
    pub requested_by: String,
    pub queue: Queueing,
}

/// Where the work of a task that waits for others begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BaseChoice {
    /// At the base of the request, which someone named.
    #[default]
    Named,
    /// With the results of the tasks that it waits for, as far as these are in the same repository.
    Dependencies,
}

/// Where a task stands among others.
#[derive(Debug, Clone, Default)]
pub struct Queueing {
    pub priority: Priority,
    pub after: Vec<TaskId>,
    pub base: BaseChoice,
    pub on_failed_dependency: OnFailedDependency,
    pub convoy: Option<String>,
    pub retries: u32,
    pub key: Option<IdempotencyKey>,
    pub source_url: Option<String>,
    pub extra: Option<serde_json::Value>,
    /// Who works on it from the start: no one else can take it, and no cap keeps it waiting.
    pub claim_for: Option<OwnerId>,
    /// What kind of task it is, where it is no plain prompt.
    pub kind: Option<TaskKind>,
    pub race: Option<Race>,
    /// Chosen before, so that tasks of one batch can wait for each other.
    pub id: Option<TaskId>,
    /// The token that it was asked for with; its quota counts too.
    pub token: Option<TokenId>,
    /// The asker has no role, or is a program: what strangers may begin in a day holds.
    pub asked_by_stranger: bool,
}

/// Another prompt for a session.
#[derive(Debug, Clone)]
pub struct FollowUp {
    pub session: SessionId,
    pub prompt: Prompt,
    pub author: String,
    /// Who works on it from here on; `None`: as before.
    pub agent: Option<String>,
    pub model: Option<String>,
    pub key: Option<IdempotencyKey>,
    /// The token that it was asked for with; its quota counts too.
    pub token: Option<TokenId>,
}

/// A request to deliver the work of a session as it is.
#[derive(Debug, Clone)]
pub struct DeliveryRequest {
    pub session: SessionId,
    pub author: String,
    pub key: Option<IdempotencyKey>,
    /// The token that it was asked for with; its quota counts too.
    pub token: Option<TokenId>,
}

/// The prompt without secrets that the redactor knows.
pub(crate) fn clean_prompt(redactor: &Redactor, prompt: Prompt) -> Prompt {
    let clean = match redactor.redact(prompt.as_str()) {
        Cow::Borrowed(_) => return prompt,
        Cow::Owned(clean) => clean,
    };
    // Marks may be longer than what they stand for, and a prompt has a limit.
    let end = clean.floor_char_boundary(prompt.as_str().len());
    Prompt::new(clean.get(..end).unwrap_or_default()).unwrap_or(prompt)
}

impl Engine {
    /// Queues a turn that tests and delivers the work of a session, without an agent.
    pub async fn deliver_as_is(&self, asked: DeliveryRequest) -> Result<Turn, Error> {
        let store = &self.options.store;
        self.check_work_is_kept(&asked.session)?;
        let session = store.session(&asked.session).await?;
        let task = store.task(&session.task_id).await?.task;
        let new = NewTurn {
            id: TurnId::generate(self.options.entropy.as_ref()),
            caps: self.caps(&task.repository, &asked.author, None),
            admission: self.admission(&asked.author, &task.repository, asked.token),
            session: asked.session,
            // Commits and pull requests are named after what the task was asked to do.
            prompt: task.prompt,
            author: asked.author,
            agent: None,
            model: None,
            delivers: true,
            key: asked.key,
            at: self.options.clock.now(),
        };
        Ok(store.prompt(new).await?)
    }

    /// Queues another prompt behind whatever a session is doing. The session goes on from what it has.
    pub async fn prompt(&self, asked: FollowUp) -> Result<Turn, Error> {
        if let Some(agent) = &asked.agent {
            self.check_agent(agent)?;
        }
        self.check_work_is_kept(&asked.session)?;
        let store = &self.options.store;
        let session = store.session(&asked.session).await?;
        let task = store.task(&session.task_id).await?.task;
        let provider = task.settings.provider.filter(|_| asked.agent.is_none());
        let provider = self.provider_of(asked.agent.as_deref().unwrap_or(&task.agent), provider.as_deref());
        let prompt = self.without_secrets(asked.prompt);
        // A turn that no person asked for counts for the requester of the task, who pays for it as well.
        let person = if is_automatic(&asked.author) { &task.requested_by } else { &asked.author };
        let new = NewTurn {
            id: TurnId::generate(self.options.entropy.as_ref()),
            caps: self.caps(&task.repository, person, provider.as_deref()),
            admission: self.admission(person, &task.repository, asked.token),
            session: asked.session,
            prompt,
            author: asked.author,
            agent: asked.agent,
            model: asked.model.map(|model| self.clean(&model)),
            delivers: false,
            key: asked.key,
            at: self.options.clock.now(),
        };
        Ok(store.prompt(new).await?)
    }

    /// A session whose only copy of its work was removed here cannot go on.
    fn check_work_is_kept(&self, session: &SessionId) -> Result<(), Error> {
        match self.options.data.removed_work(session).exists() {
            true => Err(Error::WorkRemoved(session.short().to_owned())),
            false => Ok(()),
        }
    }

    /// A prompt is kept, shown and sent to a model: a key in it is replaced before any of that.
    pub fn without_secrets(&self, prompt: Prompt) -> Prompt {
        clean_prompt(&self.options.redactor, prompt)
    }

    /// Words of a person that are kept beside a prompt: comments, reasons and changed plans.
    pub fn clean(&self, text: &str) -> String {
        self.options.redactor.redact(text).into_owned()
    }

    /// The commit that a session delivered last.
    pub async fn last_delivered(&self, session: &SessionId) -> Result<Option<String>, Error> {
        let events = events_up_to(self.options.store.as_ref(), session, u64::MAX).await?;
        Ok(events.into_iter().rev().find_map(|event| match event.body {
            EventBody::BranchDelivered { commit, .. } => Some(commit),
            _ => None,
        }))
    }

    /// Settings without secrets in the texts that people write freely. Servers of MCP are refused where they are defined.
    fn clean_settings(&self, mut settings: Settings) -> Settings {
        let judge = settings.race.as_mut().and_then(|race| race.judge.as_mut());
        let texts = [settings.test.as_mut(), settings.plan_review.as_mut(), judge];
        let commands = settings.hooks.iter_mut().map(|hook| &mut hook.run);
        for text in texts.into_iter().flatten().chain(commands) {
            *text = self.clean(text);
        }
        settings
    }

    /// Queues a failed or cancelled task once more, for whoever asks.
    pub async fn retry(&self, task: &Task, asker: &str, token: Option<TokenId>) -> Result<(), Error> {
        let admission = self.admission(asker, &task.repository, token);
        Ok(self.options.store.retry(&task.id, admission, self.options.clock.now()).await?)
    }

    /// Lets an interrupted task continue; with a prompt it acts for whoever says it, within their quotas.
    pub async fn resume(&self, task: &Task, by: (&str, Option<TokenId>), prompt: Option<Prompt>) -> Result<(), Error> {
        let (by, prompt) = (self.requester(task, by), prompt.map(|prompt| self.without_secrets(prompt)));
        Ok(self.options.store.resume(&task.id, by, prompt, self.options.clock.now()).await?)
    }

    /// Decides on the plan of a task; with something new for its agent it acts for whoever says it, within their quotas.
    pub async fn decide(&self, task: &Task, by: (&str, Option<TokenId>), verdict: PlanVerdict) -> Result<(), Error> {
        let verdict = match verdict {
            PlanVerdict::Approved { changed } => {
                PlanVerdict::Approved { changed: changed.map(|plan| self.clean(&plan)) }
            }
            PlanVerdict::Again { comment } => PlanVerdict::Again { comment: self.clean(&comment) },
            PlanVerdict::Rejected => PlanVerdict::Rejected,
        };
        let decision = PlanDecision { by: self.requester(task, by), verdict };
        Ok(self.options.store.decide(&task.id, decision, self.options.clock.now()).await?)
    }

    fn requester(&self, task: &Task, (person, token): (&str, Option<TokenId>)) -> Requester {
        self.options.tenancy.now().requester(person, &task.repository, token)
    }

    /// The quotas that hold for work that someone begins now.
    pub(crate) fn admission(&self, person: &str, repository: &str, token: Option<TokenId>) -> Admission {
        self.options.tenancy.now().admission(person, repository, token)
    }

    /// Fetches what is needed to begin and queues the task.
    pub async fn submit(&self, request: Request) -> Result<Submitted, Error> {
        let mut submitted = self.submit_all(vec![request]).await?;
        submitted.pop().ok_or(Error::Store(harvest_store::Error::Closed))
    }

    /// All of the requests or none.
    pub async fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<Submitted>, Error> {
        let mut tasks = Vec::with_capacity(requests.len());
        let mut checked = HashSet::new();
        for request in requests {
            tasks.push(self.new_task_of(request, &mut checked).await?);
        }
        Ok(self.options.store.create_tasks(tasks).await?)
    }

    /// The task that a request asks for, with everything fetched that it starts from.
    pub async fn new_task(&self, request: Request) -> Result<NewTask, Error> {
        self.new_task_of(request, &mut HashSet::new()).await
    }

    /// `checked`: the repositories, by identity, that are known to take branches.
    async fn new_task_of(&self, request: Request, checked: &mut HashSet<Vec<u8>>) -> Result<NewTask, Error> {
        let Request { forge, base, queue, .. } = request;
        self.check_agent(&request.agent)?;
        // A reviewer may be named with its model.
        let reviewer = request.plan_review.as_deref().map(|named| agent_and_model(named).0);
        let judge = queue.race.as_ref().and_then(|race| race.judge.as_deref()).map(|named| agent_and_model(named).0);
        reviewer.into_iter().chain(judge).try_for_each(|agent| self.check_agent(agent))?;
        // A fallback agent that is not installed is skipped when its time comes, and the journal says so.
        if let Some(agent) = request.on_quota.iter().find(|agent| self.options.registry.get(agent).is_none()) {
            return Err(Error::UnknownAgent(agent.clone()));
        }
        // A review is a comment and needs no branch.
        if queue.kind != Some(TaskKind::PrReview) && checked.insert(forge.identity()) {
            forge.check_writable().await?;
        }
        let mirror = self.mirrors.open(&forge.identity(), &base.object_format).await?;
        mirror.ensure(&base.commit, || forge.fetch(&mirror, &base.commit)).await?;
        let test = match request.test {
            Some(test) => Some(test),
            None => verify::find_test_command(&mirror, &base.commit).await?,
        };
        // Whatever is kept of a request is kept without secrets, not its prompt alone.
        let clean = |text: String| self.clean(&text);
        let prompt = self.without_secrets(request.prompt);
        let mut warnings = base.warnings;
        warnings.extend(unserved::warnings(&mirror, &base.commit).await?);
        let author = match base.author {
            Some((name, email)) => Author { name, email },
            None => authorship::person(&request.requested_by),
        };
        let author = authorship::by_harvest(author);
        let entropy = self.options.entropy.as_ref();
        let session = SessionId::generate(entropy);
        let repository = forge.name().to_owned();
        let provider = request.model.as_ref().map(|choice| choice.provider.as_str().to_owned());
        let caps = match queue.claim_for {
            Some(_) => Vec::new(),
            None => {
                let provider = self.provider_of(&request.agent, provider.as_deref());
                self.caps(&repository, &request.requested_by, provider.as_deref())
            }
        };
        let mut admission = self.admission(&request.requested_by, &repository, queue.token.clone());
        if queue.asked_by_stranger {
            admission.is_stranger = true;
            let tenancy = self.options.tenancy.now();
            admission.limits.extend(tenancy.stranger_limits(&request.requested_by, &repository));
        }
        Ok(NewTask {
            id: queue.id.unwrap_or_else(|| TaskId::generate(entropy)),
            turn: TurnId::generate(entropy),
            kind: queue.kind.unwrap_or(TaskKind::Prompt),
            source: request.source,
            source_url: queue.source_url.map(clean),
            branch: BranchName::for_session(prompt.title(), &session),
            session,
            prompt,
            agent: request.agent,
            model: request.model.and_then(|choice| choice.model).map(clean),
            repository,
            base: base.commit,
            settings: self.clean_settings(Settings {
                test,
                require_tests: request.require_tests,
                accept_unchanged: request.accept_unchanged,
                timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
                max_turns: request.max_turns,
                provider,
                base_branch: base.branch,
                base_of_dependencies: queue.base == BaseChoice::Dependencies && !queue.after.is_empty(),
                author_name: author.name,
                author_email: author.email,
                egress: request.egress,
                supervision: request.supervision,
                hooks: request.hooks,
                origin: None,
                on_quota: request.on_quota,
                plan: request.plan || request.workflow == Workflow::ResearchPlanImplement,
                plan_review: request.plan_review,
                workflow: request.workflow,
                gate: request.gate,
                trust: request.trust,
                mcp: request.mcp,
                race: queue.race,
                token: queue.token.map(|token| token.to_string()),
            }),
            budget: request.budget,
            priority: queue.priority,
            after: queue.after,
            on_failed_dependency: queue.on_failed_dependency,
            convoy: queue.convoy.map(clean),
            retries: queue.retries,
            claim_for: queue.claim_for,
            caps,
            extra: queue.extra.map(|mut extra| {
                self.options.redactor.redact_json(&mut extra);
                extra
            }),
            key: queue.key,
            warnings,
            admission,
            requested_by: request.requested_by,
            at: self.options.clock.now(),
        })
    }

    /// What a turn counts against.
    pub(crate) fn caps(&self, repository: &str, person: &str, provider: Option<&str>) -> Vec<String> {
        let people = self.options.tenancy.now().caps_of(person);
        let credential = provider.map(|provider| format!("credential:{provider}"));
        std::iter::once(format!("repository:{}", Place::of(repository))).chain(people).chain(credential).collect()
    }
}
