//! `harvest agent check ID`: a rehearsal. The agent works on a small repository in a real sandbox, on a model that is played by
//! a script, and what came of it says what works. Everything is made in a folder of its own, which goes again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harvest_agents::Agent;
use harvest_api_types::{AgentCheck, Check, CheckState as State};
use harvest_core::{Code, Cost, Event, EventBody, Evidence, Outcome, Prompt, Source, TaskStatus};
use harvest_engine::{ModelChoice, Queueing, Request, Stop};
use harvest_gateway::Script;
use harvest_store::OwnerKind;
use harvest_workspace::{Git, Home};
use serde_json::json;

use super::registry;
use crate::cli::{Global, SandboxKind};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::run::{Ended, stop_on_signals, work};
use crate::view::{Style, clean};
use crate::{ask, output, programs};

const TIMEOUT: Duration = Duration::from_secs(120);
const MAX_TURNS: u32 = 10;
const PROMPT: &str = "This is a rehearsal: write the file rehearsal.txt";
/// What the agent is to write, and what a shell command of its answers.
const FILE: &str = "rehearsal.txt";
const ANSWER: &str = "rehearsal-42";

pub async fn check(global: &Global, environment: Environment, id: &str) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let stop = Stop::default();
    stop_on_signals(&stop);
    let checked = rehearsal(global, &environment, id, stop).await?;
    if global.json {
        let _ = output::json(&checked);
    } else {
        for check in &checked.checks {
            let sign = match check.state {
                State::Works => style.ok(),
                State::Fails => style.failed(),
                State::Absent => style.stopped(),
            };
            let _ = output::line(&format!("{sign} {:<10} {}", check.name, style.dim(&clean(&check.detail))));
        }
    }
    Ok(if checked.works { Exit::Done } else { Exit::Failed })
}

/// What the agent shows when it is tried.
pub async fn rehearsal(
    global: &Global,
    environment: &Environment,
    id: &str,
    stop: Stop,
) -> Result<AgentCheck, Failure> {
    let agent = ask::find_agent(&registry(environment)?, id)?.clone();
    let mut checks = vec![installed(&agent, environment.search_path())];
    if checks.iter().all(|check| check.state == State::Works) {
        let (outcome, events) = rehearse(global, environment, agent.clone(), stop).await?;
        checks.extend(judge(&outcome, &events));
    }
    let works = checks.iter().all(|check| check.state != State::Fails);
    Ok(AgentCheck { agent: agent.id, works, checks })
}

fn installed(agent: &Agent, search: &str) -> Check {
    let is_there = programs::is_installed(agent, search);
    let detail = match &agent.program {
        None => "it is part of Harvest".to_owned(),
        Some(program) if is_there => format!("`{program}` was found"),
        Some(program) => format!("`{program}` was not found: {}", agent.install_hint),
    };
    Check { name: "installed".to_owned(), state: state(is_there), detail }
}

fn state(works: bool) -> State {
    if works { State::Works } else { State::Fails }
}

/// Runs the agent to its end and returns all that was journaled.
async fn rehearse(
    global: &Global,
    environment: &Environment,
    agent: Agent,
    stop: Stop,
) -> Result<(Outcome, Vec<Event>), Failure> {
    let internal = |error: &dyn std::fmt::Display| Failure::failed(Code::Internal, error.to_string());
    let folder = tempfile::Builder::new().prefix("harvest-check-").tempdir().map_err(|error| {
        let message = format!("there is no space for the check: {error}");
        Failure::refused(Code::DataDirectory, message, "free some space in the system's temporary folder")
    })?;
    let repository = repository(folder.path()).await?;
    let global = Global { data_dir: Some(folder.path().join("data")), database_url: None, ..global.clone() };
    let installation = Installation::open(&global, environment.for_a_rehearsal()).await?;
    let provider = agent.providers.first().copied().ok_or_else(|| internal(&"the agent has no provider"))?;
    let model = agent.default_model(provider).unwrap_or("scripted-1");
    let script = Script::parse(&script(model).to_string()).map_err(|error| internal(&error))?;
    let choice = ModelChoice { provider, model: Some(model.to_owned()) };
    let sandboxes = installation.provider(SandboxKind::Local)?;
    let engine = installation.engine(sandboxes, Some(Arc::new(script)), choice.clone())?;
    let owner = installation.own(OwnerKind::Run).await?;
    let path = repository.to_str().ok_or_else(|| internal(&"the temporary folder's path is not UTF-8"))?;
    let forge: Arc<dyn harvest_forge::Forge> = harvest_forge::open(path, Git::new(Home::Nobody)).await?.into();
    let base = forge.resolve(None).await?;
    let request = Request {
        forge,
        base,
        prompt: Prompt::new(PROMPT).map_err(|error| internal(&error))?,
        agent: agent.id.clone(),
        model: Some(choice),
        test: Some(format!("test -s {FILE}")),
        require_tests: true,
        accept_unchanged: false,
        timeout: TIMEOUT,
        max_turns: MAX_TURNS,
        budget: Cost::from_dollars(1.0).ok_or_else(|| internal(&"the budget"))?,
        supervision: harvest_core::Supervision::default(),
        hooks: Vec::new(),
        egress: None,
        on_quota: Vec::new(),
        plan: false,
        plan_review: None,
        workflow: harvest_core::Workflow::Direct,
        gate: false,
        trust: harvest_core::Trust::Member,
        mcp: Vec::new(),
        source: Source::Cli,
        requested_by: installation.environment.user(),
        queue: Queueing { claim_for: Some(owner.id().clone()), ..Queueing::default() },
    };
    let mut events = Vec::new();
    let outcome = match engine.submit(request).await {
        Ok(submitted) => {
            let keep = |event: &Event| {
                events.push(event.clone());
                Ok(())
            };
            work(&engine, &owner, &submitted, stop, keep).await.and_then(Ended::finished)
        }
        Err(error) => Err(error.into()),
    };
    let outcome = installation.let_go(owner, outcome).await?;
    Ok((outcome, events))
}

async fn repository(folder: &Path) -> Result<PathBuf, Failure> {
    let repository = folder.join("repository");
    let io = |error: std::io::Error| Failure::failed(Code::DataDirectory, format!("no rehearsal: {error}"));
    std::fs::create_dir(&repository).map_err(io)?;
    std::fs::write(repository.join("README.md"), "A repository for a rehearsal.\n").map_err(io)?;
    let git = Git::new(Home::Nobody);
    git.run(&repository, &["init", "--quiet", "--template=", "--initial-branch=main"]).await?;
    git.run(&repository, &["config", "user.name", "Harvest"]).await?;
    git.run(&repository, &["config", "user.email", "harvest@localhost"]).await?;
    git.run(&repository, &["add", "--all"]).await?;
    git.run(&repository, &["commit", "--quiet", "--message", "Start"]).await?;
    Ok(repository)
}

/// A shell command and a file for agents with tools; for one that reads edits out of the text, the file alone.
fn script(model: &str) -> serde_json::Value {
    let edit = format!("{FILE}\n```\n<<<<<<< SEARCH\n=======\ndone\n>>>>>>> REPLACE\n```\n");
    json!({
        "model": model,
        "conversations": [
            { "when_prompt_contains": "This is a rehearsal", "replies": [
                { "say": "I will try the shell.", "shell": "printf 'rehearsal-%s\\n' 42",
                  "tokens": { "input": 1000, "output": 20 } },
                { "write": { "path": FILE, "content": "done\n" }, "tokens": { "input": 1100, "output": 20 } },
                { "say": "The rehearsal is over.", "tokens": { "input": 1200, "output": 10 } },
            ] },
            { "when_prompt_contains": "This is a rehearsal", "without_tools": true, "replies": [
                { "say": edit, "tokens": { "input": 1000, "output": 20 } },
            ] },
            { "replies": [{ "say": "Yes." }] },
        ],
    })
}

fn judge(outcome: &Outcome, events: &[Event]) -> Vec<Check> {
    let bodies = || events.iter().map(|event| &event.body);
    let calls = bodies().filter(|body| matches!(body, EventBody::Usage { .. })).count();
    let messages = bodies().filter(|body| matches!(body, EventBody::Message { .. })).count();
    let tools = bodies().filter(|body| matches!(body, EventBody::ToolCall { .. })).count();
    let answered = bodies().any(|body| matches!(body, EventBody::ToolResult { output, .. } if output.contains(ANSWER)));
    let edited = bodies().any(|body| matches!(body, EventBody::FileChanged { path, .. } if path == FILE));
    let exit = bodies().find_map(|body| match body {
        EventBody::AgentFinished { exit_code, .. } => Some(*exit_code),
        _ => None,
    });
    let shell = match (answered, tools) {
        (true, _) => (State::Works, format!("{tools} tool calls were seen")),
        (false, 0) => (State::Absent, "it called no tools".to_owned()),
        (false, _) => (State::Fails, "no result of a shell command was seen".to_owned()),
    };
    let verified = outcome.evidence.as_ref().is_some_and(Evidence::proves_success);
    let ended = outcome.status == TaskStatus::Completed && exit == Some(Some(0)) && verified;
    let why = outcome.error.clone().unwrap_or_else(|| {
        let why = if verified { "with exit code 0, and its work is verified" } else { "its work is not verified" };
        why.to_owned()
    });
    let tokens = &outcome.usage;
    [
        ("starts", state(exit.is_some()), "in its own sandbox".to_owned()),
        ("model", state(calls > 0), format!("{calls} calls went through the gateway")),
        ("messages", state(messages > 0), format!("{messages} parsed")),
        ("shell", shell.0, shell.1),
        ("edits", state(edited), format!("{FILE} was {}written", if edited { "" } else { "not " })),
        ("tokens", state(tokens.input_tokens > 0), format!("{} in, {} out", tokens.input_tokens, tokens.output_tokens)),
        ("ends", state(ended), why),
    ]
    .map(|(name, state, detail)| Check { name: name.to_owned(), state, detail })
    .into()
}
