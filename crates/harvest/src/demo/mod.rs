//! `harvest demo`: four tasks on a sample repository, worked off side by side by real sandboxes, the built-in agent and the
//! scripted model. No account, no key, no network.

mod page;
mod sample;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use harvest_agents::Provider;
use harvest_core::{Code, Cost, EventBody, FailureReason, Outcome, Prompt, Source, TaskStatus};
use harvest_engine::{Engine, Interrupts, ModelChoice, Ownership, Queueing, Request, Stop};
use harvest_store::OwnerKind;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::ask;
use crate::cli::{Demo, Global, SandboxKind};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::run::{Ended, stop_on_signals, work};
use crate::view::{Activity, Style, clean, elapsed, evidence_line};
pub use sample::script;
use sample::{Expected, Job};

/// Where the sample repository lies in the data directory.
pub const FOLDER: &str = "demo";

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);
const MAX_TURNS: u32 = 20;
/// What its tasks are followed as when others work on them.
const CONVOY: &str = "demo";
const TICK: std::time::Duration = std::time::Duration::from_millis(80);

pub async fn demo(global: &Global, environment: Environment, options: &Demo) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Arc::new(Installation::open(global, environment).await?);
    let repository = sample::create(&installation.data.path().join(FOLDER)).await?;
    let script = script(!options.once)?;
    let provider = installation.provider(SandboxKind::Local)?;
    let model = ask::offered_model(&installation, Some(&script))?;
    let engine = installation.engine(provider, Some(script), model)?;
    let stop = Stop::default();
    stop_on_signals(&stop);
    if options.once {
        return tasks(global, style, &installation, &engine, &repository, stop).await;
    }
    page::offer(&installation, &repository).await?;
    let service = page::open(global, &installation, &engine, options.listen).await?;
    page::announce(global, style, &installation.environment, &service.handle()?).await?;
    let close = Stop::default();
    let working = async {
        let ended = tasks(global, style, &installation, &engine, &repository, stop.clone()).await;
        let more = match &ended {
            Ok(_) if !stop.is_requested() => page::work(global, style, &installation, &engine, stop).await,
            _ => Ok(()),
        };
        close.request();
        more.and(ended)
    };
    let (ended, served) = tokio::join!(working, service.run(close.clone()));
    served?;
    ended
}

/// The four tasks, from the first line to the report.
async fn tasks(
    global: &Global,
    style: Style,
    installation: &Installation,
    engine: &Engine,
    repository: &Path,
    stop: Stop,
) -> Result<Exit, Failure> {
    let owner = installation.own(OwnerKind::Run).await?;
    let interrupts = Interrupts::watch(engine, owner.id())?;
    if !global.json {
        let _ = output::line(&format!(
            "{} four tasks on a sample repository, each in its own sandbox",
            style.accent("harvest demo")
        ));
        let _ = output::line(&style.dim(&format!("  {}\n", repository.display())));
    }
    let screen = Screen::new(style, global.json);
    let begun = std::time::Instant::now();
    let running = sample::JOBS.iter().map(|job| {
        let lane = screen.lane(job.label);
        run_job(installation, engine, &owner, &interrupts, repository, job, stop.clone(), lane)
    });
    let outcomes: Result<Vec<Outcome>, Failure> = join_all(running).await.into_iter().collect();
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let outcomes = installation.let_go(owner, outcomes).await?;
    let as_expected = outcomes.iter().zip(sample::JOBS).all(|(outcome, job)| fits(outcome, job.expected));
    if global.json {
        let _ = output::json(&json!({ "items": outcomes, "next_cursor": null, "as_expected": as_expected }));
    } else {
        report(style, &outcomes, took);
        if !as_expected && !stop.is_requested() {
            let _ = output::line(&style.bad("not all tasks ended as they should; please look at the logs"));
        }
    }
    Ok(if as_expected { Exit::Done } else { Exit::Failed })
}

#[expect(clippy::too_many_arguments, reason = "one job needs all of the demo")]
async fn run_job(
    installation: &Installation,
    engine: &Engine,
    owner: &Ownership,
    interrupts: &Interrupts,
    repository: &Path,
    job: &Job,
    stop: Stop,
    mut lane: Lane,
) -> Result<Outcome, Failure> {
    let internal = |error: &dyn std::fmt::Display| Failure::failed(Code::Internal, error.to_string());
    let request = Request {
        queue: Queueing { claim_for: Some(owner.id().clone()), ..Queueing::default() },
        ..request(installation, repository, job).await?
    };
    let submitted = engine.submit(request).await?;
    let stopping = match &submitted.lease {
        Some(lease) => interrupts.stop_of(lease).await,
        None => Stop::default(),
    };
    let all_stopped = async {
        stop.requested().await;
        stopping.request();
        std::future::pending::<()>().await;
    };
    let working = work(engine, owner, &submitted, stopping.clone(), |event| {
        lane.show(&event.body);
        Ok(())
    });
    let outcome = tokio::select! {
        outcome = working => outcome.and_then(Ended::finished)?,
        () = all_stopped => return Err(internal(&"stopped")),
    };
    lane.finish(&outcome);
    Ok(outcome)
}

/// The tasks of the demo for whoever works on the queue: they name the demo's model, which needs no key.
pub async fn requests(installation: &Installation) -> Result<Vec<Request>, Failure> {
    let repository = sample::existing_or_new(&installation.data.path().join(FOLDER)).await?;
    let model = ModelChoice { provider: Provider::Anthropic, model: Some(script(true)?.model().to_owned()) };
    let mut requests = Vec::new();
    for job in sample::JOBS {
        let queue = Queueing { convoy: Some(CONVOY.to_owned()), ..Queueing::default() };
        requests.push(Request { model: Some(model.clone()), queue, ..request(installation, &repository, job).await? });
    }
    Ok(requests)
}

async fn request(installation: &Installation, repository: &Path, job: &Job) -> Result<Request, Failure> {
    let internal = |error: &dyn std::fmt::Display| Failure::failed(Code::Internal, error.to_string());
    let path = repository.to_str().ok_or_else(|| internal(&"the data directory's path is not UTF-8"))?;
    let forge: Arc<dyn harvest_forge::Forge> = harvest_forge::open(path, installation.environment.git()).await?.into();
    let base = forge.resolve(None).await?;
    let budget = Cost::from_dollars(job.budget_usd).ok_or_else(|| internal(&"the budget"))?;
    Ok(Request {
        forge,
        base,
        prompt: Prompt::new(job.prompt).map_err(|error| internal(&error))?,
        agent: "builtin".to_owned(),
        model: None,
        test: Some(job.test.to_owned()),
        require_tests: true,
        accept_unchanged: false,
        timeout: TIMEOUT,
        max_turns: MAX_TURNS,
        budget,
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
        queue: Queueing::default(),
    })
}

fn fits(outcome: &Outcome, expected: Expected) -> bool {
    match expected {
        Expected::Verified => {
            outcome.status == TaskStatus::Completed
                && outcome.branch.is_some()
                && outcome.evidence.as_ref().is_some_and(harvest_core::Evidence::proves_success)
        }
        Expected::FailsItsTests => {
            outcome.reason == Some(FailureReason::Tests) && outcome.evidence.as_ref().is_some_and(|e| e.exit_code != 0)
        }
        Expected::StoppedByBudget => outcome.reason == Some(FailureReason::Budget),
    }
}

fn report(style: Style, outcomes: &[Outcome], took: u64) {
    let dot = style.dot();
    for (outcome, job) in outcomes.iter().zip(sample::JOBS) {
        let sign = sign(style, outcome);
        let state = match outcome.reason {
            Some(reason) => format!("{}: {reason}", outcome.status),
            None => outcome.status.to_string(),
        };
        let _ = output::line(&format!(
            "\n{sign} {} {}",
            style.bold(job.prompt),
            style.dim(&format!("{dot} {state} {dot} {}", outcome.cost_usd))
        ));
        if let Some(branch) = &outcome.branch {
            let _ = output::line(&format!("    branch    {branch}"));
        }
        match (&outcome.evidence, &outcome.error) {
            (Some(evidence), _) => {
                let _ = output::line(&format!("    evidence  {}", evidence_line(style, evidence)));
            }
            (None, Some(error)) => {
                let _ = output::line(&format!("    because   {}", clean(error)));
            }
            (None, None) => {}
        }
        let _ = output::line(&format!(
            "    look      {}",
            style.accent(&format!("harvest task show {}", outcome.task_id.short()))
        ));
    }
    let _ = output::line(&format!("\nfour tasks in {}", elapsed(took)));
}

fn sign(style: Style, outcome: &Outcome) -> String {
    match (outcome.status, outcome.reason) {
        (TaskStatus::Completed, _) => style.ok(),
        (_, Some(reason)) if reason.is_stop() => style.stopped(),
        _ => style.failed(),
    }
}

/// One lane per task: its activity goes by above, its state stays below.
struct Screen {
    style: Style,
    lanes: MultiProgress,
    quiet: bool,
}

struct Lane {
    style: Style,
    label: &'static str,
    activity: Activity,
    lanes: MultiProgress,
    bar: ProgressBar,
    quiet: bool,
}

impl Screen {
    fn new(style: Style, quiet: bool) -> Self {
        let show = style.terminal && !quiet;
        let target = if show { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { style, lanes: MultiProgress::with_draw_target(target), quiet }
    }

    fn lane(&self, label: &'static str) -> Lane {
        let bar = self.lanes.add(ProgressBar::new_spinner());
        if let Ok(template) = ProgressStyle::with_template("{spinner} {prefix} {msg}") {
            bar.set_style(template.tick_strings(self.style.spinner()));
        }
        bar.set_prefix(self.style.bold(&format!("{label:<8}")));
        bar.set_message("waiting");
        bar.enable_steady_tick(TICK);
        let (style, lanes) = (self.style, self.lanes.clone());
        Lane { style, label, activity: Activity::new(style), lanes, bar, quiet: self.quiet }
    }
}

impl Lane {
    fn show(&mut self, event: &EventBody) {
        if let Some(status) = Activity::status(event) {
            self.bar.set_message(status);
        }
        let lines = self.activity.lines(event);
        if self.quiet || lines.is_empty() {
            return;
        }
        let label = self.style.dim(&format!("{:<8}", self.label));
        self.lanes.suspend(|| {
            for line in &lines {
                // Whoever does not read any more still gets the exit code.
                let _ = output::line(&format!("{label}{line}"));
            }
        });
    }

    fn finish(&self, outcome: &Outcome) {
        self.bar.finish_with_message(format!("{} {}", sign(self.style, outcome), outcome.status));
    }
}
