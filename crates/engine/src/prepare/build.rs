//! One build, from the fetch to the frozen snapshot. Whatever goes wrong, the snapshot before stays as it is.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harvest_core::{Entropy, OwnerId, Timestamp};
use harvest_forge::{Forge, Part};
use harvest_store::Repository;
use harvest_workspace::{Building, Manifest, Mirror, script};
use tokio::sync::mpsc;

use super::detect::{Tool, Wanted};
use super::log::{Fate, Log};
use super::recipe::{self, Choice};
use super::waiting::Waited;
use super::workshop::{Outcome, Workshop};
use super::{
    Attempts, Finished, Needs, PROGRAMS, Progress, Report, Settings, Stage, State, Status, Toolset, WhenBusy, alert,
    recipe_of,
};
use crate::error::chain;
use crate::place::{OBJECTS_INSIDE, Ran, millis};
use crate::{Engine, Error, Stop, failpoint};

const COMMAND_LIMIT: Duration = Duration::from_secs(30 * 60);
const PROBE_LIMIT: Duration = Duration::from_secs(60);
/// All commands together; the sandbox ends by itself then.
const WALL: Duration = Duration::from_secs(3 * 60 * 60);
/// So that repositories that were added together are not built together for ever.
pub(super) const JITTER: f64 = 0.1;
const LINES_KEPT: usize = 6;
const ERROR_SHOWN: usize = 800;

/// Why a build came to nothing.
enum End {
    Stopped,
    Failed(String),
    /// Nothing can be recorded any more.
    Engine(Error),
}

impl<E: Into<Error>> From<E> for End {
    fn from(error: E) -> Self {
        match error.into() {
            error @ (Error::Store(_) | Error::Failpoint(_)) => Self::Engine(error),
            error => Self::Failed(chain(&error)),
        }
    }
}

impl Engine {
    /// Makes a snapshot of the newest commit unless the newest snapshot is still right. `Err` only when nothing can be
    /// recorded; every other failure is in the report.
    pub async fn prepare_snapshot(
        &self,
        owner: &OwnerId,
        repository: &Repository,
        attempts: Attempts,
        progress: mpsc::Sender<Progress>,
        stop: &Stop,
    ) -> Result<Report, Error> {
        let begun = Instant::now();
        let settings = Settings::of(repository);
        let report = Report {
            repository: repository.name.clone(),
            status: Status::Busy,
            commit: None,
            error: None,
            build_error: None,
            reused: false,
            stages: Vec::new(),
            tools: Vec::new(),
            installed: Vec::new(),
            notes: Vec::new(),
            bytes: None,
            duration_ms: 0,
            at: self.options.clock.now(),
        };
        let (building, waited) = match self.prepared.begin(&settings.key).await? {
            Some(building) => (building, None),
            None if attempts.when_busy == WhenBusy::Leave => return Ok(report),
            None => match self.wait_for_build(&settings.key, &progress, stop).await? {
                Waited::Over(over) => (over.building, over.other),
                Waited::Stopped => {
                    let error = Some("no longer waiting; the other process continues its build".to_owned());
                    return Ok(Report { status: Status::Stopped, error, ..report });
                }
            },
        };
        let log = Log::begin(self.options.data.prepared().join(&settings.key));
        let mut run = Run {
            engine: self,
            owner,
            source: &repository.source,
            settings,
            attempts,
            progress,
            stop,
            report,
            log,
            tries: 1,
        };
        let result = run.build(&building).await;
        let Run { settings, mut report, progress, log, .. } = run;
        (report.status, report.error) = match result {
            Ok(status) => (status, None),
            Err(End::Stopped) => (Status::Stopped, Some("stopped by a user; nothing has changed".to_owned())),
            Err(End::Failed(error)) => (Status::Failed, Some(error)),
            Err(End::Engine(error)) => return Err(error),
        };
        let nothing_built = matches!(report.status, Status::Unchanged | Status::Stopped);
        log.finish(if nothing_built { Fate::Kept } else { Fate::Replaced });
        building.abandon().await?;
        // What was to be done has been done by the other process meanwhile.
        let done = waited.filter(|other| other.status == Status::Built && other.commit == report.commit);
        if let (Status::Unchanged, Some(other)) = (report.status, done) {
            return Ok(other);
        }
        report.duration_ms = millis(begun.elapsed());
        let mut report = report.without_secrets(&self.options.redactor);
        if report.status == Status::Failed
            && let Some(command) = &settings.alert
            && let Err(error) = alert::alert(command, &report).await
        {
            let message = format!("the alert command failed: {error}");
            let _ = progress.send(Progress::Note { message: message.clone() }).await;
            report.notes.push(message);
        }
        if report.status != Status::Stopped {
            let next_at = next(report.at, settings.every(), self.options.entropy.as_ref());
            let state = State { report: report.clone(), next_at };
            let state = serde_json::to_value(&state)
                .map_err(|error| harvest_workspace::Error::Unexpected(error.to_string()))?;
            self.prepared.set_state(&settings.key, &state)?;
        }
        Ok(report)
    }
}

fn next(now: Timestamp, every: Duration, entropy: &dyn Entropy) -> Timestamp {
    let part = f64::from(entropy.bytes()[0]) / 255.0;
    now.saturating_add(every.mul_f64(1.0 - JITTER + 2.0 * JITTER * part)).unwrap_or(Timestamp::MAX)
}

struct Run<'a> {
    engine: &'a Engine,
    owner: &'a OwnerId,
    source: &'a str,
    settings: Settings,
    attempts: Attempts,
    progress: mpsc::Sender<Progress>,
    stop: &'a Stop,
    report: Report,
    log: Log,
    /// Of the stage under way.
    tries: u32,
}

impl Run<'_> {
    async fn build(&mut self, building: &Building) -> Result<Status, End> {
        let fetching = self.begin(Stage::Fetch).await;
        let fetched = self.fetch_with_tries().await;
        let (mirror, commit) = self.end(Stage::Fetch, fetching, fetched).await?;
        self.report.commit = Some(commit.clone());
        let detecting = self.begin(Stage::Detect).await;
        let needs = super::needs(&mirror, &commit).await.map_err(End::from);
        let needs = self.end(Stage::Detect, detecting, needs).await?;
        let recipe = recipe_of(&self.settings);
        let known = self.engine.prepared.manifests(mirror.key());
        let newest = known.first();
        let same = newest.filter(|known| known.fingerprint == needs.fingerprint && known.recipe == recipe);
        if !self.attempts.force
            && let Some(same) = same.filter(|same| same.commit == commit)
        {
            self.report.bytes = Some(same.bytes);
            return Ok(Status::Unchanged);
        }
        // Nobody knows what a command of one's own depends on.
        let reusable = same.filter(|_| !self.attempts.force && self.settings.setup.is_none());
        let mut workshop = Workshop::record(self.engine, self.owner).await?;
        let result = self.work(building, &mut workshop, &mirror, &commit, &needs, &recipe, reusable).await;
        let refused = workshop.refused();
        if !refused.is_empty() {
            self.note(format!("not allowed, and refused: {}; see [egress] in harvest.toml", refused.join(", "))).await;
        }
        // A dead engine leaves it to the next one.
        if !matches!(result, Err(End::Engine(_))) {
            workshop.leave().await?;
        }
        result.map(|()| Status::Built)
    }

    #[expect(clippy::too_many_arguments, reason = "everything a build is made of, once")]
    async fn work(
        &mut self,
        building: &Building,
        workshop: &mut Workshop,
        mirror: &Mirror,
        commit: &str,
        needs: &Needs,
        recipe: &str,
        reusable: Option<&Manifest>,
    ) -> Result<(), End> {
        failpoint::reach("prepare::recorded")?;
        let folder = workshop.folder();
        building.check_out(mirror, commit, Path::new(OBJECTS_INSIDE), &self.settings.sparse, &folder).await?;
        if let Some(reusable) = reusable
            && let Some(earlier) = self.engine.prepared.open(mirror.key(), reusable).await?
        {
            building.reuse(&earlier, &folder).await?;
            self.report.reused = true;
            let shown = reusable.commit.get(..10).unwrap_or(&reusable.commit);
            self.note(format!("lockfiles are unchanged: the dependencies are those installed for {shown}")).await;
        }
        let nothing =
            needs.detected.projects.is_empty() && self.settings.setup.is_none() && self.settings.build.is_none();
        if nothing {
            self.note("no lockfile or manifest was found: nothing to install".to_owned()).await;
        } else {
            self.install_and_build(workshop, mirror, needs).await?;
        }
        workshop.close().await?;
        failpoint::reach("prepare::installed")?;
        let freezing = self.begin(Stage::Freeze).await;
        let manifest = Manifest {
            commit: commit.to_owned(),
            fingerprint: needs.fingerprint.clone(),
            recipe: recipe.to_owned(),
            built_at: self.engine.options.clock.now(),
            bytes: 0,
            extras: Vec::new(),
            programs: PROGRAMS.iter().map(|folder| (*folder).to_owned()).collect(),
            details: serde_json::json!({
                "tools": self.report.tools, "installed": self.report.installed, "notes": self.report.notes,
                "build_error": self.report.build_error,
            }),
        };
        let frozen = building.freeze(&folder, manifest).await.map_err(End::from);
        let frozen = self.end(Stage::Freeze, freezing, frozen).await?;
        self.report.bytes = Some(frozen.bytes);
        failpoint::reach("prepare::frozen")?;
        Ok(())
    }

    async fn install_and_build(&mut self, workshop: &mut Workshop, mirror: &Mirror, needs: &Needs) -> Result<(), End> {
        let selecting = self.begin(Stage::Toolchain).await;
        let selected = async {
            workshop.open(self.source, mirror.objects(), WALL).await?;
            failpoint::reach("prepare::started")?;
            let ran = self.run(workshop, Stage::Toolchain, &script::keep_home(), &[], PROBE_LIMIT).await?;
            if let Some(failure) = Failure::of(&ran) {
                return Err(End::Failed(format!("the home folder could not be created: {failure}")));
            }
            self.select_tools(workshop, needs).await
        };
        let selected = selected.await;
        self.end(Stage::Toolchain, selecting, selected).await?;
        if !self.report.reused {
            let installing = self.begin(Stage::Install).await;
            let installed = self.install(workshop, needs).await;
            self.end(Stage::Install, installing, installed).await?;
        }
        let scripts: Vec<String> = match &self.settings.build {
            Some(command) => vec![command.clone()],
            None if self.settings.setup.is_some() => Vec::new(),
            None => needs.detected.projects.iter().filter_map(recipe::build).collect(),
        };
        if scripts.is_empty() {
            return Ok(());
        }
        let at_work = self.begin(Stage::Build).await;
        let mut failed = None;
        for script in scripts {
            let ran = self.run(workshop, Stage::Build, &script, &[], COMMAND_LIMIT).await?;
            if let Some(failure) = Failure::of(&ran) {
                failed.get_or_insert(failure.text);
            }
        }
        // Agents can work on what does not build; mending it may be their task.
        self.report.build_error = failed.clone();
        let ended = at_work.elapsed();
        self.report.stages.push(Finished { stage: Stage::Build, duration_ms: millis(ended), tries: self.tries });
        self.tell(Progress::StageFinished { stage: Stage::Build, duration_ms: millis(ended), error: failed }).await;
        Ok(())
    }

    async fn fetch_with_tries(&mut self) -> Result<(Mirror, String), End> {
        let mut left = self.attempts.tries.max(1);
        loop {
            left -= 1;
            let fetched = tokio::select! {
                fetched = self.fetch() => fetched,
                () = self.stop.requested() => Err(End::Stopped),
            };
            match fetched {
                Err(End::Failed(error)) if left > 0 => self.try_again(Stage::Fetch, error, left).await?,
                other => return other,
            }
        }
    }

    async fn fetch(&self) -> Result<(Mirror, String), End> {
        let engine = self.engine;
        let forge: Arc<dyn Forge> = engine.options.forges.open(self.source).await?.into();
        let base = forge.resolve(self.settings.branch.as_deref()).await?;
        let mirror = engine.mirrors.open(&forge.identity(), &base.object_format).await?;
        let part = Part { depth: self.settings.depth, partial: self.settings.partial };
        mirror.ensure(&base.commit, || forge.fetch_part(&mirror, &base.commit, part)).await?;
        Ok((mirror, base.commit))
    }

    async fn select_tools(&mut self, workshop: &mut Workshop, needs: &Needs) -> Result<(), End> {
        let wanted: Vec<(Tool, Option<Wanted>)> =
            needs.detected.tools().into_iter().map(|(tool, wanted)| (tool, wanted.cloned())).collect();
        for (tool, wanted) in wanted {
            let found = self.probe(workshop, tool).await?;
            let mut set = Toolset {
                tool,
                wanted: wanted.as_ref().map(|wanted| wanted.version.clone()),
                from: wanted.as_ref().map(|wanted| wanted.from.clone()),
                used: found.clone(),
                installed: false,
            };
            let program = tool.program();
            let asked = wanted.as_ref().map(|wanted| format!("{program} {} ({})", wanted.version, wanted.from));
            let asked = asked.unwrap_or_else(|| program.to_owned());
            let mut choice = recipe::choose(tool, wanted.as_ref(), found.as_deref());
            if tool == Tool::Rust && wanted.is_some() && found.is_some() {
                let ran = self.run(workshop, Stage::Toolchain, recipe::RUST_OF_THE_HOST, &[], PROBE_LIMIT).await?;
                if !ran.ran.succeeded() || !ran.ran.tail.trim().is_empty() {
                    choice = Choice::MakeDo;
                }
            }
            match choice {
                Choice::Use => {}
                Choice::Unsure => self.instead(&asked, found.as_deref(), "that names no version").await,
                Choice::Get { script, version } => {
                    let got = self.get(workshop, &script, &version).await?;
                    match got {
                        Ok(()) => {
                            set.used = self.probe(workshop, tool).await?;
                            set.installed = true;
                        }
                        Err(error) if found.is_some() => self.instead(&asked, found.as_deref(), &error).await,
                        Err(error) => self.without(needs, tool, &asked, &error).await?,
                    }
                }
                Choice::MakeDo => self.instead(&asked, found.as_deref(), "Harvest cannot install it").await,
                Choice::Missing => self.without(needs, tool, &asked, "it is not installed on this machine").await?,
            }
            self.report.tools.push(set);
        }
        Ok(())
    }

    async fn probe(&mut self, workshop: &mut Workshop, tool: Tool) -> Result<Option<String>, End> {
        let probed = workshop.run(&recipe::probe(tool), &[], PROBE_LIMIT, self.stop, |_| {}).await?;
        let ran = probed.ok_or(End::Stopped)?.ran;
        let version = ran.tail.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()));
        Ok(version.filter(|_| ran.succeeded()).map(|line| line.trim().to_owned()))
    }

    async fn get(&mut self, workshop: &mut Workshop, script: &str, version: &str) -> Result<Result<(), String>, End> {
        let mut left = self.attempts.tries.max(1);
        loop {
            left -= 1;
            let ran = self.run(workshop, Stage::Toolchain, script, &[("VERSION", version)], COMMAND_LIMIT).await?;
            match Failure::of(&ran) {
                None => return Ok(Ok(())),
                Some(failure) if left > 0 && !failure.is_lasting => {
                    self.try_again(Stage::Toolchain, failure.text, left).await?;
                }
                Some(failure) => return Ok(Err(failure.text)),
            }
        }
    }

    async fn instead(&mut self, asked: &str, found: Option<&str>, why: &str) {
        let found = found.unwrap_or_default();
        self.note(format!("{asked} is required; this machine's {found} is used instead because {why}")).await;
    }

    /// A tool that no project needs is only a remark in a file.
    async fn without(&mut self, needs: &Needs, tool: Tool, asked: &str, why: &str) -> Result<(), End> {
        let needing = needs.detected.projects.iter().find(|project| project.manager.tools().contains(&tool));
        // Projects often bring these two along.
        let brought = matches!(tool, Tool::Maven | Tool::Gradle);
        match needing {
            Some(project) if self.settings.setup.is_none() && !brought => Err(End::Failed(format!(
                "{} needs {asked}, which is unavailable: {why}; install it on this machine, or give an install command with --setup",
                project.file
            ))),
            _ => {
                self.note(format!("{asked} is unavailable: {why}")).await;
                Ok(())
            }
        }
    }

    async fn install(&mut self, workshop: &mut Workshop, needs: &Needs) -> Result<(), End> {
        let python = needs.detected.toolchains.iter().find(|wanted| wanted.tool == Tool::Python);
        let commands: Vec<(String, String)> = match &self.settings.setup {
            Some(command) => vec![(command.lines().next().unwrap_or_default().to_owned(), command.clone())],
            None => needs
                .detected
                .projects
                .iter()
                .map(|project| {
                    let place = if project.folder.is_empty() { "" } else { &format!("{}: ", project.folder) };
                    (format!("{place}{}", project.install), recipe::install(project, python))
                })
                .collect(),
        };
        for (shown, script) in commands {
            let mut left = self.attempts.tries.max(1);
            loop {
                left -= 1;
                let ran = self.run(workshop, Stage::Install, &script, &[], COMMAND_LIMIT).await?;
                match Failure::of(&ran) {
                    None => break,
                    Some(failure) if left > 0 && !failure.is_lasting => {
                        self.try_again(Stage::Install, failure.text, left).await?;
                    }
                    Some(failure) => return Err(End::Failed(format!("`{shown}` failed: {failure}"))),
                }
            }
            self.report.installed.push(shown);
        }
        Ok(())
    }

    async fn run(
        &mut self,
        workshop: &mut Workshop,
        stage: Stage,
        script: &str,
        env: &[(&str, &str)],
        limit: Duration,
    ) -> Result<Outcome, End> {
        let Self { progress, log, stop, .. } = self;
        let line = |text| {
            let output = Progress::Output { stage, text };
            log.take(&output);
            // Lines may be lost on whoever reads too slowly; nothing waits for them.
            drop(progress.try_send(output));
        };
        workshop.run(script, env, limit, stop, line).await?.ok_or(End::Stopped)
    }

    async fn try_again(&mut self, stage: Stage, error: String, tries_left: u32) -> Result<(), End> {
        self.tries += 1;
        self.tell(Progress::TriedAgain { stage, error, tries_left }).await;
        tokio::select! {
            () = tokio::time::sleep(self.attempts.apart) => Ok(()),
            () = self.stop.requested() => Err(End::Stopped),
        }
    }

    async fn note(&mut self, message: String) {
        self.report.notes.push(message.clone());
        self.tell(Progress::Note { message }).await;
    }

    async fn begin(&mut self, stage: Stage) -> Instant {
        self.tries = 1;
        self.tell(Progress::StageStarted { stage }).await;
        Instant::now()
    }

    async fn end<T>(&mut self, stage: Stage, begun: Instant, result: Result<T, End>) -> Result<T, End> {
        let duration_ms = millis(begun.elapsed());
        let error = match &result {
            Ok(_) => None,
            Err(End::Failed(error)) => Some(error.clone()),
            Err(End::Stopped) => Some("stopped".to_owned()),
            Err(End::Engine(error)) => Some(chain(error)),
        };
        self.report.stages.push(Finished { stage, duration_ms, tries: self.tries });
        self.tell(Progress::StageFinished { stage, duration_ms, error }).await;
        result
    }

    async fn tell(&mut self, progress: Progress) {
        let progress = progress.without_secrets(&self.engine.options.redactor);
        self.log.take(&progress);
        // Whoever watched may have left; the build goes on.
        let _ = self.progress.send(progress).await;
    }
}

/// Why a command failed.
struct Failure {
    text: String,
    /// Trying again does not help.
    is_lasting: bool,
}

impl Failure {
    fn of(outcome: &Outcome) -> Option<Self> {
        match &outcome.trouble {
            Some(trouble) => Some(Self { text: trouble.to_string(), is_lasting: trouble.is_lasting }),
            None if outcome.ran.succeeded() => None,
            None => Some(Self { text: said(&outcome.ran), is_lasting: false }),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The end of what a command printed.
fn said(ran: &Ran) -> String {
    let mut lines: Vec<&str> =
        ran.tail.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(LINES_KEPT).collect();
    lines.reverse();
    let how = match (ran.timed_out, ran.exit_code) {
        (true, _) => format!("it did not end within {} min", COMMAND_LIMIT.as_secs() / 60),
        (_, Some(code)) => format!("exit code {code}"),
        (_, None) => "it was killed".to_owned(),
    };
    let text: String = lines.join("\n").chars().take(ERROR_SHOWN).collect();
    if text.is_empty() { how } else { format!("{how}\n{text}") }
}
