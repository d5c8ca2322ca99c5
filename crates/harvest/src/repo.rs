//! `harvest repo …`: repositories whose snapshots are prepared, and the builder that `harvest up` runs beside its pool.

use harvest_agents::Provider;
use harvest_core::repository::Place;
use harvest_core::{Code, Timestamp};
use harvest_engine::prepare::{
    Attempts, Keeper, Progress, Report, Settings, Standing, Status, WhenBusy, forget_unknown, standing,
};
use harvest_engine::{Engine, ModelChoice, Ownership, Stop, check_name};
use harvest_store::{OwnerKind, Repository};
use harvest_workspace::Mirror;
use serde_json::{Value, json};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

use crate::cli::{Global, Repo, RepoAdd, RepoBuild, SandboxKind};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::gc::amount;
use crate::installation::Installation;
use crate::output;
use crate::package_managers;
use crate::remote::{self, Remote};
use crate::run::on_signals;
use crate::view::{Cell, Style, Table, age, clean, elapsed};

const PROGRESS: usize = 256;
const REPORTS: usize = 16;
pub const COMMIT_SHOWN: usize = 10;
pub const COLUMNS: &[&str] = &["name", "state", "commit", "age", "size", "source", "branch"];
const NAME_LENGTH: usize = 64;

pub async fn repo(global: &Global, environment: Environment, command: Repo) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::repo(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    match command {
        Repo::Add(options) => add(global, &installation, style, *options).await,
        Repo::List => list(global, &installation, style).await,
        Repo::Build(options) => build(global, &installation, style, options).await,
        Repo::Remove { name } => remove(global, &installation, style, &name).await,
    }
}

async fn add(global: &Global, installation: &Installation, style: Style, options: RepoAdd) -> Result<Exit, Failure> {
    let repository = keep(installation, options).await?;
    for setting in package_managers::unused(&installation.environment, &installation.registries()?) {
        output::complain(&clean(&format!("note: sandboxes do not use {} yet; {}", setting.value, setting.advice())));
    }
    let name = repository.name.clone();
    show_added(global, style, &json!(harvest_server::describe_repository(&installation.data, repository)), &name);
    Ok(Exit::Done)
}

pub fn show_added(global: &Global, style: Style, repository: &Value, name: &str) {
    let _ = if global.json {
        output::json(repository)
    } else {
        let name = clean(name);
        let next = style.dim(&format!("build its first snapshot: harvest repo build {name}"));
        output::line(&format!("{} repository {} added\n  {next}", style.ok(), style.bold(&name)))
    };
}

/// Checks a repository and keeps it.
pub async fn keep(installation: &Installation, options: RepoAdd) -> Result<Repository, Failure> {
    check_for_keys(installation, &options)?;
    let names = [("name", options.name.as_ref()), ("branch", options.branch.as_ref())].into_iter();
    for (field, text) in names.chain(options.sparse.iter().map(|path| ("sparse", Some(path)))) {
        text.map_or(Ok(()), |text| check_name(field, text))?;
    }
    let forge = installation.forges.open(&options.source).await?;
    forge.resolve(options.branch.as_deref()).await?;
    let source = forge.name().to_owned();
    let place = Place::of(&source);
    let name = options.name.unwrap_or_else(|| default_name(&source));
    let known = installation.store.repositories().await?;
    if let Some(other) = known.iter().find(|known| known.name == name && Place::of(&known.source) != place) {
        let message = format!("`{name}` is already the name of {}", other.source);
        return Err(Failure::refused(Code::BadOption, message, "choose another with --name"));
    }
    let settings = Settings {
        key: Mirror::key_for(&forge.identity()),
        branch: options.branch,
        setup: options.setup,
        build: options.build,
        depth: options.depth,
        partial: options.partial,
        sparse: options.sparse,
        every_secs: options.every.map(|every| every.as_secs().max(1)),
        alert: options.alert,
    };
    if let Some(other) = known.iter().find(|known| known.name != name && Settings::of(known).key == settings.key) {
        let message = format!("this repository has already been added as `{}`", other.name);
        let help = format!("change it with --name {0}, or remove it first: harvest repo remove {0}", other.name);
        return Err(Failure::refused(Code::BadOption, message, help));
    }
    let repository = Repository {
        name,
        source,
        settings: serde_json::to_value(&settings)
            .map_err(|error| Failure::failed(Code::Internal, error.to_string()))?,
        created_at: installation.clock.now(),
        pushed_at: None,
    };
    installation.store.save_repository(repository.clone()).await?;
    Ok(repository)
}

/// The address and the commands of a repository are stored as they are, and shown to whoever sees the repository.
fn check_for_keys(installation: &Installation, options: &RepoAdd) -> Result<(), Failure> {
    let sandboxed = "leave it out: store it with `harvest credential add`, and the gateway adds it to requests";
    let here = "let the command read it from a file that only you may read";
    if installation.redactor.finds(&options.source) {
        let url = installation.redactor.redact(&options.source).into_owned();
        return Err(harvest_forge::Error::UrlHoldsAccess { url }.into());
    }
    for (field, command, help) in
        [("setup", &options.setup, sandboxed), ("build", &options.build, sandboxed), ("alert", &options.alert, here)]
    {
        if command.as_deref().is_some_and(|command| installation.redactor.finds(command)) {
            let message = format!(
                "{field}: the command contains a key; commands of a repository are stored and visible to others"
            );
            return Err(Failure::refused(Code::BadOption, message, help));
        }
    }
    Ok(())
}

/// `https://example.com/shop.git` → `shop`.
fn default_name(source: &str) -> String {
    let last = source.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let last = last.strip_suffix(".git").unwrap_or(last);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = last.chars().map(|c| if fits(c) { c } else { '-' }).take(NAME_LENGTH).collect();
    if name.is_empty() { "repository".to_owned() } else { name }
}

async fn list(global: &Global, installation: &Installation, style: Style) -> Result<Exit, Failure> {
    let repositories = installation.store.repositories().await?;
    if global.json {
        let shown = |repository| harvest_server::describe_repository(&installation.data, repository);
        let items: Vec<_> = repositories.into_iter().map(shown).collect();
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return Ok(Exit::Done);
    }
    let now = installation.clock.now();
    let rows: Vec<(Repository, Standing)> = repositories
        .into_iter()
        .map(|repository| {
            let standing = standing(&installation.data, &repository);
            (repository, standing)
        })
        .collect();
    if rows.is_empty() {
        output::complain("no repositories yet; add one: harvest repo add .");
    }
    let mut table = Table::new(style, COLUMNS);
    rows.iter().for_each(|(repository, standing)| table.row(cells(repository, standing, now)));
    let lines = table.lines();
    // The header comes before the rows.
    let details = std::iter::once(None).chain(rows.iter().map(|(_, standing)| trouble(standing)));
    for (line, trouble) in lines.iter().zip(details) {
        let trouble = trouble.map(|trouble| format!("\n    {trouble}")).unwrap_or_default();
        if output::line(&format!("{line}{trouble}")).is_err() {
            break;
        }
    }
    Ok(Exit::Done)
}

fn state(standing: &Standing) -> &'static str {
    match (&standing.newest, &standing.last) {
        _ if standing.building => "building",
        (Some(_), Some(last)) if last.status == Status::Failed => "outdated",
        (Some(_), _) => "ready",
        (None, Some(last)) if last.status == Status::Failed => "failed",
        (None, _) => "none",
    }
}

/// The colour of a snapshot's state.
pub fn paint_of(state: &str) -> fn(Style, &str) -> String {
    match state {
        "ready" => Style::good,
        "failed" | "outdated" => Style::bad,
        _ => Style::dim,
    }
}

fn cells(repository: &Repository, standing: &Standing, now: Timestamp) -> [Cell; 7] {
    let word = state(standing);
    let paint = paint_of(word);
    let newest = standing.newest.as_ref();
    let commit = newest.map(|newest| newest.commit.get(..COMMIT_SHOWN).unwrap_or(&newest.commit)).unwrap_or_default();
    [
        Cell::new(repository.name.as_str()).painted(Style::bold),
        Cell::new(word).painted(paint),
        commit.into(),
        Cell::new(newest.map(|newest| age(now, newest.built_at)).unwrap_or_default()).right(),
        Cell::new(newest.map(|newest| amount(newest.bytes)).unwrap_or_default()).right(),
        clean(&repository.source).into(),
        Cell::new(clean(&Settings::of(repository).branch.unwrap_or_else(|| "HEAD".to_owned()))).painted(Style::dim),
    ]
}

/// The first line of what went wrong in the last build.
fn trouble(standing: &Standing) -> Option<String> {
    let last = standing.last.as_ref()?;
    let trouble = match (&last.error, &last.build_error) {
        (Some(error), _) => format!("last build {}: {error}", last.status.as_str()),
        (None, Some(error)) => format!("built with a build command that failed: {error}"),
        (None, None) => return None,
    };
    Some(clean(trouble.lines().next().unwrap_or_default()))
}

async fn find(installation: &Installation, name: &str) -> Result<Repository, Failure> {
    let known = installation.store.repositories().await?;
    let names: Vec<String> = known.iter().map(|repository| repository.name.clone()).collect();
    known.into_iter().find(|repository| repository.name == name).ok_or_else(|| {
        let help = match names.is_empty() {
            true => "there are none yet; add one: harvest repo add .".to_owned(),
            false => format!("repositories are: {}", names.join(", ")),
        };
        Failure::refused(Code::UnknownRepository, format!("there is no repository `{}`", clean(name)), help)
    })
}

/// Makes a snapshot in the foreground and shows its progress.
pub async fn build(
    global: &Global,
    installation: &Installation,
    style: Style,
    options: RepoBuild,
) -> Result<Exit, Failure> {
    let repository = find(installation, &options.name).await?;
    let provider = installation.provider(SandboxKind::Local)?;
    // It works on no task, so it needs no key.
    let engine = installation.engine(provider, None, ModelChoice { provider: Provider::Anthropic, model: None })?;
    let owner = installation.own(OwnerKind::Run).await?;
    let stop = Stop::default();
    on_signals(
        &[SignalKind::interrupt(), SignalKind::terminate()],
        &stop,
        "stopping; the snapshot before stays in use",
        None,
    );
    let attempts =
        Attempts { tries: options.tries, force: options.force, when_busy: WhenBusy::Wait, ..Attempts::default() };
    let (progress, mut inbox) = mpsc::channel(PROGRESS);
    let building = engine.prepare_snapshot(owner.id(), &repository, attempts, progress, &stop);
    let showing = async {
        while let Some(progress) = inbox.recv().await {
            // Nobody reading is no reason to stop building.
            let _ = if global.json { output::json(&progress) } else { show(style, &progress) };
        }
    };
    let (report, ()) = tokio::join!(building, showing);
    let report = installation.let_go(owner, report.map_err(Failure::from)).await?;
    if global.json {
        let _ = output::json(&finished(&report));
    } else {
        let _ = output::line(&summary(style, &report));
    }
    Ok(match report.status {
        Status::Built | Status::Unchanged => Exit::Done,
        Status::Stopped => Exit::Stopped,
        Status::Failed | Status::Busy => Exit::Failed,
    })
}

fn finished(report: &Report) -> Value {
    let mut value = serde_json::to_value(report).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("type".to_owned(), json!("finished"));
    }
    value
}

fn show(style: Style, progress: &Progress) -> Result<(), output::Closed> {
    let line = match progress {
        Progress::StageStarted { stage } => {
            format!("{} {}", style.dim(style.symbol("▸", ">")), stage.as_str())
        }
        Progress::Output { text, .. } | Progress::Log { text } => style.dim(&format!("    {}", clean(text))),
        Progress::TriedAgain { stage, error, tries_left } => {
            let first = error.lines().next().unwrap_or_default();
            format!("{} {} failed ({}); {tries_left} more to go", style.stopped(), stage.as_str(), clean(first))
        }
        Progress::Note { message } => {
            output::complain(&format!("  note: {}", clean(message)));
            return Ok(());
        }
        Progress::StageFinished { stage, duration_ms, error: None } => {
            format!("{} {} {}", style.ok(), stage.as_str(), style.dim(&elapsed(*duration_ms)))
        }
        Progress::StageFinished { stage, duration_ms, error: Some(error) } => format!(
            "{} {} {}\n{}",
            style.failed(),
            stage.as_str(),
            style.dim(&elapsed(*duration_ms)),
            indented(&clean(error))
        ),
    };
    output::line(&line)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn summary(style: Style, report: &Report) -> String {
    let commit = report.commit.as_deref().map_or("", |commit| commit.get(..COMMIT_SHOWN).unwrap_or(commit));
    let name = style.bold(&report.repository);
    let (time, dot) = (elapsed(report.duration_ms), style.dot());
    match report.status {
        Status::Built => {
            let size = report.bytes.map(amount).unwrap_or_default();
            let what = match (report.reused, report.installed.len()) {
                (true, _) => "dependencies of an earlier snapshot".to_owned(),
                (false, 0) => "nothing to install".to_owned(),
                (false, _) => report.installed.join("; "),
            };
            let mut text = format!("\n{} {name} at {commit} {dot} {size} {dot} {time}\n  {what}", style.ok());
            if report.build_error.is_some() {
                text.push_str(&format!("\n  {} the build command failed; sessions start anyway", style.stopped()));
            }
            text
        }
        Status::Unchanged => format!("\n{} {name} at {commit} {dot} nothing has changed {dot} {time}", style.ok()),
        Status::Failed => {
            let why = report.error.as_deref().unwrap_or_default();
            format!("\n{} {name}: no new snapshot {dot} {time}\n{}", style.failed(), indented(&clean(why)))
        }
        Status::Stopped => {
            let why = report.error.as_deref().unwrap_or_default();
            format!("\n{} {name}: {}", style.stopped(), clean(why))
        }
        Status::Busy => format!("\n{} {name} is being built by another process", style.stopped()),
    }
}

async fn remove(global: &Global, installation: &Installation, style: Style, name: &str) -> Result<Exit, Failure> {
    let repository = find(installation, name).await?;
    installation.store.remove_repository(&repository.name).await?;
    let gone = forget_unknown(&installation.data, &installation.store).await?;
    let _ = if global.json {
        output::json(&json!({ "name": repository.name, "removed": true, "snapshots_in_use": !gone }))
    } else {
        let rest = if gone { "and its snapshots are removed" } else { "is removed; snapshots in use go later" };
        output::line(&format!("{} repository {} {rest}", style.ok(), style.bold(&repository.name)))
    };
    Ok(Exit::Done)
}

/// The builder as `harvest up` runs it beside its pool.
#[derive(Debug)]
pub struct Beside {
    keeper: Keeper,
    reports: mpsc::Receiver<Report>,
}

impl Beside {
    pub fn new(engine: Engine, owner: &Ownership) -> Self {
        let (sender, reports) = mpsc::channel(REPORTS);
        Self { keeper: Keeper::new(engine, owner.id().clone(), Attempts::default(), sender), reports }
    }

    /// Until `stop`; a build under way is given up then.
    pub async fn run(self, global: &Global, style: Style, stop: Stop) {
        let Self { keeper, mut reports } = self;
        let showing = async {
            while let Some(report) = reports.recv().await {
                let _ = if global.json {
                    output::json(&json!({ "type": "snapshot", "report": report }))
                } else {
                    output::line(summary(style, &report).trim_start())
                };
            }
        };
        tokio::join!(keeper.run(stop), showing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_default() {
        for (source, name) in [
            ("/srv/shop", "shop"),
            ("https://example.com/ada/shop.git", "shop"),
            ("git@example.com:shop.git", "shop"),
            ("https://example.com/a%20b/", "a-20b"),
            ("/", "repository"),
        ] {
            assert_eq!(default_name(source), name, "{source}");
        }
    }
}
