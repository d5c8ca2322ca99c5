//! Recovery and stops of live sessions: agents reattached after `kill -9` of their worker, interrupts, and losers of a race.
//!
//! Times end with the journal's own timestamps, so that the reader of the journal adds nothing to them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use harvest_core::{Event, SessionId, TaskId, Timestamp};
use harvest_store::{Sqlite, Store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Child;

use super::installation::Installation;
use super::place::Place;
use super::programs::{build, output};
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const BOUND: Duration = Duration::from_secs(1);
/// The longest wait for anything that is not measured.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// More events than a session here has.
const EVENTS: usize = 10_000;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let installation = Installation::new(place, "recovery", build(&["-p", "harvest"]).await?).await?;
    // Without spares, every sandbox there is belongs to a session.
    installation.write_setting("harvest.toml", "warm = 0\n")?;
    for (id, script) in [("hangs", "sleep 987654"), ("mends", "sleep 1; echo mended > README.md; echo Done.")] {
        let agent = format!(
            "[[agent]]\nid = '{id}'\nname = '{id}'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
             command = '/bin/sh'\narguments = ['-c', '{script}']\ninstall_hint = 'It is a shell.'\n"
        );
        installation.write_setting(&format!("agents/{id}.toml"), &agent)?;
    }
    let script = installation.write_script(&json!([
        { "when_prompt_contains": "By tool", "replies": [{ "shell": "sleep 987654" }] },
        { "when_prompt_contains": "By answer", "replies": [{ "shell": "true" }, { "delay": "1h", "say": "Late." }] },
    ]))?;
    let sessions = size.pick(100, 8);
    let stops = size.pick(20, 4);
    let reattached = Site::new(&installation, "reattach", &script)?.reattach(sessions).await?;
    let interrupts = Site::new(&installation, "interrupt", &script)?.interrupt(stops).await?;
    let race = Site::new(&installation, "race", &script)?.race(size.pick(5, 1)).await?;
    let row = |name, slowest| Row {
        name,
        ours: Amount::Time(slowest),
        theirs: None,
        against: "",
        bound: Bound::Within(BOUND),
    };
    let rows = vec![
        row("recovery, live sessions reattached after kill -9", reattached),
        row("recovery, interrupt by command, slowest", interrupts.by_command),
        row("recovery, interrupt by file, slowest", interrupts.by_file),
        row("recovery, race, verdict to the loser's end, slowest", race),
    ];
    let notes = vec![format!(
        "recovery: {sessions} sessions, half of them in a tool call and half waiting for the model, from the start of the next \
         worker to the last `agent.reattached`; {stops} interrupts, half of them by `harvest interrupt` from its start to its \
         end, half by a file until `session.interrupted`"
    )];
    Ok(Findings { rows, notes })
}

/// A data directory of its own for each measurement.
struct Site<'a> {
    installation: &'a Installation,
    data: PathBuf,
    script: &'a Path,
}

struct Interrupts {
    by_command: Duration,
    by_file: Duration,
}

/// A task and the session that works on it.
#[derive(Debug)]
struct Work {
    task: TaskId,
    session: SessionId,
}

impl<'a> Site<'a> {
    fn new(installation: &'a Installation, name: &str, script: &'a Path) -> anyhow::Result<Self> {
        let data = installation.path(name);
        std::fs::create_dir_all(&data)?;
        Ok(Self { installation, data, script })
    }

    fn store(&self) -> anyhow::Result<Sqlite> {
        Ok(Sqlite::open(&self.data.join("harvest.db"))?)
    }

    async fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut command = self.installation.harvest(&self.data);
        Ok(serde_json::from_str(&output(command.args(arguments).arg("--json")).await?)?)
    }

    fn worker(&self, agents: usize) -> anyhow::Result<Child> {
        let mut up = self.installation.harvest(&self.data);
        up.args(["up", "--json", "--agents", &agents.to_string(), "--model-script"]).arg(self.script);
        up.stdout(Stdio::null()).stderr(File::create(self.data.join("worker.log"))?);
        Ok(up.spawn()?)
    }

    /// Queues tasks, starts a worker and waits until every agent hangs in a tool call or waits for its model.
    async fn at_work(&self, store: &Sqlite, count: usize) -> anyhow::Result<(Child, Vec<Work>)> {
        let mut tasks = Vec::new();
        for number in 0..count {
            let way = if number % 2 == 0 { "By tool" } else { "By answer" };
            let added = self.json(&["task", "add", &format!("{way}, number {number}")]).await?;
            tasks.push(work_of(store, &added["id"]).await?);
        }
        let worker = self.worker(count)?;
        for (number, work) in tasks.iter().enumerate() {
            let kind = if number % 2 == 0 { "tool.call" } else { "tool.result" };
            event(store, work, kind).await?;
        }
        Ok((worker, tasks))
    }

    /// From the start of the worker that follows a killed one until the last agent is back.
    async fn reattach(&self, sessions: usize) -> anyhow::Result<Duration> {
        let store = self.store()?;
        let (mut worker, tasks) = self.at_work(&store, sessions).await?;
        worker.kill().await?;
        let restarted = Timestamp::now();
        let worker = self.worker(sessions)?;
        let mut slowest = Duration::ZERO;
        for work in &tasks {
            let back = event(&store, work, "agent.reattached").await?;
            slowest = slowest.max(since(restarted, &back));
        }
        for work in &tasks {
            let events = store.events(&work.session, 0, EVENTS).await?;
            let started = events.iter().filter(|event| event.body.kind() == "agent.started").count();
            ensure!(started == 1, "{}: its agent was started {started} times", work.task);
        }
        self.end(worker, &tasks).await?;
        Ok(slowest)
    }

    async fn interrupt(&self, count: usize) -> anyhow::Result<Interrupts> {
        let store = self.store()?;
        let (worker, tasks) = self.at_work(&store, count).await?;
        let mut slowest = Interrupts { by_command: Duration::ZERO, by_file: Duration::ZERO };
        for (number, work) in tasks.iter().enumerate() {
            // Pairs, so that both ways meet both kinds of agents.
            if number % 4 < 2 {
                let asked = Instant::now();
                let told = self.json(&["interrupt", &work.task.to_string()]).await?;
                slowest.by_command = slowest.by_command.max(asked.elapsed());
                ensure!(told["status"] == "interrupted", "{told}");
            } else {
                let asked = Timestamp::now();
                std::fs::write(self.data.join("interrupts").join(work.task.to_string()), "measured\n")?;
                let interrupted = event(&store, work, "session.interrupted").await?;
                slowest.by_file = slowest.by_file.max(since(asked, &interrupted));
            }
        }
        self.end(worker, &tasks).await?;
        Ok(slowest)
    }

    /// From the verdict of a race to the last event of the entrant that was still at work.
    async fn race(&self, count: usize) -> anyhow::Result<Duration> {
        let store = self.store()?;
        let worker = self.worker(2)?;
        let mut slowest = Duration::ZERO;
        for _ in 0..count {
            let options = ["--race", "hangs,mends", "--judged-by", "time", "--test", "true"];
            let added = self.json(&[&["task", "add", "Mend it"][..], &options].concat()).await?;
            let race = added["settings"]["race"]["id"].as_str().context("the task is in no race")?;
            let shown = self.json(&["race", "show", race]).await?;
            let items = shown["items"].as_array().context("a race has entrants")?;
            let entrant = |agent: &str| items.iter().find(|item| item["agent"] == agent).map(|item| &item["task_id"]);
            let loser = work_of(&store, entrant("hangs").context("the loser is not in the race")?).await?;
            let winner = work_of(&store, entrant("mends").context("the winner is not in the race")?).await?;
            let verdict = event(&store, &winner, "race.decided").await?;
            let ended = event(&store, &loser, "task.finished").await?;
            slowest = slowest.max(since(verdict.at, &ended));
        }
        self.end(worker, &[]).await?;
        Ok(slowest)
    }

    async fn end(&self, mut worker: Child, tasks: &[Work]) -> anyhow::Result<()> {
        for work in tasks {
            self.json(&["task", "cancel", &work.task.to_string()]).await?;
        }
        let pid =
            worker.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).context("the worker has ended")?;
        kill_process(pid, Signal::TERM)?;
        let status = tokio::time::timeout(PATIENCE, worker.wait()).await.context("the worker does not end")??;
        ensure!(status.success(), "the worker ended with {status}");
        Ok(())
    }
}

async fn work_of(store: &Sqlite, id: &Value) -> anyhow::Result<Work> {
    let task = store.find_task(id.as_str().context("a task has an id")?, None).await?;
    let session = store.task(&task).await?.sessions.first().context("a task has a session")?.id.clone();
    Ok(Work { task, session })
}

/// The first event of this kind in the session's journal, waited for.
async fn event(store: &Sqlite, work: &Work, kind: &str) -> anyhow::Result<Event> {
    let begun = Instant::now();
    loop {
        let events = store.events(&work.session, 0, EVENTS).await?;
        if let Some(event) = events.into_iter().find(|event| event.body.kind() == kind) {
            return Ok(event);
        }
        ensure!(begun.elapsed() < PATIENCE, "{}: there is no {kind}", work.task);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn since(begun: Timestamp, event: &Event) -> Duration {
    event.at.duration_since(begun).try_into().unwrap_or_default()
}
