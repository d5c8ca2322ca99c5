//! What settings can be: their types and limits, as they are read and as they are shown.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use harvest_core::{Cost, Hook, HookStage, Role};
use harvest_gateway::egress::Policy;
use harvest_gateway::registry::check_file_host;
use serde_json::json;

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

/// The type of a setting, and what its values have to fulfil.
#[derive(Debug)]
pub enum Kind {
    Text,
    Flag,
    /// `90s`, `30m`.
    Time,
    /// `30d`.
    Age,
    /// Dollars.
    Money,
    Count(RangeInclusive<u32>),
    /// Bytes, at least this many: `8GiB`.
    Size(u64),
    Cores,
    /// A list of what this says.
    Names(&'static str),
    Hosts,
    FileHosts,
    ServerTools,
    Chains,
    Hooks,
    Url,
    AbsolutePath,
    Role,
    Workflow,
    GithubLogin,
}

impl Kind {
    /// The value of a TOML document, or why it cannot be one.
    pub fn read(&self, value: &toml::Value) -> Result<Value, String> {
        match self {
            Self::Text => text(value).map(Value::Text),
            Self::Flag => value.as_bool().map(Value::Flag).ok_or_else(|| "it must be true or false".to_owned()),
            Self::Time => duration(&text(value)?).map(Value::Time),
            Self::Age => age(&text(value)?).map(Value::Time),
            Self::Money => match value {
                toml::Value::Integer(dollars) => budget(&dollars.to_string()).map(Value::Money),
                toml::Value::Float(dollars) => budget(&dollars.to_string()).map(Value::Money),
                _ => Err("it must be a number of dollars".to_owned()),
            },
            Self::Count(range) => {
                let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
                let fits = number.filter(|number| range.contains(number));
                fits.map(Value::Count)
                    .ok_or_else(|| format!("it must be between {} and {}", range.start(), range.end()))
            }
            Self::Size(least) => size(&text(value)?, *least).map(Value::Size),
            Self::Cores => cores(value).map(Value::Cores),
            Self::Names(of_what) => {
                Ok(Value::Names(list(value, of_what)?.into_iter().map(|name| name.trim().to_owned()).collect()))
            }
            Self::Hosts => {
                let hosts = list(value, "hosts")?;
                Policy::parse(hosts.into_iter().map(str::trim)).map(Value::Hosts).map_err(|error| error.to_string())
            }
            Self::FileHosts => {
                let hosts: Vec<&str> = list(value, "hosts")?.into_iter().map(str::trim).collect();
                for host in &hosts {
                    check_file_host(host).map_err(|why| {
                        format!(
                            "`{host}` is not a host: {why}; write it like files.example.com or http://10.0.0.5:8080"
                        )
                    })?;
                }
                Ok(Value::Names(hosts.into_iter().map(str::to_owned).collect()))
            }
            Self::ServerTools => {
                let tools = harvest_gateway::ServerTools::new(list(value, "names")?.into_iter().map(str::trim))?;
                Ok(Value::Names(tools.names().map(str::to_owned).collect()))
            }
            Self::Chains => chains(value).map(Value::Chains),
            Self::Hooks => hooks(value).map(Value::Hooks),
            Self::Url => url(value).map(Value::Text),
            Self::AbsolutePath => match text(value)? {
                path if Path::new(&path).is_absolute() => Ok(Value::Text(path)),
                _ => Err("it must be an absolute path".to_owned()),
            },
            Self::Role => match Role::parse(&text(value)?) {
                Some(role) => Ok(Value::Text(role.as_str().to_owned())),
                None => Err("it must be viewer, member or admin".to_owned()),
            },
            Self::Workflow => match text(value)?.as_str() {
                known @ ("direct" | "research-plan-implement") => Ok(Value::Text(known.to_owned())),
                _ => Err("it must be direct or research-plan-implement".to_owned()),
            },
            Self::GithubLogin => {
                let login = text(value)?.trim_start_matches('@').to_owned();
                let plain = login.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_[]".contains(&byte));
                match plain && !login.is_empty() {
                    true => Ok(Value::Text(login)),
                    false => Err("it must be a GitHub login".to_owned()),
                }
            }
        }
    }
}

fn text(value: &toml::Value) -> Result<String, String> {
    match value.as_str().map(str::trim) {
        Some("") => Err("it is empty".to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err("it must be text".to_owned()),
    }
}

fn list<'v>(value: &'v toml::Value, of_what: &str) -> Result<Vec<&'v str>, String> {
    let texts = value.as_array().and_then(|all| all.iter().map(toml::Value::as_str).collect());
    texts.ok_or_else(|| format!("it must be a list of {of_what}"))
}

fn url(value: &toml::Value) -> Result<String, String> {
    let url = text(value)?;
    let known = ["https://", "http://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
    if !known {
        return Err("it must begin with https:// or http://".to_owned());
    }
    // It would be shown by `config show` and stand in the names of cached files.
    if url.contains(['@', '?', '#']) {
        return Err("it must have no user, query or fragment".to_owned());
    }
    Ok(url)
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
        format!("it must be a list of strings like `after_execute: make format`; stages are {stages}")
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
    let help = || "it must be a list of strings like `claude-opus-4-5 > claude-sonnet-4-5`".to_owned();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key::{Key, SetBy};

    #[test]
    fn hosts_of_files_are_named_with_their_address_and_by_operators_alone() {
        let definition = Key::RegistryFileHosts.definition();
        assert_eq!(definition.set_by, SetBy::Operator);
        let read = |hosts: &[&str]| definition.kind.read(&toml::Value::from(hosts.to_vec()));
        let named = ["files.example.com", "http://10.0.0.5:8080"];
        assert_eq!(read(&named), Ok(Value::Names(named.map(str::to_owned).to_vec())));
        assert_eq!(
            read(&["a.example.com/b"]).unwrap_err(),
            "`a.example.com/b` is not a host: it must have no path; write it like files.example.com or \
             http://10.0.0.5:8080"
        );
        for bad in ["", "ada@a.example.com", "ftp://a.example.com", "a.example.com?b"] {
            assert!(read(&[bad]).is_err(), "{bad}");
        }
    }
}
