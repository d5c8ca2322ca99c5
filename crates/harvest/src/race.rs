//! `--race` and `harvest race`: the same task for several agents side by side, of which the best is delivered.

use futures_util::future::join_all;
use harvest_core::{Code, MOST_ENTRANTS, Outcome, Prompt, Race, RaceTable, Task, TaskStatus};
use harvest_engine::{Interrupts, Queueing, Stop, enter_race, race_table, racing};
use harvest_store::{Error, OwnerKind};

use crate::ask;
use crate::cli::{AskOptions, Entrants, Global, RaceOptions, Run};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::run::{Ended, stop_on_signals, work};
use crate::task::{document, warnings};
use crate::view::{Activity, Style, clean};

/// What each of those who race is asked.
pub fn field(options: &AskOptions, wanted: &Entrants) -> Vec<AskOptions> {
    match wanted {
        Entrants::Same(number) => vec![options.clone(); usize::from(*number).min(MOST_ENTRANTS)],
        Entrants::Named(names) => names
            .iter()
            .map(|(agent, model)| AskOptions {
                agent: Some(agent.clone()),
                model: model.clone().or_else(|| options.model.clone().filter(|_| names.len() == 1)),
                ..options.clone()
            })
            .collect(),
    }
}

/// Queues a race and says so.
pub async fn add(
    global: &Global,
    installation: &Installation,
    style: Style,
    prompt: Prompt,
    options: &AskOptions,
    queue: Queueing,
    wanted: &RaceOptions,
) -> Result<Exit, Failure> {
    let Some(entrants) = &wanted.race else { return Err(Failure::failed(Code::Internal, "no one is to race")) };
    let mut requests = Vec::new();
    for each in field(options, entrants) {
        let mut request = ask::request_for_later(installation, prompt.clone(), &each).await?;
        request.queue = queue.clone();
        requests.push(request);
    }
    let race = enter_race(installation.entropy.as_ref(), &mut requests, wanted.judged_by, wanted.judge.clone());
    let engine = installation.queueing_engine()?;
    let submitted = engine.submit_all(requests).await.map_err(|error| Failure::from(error).refusing())?;
    let mut given = Vec::new();
    for entrant in &submitted {
        given.extend(warnings::of(installation.store.as_ref(), &entrant.session).await?);
    }
    let tasks: Vec<Task> = submitted.into_iter().map(|submitted| submitted.task).collect();
    match tasks.first().filter(|_| global.json) {
        Some(first) => _ = output::json(&document(installation, &first.id).await?),
        None => say_queued(style, &race, &tasks),
    }
    // Most of them are true of all who race.
    given.sort();
    given.dedup();
    warnings::say(&given);
    Ok(Exit::Done)
}

/// Who races, for whoever asked for it.
pub fn say_queued(style: Style, race: &Race, tasks: &[Task]) {
    let name = |task: &Task| format!("{} ({})", task.id.short(), clean(&task.agent));
    let names: Vec<String> = tasks.iter().map(name).collect();
    let _ = output::line(&format!("{} {} is queued: {}", style.ok(), style.bold(&race.id), names.join(", ")));
}

/// `harvest run --race`: all of them in this process, to the verdict.
pub async fn run(global: &Global, environment: Environment, options: Run) -> Result<Exit, Failure> {
    let Some(entrants) = &options.race.race else { return Err(Failure::failed(Code::Internal, "no one is to race")) };
    let prompt = ask::read_prompt(&options.ask.prompt)?;
    let script = options.model_script.as_deref().map(ask::load_script).transpose()?;
    let stop = Stop::default();
    stop_on_signals(&stop);
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await.map_err(Failure::refusing)?;
    let decide = ask::Decide::Now { script: script.as_deref(), sandbox: options.sandbox };
    let mut requests = Vec::new();
    for each in field(&options.ask.options, entrants) {
        let Installation { environment, forges, keys, config, .. } = &installation;
        let user = environment.user();
        let request = ask::request(environment, forges, keys, config, user, prompt.clone(), &each, decide).await?;
        requests.push(ask::as_the_repository_says(&installation, request, &each, decide).await?);
    }
    let race =
        enter_race(installation.entropy.as_ref(), &mut requests, options.race.judged_by, options.race.judge.clone());
    let model = requests.iter().find_map(|request| request.model.clone());
    let model = model.ok_or_else(|| Failure::failed(Code::Internal, "no model was chosen"))?;
    let engine = installation.engine(installation.provider(options.sandbox)?, script, model)?;
    let owner = installation.own(OwnerKind::Run).await.map_err(Failure::refusing)?;
    let interrupts = Interrupts::watch(&engine, owner.id())?;
    for request in &mut requests {
        request.queue.claim_for = Some(owner.id().clone());
    }
    let submitted = match engine.submit_all(requests).await {
        Ok(submitted) => submitted,
        Err(error) => return installation.let_go(owner, Err(Failure::from(error).refusing())).await,
    };
    let works = submitted.iter().map(|one| {
        let (asked, interrupts) = (stop.clone(), &interrupts);
        let mut screen = Screen { json: global.json, who: who(&one.task), activity: Activity::new(style) };
        let (engine, owner) = (&engine, &owner);
        async move {
            // One may be stopped for losing while the others go on.
            let own = match &one.lease {
                Some(lease) => interrupts.stop_of(lease).await,
                None => Stop::default(),
            };
            let each = own.clone();
            tokio::spawn(async move {
                asked.requested().await;
                each.request();
            });
            work(engine, owner, one, own, |event| screen.show(event)).await
        }
    });
    let ended = join_all(works).await;
    let standings = installation.let_go(owner, Ok(())).await.map(|()| ended)?;
    let table = table(&installation, &race.id).await?;
    if !global.json {
        let _ = output::line(&page(style, &table));
    }
    let outcomes: Vec<Outcome> = standings
        .into_iter()
        .filter_map(|ended| match ended {
            Ok(Ended::Finished(outcome)) => Some(*outcome),
            _ => None,
        })
        .collect();
    let winner = outcomes.iter().find(|outcome| outcome.status == TaskStatus::Completed);
    Ok(winner.or(outcomes.first()).map_or(Exit::Failed, Exit::of))
}

/// One line of many who are at work at the same time.
struct Screen {
    json: bool,
    who: String,
    activity: Activity,
}

impl Screen {
    fn show(&mut self, event: &harvest_core::Event) -> Result<(), output::Closed> {
        if self.json {
            return output::json(event);
        }
        let lines = self.activity.lines(&event.body);
        lines.iter().try_for_each(|line| output::line(&format!("{:<24} {line}", self.who)))
    }
}

/// Several may be the same agent with the same model.
fn who(task: &Task) -> String {
    let model = task.model.as_ref().map(|model| format!(":{model}")).unwrap_or_default();
    clean(&format!("{} {}{model}", task.id.short(), task.agent))
}

/// `harvest race show`.
pub async fn show(global: &Global, environment: Environment, id: &str) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        let table = remote::race_table(&remote, id).await?.ok_or_else(|| unknown(id))?;
        let _ = if global.json { output::json(&table) } else { output::line(&page(style, &table)) };
        return Ok(Exit::Done);
    }
    let installation = Installation::open(global, environment).await?;
    let race = match installation.store.find_task(id, None).await {
        Ok(task) => installation.store.task(&task).await?.task.settings.race.map(|race| race.id),
        Err(Error::UnknownTask(_)) => Some(if id.starts_with("race-") { id.to_owned() } else { format!("race-{id}") }),
        Err(error) => return Err(error.into()),
    };
    let table = match &race {
        Some(race) => table(&installation, race).await?,
        None => return Err(unknown(id)),
    };
    if table.items.is_empty() {
        return Err(unknown(id));
    }
    let _ = if global.json { output::json(&table) } else { output::line(&page(style, &table)) };
    Ok(Exit::Done)
}

fn unknown(id: &str) -> Failure {
    let help = "harvest convoy list shows races among the convoys; the ID of a task in the race works too";
    Failure::refused(Code::UnknownTask, format!("there is no race {}", clean(id)), help)
}

async fn table(installation: &Installation, race: &str) -> Result<RaceTable, Failure> {
    let store = installation.store.as_ref();
    let tasks = racing(store, race).await?;
    Ok(race_table(store, race, tasks).await?)
}

fn page(style: Style, table: &RaceTable) -> String {
    let dot = style.dot();
    let mut lines = vec![format!("\n{}", style.bold(&table.id))];
    for row in &table.items {
        let has_won = table.winner.as_ref() == Some(&row.task_id);
        let sign = match row.status {
            TaskStatus::Completed if has_won => style.ok(),
            TaskStatus::Failed => style.failed(),
            _ => style.stopped(),
        };
        let what = clean(&row.verdict);
        let model = row.model.as_deref().map(|model| format!(":{}", clean(model))).unwrap_or_default();
        let changed = match row.changed_lines {
            None => String::new(),
            Some(1) => format!(" {dot} 1 line"),
            Some(lines) => format!(" {dot} {lines} lines"),
        };
        let total =
            row.duration_ms.map(|millis| format!(" {dot} total {:.1} s", millis as f64 / 1000.0)).unwrap_or_default();
        lines.push(format!(
            "  {sign} {} {}{model} {dot} {what} {dot} {}{changed}{total}",
            row.task_id.short(),
            clean(&row.agent),
            row.cost_usd
        ));
    }
    if let Some(judgement) = &table.judgement {
        lines.push(format!("  {} says: {}", clean(&judgement.agent), clean(&judgement.reason)));
    }
    if let Some(winner) = &table.winner {
        lines.push(format!(
            "  {}  {}",
            style.dim("next"),
            style.accent(&format!("harvest task apply {}", winner.short()))
        ));
    }
    lines.push(style.dim("  harvest task diff ID shows what each of them did"));
    lines.join("\n")
}
