//! When a schedule runs: cron's five fields in a time zone, and what becomes of runs that were missed. Nothing here reads a
//! clock or writes anything; [`decide`] is the whole rule.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use harvest_core::Timestamp;
use harvest_store::{MissedRuns, Schedule};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Zoned};

const FIELDS: [&str; 5] = ["minute", "hour", "day of month", "month", "day of week"];
/// What each field can be, in the same order.
const RANGES: [&str; 5] = [
    "minutes are 0 to 59",
    "hours are 0 to 23",
    "days of a month are 1 to 31",
    "months are 1 to 12, or JAN to DEC",
    "days of a week are 0 to 7, or SUN to SAT",
];
/// A run that is less than this late counts as on time: cron itself knows nothing finer.
const ON_TIME: SignedDuration = SignedDuration::from_mins(1);

/// A time that cannot be read, and which part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {field} `{text}` cannot be used: {reason}")]
pub struct BadTimetable {
    pub field: &'static str,
    pub text: String,
    pub reason: String,
}

/// A checked cron line in its time zone.
#[derive(Debug, Clone)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
}

/// What is to be done about a schedule at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// How many tasks to make of it now: one or none.
    pub runs: usize,
    /// When to look again; `None`: it never runs again.
    pub next: Option<Timestamp>,
}

impl Timetable {
    pub fn parse(cron: &str, time_zone: &str) -> Result<Self, BadTimetable> {
        let bad = |field, text: &str, reason: String| BadTimetable { field, text: text.to_owned(), reason };
        let zone = TimeZone::get(time_zone).map_err(|_| {
            bad("time zone", time_zone, "unknown time zone; write one like Europe/Berlin or UTC".into())
        })?;
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let fields: Vec<&str> = cron.split_whitespace().collect();
        if !cron.trim_start().starts_with('@') {
            if fields.len() != FIELDS.len() {
                let reason = format!("it has {} fields and needs 5: {}", fields.len(), FIELDS.join(", "));
                return Err(bad("cron line", cron, reason));
            }
            // Each by itself, so that the message can name the one that is wrong.
            for (place, (field, text)) in FIELDS.into_iter().zip(&fields).enumerate() {
                let mut alone = ["*"; 5];
                alone[place] = text;
                parser.parse(&alone.join(" ")).map_err(|error| {
                    let reason = plain(&error.to_string());
                    let is_range = reason.contains("out of bounds");
                    bad(field, text, if is_range { RANGES[place].to_owned() } else { reason })
                })?;
            }
        }
        let parsed = parser.parse(cron).map_err(|error| bad("cron line", cron, plain(&error.to_string())))?;
        let timetable = Self { cron: parsed, zone };
        if timetable.next_after(Timestamp::UNIX_EPOCH).is_none() {
            return Err(bad("cron line", cron, "no day ever matches it".into()));
        }
        Ok(timetable)
    }

    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        self.cron.find_next_occurrence(&self.local(moment), false).ok().map(|next| next.timestamp())
    }

    fn latest_until(&self, moment: Timestamp) -> Option<Timestamp> {
        self.cron.find_previous_occurrence(&self.local(moment), true).ok().map(|latest| latest.timestamp())
    }

    fn local(&self, moment: Timestamp) -> Zoned {
        moment.to_zoned(self.zone.clone())
    }
}

/// Whether a schedule runs now. However many runs were missed, at most one task is made for them; afterwards it goes on with
/// the first run in the future.
pub fn decide(schedule: &Schedule, now: Timestamp) -> Result<Decision, BadTimetable> {
    let Some(due) = schedule.next else { return Ok(Decision { runs: 0, next: None }) };
    if due > now {
        return Ok(Decision { runs: 0, next: Some(due) });
    }
    let timetable = Timetable::parse(&schedule.cron, &schedule.time_zone)?;
    let latest = timetable.latest_until(now).map_or(due, |latest| latest.max(due));
    let on_time = now.duration_since(latest) < ON_TIME;
    let runs = usize::from(on_time || schedule.missed == MissedRuns::RunOnce);
    Ok(Decision { runs, next: timetable.next_after(now) })
}

fn plain(reason: &str) -> String {
    let reason = ["Invalid pattern: ", "Component error: ", "Pattern contains illegal characters: "]
        .iter()
        .find_map(|prefix| reason.strip_prefix(prefix))
        .unwrap_or(reason);
    let mut letters = reason.trim_end_matches('.').chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(cron: &str, zone: &str, missed: MissedRuns, next: &str) -> Schedule {
        Schedule {
            id: "s".into(),
            cron: cron.into(),
            time_zone: zone.into(),
            missed,
            request: serde_json::Value::Null,
            next: Some(at(next)),
            last: None,
            owner: None,
            problem: None,
            created_at: at("2026-01-01T00:00:00Z"),
        }
    }

    /// The next runs behind a moment.
    fn runs(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let timetable = Timetable::parse(cron, zone).unwrap();
        let mut moment = at(from);
        (0..count)
            .map(|_| {
                moment = timetable.next_after(moment).unwrap();
                moment.to_string()
            })
            .collect()
    }

    #[test]
    fn working_days_in_a_time_zone() {
        // Friday, then Monday; 03:00 in Berlin is 02:00 UTC in winter.
        assert_eq!(
            runs("0 3 * * 1-5", "Europe/Berlin", "2026-01-08T12:00:00Z", 3),
            ["2026-01-09T02:00:00Z", "2026-01-12T02:00:00Z", "2026-01-13T02:00:00Z"]
        );
    }

    #[test]
    fn a_run_in_the_hour_that_is_left_out_comes_right_after_it() {
        // On 29 March 2026 clocks in Berlin go from 02:00 to 03:00.
        assert_eq!(
            runs("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3),
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
    }

    #[test]
    fn a_run_in_the_hour_that_comes_twice_happens_once() {
        // On 25 October 2026 clocks in Berlin go from 03:00 back to 02:00.
        assert_eq!(
            runs("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        // What runs every half hour keeps its pace through both passes.
        assert_eq!(
            runs("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:59:00Z", 5),
            [
                "2026-10-25T00:00:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:00:00Z",
            ]
        );
    }

    #[test]
    fn ends_of_months() {
        assert_eq!(
            runs("0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", 3),
            ["2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z"]
        );
        assert_eq!(
            runs("0 0 L * *", "UTC", "2028-01-31T00:00:00Z", 2),
            ["2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"]
        );
        assert_eq!(runs("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
    }

    #[test]
    fn not_yet_due_and_on_time() {
        let daily = schedule("0 3 * * *", "UTC", MissedRuns::Skip, "2026-05-01T03:00:00Z");
        let decide = |now| decide(&daily, at(now)).unwrap();
        assert_eq!(decide("2026-05-01T02:59:59Z"), Decision { runs: 0, next: Some(at("2026-05-01T03:00:00Z")) });
        assert_eq!(decide("2026-05-01T03:00:00Z"), Decision { runs: 1, next: Some(at("2026-05-02T03:00:00Z")) });
        assert_eq!(decide("2026-05-01T03:00:59Z"), Decision { runs: 1, next: Some(at("2026-05-02T03:00:00Z")) });
    }

    #[test]
    fn missed_runs_are_skipped_or_made_up_for_once() {
        let now = at("2026-05-01T09:15:00Z");
        let next = Some(at("2026-05-02T03:00:00Z"));
        let skip = schedule("0 3 * * *", "UTC", MissedRuns::Skip, "2026-05-01T03:00:00Z");
        assert_eq!(decide(&skip, now).unwrap(), Decision { runs: 0, next });
        let once = Schedule { missed: MissedRuns::RunOnce, ..skip };
        assert_eq!(decide(&once, now).unwrap(), Decision { runs: 1, next });
    }

    #[test]
    fn a_year_of_missed_minutes_is_one_run() {
        let once = schedule("* * * * *", "UTC", MissedRuns::RunOnce, "2025-05-01T03:00:00Z");
        let now = at("2026-05-01T03:00:30Z");
        assert_eq!(decide(&once, now).unwrap(), Decision { runs: 1, next: Some(at("2026-05-01T03:01:00Z")) });
        // The newest of the missed runs is due right now, so it is not missed.
        let skip = Schedule { missed: MissedRuns::Skip, ..once };
        assert_eq!(decide(&skip, now).unwrap(), Decision { runs: 1, next: Some(at("2026-05-01T03:01:00Z")) });
    }

    #[test]
    fn a_clock_that_was_put_back_waits() {
        let daily = schedule("0 3 * * *", "UTC", MissedRuns::RunOnce, "2026-05-02T03:00:00Z");
        let now = at("2026-05-01T03:00:00Z");
        assert_eq!(decide(&daily, now).unwrap(), Decision { runs: 0, next: daily.next });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let field = |cron: &str, zone: &str| Timetable::parse(cron, zone).unwrap_err().field;
        assert_eq!(field("61 3 * * *", "UTC"), "minute");
        assert_eq!(field("0 24 * * *", "UTC"), "hour");
        assert_eq!(field("0 3 32 * *", "UTC"), "day of month");
        assert_eq!(field("0 3 * 13 *", "UTC"), "month");
        assert_eq!(field("0 3 * * 9", "UTC"), "day of week");
        assert_eq!(field("0 3 * * mondays", "UTC"), "day of week");
        for odd in ["", "0 3 * *", "0 0 3 * * 1-5", "soon", "@often", "0 0 30 2 *"] {
            assert_eq!(field(odd, "UTC"), "cron line", "{odd}");
        }
        assert_eq!(field("0 3 * * *", "Europe/Nowhere"), "time zone");
        assert_eq!(field("0 3 * * *", "../../etc/passwd"), "time zone");
        assert_eq!(
            Timetable::parse("61 3 * * *", "UTC").unwrap_err().to_string().split(": ").next(),
            Some("the minute `61` cannot be used")
        );
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        for (cron, said) in [
            ("60 3 * * *", "the minute `60` cannot be used: minutes are 0 to 59"),
            ("0 25 * * *", "the hour `25` cannot be used: hours are 0 to 23"),
            ("0 3 32 * *", "the day of month `32` cannot be used: days of a month are 1 to 31"),
            ("0 3 0 * *", "the day of month `0` cannot be used: days of a month are 1 to 31"),
            ("0 3 * 13 *", "the month `13` cannot be used: months are 1 to 12, or JAN to DEC"),
            ("0 3 * * 8", "the day of week `8` cannot be used: days of a week are 0 to 7, or SUN to SAT"),
            ("0 3-25 * * *", "the hour `3-25` cannot be used: hours are 0 to 23"),
        ] {
            assert_eq!(Timetable::parse(cron, "UTC").unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn names_and_nicknames() {
        assert_eq!(runs("@daily", "UTC", "2026-01-01T12:00:00Z", 1), ["2026-01-02T00:00:00Z"]);
        assert_eq!(runs("0 3 * * mon-fri", "UTC", "2026-01-09T12:00:00Z", 1), ["2026-01-12T03:00:00Z"]);
    }
}
