//! `harvest run`: one task from prompt to verified branch, in the foreground.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use harvest_agents::{Agent, Provider, Registry};
use harvest_core::{Code, Event, EventBody, MAX_PROMPT_BYTES, Outcome, Prompt, PromptError, Source};
use harvest_engine::{Engine, Interrupts, Ownership, Request, Stop, Submission};
use harvest_gateway::{Script, ScriptError};
use harvest_store::OwnerKind;
use harvest_workspace::SessionRepository;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::{Global, Run, SandboxKind};
use crate::environment::{Environment, ModelKeys};
use crate::failure::{Exit, Failure, code_of};
use crate::follow::{Follow, ends};
use crate::installation::Installation;
use crate::output;
use crate::view::{Activity, Style, summary};

const MAX_TURNS: u32 = 50;
const LAST_EVENTS: usize = 1000;
const TICK: std::time::Duration = std::time::Duration::from_millis(80);

pub async fn run(global: &Global, environment: Environment, options: Run) -> Result<Exit, Failure> {
    let prompt = read_prompt(&options.prompt)?;
    let script = options.model_script.as_deref().map(load_script).transpose()?;
    let registry = Registry::bundled().map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
    let agent = find_agent(&registry, &options.agent)?;
    let stop = Stop::default();
    stop_on_signals(&stop);
    // Until there is a session, whatever goes wrong is a refusal.
    let installation = Installation::open(global, environment).await.map_err(Failure::refusing)?;
    let (provider, model) = choose_model(agent, options.model.as_deref(), script.as_deref(), &installation.keys)?;
    let repo = options.repo.as_deref().unwrap_or(".");
    let forge: Arc<dyn harvest_forge::Forge> = harvest_forge::open(repo, installation.environment.git()).await?.into();
    let base = tokio::select! {
        base = forge.resolve(options.base.as_deref()) => base?,
        () = stop.requested() => return Err(Failure::stopped()),
    };
    if options.sandbox == SandboxKind::None {
        output::complain("warning: --sandbox none gives the agent everything you have: your files, your network, your processes");
    }
    let sandboxes = installation.provider(options.sandbox)?;
    let engine = installation.engine(sandboxes, script)?;
    let refuse = |error: harvest_engine::Error| Failure::from(error).refusing();
    let interrupts = Interrupts::watch(&installation.data).map_err(refuse)?;
    let owner = Ownership::register(
        &installation.data,
        installation.store.clone(),
        installation.entropy.as_ref(),
        OwnerKind::Run,
    )
    .await
    .map_err(refuse)?;
    let request = Request {
        owner: owner.id().clone(),
        forge,
        base,
        prompt,
        agent: agent.id.clone(),
        provider,
        model,
        test: options.test,
        require_tests: options.require_tests,
        timeout: options.timeout,
        max_turns: MAX_TURNS,
        budget: options.budget_usd,
        source: Source::Cli,
        requested_by: installation.environment.user(),
    };
    let submitted = tokio::select! {
        submitted = engine.submit(request) => submitted.map_err(refuse),
        () = stop.requested() => Err(Failure::stopped()),
    };
    let submission = match submitted {
        Ok(submission) => submission,
        Err(failure) => return installation.let_go(owner, Err(failure)).await,
    };
    interrupts.register(&submission.submitted.task.id, stop.clone());
    let (session, mut printed) = (submission.submitted.session.clone(), 0);
    let outcome = if global.json {
        let print = |event: &Event| {
            printed = event.seq;
            output::json(event)
        };
        work(&engine, &owner, submission, stop.clone(), print).await
    } else {
        let style = Style::detect(&installation.environment);
        let mut screen = Screen::new(style, &submission);
        let outcome = work(&engine, &owner, submission, stop.clone(), |event| screen.show(event)).await;
        screen.close();
        if let Ok(outcome) = &outcome {
            let _ = output::line(&closing(&installation, style, outcome).await);
        }
        outcome
    };
    let outcome = installation.let_go(owner, outcome).await;
    if global.json && outcome.is_err() {
        // After a breakdown too the last event is how the task ended.
        let rest = installation.store.events(&session, printed, LAST_EVENTS).await.unwrap_or_default();
        let _ = rest.iter().try_for_each(output::json);
    }
    let outcome = outcome?;
    if let (true, Some(reason)) = (global.json, outcome.reason) {
        let why = outcome.error.as_deref().unwrap_or_default();
        output::complain(&format!("error[{}]: {}", code_of(reason), crate::view::clean(why)));
    }
    Ok(Exit::of(&outcome))
}

/// The prompt itself, or standard input for `-`: a command line cannot hold a long one.
fn read_prompt(argument: &str) -> Result<Prompt, Failure> {
    let help = "say what to do: harvest run \"Make the failing test pass\"";
    let refuse = |message: String| Failure::refused(Code::BadPrompt, message, help);
    if argument != "-" {
        return Prompt::new(argument).map_err(|error| refuse(error.to_string()));
    }
    let mut text = Vec::new();
    // One byte more than allowed tells a prompt that is too long without reading all of it.
    let most = MAX_PROMPT_BYTES as u64 + 1;
    std::io::stdin().lock().take(most).read_to_end(&mut text).map_err(|error| refuse(format!("the prompt cannot be read: {error}")))?;
    let text = String::from_utf8(text).map_err(|_| refuse("the prompt is not UTF-8 text".to_owned()))?;
    Prompt::new(text).map_err(|error| match error {
        PromptError::TooLong { .. } => refuse(format!("the prompt has more than {MAX_PROMPT_BYTES} bytes")),
        error @ PromptError::Empty => refuse(error.to_string()),
    })
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

fn find_agent<'r>(registry: &'r Registry, id: &str) -> Result<&'r Agent, Failure> {
    registry.get(id).ok_or_else(|| {
        let known: Vec<&str> = registry.iter().map(|agent| agent.id.as_str()).collect();
        Failure::refused(
            Code::UnknownAgent,
            format!("there is no agent `{}`", crate::view::clean(id)),
            format!("use one of: {}", known.join(", ")),
        )
    })
}

/// The vendor is the one whose name the model bears, else the first the agent speaks that has a key.
fn choose_model(
    agent: &Agent,
    model: Option<&str>,
    script: Option<&Script>,
    keys: &ModelKeys,
) -> Result<(Provider, String), Failure> {
    if let Some(script) = script {
        let provider = agent.providers.first().copied().unwrap_or(Provider::Anthropic);
        return Ok((provider, model.unwrap_or(script.model()).to_owned()));
    }
    let has_key = |provider: Provider| match provider {
        Provider::Anthropic => keys.anthropic.is_some(),
        Provider::Openai => keys.openai.is_some(),
    };
    let named = model.and_then(|model| {
        let model = model.to_ascii_lowercase();
        if model.starts_with("claude") {
            Some(Provider::Anthropic)
        } else if ["gpt", "o1", "o3", "o4", "chatgpt"].iter().any(|family| model.starts_with(family)) {
            Some(Provider::Openai)
        } else {
            None
        }
    });
    let usable = match named {
        Some(provider) => Some(provider).filter(|provider| has_key(*provider)),
        None => agent.providers.iter().copied().find(|provider| has_key(*provider)),
    };
    let Some(provider) = usable else {
        let wanted = match named {
            Some(Provider::Anthropic) => "ANTHROPIC_API_KEY",
            Some(Provider::Openai) => "OPENAI_API_KEY",
            None => "ANTHROPIC_API_KEY or OPENAI_API_KEY",
        };
        return Err(Failure::refused(
            Code::NoModel,
            "there is no key for a model and no model script",
            format!("set {wanted}, or try without a model: harvest demo --once"),
        ));
    };
    let model = model.or_else(|| agent.default_model(provider)).unwrap_or_default();
    Ok((provider, model.to_owned()))
}

/// Works on a submission and shows every event as it is journaled. A reader who goes away stops the task.
pub async fn work(
    engine: &Engine,
    owner: &Ownership,
    submission: Submission,
    stop: Stop,
    mut show: impl FnMut(&Event) -> Result<(), output::Closed>,
) -> Result<Outcome, Failure> {
    let mut follow = Follow::new(engine.store().clone(), submission.submitted.session.clone());
    let (worker, owner) = (engine.clone(), owner.id().clone());
    let working = {
        let stop = stop.clone();
        tokio::spawn(async move { worker.work(&owner, submission, stop).await })
    };
    tokio::pin!(working);
    let mut seen_end = false;
    let result = loop {
        tokio::select! {
            biased;
            events = follow.next(), if !seen_end => {
                for event in events? {
                    seen_end |= ends(&event);
                    if show(&event).is_err() {
                        stop.request();
                    }
                }
            }
            result = &mut working => break result,
        }
    };
    if !seen_end {
        for event in follow.now().await? {
            let _ = show(&event);
        }
    }
    match result {
        Ok(Ok(Some(outcome))) => Ok(outcome),
        Ok(Ok(None)) => Err(Failure::failed(Code::Internal, "someone else took the task")),
        Ok(Err(error)) => Err(error.into()),
        Err(panic) => Err(Failure::failed(Code::Internal, format!("the engine broke down: {panic}"))),
    }
}

/// The first signal stops the task and keeps its work; the second leaves at once, and the next command cleans up.
pub fn stop_on_signals(stop: &Stop) {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let Ok(mut signals) = signal(kind) else { continue };
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if stop.is_requested() {
                    std::process::exit(Exit::Stopped as i32);
                }
                output::complain("stopping; the work is kept (once more to leave at once)");
                stop.request();
            }
        });
    }
}

async fn closing(installation: &Installation, style: Style, outcome: &Outcome) -> String {
    let repository = SessionRepository::existing(installation.data.session_repository(&outcome.session_id));
    let (mut commits, mut stat) = (Vec::new(), String::new());
    if let (Some(repository), Some(_)) = (&repository, &outcome.branch) {
        let listed = repository.commits(&outcome.base, &outcome.commit).await.unwrap_or_default();
        commits = listed.into_iter().map(|commit| commit.subject).collect();
        stat = repository.diff_stat(&outcome.base, &outcome.commit).await.unwrap_or_default();
    }
    summary(style, outcome, &commits, &stat)
}

/// Live activity: readable lines, and in a terminal a spinner below them that says what is going on.
struct Screen {
    style: Style,
    activity: Activity,
    spinner: ProgressBar,
    spent: harvest_core::Cost,
    doing: &'static str,
}

impl Screen {
    fn new(style: Style, submission: &Submission) -> Self {
        let task = &submission.submitted.task;
        let dot = style.dot();
        let model = task.model.as_deref().unwrap_or_default();
        let _ = output::line(&format!("{} {}", style.accent("harvest"), style.bold(&crate::view::clean(task.prompt.title()))));
        let about = format!("{} @ {} {dot} {} {dot} {model} {dot} budget {}", task.repository, &task.base[..10], task.agent, task.budget_usd);
        let _ = output::line(&style.dim(&format!("  {about}\n")));
        let target = if style.terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let spinner = ProgressBar::with_draw_target(None, target);
        if let Ok(template) = ProgressStyle::with_template("{spinner} {msg}") {
            spinner.set_style(template.tick_strings(style.spinner()));
        }
        spinner.enable_steady_tick(TICK);
        Self { style, activity: Activity::new(style), spinner, spent: harvest_core::Cost::ZERO, doing: "starting" }
    }

    fn show(&mut self, event: &Event) -> Result<(), output::Closed> {
        if let EventBody::Usage { cost_usd, .. } = &event.body {
            self.spent += *cost_usd;
        }
        self.doing = Activity::status(&event.body).unwrap_or(self.doing);
        let spent = self.style.dim(&self.spent.to_string());
        self.spinner.set_message(format!("{} {} {spent}", self.doing, self.style.dot()));
        let lines = self.activity.lines(&event.body);
        if lines.is_empty() {
            return Ok(());
        }
        self.spinner.suspend(|| lines.iter().try_for_each(|line| output::line(line)))
    }

    fn close(&self) {
        self.spinner.finish_and_clear();
    }
}
