//! What a person asks for becomes a request to the engine: prompt, repository, agent, model, checked one by one.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use harvest_agents::{Agent, Provider, Registry};
use harvest_core::{Code, Cost, MAX_PROMPT_BYTES, Prompt, PromptError, Source, Trust};
use harvest_engine::{ModelChoice, Queueing, Request, check_name};
use harvest_forge::{Forge, Forges};
use harvest_gateway::cassette::Heading;
use harvest_gateway::{Script, ScriptError};

use crate::agent::registry;
use crate::cli::{AskOptions, SandboxKind};
use crate::config::{self, Key, Layers, Origin, Value};
use crate::environment::{Environment, ModelKeys, key_variable};
use crate::failure::Failure;
use crate::installation::Installation;
use crate::{mcp, programs};

const MAX_TURNS: u32 = 50;
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
const BUDGET: Cost = Cost::from_nanos(10_000_000_000);
/// Always there.
const BUILTIN: &str = "builtin";
/// The one to use where it can be.
const FAVOURITE: &str = "claude-code";

/// The prompt itself, or standard input for `-`: a command line cannot hold a long one.
pub fn read_prompt(argument: &str) -> Result<Prompt, Failure> {
    let example = "describe the task: harvest run \"Make the failing test pass\"";
    let refuse = |message: String| Failure::refused(Code::BadPrompt, message, example);
    let bad = |error: PromptError| match error {
        PromptError::TooLong { .. } => {
            let message = format!("the prompt has more than {MAX_PROMPT_BYTES} bytes");
            Failure::refused(Code::BadPrompt, message, error.help())
        }
        PromptError::Empty => refuse(error.to_string()),
    };
    if argument != "-" {
        return Prompt::new(argument).map_err(bad);
    }
    let mut text = Vec::new();
    // One byte more than allowed tells a prompt that is too long without reading all of it.
    let most = MAX_PROMPT_BYTES as u64 + 1;
    let read = std::io::stdin().lock().take(most).read_to_end(&mut text);
    read.map_err(|error| refuse(format!("the prompt cannot be read: {error}")))?;
    let text = String::from_utf8(text).map_err(|_| refuse("the prompt is not UTF-8 text".to_owned()))?;
    Prompt::new(text).map_err(bad)
}

pub fn load_script(path: &Path) -> Result<Arc<Script>, Failure> {
    Script::load(path).map(Arc::new).map_err(|error| {
        let (code, help) = match &error {
            ScriptError::Unreadable { .. } => (Code::UnreadableScript, "check the path and its permissions"),
            _ => (Code::BadScript, "the format is described in docs/model-script.md"),
        };
        Failure::refused(code, error.to_string(), help)
    })
}

/// Who decides on the model.
#[derive(Debug, Clone, Copy)]
pub enum Decide<'s> {
    /// This process, now: it works on the task itself.
    Now { script: Option<&'s Script>, sandbox: SandboxKind },
    /// It was decided when the run was recorded.
    Again(&'s Heading),
    /// Whoever works on the task, unless a model is named.
    Later,
}

/// Everything checked and resolved, and nothing written yet, except for what the repository's own settings say.
#[expect(
    clippy::too_many_arguments,
    reason = "what is asked for, and all that it is resolved with before there is an installation"
)]
pub async fn request(
    environment: &Environment,
    forges: &Forges,
    keys: &ModelKeys,
    config: &config::Source,
    user: String,
    prompt: Prompt,
    options: &AskOptions,
    decide: Decide<'_>,
) -> Result<Request, Failure> {
    if options.test.as_deref().is_some_and(|test| test.trim().is_empty()) {
        let help = "leave --test out to have it detected, or name a command";
        return Err(Failure::refused(Code::BadOption, "--test is empty", help));
    }
    options.base.as_deref().map_or(Ok(()), |base| check_name("base", base))?;
    let settings = config::load(config)?.with(config::command_line(options));
    let registry = registry(environment)?;
    let has_key = |provider: Provider| keys.has_for(&user, provider.as_str());
    let known = Known { registry: &registry, programs: environment.search_path(), has_key: &has_key };
    let (agent, model) = agent_and_model(known, &settings, decide)?;
    let repo = options.repo.as_deref().unwrap_or(".");
    let forge: Arc<dyn Forge> = forges.open(repo).await?.into();
    let base = forge.resolve(options.base.as_deref()).await?;
    Ok(Request {
        forge,
        base,
        prompt,
        agent,
        model,
        test: settings.text(Key::Test),
        require_tests: settings.flag(Key::RequireTests),
        accept_unchanged: settings.flag(Key::AcceptUnchanged),
        timeout: settings.time(Key::Timeout).unwrap_or(TIMEOUT),
        max_turns: settings.count(Key::MaxTurns).unwrap_or(MAX_TURNS),
        supervision: settings.supervision(),
        hooks: settings.hooks(),
        budget: settings.money(Key::BudgetUsd).unwrap_or(BUDGET),
        egress: None,
        on_quota: settings.names(Key::OnQuota),
        plan: settings.flag(Key::Plan),
        plan_review: settings.text(Key::PlanReview),
        workflow: settings.workflow(),
        gate: settings.flag(Key::Gate),
        trust: Trust::Member,
        mcp: settings.servers(mcp::catalogue(environment)?)?,
        source: Source::Cli,
        requested_by: user,
        queue: Queueing::default(),
    })
}

/// The request with what `.harvest.toml` of its repository says, as far as nothing stronger speaks.
pub async fn as_the_repository_says(
    installation: &Installation,
    mut request: Request,
    options: &AskOptions,
    decide: Decide<'_>,
) -> Result<Request, Failure> {
    let settings = installation.settings_for(request.forge.as_ref(), &request.base).await?;
    let settings = settings.with(config::command_line(options));
    let keys = installation.keys_now().await?;
    let has_key = |provider: Provider| keys.has_for(&request.requested_by, provider.as_str());
    let registry = registry(&installation.environment)?;
    let programs = installation.environment.search_path();
    let (agent, model) =
        agent_and_model(Known { registry: &registry, programs, has_key: &has_key }, &settings, decide)?;
    request.base.warnings.extend(settings.refusals());
    Ok(Request {
        agent,
        model,
        test: settings.text(Key::Test),
        require_tests: settings.flag(Key::RequireTests),
        accept_unchanged: settings.flag(Key::AcceptUnchanged),
        timeout: settings.time(Key::Timeout).unwrap_or(TIMEOUT),
        max_turns: settings.count(Key::MaxTurns).unwrap_or(MAX_TURNS),
        supervision: settings.supervision(),
        hooks: settings.hooks(),
        budget: settings.money(Key::BudgetUsd).unwrap_or(BUDGET),
        egress: settings.narrowed_egress(),
        on_quota: settings.names(Key::OnQuota),
        plan: settings.flag(Key::Plan),
        plan_review: settings.text(Key::PlanReview),
        workflow: settings.workflow(),
        gate: settings.flag(Key::Gate),
        mcp: settings.servers(mcp::catalogue(&installation.environment)?)?,
        ..request
    })
}

/// Refuses an unknown agent where there is no repository to look at yet.
pub fn check_agent(installation: &Installation, options: &AskOptions) -> Result<(), Failure> {
    let settings = installation.settings()?.with(config::command_line(options));
    let registry = registry(&installation.environment)?;
    let has_key = |provider: Provider| installation.keys.has_any(provider.as_str());
    let programs = installation.environment.search_path();
    agent_and_model(Known { registry: &registry, programs, has_key: &has_key }, &settings, Decide::Later).map(drop)
}

/// Both at once, for tasks that are worked on later.
pub async fn request_for_later(
    installation: &Installation,
    prompt: Prompt,
    options: &AskOptions,
) -> Result<Request, Failure> {
    request_of(installation, installation.environment.user(), prompt, options).await
}

/// The same for someone else than whoever runs this process.
pub async fn request_of(
    installation: &Installation,
    user: String,
    prompt: Prompt,
    options: &AskOptions,
) -> Result<Request, Failure> {
    let Installation { environment, forges, config, .. } = installation;
    let keys = installation.keys_now().await?;
    let request = request(environment, forges, &keys, config, user, prompt, options, Decide::Later).await?;
    as_the_repository_says(installation, request, options, Decide::Later).await
}

/// What there is to choose from.
#[derive(Clone, Copy)]
struct Known<'a> {
    registry: &'a Registry,
    /// Where programs are looked for.
    programs: &'a str,
    has_key: &'a dyn Fn(Provider) -> bool,
}

fn agent_and_model(
    known: Known<'_>,
    settings: &Layers,
    decide: Decide<'_>,
) -> Result<(String, Option<ModelChoice>), Failure> {
    let wanted = settings.get(Key::Agent);
    let id = wanted.value.as_ref().map_or_else(|| unnamed(known, decide).to_owned(), Value::text);
    let agent = find_agent(known.registry, &id).map_err(|failure| match wanted.origin {
        Origin::File(_) | Origin::Project { .. } | Origin::ProjectSettings { .. } | Origin::Repository { .. } => {
            Failure {
                code: Code::BadConfig,
                message: format!("{}: `agent`: {}", wanted.origin.describe(), failure.message),
                ..failure
            }
        }
        Origin::Default | Origin::CommandLine => failure,
    })?;
    let named = settings.text(Key::Model);
    let named = named.as_deref();
    let model = match decide {
        Decide::Now { script, .. } => Some(choose_model(agent, named, script, known.has_key)?),
        Decide::Again(recorded) => Some(recorded_model(agent, recorded)?),
        Decide::Later => match named {
            Some(named) => Some(ModelChoice {
                provider: vendor_of(named)
                    .filter(|vendor| agent.providers.contains(vendor))
                    .or(agent.providers.first().copied())
                    .unwrap_or(Provider::Anthropic),
                model: Some(named.to_owned()),
            }),
            None => only_usable_vendor(agent, known.has_key).map(|provider| ModelChoice { provider, model: None }),
        },
    };
    Ok((agent.id.clone(), model))
}

/// The vendor that a task of this agent needs because its first one has no key. Otherwise the worker chooses.
fn only_usable_vendor(agent: &Agent, has_key: &dyn Fn(Provider) -> bool) -> Option<Provider> {
    let usable = agent.providers.iter().copied().find(|provider| has_key(*provider))?;
    Some(usable).filter(|usable| agent.providers.first() != Some(usable))
}

/// The agent where nobody names one. A script or a recording is played to the one that is always the same, and what an image
/// of a container has is not known.
fn unnamed(known: Known<'_>, decide: Decide<'_>) -> &'static str {
    match decide {
        Decide::Again(_) | Decide::Now { script: Some(_), .. } => BUILTIN,
        #[cfg(feature = "container")]
        Decide::Now { sandbox: SandboxKind::Container, .. } => BUILTIN,
        Decide::Now { .. } | Decide::Later => favourite(known.registry, known.programs, known.has_key),
    }
}

/// Claude Code where it is installed and has a key, else the built-in agent.
pub fn favourite(registry: &Registry, programs: &str, has_key: &dyn Fn(Provider) -> bool) -> &'static str {
    let usable = registry.get(FAVOURITE).is_some_and(|agent| {
        agent.providers.iter().any(|provider| has_key(*provider)) && programs::is_installed(agent, programs)
    });
    if usable { FAVOURITE } else { BUILTIN }
}

/// The model of a recorded run, whatever else the settings say.
fn recorded_model(agent: &Agent, recorded: &Heading) -> Result<ModelChoice, Failure> {
    let provider = agent.providers.iter().copied().find(|provider| provider.as_str() == recorded.provider);
    let provider = provider.ok_or_else(|| {
        Failure::refused(
            Code::BadCassette,
            format!("the cassette was recorded with {}, which {} does not support", recorded.provider, agent.name),
            "use the agent of the recorded run: --agent",
        )
    })?;
    Ok(ModelChoice { provider, model: recorded.model.clone() })
}

pub fn find_agent<'r>(registry: &'r Registry, id: &str) -> Result<&'r Agent, Failure> {
    registry.get(id).ok_or_else(|| {
        let known: Vec<&str> = registry.iter().map(|agent| agent.id.as_str()).collect();
        Failure::refused(
            Code::UnknownAgent,
            format!("there is no agent `{}`", crate::view::clean(id)),
            format!("use one of: {}", known.join(", ")),
        )
    })
}

/// What this process offers for tasks that leave the choice to it.
pub fn offered_model(installation: &Installation, script: Option<&Script>) -> Result<ModelChoice, Failure> {
    let registry = registry(&installation.environment)?;
    let has_key = |provider: Provider| installation.keys.has_any(provider.as_str());
    let choice = choose_model(find_agent(&registry, BUILTIN)?, None, script, &has_key)?;
    // With keys, each agent has its own favourite.
    Ok(if script.is_some() { choice } else { ModelChoice { model: None, ..choice } })
}

/// The vendor whose name a model bears.
fn vendor_of(model: &str) -> Option<Provider> {
    let model = model.to_ascii_lowercase();
    if model.starts_with("claude") {
        return Some(Provider::Anthropic);
    }
    if model.starts_with("gemini") {
        return Some(Provider::Gemini);
    }
    // `qwen3:8b`; a model that someone tuned at OpenAI is `ft:…`.
    if model.contains(':') && !model.starts_with("ft:") {
        return Some(Provider::Ollama);
    }
    let openai = ["gpt", "ft:gpt", "o1", "o3", "o4", "chatgpt"];
    openai.iter().any(|family| model.starts_with(family)).then_some(Provider::Openai)
}

/// The variable that makes a provider usable.
fn setting_of(provider: Provider) -> Option<&'static str> {
    match provider {
        // It wants an address rather than a key.
        Provider::Ollama => Some("OLLAMA_HOST"),
        _ => key_variable(provider.as_str()),
    }
}

/// The vendor is the one whose name the model bears, else the first the agent speaks that has a key.
fn choose_model(
    agent: &Agent,
    model: Option<&str>,
    script: Option<&Script>,
    has_key: &dyn Fn(Provider) -> bool,
) -> Result<ModelChoice, Failure> {
    if let Some(script) = script {
        let named = model.and_then(vendor_of).filter(|vendor| agent.providers.contains(vendor));
        let provider = named.or(agent.providers.first().copied()).unwrap_or(Provider::Anthropic);
        return Ok(ModelChoice { provider, model: Some(model.unwrap_or(script.model()).to_owned()) });
    }
    let named = model.and_then(vendor_of).filter(|vendor| agent.providers.contains(vendor));
    let usable = match named {
        Some(provider) => Some(provider).filter(|provider| has_key(*provider)),
        None => agent.providers.iter().copied().find(|provider| has_key(*provider)),
    };
    let Some(provider) = usable else {
        let wanted: Vec<&str> = match named {
            Some(provider) => setting_of(provider).into_iter().collect(),
            None => agent.providers.iter().filter_map(|provider| setting_of(*provider)).collect(),
        };
        let wanted = wanted.join(" or ");
        return Err(Failure::refused(
            Code::NoModel,
            "there is no key for a model and no model script",
            format!(
                "set {wanted}, or add a key with harvest credential add, or try without a model: harvest demo --once"
            ),
        ));
    };
    let model = model.or_else(|| agent.default_model(provider)).map(str::to_owned);
    Ok(ModelChoice { provider, model })
}

/// A prompt that is kept for later is kept without keys, like one that is worked on.
pub fn without_secrets(prompt: Prompt) -> Result<Prompt, Failure> {
    harvest_engine::redact_prompt(prompt).map_err(|error| Failure::failed(Code::Internal, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_for_later_asks_the_vendor_that_has_a_key() {
        let registry = Registry::bundled().unwrap();
        let agent = registry.get(BUILTIN).unwrap();
        let vendor = |keys: &[Provider]| only_usable_vendor(agent, &|provider| keys.contains(&provider));
        assert_eq!(agent.providers.first(), Some(&Provider::Anthropic));
        assert_eq!(vendor(&[]), None, "the worker may have one");
        assert_eq!(vendor(&[Provider::Anthropic, Provider::Openai]), None);
        assert_eq!(vendor(&[Provider::Openai]), Some(Provider::Openai));
        assert_eq!(vendor(&[Provider::Gemini]), Some(Provider::Gemini));
    }
}
