//! `harvest doctor`: what this machine offers, what is missing, and what to type.

mod reach;

use std::path::Path;

use harvest_core::Code;
use harvest_sandbox::{Fact, State, Strength, local};
use serde_json::json;

use crate::cli::{Doctor, Global};
use crate::config::{load, source};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{Installation, data_path};
use crate::output;
use crate::view::Style;

const GIB: u64 = 1 << 30;
const LITTLE_SPACE: u64 = 2 * GIB;
/// Providers of models with the names of their vendors.
const MODEL_VENDORS: [(&str, &str); 4] =
    [("anthropic", "Anthropic"), ("openai", "OpenAI"), ("gemini", "Gemini"), ("ollama", "Ollama")];

pub async fn doctor(global: &Global, environment: Environment, options: Doctor) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let facts = match Installation::open(global, environment.clone()).await {
        Ok(installation) => facts(&installation, options).await?,
        Err(failure) => match facts_without_data(global, &environment, options, &failure).await {
            Ok(facts) => facts,
            Err(_) => {
                let checked = load(&source(global, &environment)).map(drop);
                show(global, style, &[git(&environment).await, settings(checked)]);
                return Err(failure);
            }
        },
    };
    show(global, style, &facts);
    let works = facts.iter().all(|fact| fact.state != State::Missing);
    Ok(if works { Exit::Done } else { Exit::Failed })
}

fn show(global: &Global, style: Style, facts: &[Fact]) {
    let works = facts.iter().all(|fact| fact.state != State::Missing);
    if global.json {
        let items: Vec<_> = facts
            .iter()
            .map(|fact| {
                json!({
                    "name": fact.name,
                    "state": word(fact.state),
                    "strength": fact.strength.map(Strength::as_str),
                    "detail": fact.detail,
                    "fix": fact.fix,
                })
            })
            .collect();
        let _ = output::json(&json!({ "works": works, "items": items, "next_cursor": null }));
    } else {
        for fact in facts {
            let sign = match fact.state {
                State::Ok => style.ok(),
                State::Degraded => style.stopped(),
                State::Missing => style.failed(),
            };
            let strength = fact.strength.map_or("", Strength::as_str);
            let _ = output::line(&format!("{sign} {:<18} {strength:<6} {}", fact.name, fact.detail));
            if let Some(fix) = &fact.fix {
                let _ = output::line(&format!("    {} {fix}", style.arrow()));
            }
        }
    }
}

async fn facts(installation: &Installation, options: Doctor) -> Result<Vec<Fact>, Failure> {
    let mut facts = machine(installation).await;
    let checked = installation.settings().map(drop);
    let is_readable = checked.is_ok();
    facts.splice(2..2, [settings(checked), keys(installation)]);
    #[cfg(feature = "container")]
    facts.push(crate::container::fact(installation));
    if options.reach && is_readable {
        facts.extend(reach::reach(installation).await?);
    }
    Ok(facts)
}

/// All facts where the data directory or the database cannot be used: that is one of them, and the others are found with an empty
/// data directory that is removed again.
async fn facts_without_data(
    global: &Global,
    environment: &Environment,
    options: Doctor,
    failure: &Failure,
) -> Result<Vec<Fact>, Failure> {
    let folder = tempfile::Builder::new().prefix("harvest-doctor-").tempdir();
    let folder = folder.map_err(|error| Failure::failed(Code::DataDirectory, error.to_string()))?;
    let empty = Global { data_dir: Some(folder.path().join("data")), database_url: None, ..global.clone() };
    let installation = Installation::open(&empty, environment.without_data()).await?;
    let mut facts = facts(&installation, options).await?;
    let name = match failure.code {
        Code::Database | Code::DatabaseTooNew | Code::DatabaseUnreachable => "database",
        _ => "data directory",
    };
    let broken = fact(name, State::Missing, format!("{} ({})", failure.message, failure.code), failure.help.as_deref());
    // Nor is the empty one's free space of any interest, or that it has no keys.
    facts.retain(|fact| fact.name != "data directory");
    let own_space = match data_path(global, environment) {
        Ok(path) if name == "database" && path.exists() => Some(space(&path)),
        _ => None,
    };
    for keys in facts.iter_mut().filter(|fact| fact.name == "model keys" && fact.state != State::Ok) {
        "none in the environment; those that were added are not known without the database"
            .clone_into(&mut keys.detail);
    }
    facts.splice(1..1, own_space.into_iter().chain([broken]));
    Ok(facts)
}

fn settings(checked: Result<(), Failure>) -> Fact {
    match checked {
        Ok(()) => fact("settings", State::Ok, "harvest.toml can be read, or there is none", None),
        Err(failure) => Fact { fix: failure.help, ..fact("settings", State::Missing, failure.message, None) },
    }
}

/// Facts about the machine, without keys and containers.
pub async fn machine(installation: &Installation) -> Vec<Fact> {
    let mut facts = vec![git(&installation.environment).await, space(installation.data.path())];
    facts.extend(sandbox(installation));
    facts
}

fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Degraded => "degraded",
        State::Missing => "missing",
    }
}

fn fact(name: &'static str, state: State, detail: impl Into<String>, fix: Option<&str>) -> Fact {
    Fact { name, state, detail: detail.into(), strength: None, fix: fix.map(str::to_owned) }
}

async fn git(environment: &Environment) -> Fact {
    match environment.git().line(Path::new("/"), &["--version"]).await {
        Ok(version) => fact("git", State::Ok, version, None),
        Err(error) => fact("git", State::Missing, error.to_string(), Some("install it: apt install git")),
    }
}

fn space(path: &Path) -> Fact {
    let detail = |free: u64| format!("{} ({} GiB free)", path.display(), free / GIB);
    match rustix::fs::statvfs(path) {
        Ok(stat) if stat.f_bavail * stat.f_frsize < LITTLE_SPACE => fact(
            "data directory",
            State::Degraded,
            detail(stat.f_bavail * stat.f_frsize),
            Some("little disk space is left: free some, or use --data-dir"),
        ),
        Ok(stat) => fact("data directory", State::Ok, detail(stat.f_bavail * stat.f_frsize), None),
        Err(error) => fact("data directory", State::Missing, error.to_string(), Some("choose another with --data-dir")),
    }
}

fn keys(installation: &Installation) -> Fact {
    let has_key = |(provider, _): &(&str, &str)| installation.keys.has_any(provider);
    let found: Vec<&str> = MODEL_VENDORS.into_iter().filter(has_key).map(|(_, name)| name).collect();
    if found.is_empty() {
        let fix = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, add one with harvest credential add, or try without: harvest demo --once";
        return fact("model keys", State::Degraded, "none", Some(fix));
    }
    fact("model keys", State::Ok, found.join(", "), None)
}

fn sandbox(installation: &Installation) -> Vec<Fact> {
    let binaries = match harvest_sandboxed::write_to(&installation.data.path().join("bin")) {
        Ok(folder) => harvest_sandbox::Binaries::in_folder(folder),
        Err(error) => {
            return vec![fact("sandbox programs", State::Missing, error.to_string(), Some("check the data directory"))];
        }
    };
    let runtime = match installation.runtime_folder() {
        Ok(runtime) => runtime,
        Err(error) => {
            return vec![fact(
                "data directory",
                State::Missing,
                error.to_string(),
                Some("choose another with --data-dir"),
            )];
        }
    };
    let (_, tools) = installation.toolchain();
    let local = local::Local::new(local::Options {
        state: installation.data.sandboxes().join("local"),
        runtime,
        binaries,
        tools,
    });
    let report = harvest_sandbox::report(local.as_ref());
    installation.tidy();
    report
}
