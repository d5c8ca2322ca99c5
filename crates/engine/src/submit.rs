//! A request becomes a task with a session and a first turn.

use std::sync::Arc;

use harvest_core::{BranchName, Cost, OwnerId, Prompt, SessionId, Settings, Source, TaskId, TaskKind, TurnId};
use harvest_forge::{Base, Forge};
use harvest_store::{NewTask, Submitted};

use crate::{Engine, Error, verify};

/// What a person asks for, checked.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who is going to work on it.
    pub owner: OwnerId,
    pub forge: Arc<dyn Forge>,
    pub base: Base,
    pub prompt: Prompt,
    pub agent: String,
    pub provider: harvest_agents::Provider,
    pub model: String,
    /// Given by the person; found in the repository otherwise.
    pub test: Option<String>,
    pub require_tests: bool,
    pub timeout: std::time::Duration,
    pub max_turns: u32,
    pub budget: Cost,
    pub source: Source,
    pub requested_by: String,
}

/// A task that waits for someone to work on it.
#[derive(Debug, Clone)]
pub struct Submission {
    pub submitted: Submitted,
    pub(crate) forge: Arc<dyn Forge>,
    pub(crate) object_format: String,
    pub(crate) warnings: Vec<String>,
}

impl Engine {
    pub async fn submit(&self, request: Request) -> Result<Submission, Error> {
        let Request { forge, base, .. } = request;
        if self.options.registry.get(&request.agent).is_none() {
            return Err(Error::UnknownAgent(request.agent));
        }
        let mirror = self.mirrors.open(&forge.identity(), &base.object_format).await?;
        mirror.ensure(&base.commit, || forge.fetch(&mirror, &base.commit)).await?;
        let test = match request.test {
            Some(test) => Some(test),
            None => verify::find_test_command(&mirror, &base.commit).await?,
        };
        let (author_name, author_email) = match base.author {
            Some((name, email)) => (format!("{name} (Harvest)"), email),
            None => ("Harvest".to_owned(), "harvest@localhost".to_owned()),
        };
        let entropy = self.options.entropy.as_ref();
        let session = SessionId::generate(entropy);
        let new = NewTask {
            owner: Some(request.owner),
            id: TaskId::generate(entropy),
            turn: TurnId::generate(entropy),
            kind: TaskKind::Prompt,
            source: request.source,
            branch: BranchName::for_session(request.prompt.title(), &session),
            session,
            prompt: request.prompt,
            agent: request.agent,
            model: Some(request.model),
            repository: forge.name().to_owned(),
            base: base.commit,
            settings: Settings {
                test,
                require_tests: request.require_tests,
                timeout_ms: u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
                max_turns: request.max_turns,
                provider: request.provider.as_str().to_owned(),
                author_name,
                author_email,
            },
            budget: request.budget,
            requested_by: request.requested_by,
            at: self.options.clock.now(),
        };
        let submitted = self.options.store.create_task(new).await?;
        Ok(Submission { submitted, forge, object_format: base.object_format, warnings: base.warnings })
    }
}
