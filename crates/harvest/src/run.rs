//! `harvest run`: one task from prompt to verified branch, in the foreground.

use std::sync::Arc;

use harvest_core::{Code, Event, EventBody, Outcome, Stopping};
use harvest_engine::{Engine, Interrupts, Ownership, Stop, Worked};
use harvest_gateway::cassette::Cassette;
use harvest_store::{OwnerKind, Submitted};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::signal::unix::SignalKind;

use crate::cli::{Global, Run, SandboxKind};
use crate::environment::Environment;
use crate::failure::{Exit, Failure, code_of};
use crate::follow::{Follow, ends};
use crate::installation::{self, AgentPrograms, Installation};
use crate::output;
use crate::remote::{self, Remote};
use crate::view::{Activity, Place, Style, summary};
use crate::{ask, config, race, signals, tape};

const LAST_EVENTS: usize = 1000;
const TICK: std::time::Duration = std::time::Duration::from_millis(80);

pub async fn run(global: &Global, environment: Environment, options: Run) -> Result<Exit, Failure> {
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::run(global, Style::detect(&environment), &remote, options).await;
    }
    if options.race.race.is_some() {
        return race::run(global, environment, options).await;
    }
    let prompt = ask::read_prompt(&options.ask.prompt)?;
    let script = options.model_script.as_deref().map(ask::load_script).transpose()?;
    let replay = options.replay.as_deref().map(tape::load).transpose()?;
    let stop = Stop::default();
    stop_on_signals(&stop);
    // Everything that can be refused is, before anything is made.
    let mut keys = environment.model_keys()?;
    if installation::may_have_a_vault(global, &environment) {
        keys = keys.and_maybe_more();
    }
    let decide = match &replay {
        Some(replay) => ask::Decide::Again(replay.heading()),
        None => ask::Decide::Now { script: script.as_deref(), sandbox: options.sandbox },
    };
    let settings = config::source(global, &environment);
    // Whoever works on it opens it again, with the account that the vault may hold.
    let forges = installation::forges(&environment, &installation::data_path(global, &environment)?, Arc::new(None));
    let mut request = tokio::select! {
        request = ask::request(&environment, &forges, &keys, &settings, environment.user(), prompt, &options.ask.options, decide) => request?,
        () = stop.requested() => return Err(Failure::stopped()),
    };
    // Until there is a session, whatever goes wrong is a refusal.
    let installation = Installation::open(global, environment).await.map_err(Failure::refusing)?;
    request = ask::as_the_repository_says(&installation, request, &options.ask.options, decide).await?;
    let model = request.model.clone().ok_or_else(|| Failure::failed(Code::Internal, "no model was chosen"))?;
    warn_of(options.sandbox);
    let sandboxes = installation.provider(options.sandbox)?;
    let recorder = options.record.as_deref().map(|path| tape::record(path, &model, script.as_deref(), &installation));
    let cassette = match recorder.transpose()? {
        Some(recorder) => Some(Cassette::Record(recorder)),
        None => replay.clone().map(Cassette::Replay),
    };
    if let Some(replay) = &replay {
        replay.redact_with(tape::redact(&installation));
    }
    let engine = installation.engine_with(sandboxes, script, cassette.clone(), model, AgentPrograms::Here)?;
    tape::watch(cassette.as_ref(), &stop);
    let refuse = |error: harvest_engine::Error| Failure::from(error).refusing();
    let owner = installation.own(OwnerKind::Run).await.map_err(Failure::refusing)?;
    let interrupts = Interrupts::watch(&engine, owner.id()).map_err(refuse)?;
    request.queue.claim_for = Some(owner.id().clone());
    let submitted = tokio::select! {
        submitted = engine.submit(request) => submitted.map_err(refuse),
        () = stop.requested() => Err(Failure::stopped()),
    };
    let submitted = match submitted {
        Ok(submitted) => submitted,
        Err(failure) => return installation.let_go(owner, Err(failure)).await,
    };
    if let Some(lease) = &submitted.lease {
        interrupts.register(lease, stop.clone()).await;
    }
    let (session, mut printed) = (submitted.session.clone(), 0);
    let outcome = if global.json {
        let print = |event: &Event| {
            printed = event.seq;
            output::json(event)
        };
        work(&engine, &owner, &submitted, stop.clone(), print).await
    } else {
        let style = Style::detect(&installation.environment);
        let mut screen = Screen::new(style, &submitted);
        let outcome = work(&engine, &owner, &submitted, stop.clone(), |event| screen.show(event)).await;
        screen.close();
        match &outcome {
            Ok(Ended::Finished(outcome)) => {
                let _ = output::line(&closing(&installation, style, outcome).await);
            }
            Ok(Ended::AwaitsApproval) => {
                let _ = output::line(&awaiting(style, submitted.task.id.short()));
            }
            Ok(Ended::Interrupted) => {
                let _ = output::line(&interrupted(style, submitted.task.id.short()));
            }
            Err(_) => {}
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
    tape::closing(cassette.as_ref(), &stop)?;
    let Ended::Finished(outcome) = outcome else { return Ok(Exit::Stopped) };
    if let (true, Some(code)) = (global.json, code_of(&outcome)) {
        let why = outcome.error.as_deref().unwrap_or_default();
        output::complain(&format!("error[{code}]: {}", crate::view::clean(why)));
    }
    Ok(Exit::of(&outcome))
}

/// How a task left the hands of whoever worked on it.
#[derive(Debug)]
pub enum Ended {
    Finished(Box<Outcome>),
    /// A person has to decide on its plan.
    AwaitsApproval,
    /// It goes on when someone resumes it.
    Interrupted,
}

impl Ended {
    /// For those that were never asked for a plan.
    pub fn finished(self) -> Result<Outcome, Failure> {
        match self {
            Self::Finished(outcome) => Ok(*outcome),
            Self::AwaitsApproval => Err(Failure::failed(Code::Internal, "it made a plan without being asked to")),
            Self::Interrupted => Err(Failure::stopped()),
        }
    }
}

/// Works on a task and shows every event as it is journaled. A reader who goes away stops the task.
pub async fn work(
    engine: &Engine,
    owner: &Ownership,
    submitted: &Submitted,
    stop: Stop,
    mut show: impl FnMut(&Event) -> Result<(), output::Closed>,
) -> Result<Ended, Failure> {
    let taken = || Failure::failed(Code::Internal, "someone else took the task");
    let mut follow = Follow::new(engine.store().clone(), submitted.session.clone());
    let lease = submitted.lease.clone().ok_or_else(taken)?;
    let (worker, owner) = (engine.clone(), owner.id().clone());
    // Should the person not wait for the end, the next command finds what they wanted.
    let leaving = tokio::spawn({
        let (store, task, stop) = (engine.store().clone(), submitted.task.clone(), stop.clone());
        async move {
            stop.requested().await;
            if stop.how() == Some(Stopping::Cancel) {
                let reason = Some("its command was stopped, and did not wait for its end".to_owned());
                let left = Stopping::Interrupt { author: task.requested_by, reason };
                let _ = store.request_stop(&task.id, left).await;
            }
        }
    });
    let working = {
        let stop = stop.clone();
        tokio::spawn(async move { worker.work(&owner, lease, stop).await })
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
    leaving.abort();
    if !seen_end {
        for event in follow.now().await? {
            let _ = show(&event);
        }
    }
    match result {
        Ok(Ok(Worked::Finished(outcome))) => Ok(Ended::Finished(outcome)),
        Ok(Ok(Worked::AwaitsApproval)) => Ok(Ended::AwaitsApproval),
        Ok(Ok(Worked::Interrupted)) => Ok(Ended::Interrupted),
        // Only those who take from the queue give back to it.
        Ok(Ok(Worked::LetGo)) => Err(Failure::failed(Code::Internal, "it was given back to the queue")),
        // A task in the foreground has no retries.
        Ok(Ok(Worked::WillRetry { error, .. })) => Err(Failure::failed(Code::Internal, error)),
        Ok(Err(error)) => Err(error.into()),
        Err(panic) => Err(Failure::failed(Code::Internal, format!("the engine crashed: {panic}"))),
    }
}

/// The first signal stops the task and keeps its work; the second leaves at once, and the next command cleans up.
pub fn stop_on_signals(stop: &Stop) {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let words = "stopping; the work is kept (press Ctrl-C again to exit at once)";
    on_signals(&kinds, stop, words, Some("exiting; work since the last checkpoint is repeated on resume"));
}

/// Says what the sandbox does not keep away, where it keeps nothing away.
pub fn warn_of(sandbox: SandboxKind) {
    if sandbox == SandboxKind::None {
        output::complain(
            "warning: --sandbox none gives the agents everything you have: your files, your network, your processes",
        );
    }
}

/// Requests `stop` at the first signal of these kinds, saying so, and leaves at the second, saying what becomes of the work.
pub fn on_signals(kinds: &[SignalKind], stop: &Stop, words: &'static str, leaving: Option<&'static str>) {
    for kind in kinds.iter().filter(|kind| !signals::is_unwanted(**kind)) {
        let Some(mut signals) = signals::listen(*kind) else { continue };
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if stop.is_requested() {
                    leaving.into_iter().for_each(output::complain);
                    std::process::exit(Exit::Stopped as i32);
                }
                output::complain(words);
                stop.request();
            }
        });
    }
}

pub fn interrupted(style: Style, id: &str) -> String {
    let what = format!("task {} was interrupted; its work is kept", style.bold(id));
    format!("\n{} {what}:\n  harvest session resume {id}", style.stopped())
}

pub fn awaiting(style: Style, id: &str) -> String {
    format!(
        "\n{} task {} waits for your approval:\n  harvest task show {id}                    to see what it proposes\n  \
         harvest task approve {id}                 to continue (harvest up runs it)\n  \
         harvest task reject {id} --comment TEXT   to have it done differently",
        style.stopped(),
        style.bold(id)
    )
}

async fn closing(installation: &Installation, style: Style, outcome: &Outcome) -> String {
    let repository = installation.data.existing_repository(&outcome.session_id);
    let (mut commits, mut stat) = (Vec::new(), String::new());
    if let (Some(repository), Some(_)) = (&repository, &outcome.branch) {
        let listed = repository.commits(&outcome.base, &outcome.commit).await.unwrap_or_default();
        commits = listed.into_iter().map(|commit| commit.subject).collect();
        stat = repository.diff_stat(&outcome.base, &outcome.commit).await.unwrap_or_default();
    }
    summary(style, outcome, &commits, &stat, Place::Here)
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
    fn new(style: Style, submitted: &Submitted) -> Self {
        let task = &submitted.task;
        let dot = style.dot();
        let model = task.model.as_deref().unwrap_or_default();
        let _ = output::line(&format!(
            "{} {}",
            style.accent("harvest"),
            style.bold(&crate::view::clean(task.prompt.title()))
        ));
        let about = format!(
            "{} @ {} {dot} {} {dot} {model} {dot} budget {}",
            task.repository,
            &task.base[..10],
            task.agent,
            task.budget_usd
        );
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
