//! What the server asks of this installation, answered the way the command line would.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use harvest_api_types::{AgentCheck, AgentInfo, Ask, Merge, NewCredential, NewRepository, NewSchedule, NewTemplate};
use harvest_core::{Code, Cost, Credential, CredentialId, DEFAULT_CREDENTIAL, Prompt, Role, Scope, TaskId};
use harvest_engine::{Request, Stop, Tenancy};
use harvest_forge::github::Client;
use harvest_server::{Desk, Reach, Refusal, Webhooks};
use harvest_store::{Repository, Schedule, ScheduleOwner, Template};
use harvest_vault::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinError;

use crate::agent;
use crate::cli::{self, Global, RepoAdd};
use crate::config::{Key, Layer, Setting};
use crate::failure::Failure;
use crate::installation::Installation;
use crate::output;
use crate::saved::SavedRequest;
use crate::schedule::When;
use crate::task::apply::{Merged, apply_in_repository};
use crate::view::clean;
use crate::{credential, demo, evidence, github, prompt_template, repo, schedule, sign_in, template};

/// What reaches beyond a project: hosts that are open to sandboxes, and money that others pay.
const REACHING: [Key; 2] = [Key::EgressAllow, Key::ProjectDailyUsd];

#[derive(Debug)]
pub struct FrontDesk {
    installation: Arc<Installation>,
    /// As this program was started.
    global: Global,
    /// One rehearsal at a time: each takes a sandbox and all of an agent.
    rehearsing: Arc<Mutex<()>>,
    agents: Agents,
    /// The account that webhooks were last taken for, and how.
    webhooks: std::sync::Mutex<Option<Taken>>,
}

type Taken = (Arc<Client>, Option<Arc<Webhooks>>);

/// The agents of this installation. Looking at them opens the vault and starts their programs, so one look at a time serves
/// everyone who asked before it began.
#[derive(Debug, Default)]
struct Agents {
    versions: agent::Versions,
    /// When it began, and what was seen.
    last: Mutex<Option<(Instant, Vec<AgentInfo>)>>,
}

impl FrontDesk {
    pub fn new(global: Global, installation: Arc<Installation>) -> Self {
        Self {
            installation,
            global,
            rehearsing: Arc::default(),
            agents: Agents::default(),
            webhooks: std::sync::Mutex::default(),
        }
    }

    /// A budget that comes over the network is at most what the project of the repository, or the installation, sets.
    fn within_the_budget(&self, ask: &Ask) -> Result<(), Refusal> {
        match (ask.budget_usd, self.budget_of(&ask.repository)?) {
            (Some(asked), Some(most)) if asked > most => {
                let message =
                    format!("budget_usd: {asked} is more than the {most} that tasks of this project may cost");
                Err(refuse(Code::BadOption, message, "ask for less, or have an admin raise the project's `budget_usd`"))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Desk for FrontDesk {
    async fn request(&self, ask: &Ask, person: &str) -> Result<Request, Refusal> {
        let (saved, prompt) = saved(ask)?;
        self.within_the_budget(ask)?;
        Ok(saved.request_of(&self.installation, person.to_owned(), prompt).await?)
    }

    fn budget_of(&self, repository: &str) -> Result<Option<Cost>, Refusal> {
        Ok(self.installation.settings()?.for_repository(repository).money(Key::BudgetUsd))
    }

    fn tenancy(&self) -> Tenancy {
        match self.installation.settings() {
            Ok(settings) => settings.tenancy(),
            // Projects and limits do not vanish with a typing error in `harvest.toml`: the last ones hold until it is mended.
            Err(failure) => {
                tracing::warn!(reason = failure.message, "settings cannot be read for the moment");
                Tenancy::clone(&self.installation.projects.last_tenancy())
            }
        }
    }

    fn memberships(&self, user: &str) -> BTreeMap<String, Role> {
        let known = self.installation.projects.now();
        let theirs = known.members.iter().filter(|member| member.user == user);
        theirs.map(|member| (member.project.clone(), member.role)).collect()
    }

    fn check_settings(&self, project: &str, before: &Value, settings: &Value, by: Reach) -> Result<(), Refusal> {
        let (new, old) = (Layer::of_settings(project, settings)?, Layer::of_settings(project, before));
        let old = old.ok();
        let values = old.as_ref().map(|old| &old.values);
        let is_changed = |key: &Key| new.values.get(key) != values.and_then(|old| old.get(key));
        let reaching = REACHING.into_iter().find(is_changed);
        // Whoever pays for the installation's keys has said what a task may cost.
        let installed = self.installation.settings()?;
        let installed = installed.clone().for_project(project).unwrap_or(installed).without_project_settings();
        let before = old.as_ref().and_then(|old| old.money(Key::BudgetUsd));
        let (most, asked) = (installed.money(Key::BudgetUsd).max(before), new.money(Key::BudgetUsd));
        let reaching = reaching.or_else(|| Some(Key::BudgetUsd).filter(|_| most.is_some() && asked > most));
        let reaching = reaching.map(|key| key.name().to_owned()).or_else(|| {
            let before = |name: &str| old.as_ref().and_then(|old| old.servers.get(name));
            let mut changed = new.servers.iter().filter(|(name, server)| before(name) != Some(server));
            changed.find_map(|(name, server)| Some(format!("mcp.{name}.{}", names_a_host(server)?)))
        });
        match reaching.filter(|_| by == Reach::Project) {
            None => Ok(()),
            Some(name) => {
                let message = format!("only an admin of the whole installation can set `{name}`");
                Err(refuse(Code::NotAllowed, message, "leave it unchanged, or ask one"))
            }
        }
    }

    fn check_readable(&self) -> Result<(), Refusal> {
        Ok(self.installation.settings().map(drop)?)
    }

    fn settings_of(&self, project: &str) -> Option<Vec<Value>> {
        let settings = self.installation.settings().ok()?.for_project(project)?;
        Some(settings.all().iter().map(Setting::json).collect())
    }

    async fn webhooks(&self) -> Option<Arc<Webhooks>> {
        let client = self.installation.forges.github().await?;
        let mut taken = self.webhooks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, webhooks)) = taken.as_ref().filter(|(known, _)| Arc::ptr_eq(known, &client)) {
            return webhooks.clone();
        }
        match github::webhooks(&self.installation, &client) {
            Ok(webhooks) => taken.insert((client, webhooks.map(Arc::new))).1.clone(),
            Err(failure) => {
                tracing::warn!(reason = failure.message, "webhooks cannot be taken for the moment");
                None
            }
        }
    }

    async fn projects_changed(&self) -> Result<(), Refusal> {
        Ok(self.installation.projects_again().await?)
    }

    async fn agents(&self) -> Result<Vec<AgentInfo>, Refusal> {
        let asked = Instant::now();
        let mut last = self.agents.last.lock().await;
        if let Some((_, agents)) = last.as_ref().filter(|(begun, _)| *begun >= asked) {
            return Ok(agents.clone());
        }
        let begun = Instant::now();
        let keys = self.installation.keys_now().await?;
        let items = agent::items(&self.installation.environment, &keys, &self.agents.versions).await?;
        let agents: Vec<AgentInfo> = items.into_iter().map(AgentInfo::from).collect();
        *last = Some((begun, agents.clone()));
        Ok(agents)
    }

    async fn check_agent(&self, id: &str) -> Result<AgentCheck, Refusal> {
        let Ok(place) = self.rehearsing.clone().try_lock_owned() else {
            let message = "another agent is being checked".to_owned();
            return Err(refuse(Code::TooMany, message, "try again when it is done; it takes two minutes at most"));
        };
        let (global, environment) = (self.global.clone(), self.installation.environment.clone());
        let id = id.to_owned();
        // Whoever asked may leave; what was made for the rehearsal is taken down all the same. On a thread of its own, since
        // a turn that is watched by a closure cannot move between threads.
        let here = Handle::current();
        let rehearsal = tokio::task::spawn_blocking(move || {
            let _place = place;
            here.block_on(agent::rehearsal(&global, &environment, &id, Stop::default()))
        });
        let broken = |error: JoinError| refuse(Code::Internal, error.to_string(), "the server's log has the details");
        Ok(rehearsal.await.map_err(broken)??)
    }

    async fn add_repository(&self, new: &NewRepository) -> Result<Repository, Refusal> {
        absolute(&new.source)?;
        let name = new.name.as_deref().map(named).transpose()?;
        // No alert: that is a command of this machine, and nobody gives one over the network.
        let options = RepoAdd {
            source: new.source.clone(),
            name,
            branch: new.branch.clone(),
            setup: new.setup.clone(),
            build: new.build.clone(),
            ..RepoAdd::default()
        };
        Ok(repo::keep(&self.installation, options).await?)
    }

    async fn add_schedule(&self, new: &NewSchedule, owner: ScheduleOwner) -> Result<Schedule, Refusal> {
        let (saved, prompt) = saved(&new.task)?;
        self.within_the_budget(&new.task)?;
        let time_zone = new.time_zone.clone().unwrap_or_else(|| self.installation.environment.time_zone());
        let when = When { cron: new.cron.clone(), time_zone, missed: harvest_server::missed_runs(new.missed) };
        Ok(schedule::keep(&self.installation, owner, when, saved, prompt).await?)
    }

    async fn add_template(&self, new: &NewTemplate, person: &str) -> Result<Template, Refusal> {
        let name = named(&new.name)?;
        let (saved, prompt) = saved(&new.task.0)?;
        // Without a repository, the limit is known when the template is used.
        if saved.repo.is_some() {
            self.within_the_budget(&new.task.0)?;
        }
        Ok(template::keep(&self.installation, person.to_owned(), name, saved, prompt).await?)
    }

    fn parameters(&self, prompt: &str) -> Vec<String> {
        prompt_template::parameters(prompt).unwrap_or_default().into_iter().collect()
    }

    fn fill(&self, kept: &Template, values: BTreeMap<String, String>, options: &Ask) -> Result<Ask, Refusal> {
        let values: Vec<(String, String)> = values.into_iter().collect();
        let prompt = prompt_template::render(&kept.name, &kept.prompt, &values)?;
        // Every field by name, so that none that is added later gets lost between the template and its tasks.
        let SavedRequest {
            prompt: _,
            repo,
            base,
            agent,
            model,
            test,
            require_tests,
            fallback_agents,
            plan,
            care: cli::Care { review_plan, workflow, gate, mcp },
            timeout_ms,
            budget_usd,
            priority,
            convoy,
            retries,
        } = SavedRequest::read(&kept.options)?.overridden_by(saved_options(options)?);
        Ok(Ask {
            prompt,
            repository: repo.unwrap_or_default(),
            base,
            agent,
            model,
            test,
            require_tests,
            fallback_agents,
            plan,
            plan_review: review_plan,
            workflow: workflow.map(harvest_core::Workflow::from),
            gate,
            mcp,
            priority,
            convoy,
            retries,
            budget_usd,
            timeout: timeout_ms.map(|time| time.div_ceil(1000)),
            after: options.after.clone(),
            on_failed_dependency: options.on_failed_dependency,
            source_url: options.source_url.clone(),
            ..Ask::default()
        })
    }

    async fn add_credential(&self, new: NewCredential, scope: Scope) -> Result<Credential, Refusal> {
        let provider = new.provider.as_str().to_owned();
        // Many servers of Ollama ask for none.
        let needs_none = provider == "ollama" && new.secret.is_empty();
        let secret = if needs_none { SecretString::from(String::new()) } else { secret(&new.secret)? };
        let name = named(new.name.as_deref().unwrap_or(DEFAULT_CREDENTIAL))?;
        let new = credential::NewCredential { provider, scope, name, base_url: new.base_url };
        Ok(credential::keep(&self.installation, new, &secret).await?)
    }

    async fn usable_credentials(&self) -> Result<BTreeSet<CredentialId>, Refusal> {
        Ok(credential::usable(&self.installation).await?)
    }

    async fn rotate_credential(&self, mut kept: Credential, new: String) -> Result<Credential, Refusal> {
        credential::replace(&self.installation, &mut kept, &secret(&new)?).await?;
        Ok(kept)
    }

    async fn keep_person_token(&self, person: &str, token: String) -> Result<(), Refusal> {
        Ok(sign_in::keep_token(&self.installation, person, &SecretString::from(token)).await?)
    }

    async fn person_token(&self, person: &str) -> Result<Option<String>, Refusal> {
        let kept = sign_in::token_of(&self.installation, person).await?;
        Ok(kept.map(|token| token.expose_secret().to_owned()))
    }

    async fn apply(&self, task: &TaskId, force: bool) -> Result<Merge, Refusal> {
        let merged = apply_in_repository(&self.installation, task, force).await?;
        let Merged { branch, into, before, after } = merged;
        Ok(Merge { branch, into, before, commit: after })
    }

    async fn signed_evidence(&self, task: &TaskId) -> Result<Value, Refusal> {
        Ok(evidence::export(&self.installation, task.as_str()).await?)
    }

    fn evidence_key(&self) -> Result<String, Refusal> {
        Ok(evidence::attestor(self.installation.data.path())?.public_key())
    }

    async fn demo(&self) -> Result<Vec<Request>, Refusal> {
        Ok(demo::requests(&self.installation).await?)
    }

    fn owner(&self) -> String {
        self.installation.environment.user()
    }

    fn notice(&self, text: &str) {
        output::complain(&format!("note: {}", clean(text)));
    }
}

/// What of a server's table says which hosts are reached.
fn names_a_host(server: &toml::Value) -> Option<&'static str> {
    ["url", "hosts"].into_iter().find(|key| server.get(key).is_some())
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message, help: failure.help }
    }
}

/// What is asked for, in the one form that schedules and templates keep as well.
fn saved(ask: &Ask) -> Result<(SavedRequest, Prompt), Refusal> {
    let saved = saved_options(ask)?;
    let prompt = Prompt::new(ask.prompt.clone());
    let prompt = prompt.map_err(|error| refuse(Code::BadPrompt, error.to_string(), error.help()))?;
    Ok((saved, prompt))
}

/// Without the prompt. An empty repository is one that is named later.
fn saved_options(ask: &Ask) -> Result<SavedRequest, Refusal> {
    let repo = Some(ask.repository.clone()).filter(|repository| !repository.is_empty());
    repo.as_deref().map_or(Ok(()), absolute)?;
    let convoy = ask.convoy.as_deref().map(named).transpose()?;
    Ok(SavedRequest {
        prompt: None,
        repo,
        base: ask.base.clone(),
        agent: ask.agent.clone(),
        model: ask.model.clone(),
        test: ask.test.clone(),
        require_tests: ask.require_tests,
        fallback_agents: ask.fallback_agents.clone(),
        plan: ask.plan,
        care: cli::Care {
            review_plan: ask.plan_review.clone(),
            workflow: ask.workflow.map(cli::WorkflowName::from),
            gate: ask.gate,
            mcp: ask.mcp.clone(),
        },
        timeout_ms: ask.timeout.map(|seconds| millis(Duration::from_secs(seconds))),
        budget_usd: ask.budget_usd,
        priority: ask.priority,
        convoy,
        retries: ask.retries,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Where the server happens to run is nobody's business: there is no "here" over the network.
fn absolute(repository: &str) -> Result<(), Refusal> {
    if Path::new(repository).is_relative() && !repository.contains(':') {
        let message = format!("there is no repository called `{}`", clean(repository));
        let help = "name one of GET /api/repositories, an absolute path on the server's machine, or a URL";
        return Err(refuse(Code::NotARepository, message, help));
    }
    Ok(())
}

/// The names of convoys, repositories, templates and credentials follow one rule.
fn named(name: &str) -> Result<String, Refusal> {
    let message = |error: String| format!("`{}` is not a valid name: {error}", clean(name));
    cli::convoy_name(name).map_err(|error| refuse(Code::BadOption, message(error), "choose another name"))
}

fn secret(text: &str) -> Result<SecretString, Refusal> {
    let message = |reason: &str| format!("the secret {reason}");
    credential::checked(text).map_err(|reason| refuse(Code::BadSecret, message(reason), "send the key on one line"))
}

fn refuse(code: Code, message: String, help: &str) -> Refusal {
    Refusal { code, message, help: Some(help.to_owned()) }
}
