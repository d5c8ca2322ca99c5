//! Stops taking work when the same thing goes wrong again and again: whatever it is, the next task would meet it as well.
//! After a while one task is tried; when that goes better, all goes on.
//!
//! Pure over outcomes and time.

use std::time::Duration;

use harvest_core::FailureReason;
use tokio::time::Instant;

/// The longest that nothing is tried.
const LONGEST: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// So many failures of one kind in a row; 0: never.
    pub after: u32,
    /// How long nothing is taken then. Twice as long each time the one that is tried fails as well.
    pub pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { after: 8, pause: Duration::from_secs(60) }
    }
}

#[derive(Debug)]
pub(crate) struct Breaker {
    options: Options,
    /// What went wrong last, and how often in a row.
    streak: Option<(FailureReason, u32)>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    reason: FailureReason,
    failures: u32,
    error: String,
    pause: Duration,
    until: Instant,
    /// One task is being tried.
    is_trying: bool,
}

/// How much work may be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allowed {
    Any,
    /// One task, to see whether it goes better.
    One,
    /// None, and why; when to look again, unless someone is being waited for.
    Nothing {
        why: String,
        until: Option<Instant>,
    },
}

impl Breaker {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, streak: None, open: None }
    }

    pub(crate) fn allows(&self, now: Instant) -> Allowed {
        let Some(open) = &self.open else { return Allowed::Any };
        if open.is_trying {
            let why = format!("{}; one task is being tried", open.words());
            return Allowed::Nothing { why, until: None };
        }
        if now >= open.until {
            return Allowed::One;
        }
        let seconds = (open.until - now).as_secs() + 1;
        let why = format!("{}; one task is tried in {} s", open.words(), seconds.next_multiple_of(10));
        Allowed::Nothing { why, until: Some(open.until) }
    }

    /// A task was taken.
    pub(crate) fn took(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_trying = true;
        }
    }

    /// A turn ended, and why if not well.
    pub(crate) fn ended(&mut self, now: Instant, failure: Option<(FailureReason, &str)>) {
        match failure {
            Some((reason, error)) if is_around(reason) => self.failed(now, reason, error),
            // Nothing is known of the one that was tried: another is.
            Some(_) => {
                if let Some(open) = &mut self.open {
                    open.is_trying = false;
                }
            }
            None => (self.streak, self.open) = (None, None),
        }
    }

    fn failed(&mut self, now: Instant, reason: FailureReason, error: &str) {
        let failures = match self.streak {
            Some((known, failures)) if known == reason => failures.saturating_add(1),
            _ => 1,
        };
        self.streak = Some((reason, failures));
        let pause = match &self.open {
            Some(open) if open.is_trying => (open.pause * 2).min(LONGEST),
            // Those that were under way when it opened say nothing new.
            Some(_) => return,
            None if self.options.after > 0 && failures >= self.options.after => self.options.pause,
            None => return,
        };
        let (error, until) = (error.to_owned(), now + pause);
        self.open = Some(Open { reason, failures, error, pause, until, is_trying: false });
    }
}

impl Open {
    fn words(&self) -> String {
        format!("{} tasks in a row failed for the same reason ({}): {}", self.failures, self.reason, self.error)
    }
}

/// Whether a failure says something about what is around a task, and not about the task.
fn is_around(reason: FailureReason) -> bool {
    use FailureReason::{Agent, Internal, ModelQuota, Sandbox, Stall};
    matches!(reason, Agent | Internal | ModelQuota | Sandbox | Stall)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const QUOTA: Option<(FailureReason, &str)> = Some((FailureReason::ModelQuota, "429"));

    fn breaker() -> Breaker {
        Breaker::new(Options { after: 3, pause: 10 * SECOND })
    }

    fn is_shut(breaker: &Breaker, now: Instant) -> bool {
        matches!(breaker.allows(now), Allowed::Nothing { .. })
    }

    #[test]
    fn failures_of_one_kind_in_a_row_stop_it_and_others_do_not() {
        let now = Instant::now();
        let mut mixed = breaker();
        for failure in [QUOTA, QUOTA, Some((FailureReason::Sandbox, "no")), QUOTA, QUOTA, None, QUOTA, QUOTA] {
            mixed.ended(now, failure);
            assert_eq!(mixed.allows(now), Allowed::Any);
        }
        let mut of_tasks = breaker();
        for _ in 0..20 {
            of_tasks.ended(now, Some((FailureReason::Tests, "2 failed")));
        }
        assert_eq!(of_tasks.allows(now), Allowed::Any);
        let mut same = breaker();
        for _ in 0..3 {
            same.ended(now, QUOTA);
        }
        let Allowed::Nothing { why, until } = same.allows(now) else { panic!("it should have stopped") };
        assert!(why.contains("3 tasks in a row") && why.contains("model_quota") && why.contains("429"), "{why}");
        assert_eq!(until, Some(now + 10 * SECOND));
    }

    #[test]
    fn one_is_tried_after_a_while_and_decides() {
        let start = Instant::now();
        let mut breaker = breaker();
        (0..5).for_each(|_| breaker.ended(start, QUOTA));
        let later = start + 10 * SECOND;
        assert!(is_shut(&breaker, later - SECOND));
        assert_eq!(breaker.allows(later), Allowed::One);
        breaker.took();
        assert!(is_shut(&breaker, later + 100 * SECOND), "no second while the first is tried");
        breaker.ended(later, QUOTA);
        assert!(is_shut(&breaker, later + 19 * SECOND), "twice as long");
        assert_eq!(breaker.allows(later + 20 * SECOND), Allowed::One);
        breaker.took();
        breaker.ended(later + 20 * SECOND, None);
        assert_eq!(breaker.allows(later + 20 * SECOND), Allowed::Any);
    }

    #[test]
    fn one_that_fails_for_reasons_of_its_own_decides_nothing() {
        let now = Instant::now();
        let mut breaker = breaker();
        (0..3).for_each(|_| breaker.ended(now, QUOTA));
        let later = now + 10 * SECOND;
        breaker.took();
        breaker.ended(later, Some((FailureReason::Tests, "")));
        assert_eq!(breaker.allows(later), Allowed::One);
    }

    #[test]
    fn it_can_be_switched_off() {
        let now = Instant::now();
        let mut never = Breaker::new(Options { after: 0, pause: SECOND });
        (0..100).for_each(|_| never.ended(now, QUOTA));
        assert_eq!(never.allows(now), Allowed::Any);
    }
}
