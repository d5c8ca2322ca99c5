//! The order of work: priorities that age by themselves, dependencies without cycles, retries that back off.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

const HOUR_MS: i64 = 3_600_000;
const FIRST_DELAY: Duration = Duration::from_secs(15);
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
    Urgent,
}

impl Priority {
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Urgent => "urgent",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == text)
    }

    /// The place in the queue; the smallest goes first. It never changes: a priority is a head start in time, so whatever
    /// waits long enough goes before everything that came later, and ageing costs nothing.
    pub fn rank(self, queued_at: Timestamp) -> i64 {
        let head_start = match self {
            Self::Low => 0,
            Self::Normal => 6 * HOUR_MS,
            Self::High => 24 * HOUR_MS,
            Self::Urgent => 7 * 24 * HOUR_MS,
        };
        queued_at.as_millisecond() - head_start
    }
}

/// What happens to a task when a task that it waits for does not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnFailedDependency {
    /// It waits until someone retries the other, or cancels it.
    #[default]
    Hold,
    Cancel,
}

/// How long to wait before try number `tries + 1`. `jitter` between 0 and 1 spreads those that failed together.
pub fn retry_delay(tries: u32, jitter: f64) -> Duration {
    let doubled = FIRST_DELAY.saturating_mul(2u32.saturating_pow(tries.saturating_sub(1).min(16)));
    let whole = doubled.min(LONGEST_DELAY);
    whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
}

/// A cycle among `edges` (each from a task to one it waits for), as the path from a task back to itself.
pub fn find_cycle<T: Clone + Eq + Hash>(edges: &[(T, T)]) -> Option<Vec<T>> {
    let mut next: HashMap<&T, Vec<&T>> = HashMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
    }
    let mut done: HashSet<&T> = HashSet::new();
    for (start, _) in edges {
        // Depth first with an own stack: an imported queue may be a long chain.
        let mut path: Vec<(&T, usize)> = vec![(start, 0)];
        let mut on_path: HashSet<&T> = HashSet::from([start]);
        while let Some((node, visited)) = path.last_mut() {
            let node: &T = node;
            let child = next.get(node).and_then(|children| children.get(*visited)).copied();
            *visited += 1;
            match child {
                None => {
                    on_path.remove(node);
                    done.insert(node);
                    path.pop();
                }
                Some(child) if on_path.contains(child) => {
                    let begin = path.iter().position(|(node, _)| *node == child).unwrap_or(0);
                    let cycle = path[begin..].iter().map(|(node, _)| (*node).clone());
                    return Some(cycle.chain([child.clone()]).collect());
                }
                Some(child) if done.contains(child) => {}
                Some(child) => {
                    on_path.insert(child);
                    path.push((child, 0));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_low_priority_ages_past_a_high_one() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let low = Priority::Low.rank(at("2026-01-01T00:00:00Z"));
        assert!(low > Priority::High.rank(at("2026-01-01T12:00:00Z")), "half a day later, high still goes first");
        assert!(low < Priority::High.rank(at("2026-01-02T12:00:00Z")), "a day and a half later it does not");
    }

    #[test]
    fn delays_grow_and_stay_bounded() {
        assert_eq!(retry_delay(1, 1.0), Duration::from_secs(15));
        assert_eq!(retry_delay(3, 1.0), Duration::from_secs(60));
        assert_eq!(retry_delay(1000, 1.0), LONGEST_DELAY);
        assert_eq!(retry_delay(3, 0.0), Duration::from_secs(30));
    }

    #[test]
    fn the_cycle_itself_is_found() {
        assert_eq!(find_cycle(&[(1, 2), (2, 3), (4, 2), (3, 4)]), Some(vec![2, 3, 4, 2]));
        assert_eq!(find_cycle(&[(1, 1)]), Some(vec![1, 1]));
        assert_eq!(find_cycle(&[(1, 2), (1, 3), (2, 4), (3, 4)]), None);
        assert_eq!(find_cycle(&(0..100_000).map(|n| (n, n + 1)).collect::<Vec<_>>()), None);
    }

    proptest! {
        /// A found cycle is one; and where none is found, removing leaves repeatedly removes everything.
        #[test]
        fn cycles_are_found_exactly_when_there_are_some(edges in prop::collection::vec((0u8..12, 0u8..12), 0..30)) {
            match find_cycle(&edges) {
                Some(cycle) => {
                    prop_assert!(cycle.len() >= 2 && cycle.first() == cycle.last());
                    for step in cycle.windows(2) {
                        prop_assert!(edges.contains(&(step[0], step[1])));
                    }
                }
                None => {
                    let mut left = edges.clone();
                    loop {
                        let before = left.len();
                        let sources: HashSet<u8> = left.iter().map(|(from, _)| *from).collect();
                        left.retain(|(_, to)| sources.contains(to));
                        if left.len() == before {
                            break;
                        }
                    }
                    prop_assert!(left.is_empty());
                }
            }
        }
    }
}
