//! How values on the command line are read. Each refusal says what would fit.

use std::net::SocketAddr;
use std::time::Duration;

use harvest_core::Cost;

use super::{CapSize, Entrants, PoolSize};

pub fn duration(text: &str) -> Result<Duration, String> {
    let fix = "write it like 90s, 30m or 1h30m";
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| format!("invalid duration `{text}`; {fix}"))?;
    match Duration::try_from(parsed) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("it must be more than zero; {fix}")),
    }
}

pub fn budget(text: &str) -> Result<Cost, String> {
    let dollars: f64 =
        text.trim_start_matches('$').parse().map_err(|_| format!("invalid amount of dollars `{text}`"))?;
    harvest_core::budget::of_dollars(dollars).map_err(|reason| reason.to_string())
}

pub fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "it must be an IP address and a port, e.g. 127.0.0.1:7070".to_owned())
}

/// Like a duration, but days and weeks count too.
pub fn age(text: &str) -> Result<Duration, String> {
    let fix = "write it like 30d, 2w or 12h";
    let days = match text.strip_suffix('d') {
        Some(days) => Some((days, 1)),
        None => text.strip_suffix('w').map(|weeks| (weeks, 7)),
    };
    let parsed = match days {
        Some((count, factor)) => count.parse().ok().map(|count: u32| u64::from(count) * factor * 86_400),
        None => return duration(text).map_err(|_| format!("invalid age `{text}`; {fix}")),
    };
    parsed.filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(|| format!("invalid age `{text}`; {fix}"))
}

pub fn hours(text: &str) -> Result<Duration, String> {
    let hours: f64 = text.parse().map_err(|_| format!("invalid number of hours `{text}`"))?;
    Duration::try_from_secs_f64(hours * 3600.0)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "it must be more than 0".into())
}

/// `claude-code,codex:gpt-5,builtin`, or a number.
pub fn entrants(text: &str) -> Result<Entrants, String> {
    const MOST: u8 = 16;
    let fix = format!("name 2 to {MOST} agents like claude-code,codex:gpt-5 or say how many, like 3");
    if let Ok(number) = text.parse::<u8>() {
        return if (2..=MOST).contains(&number) { Ok(Entrants::Same(number)) } else { Err(fix) };
    }
    let name = |part: &str| match part.split_once(':') {
        Some((agent, model)) => (agent.trim().to_owned(), Some(model.trim().to_owned())),
        None => (part.trim().to_owned(), None),
    };
    let names: Vec<_> = text.split(',').map(name).collect();
    let is_named = |(agent, model): &(String, Option<String>)| {
        !agent.is_empty() && model.as_ref().is_none_or(|model| !model.is_empty())
    };
    let fits = (2..=usize::from(MOST)).contains(&names.len()) && names.iter().all(is_named);
    if fits { Ok(Entrants::Named(names)) } else { Err(fix) }
}

pub fn judged_by(text: &str) -> Result<harvest_core::JudgedBy, String> {
    harvest_core::JudgedBy::parse(text).ok_or_else(|| "it must be cost or time".to_owned())
}

pub fn priority(text: &str) -> Result<harvest_core::Priority, String> {
    harvest_core::Priority::parse(text).ok_or_else(|| "it must be low, normal, high or urgent".to_owned())
}

pub fn convoy_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    // Neither an option nor a folder above.
    harvest_engine::check_name("it", text).map_err(|error| error.to_string())?;
    if (1..=64).contains(&text.len()) && text.chars().all(fits) && !text.starts_with(['-', '.']) {
        return Ok(text.to_owned());
    }
    Err("it must be 1 to 64 letters, digits, dashes, dots or underscores, and must not begin with a dash or a dot"
        .to_owned())
}

pub fn pool_size(text: &str) -> Result<PoolSize, String> {
    if text == "auto" {
        return Ok(PoolSize(None));
    }
    match text.parse() {
        Ok(agents) if (1..=1000).contains(&agents) => Ok(PoolSize(Some(agents))),
        _ => Err("it must be a number between 1 and 1000, or `auto`".to_owned()),
    }
}

pub fn cap_name(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some(("repository" | "user" | "credential", name)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("it must be repository:NAME, user:NAME or credential:VENDOR".to_owned()),
    }
}

pub fn cap_size(text: &str) -> Result<CapSize, String> {
    if text == "none" {
        return Ok(CapSize(None));
    }
    match text.parse() {
        Ok(size) if size > 0 => Ok(CapSize(Some(size))),
        _ => Err("it must be a number of at least 1, or `none`".to_owned()),
    }
}

pub fn status(text: &str) -> Result<harvest_core::TaskStatus, String> {
    harvest_core::TaskStatus::parse(text).ok_or_else(|| {
        let all: Vec<&str> = harvest_core::TaskStatus::ALL.iter().map(|status| status.as_str()).collect();
        format!("it must be one of {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_has_an_example() {
        assert_eq!(listen("[::1]:80").map(|address| address.port()), Ok(80));
        for bad in ["foo", "127.0.0.1", "localhost:7070"] {
            assert_eq!(
                listen(bad),
                Err("it must be an IP address and a port, e.g. 127.0.0.1:7070".to_owned()),
                "{bad}"
            );
        }
    }

    #[test]
    fn times_and_budgets() {
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "0s", "-5m", "soon"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("2w"), Ok(Duration::from_secs(14 * 86_400)));
        assert_eq!(age("12h"), Ok(Duration::from_secs(12 * 3600)));
        for bad in ["", "d", "0d", "-1d", "1.5d", "30"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        assert_eq!(budget("0.001"), Ok(Cost::from_nanos(1_000_000)));
        for bad in ["0", "-1", "NaN", "inf", "ten"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
        assert_eq!(budget("99999999999"), Err("it must be less than 1000000000".to_owned()));
    }
}
