//! Whether an agent at work still gets anywhere, and how one that does not is brought to its end.
//!
//! Pure over events and time: nothing here waits or signals. [`Supervisor`] is told what the agent does and says which limit
//! it has gone beyond, [`Ending`] says what is next to be done to an agent that has to go: it is asked twice before it is killed.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use harvest_core::{EventBody, FailureReason, Settings, SupervisedLimit};
use harvest_sandbox::Signal;
use tokio::time::Instant;

use crate::Failure;

/// So many different calls in turn are still seen as one loop.
const LONGEST_CYCLE: usize = 4;
/// Calls whose results have not come; what goes beyond is forgotten, since an agent decides how many there are.
const OPEN_CALLS: usize = 256;
/// How long a kill may take until the agent is left to the end of its sandbox.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// What an agent is held to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) stall: Duration,
    pub(crate) wall: Duration,
    pub(crate) repeats: usize,
    /// `None` for an agent that counts itself: it knows better which of its calls are turns.
    pub(crate) turns: Option<u32>,
}

/// The limit that was gone beyond, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) limit: SupervisedLimit,
    pub(crate) message: String,
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    bounds: Bounds,
    deadline: Instant,
    silent_until: Instant,
    /// What was called, by the id that the result will have.
    open: HashMap<String, u64>,
    /// The newest calls with their results, as far as a loop can be seen in them.
    done: VecDeque<u64>,
}

/// An agent that has to end.
#[derive(Debug)]
pub(crate) struct Ending {
    grace: Duration,
    next: Step,
    due: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Signal(Signal),
    /// Nothing helps; the sandbox goes with all that is in it.
    GiveUp,
}

impl Bounds {
    pub(crate) fn of(settings: &Settings, counts_itself: bool) -> Self {
        let supervision = settings.supervision;
        Self {
            stall: Duration::from_millis(supervision.stall_ms),
            wall: Duration::from_millis(settings.timeout_ms),
            repeats: usize::try_from(supervision.max_repeats).unwrap_or(usize::MAX).max(2),
            turns: (!counts_itself).then_some(settings.max_turns),
        }
    }
}

impl Supervisor {
    pub(crate) fn new(bounds: Bounds, now: Instant) -> Self {
        let (deadline, silent_until) = (now + bounds.wall, now + bounds.stall);
        Self { bounds, deadline, silent_until, open: HashMap::new(), done: VecDeque::new() }
    }

    /// The agent said something.
    pub(crate) fn heard(&mut self, now: Instant, events: &[EventBody]) -> Option<Breach> {
        self.silent_until = now + self.bounds.stall;
        events.iter().fold(None, |breach, event| breach.or(self.learn(event)))
    }

    /// The model has answered so often in this turn. A long answer is silence of the agent, but nothing that hangs.
    pub(crate) fn answered(&mut self, now: Instant, answers: u32) -> Option<Breach> {
        self.silent_until = now + self.bounds.stall;
        let most = self.bounds.turns.filter(|most| answers > *most)?;
        Some(Breach {
            limit: SupervisedLimit::Turns,
            message: format!("the agent called the model more than {most} times; `max_turns` allows no more"),
        })
    }

    /// When to ask [`Self::check`] at the latest.
    pub(crate) fn due(&self) -> Instant {
        self.deadline.min(self.silent_until)
    }

    /// What time alone has brought about.
    pub(crate) fn check(&self, now: Instant) -> Option<Breach> {
        if now >= self.deadline {
            let message = format!("the agent did not end within {}", human(self.bounds.wall));
            return Some(Breach { limit: SupervisedLimit::Wall, message });
        }
        let message = || format!("the agent printed nothing for {}", human(self.bounds.stall));
        (now >= self.silent_until).then(|| Breach { limit: SupervisedLimit::Stall, message: message() })
    }

    fn learn(&mut self, event: &EventBody) -> Option<Breach> {
        match event {
            EventBody::ToolCall { id, name, input } => {
                if self.open.len() >= OPEN_CALLS {
                    self.open.clear();
                }
                self.open.insert(id.clone(), fingerprint(&(name, input.to_string())));
                None
            }
            EventBody::ToolResult { id, output, is_error } => {
                let call = self.open.remove(id)?;
                self.done.push_back(fingerprint(&(call, output, is_error)));
                if self.done.len() > LONGEST_CYCLE.saturating_mul(self.bounds.repeats) {
                    self.done.pop_front();
                }
                self.cycle().map(|calls| Breach { limit: SupervisedLimit::Loop, message: self.tell(calls) })
            }
            _ => None,
        }
    }

    /// How many calls the agent repeats, if it does nothing else.
    fn cycle(&self) -> Option<usize> {
        let newest = |back: usize| self.done.iter().rev().nth(back);
        (1..=LONGEST_CYCLE).find(|length| {
            let span = length.saturating_mul(self.bounds.repeats);
            self.done.len() >= span && (*length..span).all(|back| newest(back) == newest(back - length))
        })
    }

    fn tell(&self, calls: usize) -> String {
        let what = if calls == 1 { "tool call".to_owned() } else { format!("{calls} tool calls") };
        format!("the agent made the same {what} {} times, with the same outcome", self.bounds.repeats)
    }
}

impl Breach {
    pub(crate) fn event(&self) -> EventBody {
        EventBody::LimitReached { limit: self.limit, message: self.message.clone() }
    }

    pub(crate) fn into_failure(self) -> Failure {
        let reason = match self.limit {
            SupervisedLimit::Stall => FailureReason::Stall,
            SupervisedLimit::Loop => FailureReason::Loop,
            SupervisedLimit::Turns => FailureReason::Turns,
            SupervisedLimit::Wall => FailureReason::Timeout,
        };
        Failure::new(reason, self.message)
    }
}

impl Ending {
    pub(crate) fn new(now: Instant, grace: Duration) -> Self {
        Self { grace, next: Step::Signal(Signal::Interrupt), due: now }
    }

    /// One that is not asked first.
    pub(crate) fn at_once(now: Instant) -> Self {
        Self { grace: Duration::ZERO, next: Step::Signal(Signal::Kill), due: now }
    }

    /// When [`Self::step`] has something to say.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// What is to be done now.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        let (next, wait) = match self.next {
            Step::Signal(Signal::Interrupt) => (Step::Signal(Signal::Terminate), self.grace),
            Step::Signal(Signal::Terminate) => (Step::Signal(Signal::Kill), self.grace),
            Step::Signal(Signal::Kill) | Step::GiveUp => (Step::GiveUp, KILL_LIMIT),
        };
        self.due = now + wait;
        std::mem::replace(&mut self.next, next)
    }
}

fn fingerprint(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn human(time: Duration) -> String {
    match u64::try_from(time.as_millis()).unwrap_or(u64::MAX) {
        millis @ 0..1000 => format!("{millis} ms"),
        millis @ 1000..120_000 => format!("{} s", millis / 1000),
        millis => format!("{} min", millis / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn supervisor(now: Instant) -> Supervisor {
        let bounds = Bounds { stall: 10 * SECOND, wall: 60 * SECOND, repeats: 3, turns: Some(2) };
        Supervisor::new(bounds, now)
    }

    fn used(number: usize, command: &str, output: &str) -> [EventBody; 2] {
        let id = number.to_string();
        [
            EventBody::ToolCall { id: id.clone(), name: "shell".into(), input: json!({ "command": command }) },
            EventBody::ToolResult { id, output: output.into(), is_error: false },
        ]
    }

    /// The number of the call at which a loop is seen.
    fn seen_at(calls: &[(&str, &str)]) -> Option<usize> {
        let now = Instant::now();
        let mut supervisor = supervisor(now);
        calls.iter().enumerate().position(|(number, (command, output))| {
            let breach = supervisor.heard(now, &used(number, command, output));
            breach.is_some_and(|breach| breach.limit == SupervisedLimit::Loop)
        })
    }

    #[test]
    fn the_same_calls_with_the_same_outcome_are_a_loop() {
        let (a, b, c) = (("make", "failed"), ("cat x", "x"), ("ls", ""));
        assert_eq!(seen_at(&[a, a, a]), Some(2));
        assert_eq!(seen_at(&[c, a, b, a, b, a, b]), Some(6));
        assert_eq!(seen_at(&[a, b, c, a, b, c, a, b, c]), Some(8));
        assert_eq!(seen_at(&[a, a, b, a, a, b, a, a]), None);
    }

    #[test]
    fn another_outcome_or_another_call_in_between_is_none() {
        assert_eq!(
            seen_at(&[("make", "1 failed"), ("make", "1 failed"), ("make", "passed"), ("make", "1 failed")]),
            None
        );
        assert_eq!(seen_at(&[("make", "x"), ("vi", "x"), ("make", "x"), ("ed", "x"), ("make", "x")]), None);
    }

    #[test]
    fn silence_is_counted_from_the_last_sign_of_life() {
        let start = Instant::now();
        let mut supervisor = supervisor(start);
        assert_eq!(supervisor.due(), start + 10 * SECOND);
        assert_eq!(supervisor.heard(start + 9 * SECOND, &[]), None);
        assert_eq!(supervisor.check(start + 18 * SECOND), None);
        assert_eq!(supervisor.answered(start + 18 * SECOND, 1), None);
        let breach = supervisor.check(start + 28 * SECOND).unwrap();
        assert_eq!(
            (breach.limit, breach.message.as_str()),
            (SupervisedLimit::Stall, "the agent printed nothing for 10 s")
        );
    }

    #[test]
    fn time_ends_whatever_it_says() {
        let start = Instant::now();
        let mut supervisor = supervisor(start);
        supervisor.heard(start + 59 * SECOND, &[]);
        assert_eq!(supervisor.due(), start + 60 * SECOND);
        let failure = supervisor.check(start + 60 * SECOND).unwrap().into_failure();
        assert_eq!(
            (failure.reason, failure.message.as_str()),
            (FailureReason::Timeout, "the agent did not end within 60 s")
        );
    }

    #[test]
    fn answers_beyond_the_allowed_turns_are_too_many() {
        let now = Instant::now();
        let mut supervisor = supervisor(now);
        assert_eq!(supervisor.answered(now, 2), None);
        assert_eq!(supervisor.answered(now, 3).map(|breach| breach.limit), Some(SupervisedLimit::Turns));
        supervisor.bounds.turns = None;
        assert_eq!(supervisor.answered(now, 300), None);
    }

    #[test]
    fn an_agent_is_asked_twice_before_it_is_killed() {
        let start = Instant::now();
        let mut ending = Ending::new(start, 5 * SECOND);
        let mut steps = Vec::new();
        for _ in 0..4 {
            let at = ending.due();
            steps.push(((at - start).as_secs(), ending.step(at)));
        }
        let expected = [
            (0, Step::Signal(Signal::Interrupt)),
            (5, Step::Signal(Signal::Terminate)),
            (10, Step::Signal(Signal::Kill)),
            (20, Step::GiveUp),
        ];
        assert_eq!(steps, expected);
    }
}
