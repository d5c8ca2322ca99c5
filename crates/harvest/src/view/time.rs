//! Times and durations for people: the time zone of this machine, and no digits that nobody reads. JSON has UTC throughout.

use harvest_core::Timestamp;
use jiff::tz::TimeZone;

/// `2026-11-17 10:42:07`, where the reader lives.
pub fn local(at: Timestamp) -> String {
    in_zone(at, TimeZone::system())
}

fn in_zone(at: Timestamp, zone: TimeZone) -> String {
    at.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// How long ago: `5 s`, `10 min`, `25 h`, `4 days`.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = u64::try_from(now.duration_since(then).as_secs()).unwrap_or(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The same of a document, which has the time as a text.
pub fn age_of(document: &serde_json::Value, now: Timestamp) -> String {
    let created = document["created_at"].as_str().and_then(|text| text.parse().ok());
    created.map(|created| age(now, created)).unwrap_or_default()
}

/// `12 ms`, `3.4 s`, `2 min 5 s`.
pub fn elapsed(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{:.1} s", millis as f64 / 1000.0),
        _ => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ages_are_readable() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let ago = |seconds: u64| age(now, now.checked_sub(Duration::from_secs(seconds)).unwrap());
        assert_eq!([ago(5), ago(600), ago(90_000), ago(400_000)], ["5 s", "10 min", "25 h", "4 days"]);
        assert_eq!(age(now, now.checked_add(Duration::from_secs(9)).unwrap()), "0 s");
    }

    #[test]
    fn times_are_local_and_have_no_fraction() {
        let at: Timestamp = "2026-01-10T23:59:59.123456789Z".parse().unwrap();
        let east = jiff::tz::Offset::constant(9).to_time_zone();
        assert_eq!(in_zone(at, east), "2026-01-11 08:59:59");
    }
}
