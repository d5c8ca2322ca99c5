//! What settings can be: their types and limits, as they are read and as they are shown.

use std::path::Path;
use std::time::Duration;

use harvest_core::{Cost, Hook, HookStage, Role};
use harvest_gateway::egress::Policy;
use serde_json::json;

use super::Key;
use crate::cli::{age, budget, duration};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Flag(bool),
    Time(Duration),
    Money(Cost),
    Count(u32),
    Hosts(Policy),
    Names(Vec<String>),
    /// Models, each followed by those to ask when it cannot be had.
    Chains(Vec<Vec<String>>),
    Hooks(Vec<Hook>),
    /// Thousandths of a core.
    Cores(u64),
    /// Bytes.
    Size(u64),
}

impl Key {
    /// The value of a TOML document, or why it cannot be one.
    pub fn read(self, value: &toml::Value) -> Result<Value, String> {
        let text = || match value.as_str().map(str::trim) {
            Some("") => Err("it is empty".to_owned()),
            Some(text) => Ok(text.to_owned()),
            None => Err("it must be text".to_owned()),
        };
        let count = |from: u32, to: u32| {
            let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
            let fits = number.filter(|number| (from..=to).contains(number));
            fits.map(Value::Count).ok_or_else(|| format!("it must be between {from} and {to}"))
        };
        match self {
            Self::Agent
            | Self::Model
            | Self::Test
            | Self::PlanReview
            | Self::GithubLabel
            | Self::SignInClientId
            | Self::SignInUrl => text().map(Value::Text),
            Self::SignInRole => match Role::parse(&text()?) {
                Some(role) => Ok(Value::Text(role.as_str().to_owned())),
                None => Err("it must be viewer, member or admin".to_owned()),
            },
            Self::Workflow => match text()?.as_str() {
                known @ ("direct" | "research-plan-implement") => Ok(Value::Text(known.to_owned())),
                _ => Err("it is direct or research-plan-implement".to_owned()),
            },
            Self::GithubLogin => {
                let login = text()?.trim_start_matches('@').to_owned();
                let plain = login.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_[]".contains(&byte));
                if plain && !login.is_empty() {
                    Ok(Value::Text(login))
                } else {
                    Err("it must be a GitHub login".to_owned())
                }
            }
            Self::GithubFixes => count(0, 100),
            Self::RequireTests | Self::AcceptUnchanged | Self::Plan | Self::Gate | Self::GithubDraftFailed => {
                value.as_bool().map(Value::Flag).ok_or_else(|| "it must be true or false".to_owned())
            }
            Self::Timeout | Self::Stall | Self::Grace | Self::Lease | Self::BreakerPause | Self::SignInBelieved => {
                duration(&text()?).map(Value::Time)
            }
            Self::Keep => age(&text()?).map(Value::Time),
            Self::KeepSize => size(&text()?, 1 << 20).map(Value::Size),
            Self::ModelCalls => count(1, 1000),
            Self::Breaker => count(0, 1000),
            Self::ModelFallbacks => chains(value).map(Value::Chains),
            Self::Hooks => hooks(value).map(Value::Hooks),
            Self::QuotaTokenSessions
            | Self::QuotaUserSessions
            | Self::QuotaTeamSessions
            | Self::QuotaProjectSessions => count(1, 1_000_000),
            // None at all may be wanted.
            Self::QuotaStrangerDailyTasks | Self::QuotaRepositoryStrangerDailyTasks => count(0, 1_000_000),
            Self::RateReads | Self::RateWrites => count(1, 100_000_000),
            Self::BudgetUsd
            | Self::UserDailyUsd
            | Self::ProjectDailyUsd
            | Self::QuotaTokenDailyUsd
            | Self::QuotaTeamDailyUsd => match value {
                toml::Value::Integer(dollars) => budget(&dollars.to_string()).map(Value::Money),
                toml::Value::Float(dollars) => budget(&dollars.to_string()).map(Value::Money),
                _ => Err("it must be a number of dollars".to_owned()),
            },
            Self::EgressAllow => {
                let texts =
                    value.as_array().and_then(|all| all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>());
                let texts = texts.ok_or_else(|| "it must be a list of hosts".to_owned())?;
                Policy::parse(texts.into_iter().map(str::trim)).map(Value::Hosts).map_err(|error| error.to_string())
            }
            Self::ServerTools => {
                let names =
                    value.as_array().and_then(|all| all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>());
                let names = names.ok_or_else(|| "it must be a list of names".to_owned())?;
                let tools = harvest_gateway::ServerTools::new(names.into_iter().map(str::trim))?;
                Ok(Value::Names(tools.names().map(str::to_owned).collect()))
            }
            Self::RegistryCaFile => {
                let path = text()?;
                if !Path::new(&path).is_absolute() {
                    return Err("it must be an absolute path".to_owned());
                }
                Ok(Value::Text(path))
            }
            Self::Registry(_) | Self::RegistryProxy | Self::TelemetryOtlp => {
                let url = text()?;
                let known =
                    ["https://", "http://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
                if !known {
                    return Err("it must begin with https:// or http://".to_owned());
                }
                // It would be shown by `config show` and stand in the names of cached files.
                if url.contains(['@', '?', '#']) {
                    return Err("it must have no user, query or fragment".to_owned());
                }
                Ok(Value::Text(url))
            }
            Self::Retries => count(0, 20),
            Self::MaxTurns => count(1, 100_000),
            // Twice the same is what a careful agent does.
            Self::MaxRepeats => count(3, 100_000),
            Self::OnQuota | Self::McpServers | Self::SignInOrganizations | Self::SignInTeams | Self::SignInAdmins => {
                let names =
                    value.as_array().and_then(|all| all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>());
                let names = names.ok_or_else(|| {
                    format!("it must be a list of {}", if self == Self::OnQuota { "agents" } else { "names" })
                })?;
                Ok(Value::Names(names.into_iter().map(|name| name.trim().to_owned()).collect()))
            }
            Self::Agents => count(1, 1000),
            Self::Warm => count(0, 1000),
            Self::LimitCpu => cores(value).map(Value::Cores),
            Self::LimitMemory => size(&text()?, 64 << 20).map(Value::Size),
            // Less than this and not even a shell with a pipe runs.
            Self::LimitProcesses => count(32, 1_000_000),
            Self::LimitOpenFiles => count(64, 1_000_000),
            Self::LimitDisk => size(&text()?, 16 << 20).map(Value::Size),
            Self::LimitFiles => count(1000, 1_000_000_000),
            Self::LimitOutput => size(&text()?, 1 << 20).map(Value::Size),
        }
    }
}

impl Value {
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Flag(flag) => flag.to_string(),
            Self::Time(time) => words(*time),
            Self::Money(cost) => format!("${:.2}", cost.dollars()),
            Self::Count(count) => count.to_string(),
            Self::Hosts(policy) if policy.allows_nothing() => "(no host)".to_owned(),
            Self::Hosts(policy) => policy.lines().collect::<Vec<_>>().join(", "),
            Self::Names(names) if names.is_empty() => "(none)".to_owned(),
            Self::Names(names) => names.join(", "),
            Self::Chains(chains) if chains.is_empty() => "(none)".to_owned(),
            Self::Chains(chains) => texts(chains).join(", "),
            Self::Hooks(hooks) if hooks.is_empty() => "(none)".to_owned(),
            Self::Hooks(hooks) => hooks.iter().map(hook_text).collect::<Vec<_>>().join(", "),
            Self::Cores(millis) => format!("{}", *millis as f64 / 1000.0),
            Self::Size(bytes) => size_in_words(*bytes),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Flag(flag) => json!(flag),
            Self::Time(time) => json!(words(*time)),
            Self::Money(cost) => json!(cost),
            Self::Count(count) => json!(count),
            Self::Hosts(policy) => json!(policy.lines().collect::<Vec<_>>()),
            Self::Names(names) => json!(names),
            Self::Chains(chains) => json!(texts(chains)),
            Self::Hooks(hooks) => json!(hooks.iter().map(hook_text).collect::<Vec<_>>()),
            Self::Cores(millis) => json!(*millis as f64 / 1000.0),
            Self::Size(bytes) => json!(size_in_words(*bytes)),
        }
    }
}

/// `after_execute: make format`, and with a question mark after the stage where it may fail.
fn hooks(value: &toml::Value) -> Result<Vec<Hook>, String> {
    let help = || {
        let stages = HookStage::ALL.map(HookStage::as_str).join(", ");
        format!("it must be a list of texts like `after_execute: make format`; stages are {stages}")
    };
    let read = |line: &toml::Value| {
        let (stage, run) = line.as_str()?.split_once(':')?;
        let (name, required) = match stage.trim().strip_suffix('?') {
            Some(name) => (name, false),
            None => (stage.trim(), true),
        };
        let stage = HookStage::ALL.into_iter().find(|stage| stage.as_str() == name)?;
        let run = run.trim().to_owned();
        let hook = Hook { stage, run, required };
        (!hook.run.is_empty() && hook.fits_its_stage()).then_some(hook)
    };
    value.as_array().ok_or_else(help)?.iter().map(|line| read(line).ok_or_else(help)).collect()
}

fn hook_text(hook: &Hook) -> String {
    format!("{}{}: {}", hook.stage.as_str(), if hook.required { "" } else { "?" }, hook.run)
}

/// `a > b > c`: b where a cannot be had, then c.
fn chains(value: &toml::Value) -> Result<Vec<Vec<String>>, String> {
    let help = || "it must be a list of texts like `claude-opus-4-5 > claude-sonnet-4-5`".to_owned();
    let read = |line: &toml::Value| {
        let models: Vec<String> = line.as_str()?.split('>').map(|model| model.trim().to_owned()).collect();
        let named = |model: &String| !model.is_empty() && !model.contains(char::is_whitespace);
        (models.len() > 1 && models.iter().all(named)).then_some(models)
    };
    value.as_array().ok_or_else(help)?.iter().map(|line| read(line).ok_or_else(help)).collect()
}

fn texts(chains: &[Vec<String>]) -> Vec<String> {
    chains.iter().map(|chain| chain.join(" > ")).collect()
}

fn cores(value: &toml::Value) -> Result<u64, String> {
    let number = value.as_float().or_else(|| value.as_integer().map(|cores| cores as f64));
    let fits = number.filter(|cores| (0.05..=1024.0).contains(cores));
    fits.map(|cores| (cores * 1000.0) as u64)
        .ok_or_else(|| "it must be a number of cores between 0.05 and 1024".to_owned())
}

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

fn size(text: &str, least: u64) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let unit = UNITS.iter().find(|(name, _)| *name == unit.trim());
    let bytes = unit.and_then(|(_, unit)| number.parse::<u64>().ok()?.checked_mul(*unit));
    match bytes {
        None => Err(format!("invalid size `{text}`; write it like 512MiB or 8GiB")),
        Some(bytes) if bytes < least => Err(format!("it must be at least {}", size_in_words(least))),
        Some(bytes) => Ok(bytes),
    }
}

fn size_in_words(bytes: u64) -> String {
    let unit = UNITS.iter().rev().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

/// The way a person would have written it.
fn words(time: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let seconds = time.as_secs();
    if seconds >= DAY && seconds.is_multiple_of(DAY) && time.subsec_nanos() == 0 {
        return format!("{}d", seconds / DAY);
    }
    jiff::SignedDuration::try_from(time)
        .map_or_else(|_| format!("{seconds}s"), |time| format!("{time:#}").replace(' ', ""))
}
