//! Several tasks that are the same but for who works on them: one wins, and its work is delivered.
//!
//! Pure: what is known of everyone comes in, who leads and who cannot win any more comes out. Whoever asks again later, or
//! elsewhere, with the same facts gets the same answer.

use serde::{Deserialize, Serialize};

use crate::{Cost, TaskId, Timestamp};

/// The race that a task is part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Race {
    /// The id of the race, which is also the convoy of its tasks.
    pub id: String,
    #[serde(default)]
    pub judged_by: JudgedBy,
    /// The agent that picks the best result if several pass, as `AGENT` or `AGENT:MODEL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
}

/// The criterion that decides among the entrants whose work passes its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JudgedBy {
    /// The least cost, then the smallest change.
    #[default]
    Cost,
    /// Whoever is there first.
    Time,
}

impl JudgedBy {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "cost" => Some(Self::Cost),
            "time" => Some(Self::Time),
            _ => None,
        }
    }
}

/// One of those who race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entrant {
    pub task: TaskId,
    pub standing: Standing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Not there yet, and has cost so much.
    Working { spent: Cost },
    /// Its work passes.
    Passed { cost: Cost, changed_lines: u64, at: Timestamp },
    /// Failed, stopped, or lost.
    Out,
}

/// What can be said of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The best of those who passed.
    pub leader: Option<&'a TaskId>,
    /// Whoever cannot win any more, and has not ended by itself.
    pub hopeless: Vec<&'a TaskId>,
    /// Nobody can overtake the leader.
    pub is_decided: bool,
}

/// Judges a race as it stands.
pub fn judge(by: JudgedBy, entrants: &[Entrant]) -> Verdict<'_> {
    let passed = entrants.iter().filter_map(|entrant| match &entrant.standing {
        Standing::Passed { cost, changed_lines, at } => Some((entrant, *cost, *changed_lines, *at)),
        _ => None,
    });
    // Ids at the end: an answer that depended on the order of asking would be two answers.
    let best = passed.min_by_key(|(entrant, cost, lines, at)| match by {
        JudgedBy::Cost => (*cost, *lines, *at, &entrant.task),
        JudgedBy::Time => (Cost::ZERO, 0, *at, &entrant.task),
    });
    let Some((leader, price, _, _)) = best else {
        let is_decided = entrants.iter().all(|entrant| entrant.standing == Standing::Out);
        return Verdict { leader: None, hopeless: Vec::new(), is_decided };
    };
    let can_overtake = |entrant: &Entrant| match (&entrant.standing, by) {
        // What was spent only grows; at the same price the smaller change may still win.
        (Standing::Working { spent }, JudgedBy::Cost) => *spent <= price,
        _ => false,
    };
    let hopeless = entrants
        .iter()
        .filter(|entrant| entrant.task != leader.task && entrant.standing != Standing::Out && !can_overtake(entrant));
    Verdict {
        leader: Some(&leader.task),
        hopeless: hopeless.map(|entrant| &entrant.task).collect(),
        is_decided: !entrants.iter().any(can_overtake),
    }
}

/// Those whose work passes, once nobody is at work any more: only then can they be compared.
pub fn finalists(entrants: &[Entrant]) -> Option<Vec<&TaskId>> {
    let is_working = |entrant: &Entrant| matches!(entrant.standing, Standing::Working { .. });
    if entrants.iter().any(is_working) {
        return None;
    }
    let passed = entrants.iter().filter(|entrant| matches!(entrant.standing, Standing::Passed { .. }));
    Some(passed.map(|entrant| &entrant.task).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(number: u64) -> TaskId {
        format!("{number:016}").parse().unwrap()
    }

    fn cost(cents: u64) -> Cost {
        Cost::from_nanos(cents * 10_000_000)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn working(number: u64, spent: u64) -> Entrant {
        Entrant { task: task(number), standing: Standing::Working { spent: cost(spent) } }
    }

    fn passed(number: u64, price: u64, changed_lines: u64, second: i64) -> Entrant {
        let standing = Standing::Passed { cost: cost(price), changed_lines, at: at(second) };
        Entrant { task: task(number), standing }
    }

    fn out(number: u64) -> Entrant {
        Entrant { task: task(number), standing: Standing::Out }
    }

    #[test]
    fn the_verified_one_wins_then_the_cheapest_then_the_smallest() {
        let entrants = [passed(1, 20, 5, 1), passed(2, 10, 50, 2), passed(3, 10, 40, 3), out(4)];
        let verdict = judge(JudgedBy::Cost, &entrants);
        assert_eq!((verdict.leader, verdict.is_decided), (Some(&task(3)), true));
        assert_eq!(verdict.hopeless, [&task(1), &task(2)]);
        assert_eq!(judge(JudgedBy::Time, &entrants).leader, Some(&task(1)));
    }

    #[test]
    fn who_has_spent_more_than_the_leader_cannot_win_and_who_has_not_is_waited_for() {
        let entrants = [passed(1, 10, 5, 1), working(2, 11), working(3, 10)];
        let verdict = judge(JudgedBy::Cost, &entrants);
        assert_eq!(verdict, Verdict { leader: Some(&task(1)), hopeless: vec![&task(2)], is_decided: false });
        let verdict = judge(JudgedBy::Time, &entrants);
        assert_eq!(verdict.hopeless, [&task(2), &task(3)]);
        assert!(verdict.is_decided);
    }

    #[test]
    fn nobody_leads_before_someone_passes_and_nobody_wins_when_all_are_out() {
        let begun = [working(1, 0), out(2)];
        let verdict = judge(JudgedBy::Cost, &begun);
        assert_eq!((verdict.leader, verdict.is_decided), (None, false));
        let over = [out(1), out(2)];
        let verdict = judge(JudgedBy::Cost, &over);
        assert_eq!((verdict.leader, verdict.is_decided), (None, true));
    }

    #[test]
    fn only_who_has_come_to_an_end_is_compared() {
        assert_eq!(finalists(&[passed(1, 1, 1, 1), working(2, 9), out(3)]), None);
        assert_eq!(finalists(&[passed(1, 1, 1, 1), passed(2, 9, 9, 9), out(3)]), Some(vec![&task(1), &task(2)]));
        assert_eq!(finalists(&[out(1), out(2)]), Some(Vec::new()));
    }

    proptest! {
        /// A decision is final: whatever becomes of those who cannot win, the leader stays.
        #[test]
        fn a_decision_is_final(
            kinds in prop::collection::vec((0u8..3, 0u64..5, 0u64..5, 0i64..5), 1..6),
            later in prop::collection::vec((0u64..5, 0u64..5), 6),
        ) {
            let entrants: Vec<Entrant> = kinds.iter().enumerate().map(|(number, (kind, price, lines, second))| {
                let number = number as u64;
                match kind {
                    0 => working(number, *price),
                    1 => passed(number, *price, *lines, *second),
                    _ => out(number),
                }
            }).collect();
            for by in [JudgedBy::Cost, JudgedBy::Time] {
                let verdict = judge(by, &entrants);
                if !verdict.is_decided || verdict.leader.is_none() {
                    continue;
                }
                // Everyone who still works comes to an end at last.
                let ended: Vec<Entrant> = entrants.iter().zip(&later).map(|(entrant, (more, lines))| match &entrant.standing {
                    Standing::Working { spent } => {
                        let standing = Standing::Passed { cost: *spent + cost(*more), changed_lines: *lines, at: at(100) };
                        Entrant { task: entrant.task.clone(), standing }
                    }
                    _ => entrant.clone(),
                }).collect();
                prop_assert_eq!(judge(by, &ended).leader, verdict.leader);
            }
        }
    }
}
