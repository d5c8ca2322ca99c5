//! `harvest schedule …`, and the hook by which `harvest up` queues what is due.

use std::sync::Arc;

use async_trait::async_trait;
use harvest_core::repository::Place;
use harvest_core::{Code, Prompt, Role, Source, TaskId, Timestamp, may_name_hosts};
use harvest_engine::{BadTimetable, Engine, Planner, Request, Run, Scheduler, Timetable};
use harvest_server::Membership;
use harvest_store::{AccessToken, MissedRuns, NewTask, OwnerRight, Schedule as Stored, ScheduleOwner, TokenKind};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc};

use crate::ask;
use crate::cli::{Global, Missed, Schedule, ScheduleAdd};
use crate::config::Key;
use crate::desk::FrontDesk;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::saved::SavedRequest;
use crate::sign_in;
use crate::view::{Cell, Style, Table, age_of, clean};

const RUNS: usize = 64;
const ID_SHOWN: usize = 8;

pub async fn schedule(global: &Global, environment: Environment, command: Schedule) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::schedule(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    match command {
        Schedule::Add(options) => add(global, &installation, style, *options).await,
        Schedule::List => list(global, &installation, style).await,
        Schedule::Remove { id } => remove(global, &installation, style, &id).await,
    }
}

async fn add(
    global: &Global,
    installation: &Installation,
    style: Style,
    options: ScheduleAdd,
) -> Result<Exit, Failure> {
    let time_zone = options.time_zone.unwrap_or_else(|| installation.environment.time_zone());
    let prompt = ask::read_prompt(&options.ask.prompt)?;
    let saved = SavedRequest::new(&options.ask.options, &options.standing);
    let missed = match options.missed {
        Missed::Skip => MissedRuns::Skip,
        Missed::RunOnce => MissedRuns::RunOnce,
    };
    let times = When { cron: options.cron, time_zone, missed };
    let owner = ScheduleOwner { user: installation.environment.user(), right: OwnerRight::Installation };
    let stored = keep(installation, owner, times, saved, prompt).await?;
    show_new(global, style, &shown(&stored));
    Ok(Exit::Done)
}

pub fn show_new(global: &Global, style: Style, schedule: &Value) {
    let _ = if global.json {
        output::json(schedule)
    } else {
        let id = style.bold(short(schedule["id"].as_str().unwrap_or_default()));
        output::line(&format!("{} schedule {id} created; next run {}", style.ok(), when(schedule)))
    };
}

/// When a schedule runs.
#[derive(Debug)]
pub struct When {
    pub cron: String,
    pub time_zone: String,
    pub missed: MissedRuns,
}

/// Checks a schedule as if it ran now, and keeps it.
pub async fn keep(
    installation: &Installation,
    owner: ScheduleOwner,
    when: When,
    mut saved: SavedRequest,
    prompt: Prompt,
) -> Result<Stored, Failure> {
    let prompt = ask::without_secrets(prompt)?;
    let timetable = Timetable::parse(&when.cron, &when.time_zone).map_err(|error| refuse(&error))?;
    // Only the base stays as it was named.
    let request = saved.request_of(installation, owner.user.clone(), prompt.clone()).await?;
    saved.repo = Some(request.forge.name().to_owned());
    saved.prompt = Some(prompt.into());
    let now = installation.clock.now();
    let stored = Stored {
        id: TaskId::generate(installation.entropy.as_ref()).to_string(),
        cron: when.cron,
        time_zone: when.time_zone,
        missed: when.missed,
        request: saved.to_json()?,
        next: timetable.next_after(now),
        last: None,
        owner: Some(owner),
        problem: None,
        created_at: now,
    };
    installation.store.save_schedule(stored.clone()).await?;
    Ok(stored)
}

fn refuse(error: &BadTimetable) -> Failure {
    let help = match error.field {
        "time zone" => "see `timedatectl list-timezones`",
        _ => "write it like \"0 3 * * 1-5\": minute, hour, day of month, month, day of week",
    };
    Failure::refused(Code::BadCron, error.to_string(), help)
}

async fn list(global: &Global, installation: &Installation, style: Style) -> Result<Exit, Failure> {
    let schedules = installation.store.schedules().await?;
    show_list(global, style, &schedules.iter().map(shown).collect::<Vec<_>>(), installation.clock.now());
    Ok(Exit::Done)
}

/// As the API shows it: whom it belongs to by name.
fn shown(stored: &Stored) -> Value {
    json!(harvest_server::describe_schedule(stored.clone()))
}

pub fn show_list(global: &Global, style: Style, schedules: &[Value], now: Timestamp) {
    if global.json {
        let _ = output::json(&json!({ "items": schedules, "next_cursor": null }));
        return;
    }
    if schedules.is_empty() {
        output::complain(
            "no schedules yet; create one: harvest schedule add \"0 3 * * 1-5\" \"Update the dependencies\"",
        );
    }
    let mut table = Table::new(style, &["id", "cron", "next", "prompt", "age", "repository", "problem"]);
    for schedule in schedules {
        let saved = SavedRequest::read(&schedule["request"]).unwrap_or_default();
        let prompt = saved.prompt.as_deref().unwrap_or_default();
        let title = clean(prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
        let text = |field: &str| clean(schedule[field].as_str().unwrap_or_default());
        table.row([
            Cell::new(short(&text("id"))).painted(Style::bold),
            text("cron").into(),
            when(schedule).into(),
            title.into(),
            Cell::new(age_of(schedule, now)).right(),
            Cell::new(clean(saved.repo.as_deref().unwrap_or_default())).painted(Style::dim),
            Cell::new(text("problem")).painted(Style::bad),
        ]);
    }
    let _ = table.lines().iter().try_for_each(|line| output::line(line));
}

async fn remove(global: &Global, installation: &Installation, style: Style, prefix: &str) -> Result<Exit, Failure> {
    let schedules: Vec<Value> = installation.store.schedules().await?.iter().map(shown).collect();
    let id = find(&schedules, prefix)?;
    installation.store.remove_schedule(id).await?;
    show_removed(global, style, id);
    Ok(Exit::Done)
}

/// The one schedule whose id begins so.
pub fn find<'s>(schedules: &'s [Value], prefix: &str) -> Result<&'s str, Failure> {
    let ids = schedules.iter().filter_map(|schedule| schedule["id"].as_str());
    let fitting: Vec<&str> = ids.filter(|id| !prefix.is_empty() && id.starts_with(prefix)).collect();
    match fitting[..] {
        [id] => Ok(id),
        [] => {
            let message = format!("no schedule's id begins with `{}`", clean(prefix));
            Err(Failure::refused(Code::UnknownSchedule, message, "see `harvest schedule list`"))
        }
        _ => {
            let message = format!("`{}` matches {} schedules: {}", clean(prefix), fitting.len(), fitting.join(", "));
            Err(Failure::refused(Code::AmbiguousId, message, "type more of the id"))
        }
    }
}

pub fn show_removed(global: &Global, style: Style, id: &str) {
    let _ = if global.json {
        output::json(&json!({ "schedule_id": id, "removed": true }))
    } else {
        output::line(&format!("{} schedule {} is removed; tasks it has queued stay", style.ok(), short(id)))
    };
}

fn short(id: &str) -> &str {
    id.get(..ID_SHOWN).unwrap_or(id)
}

/// The next run by the schedule's own clock.
fn when(schedule: &Value) -> String {
    let next: Option<Timestamp> = serde_json::from_value(schedule["next"].clone()).ok().flatten();
    let Some(next) = next else { return "never".to_owned() };
    let zone = clean(schedule["time_zone"].as_str().unwrap_or_default());
    match next.in_tz(&zone) {
        Ok(local) => format!("{} {zone}", local.strftime("%Y-%m-%d %H:%M")),
        Err(_) => next.to_string(),
    }
}

/// Schedules as `harvest up` runs them beside its pool.
#[derive(Debug)]
pub struct Beside {
    scheduler: Scheduler,
    runs: mpsc::Receiver<Run>,
}

impl Beside {
    pub fn new(global: &Global, installation: Arc<Installation>, engine: Engine) -> Self {
        let (sender, runs) = mpsc::channel(RUNS);
        let (store, clock) = (installation.store.clone(), installation.clock.clone());
        let planner = Arc::new(Asking { global: global.clone(), installation, engine, membership: OnceCell::new() });
        Self { scheduler: Scheduler::new(store, clock, planner, sender), runs }
    }

    /// What is due already is queued before the pool looks whether there is work.
    pub async fn catch_up(&mut self, global: &Global, style: Style) -> Result<(), Failure> {
        {
            let firing = self.scheduler.fire_due();
            tokio::pin!(firing);
            loop {
                tokio::select! {
                    fired = &mut firing => { fired?; break }
                    Some(run) = self.runs.recv() => show(global, style, &run),
                }
            }
        }
        while let Ok(run) = self.runs.try_recv() {
            show(global, style, &run);
        }
        Ok(())
    }

    /// Never ends by itself: dropped when the pool is done.
    pub async fn run(mut self, global: &Global, style: Style) -> std::convert::Infallible {
        let scheduling = self.scheduler.run();
        tokio::pin!(scheduling);
        loop {
            tokio::select! {
                never = &mut scheduling => return never,
                Some(run) = self.runs.recv() => show(global, style, &run),
            }
        }
    }
}

fn show(global: &Global, style: Style, run: &Run) {
    let _ = match (global.json, run) {
        (true, Run::Queued { schedule, task }) => {
            output::json(&json!({ "type": "scheduled", "schedule_id": schedule, "task_id": task }))
        }
        (true, Run::Skipped { schedule, due }) => {
            output::json(&json!({ "type": "schedule_skipped", "schedule_id": schedule, "due": due.to_string() }))
        }
        (true, Run::Failed { schedule, error }) => {
            output::json(&json!({ "type": "schedule_failed", "schedule_id": schedule, "error": error }))
        }
        (false, Run::Queued { schedule, task }) => output::line(&format!(
            "{} {} queued by schedule {}",
            style.dim(style.symbol("▸", ">")),
            task.short(),
            short(schedule)
        )),
        (false, Run::Skipped { schedule, due }) => output::line(
            &style.dim(&format!("schedule {} skipped the run of {due}: no worker was running", short(schedule))),
        ),
        (false, Run::Failed { schedule, error }) => output::line(&format!(
            "{} schedule {} could not queue its task: {}",
            style.failed(),
            short(schedule),
            clean(error)
        )),
    };
}

/// Asks for a schedule's task the way a person would.
#[derive(Debug)]
struct Asking {
    /// As this program was started.
    global: Global,
    installation: Arc<Installation>,
    engine: Engine,
    /// `None` where nobody signs in with GitHub.
    membership: OnceCell<Option<Membership>>,
}

/// What the owner of a schedule may do at the moment of a run.
#[derive(Debug, Default)]
struct OwnerRights {
    may_give_tasks: bool,
    everywhere: Option<Role>,
}

impl Asking {
    /// What the owner of a schedule may is looked at again at each run: people leave, tokens are revoked, repositories are
    /// taken away and budgets lowered. The error is the reason why this run makes no task.
    async fn check(&self, owner: &ScheduleOwner, saved: &SavedRequest) -> Result<(), String> {
        if owner.right == OwnerRight::Installation {
            return Ok(());
        }
        let repository = saved.repo.as_deref().unwrap_or_default();
        let settings = self.installation.settings().map_err(|failure| failure.message)?;
        let tenancy = settings.tenancy();
        let user = clean(&owner.user);
        let project = tenancy.identity(&owner.user, repository).project;
        let rights = self.rights(owner, project.as_deref()).await?;
        if !rights.may_give_tasks {
            let why = match owner.right {
                OwnerRight::Token { .. } => {
                    "the token it was created with is revoked, has expired, or may no longer create tasks there"
                }
                _ => "they may no longer create tasks there",
            };
            return Err(format!("its owner {user} is refused: {why}; have someone else create the schedule again"));
        }
        let is_listed = tenancy.project_of(repository).is_some();
        if !may_name_hosts(rights.everywhere) && !is_listed {
            let known = self.installation.store.repositories().await.map_err(|error| error.to_string())?;
            let place = Place::of(repository);
            if !known.iter().any(|one| Place::of(&one.source) == place) {
                let name = clean(repository);
                return Err(format!(
                    "its repository {name} is not known here any more, and its owner {user} may not name others; \
                     have an admin of the installation add it again"
                ));
            }
        }
        match (saved.budget_usd, settings.for_repository(repository).money(Key::BudgetUsd)) {
            (Some(asked), Some(most)) if asked > most => Err(format!(
                "its budget of {asked} is more than the {most} that tasks of this project may cost now; create the \
                 schedule again with less, or have an admin raise the project's `budget_usd`"
            )),
            _ => Ok(()),
        }
    }

    async fn rights(&self, owner: &ScheduleOwner, project: Option<&str>) -> Result<OwnerRights, String> {
        let Installation { store, clock, .. } = self.installation.as_ref();
        let now = clock.now();
        let reaches = |token: &AccessToken| {
            let valid = token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now);
            let there = token
                .projects
                .as_ref()
                .is_none_or(|names| project.is_some_and(|one| names.iter().any(|name| name == one)));
            valid && there && token.role >= Role::Member
        };
        let members = store.members().await.map_err(|error| error.to_string())?;
        let is_member = members.iter().any(|member| {
            member.user == owner.user && Some(member.project.as_str()) == project && member.role >= Role::Member
        });
        let found = match &owner.right {
            OwnerRight::Installation => return Ok(OwnerRights { may_give_tasks: true, everywhere: Some(Role::Admin) }),
            OwnerRight::Token { id } => store.tokens_by_id(std::slice::from_ref(id)).await,
            OwnerRight::Person => store.tokens(TokenKind::Person).await,
        };
        let found = found.map_err(|error| error.to_string())?;
        let token = found.iter().find(|token| token.user == owner.user && reaches(token));
        if let Some(token) = token.filter(|token| token.kind == TokenKind::Api) {
            let everywhere = token.projects.is_none().then_some(token.role);
            return Ok(OwnerRights { may_give_tasks: true, everywhere });
        }
        if matches!(owner.right, OwnerRight::Token { .. }) && token.is_none() {
            return Ok(OwnerRights::default());
        }
        // The rest is a person's right, and ends with what they are a member of.
        let of_github = self.membership().await?.filter(|membership| membership.concerns(&owner.user));
        let Some(membership) = of_github else {
            let user = clean(&owner.user);
            return Err(format!(
                "its owner {user} is refused: they signed in with GitHub, and this worker has no [sign_in] for it, so it \
                 cannot ask whether they still belong; give the worker the settings and the credential of the server"
            ));
        };
        if !membership.holds(&owner.user).await {
            let user = clean(&owner.user);
            return Err(format!(
                "its owner {user} is refused: they belong to none of the organizations and teams that may sign in any more; \
                 have someone else create the schedule again"
            ));
        }
        let everywhere = membership.role_everywhere(&owner.user);
        Ok(OwnerRights { may_give_tasks: is_member || everywhere >= Some(Role::Member), everywhere })
    }

    /// How it is known whether people still belong; made when it is first needed.
    async fn membership(&self) -> Result<Option<&Membership>, String> {
        let made = self.membership.get_or_try_init(async || {
            let options = sign_in::options(&self.installation).await.map_err(|failure| failure.message)?;
            let desk = Arc::new(FrontDesk::new(self.global.clone(), self.installation.clone()));
            let clock = self.installation.clock.clone();
            let store = self.installation.store.clone();
            let made = options.map(|options| Membership::new(options, store, desk, clock)).transpose();
            made.map_err(|error| error.to_string())
        });
        Ok(made.await?.as_ref())
    }
}

#[async_trait]
impl Planner for Asking {
    async fn task(&self, schedule: &Stored) -> Result<NewTask, String> {
        let saved = SavedRequest::read(&schedule.request).map_err(|failure| failure.message)?;
        let prompt = Prompt::new(saved.prompt.clone().unwrap_or_default()).map_err(|error| error.to_string())?;
        let owner = schedule.owner.clone().unwrap_or_else(|| ScheduleOwner {
            user: self.installation.environment.user(),
            right: OwnerRight::Installation,
        });
        self.check(&owner, &saved).await?;
        let request = saved.request_of(&self.installation, owner.user.clone(), prompt).await;
        let request = request.map_err(|failure| failure.message)?;
        let mut request = Request { source: Source::Schedule, requested_by: owner.user, ..request };
        if let OwnerRight::Token { id } = owner.right {
            request.queue.token = Some(id);
        }
        self.engine.new_task(request).await.map_err(|error| Failure::from(error).message)
    }
}
