//! Follows an agent at work: what it prints becomes events, its limits are watched, and one that has to end is brought to it.

use std::time::Duration;

use futures_util::FutureExt;
use harvest_agents::{Parser, Verdict};
use harvest_core::{Attempt, AttemptId, EventBody, FailureReason, OutputStream};
use harvest_sandbox::{Output, Process, Signal};
use harvest_store::{AttemptUpdate, Step};
use tokio::time::Instant;

use crate::checkpoint::Checkpoints;
use crate::error::Halt;
use crate::place::{Place, Tail};
use crate::supervise::{Bounds, Breach, Ending, Step as EndingStep, Supervisor};
use crate::turn::Turn;
use crate::{Failure, limit};

const SIGNAL_LIMIT: Duration = Duration::from_secs(10);
/// So many lines go into one transaction at most.
const BATCH: usize = 256;

/// How much of what an agent printed is part of the message when it fails without a word of its own.
const LAST_LINES: usize = 5;
const LAST_LINES_BYTES: usize = 1024;

/// How the agent's process ended.
pub(crate) struct Ended {
    pub(crate) exit_code: Option<i32>,
    pub(crate) stderr: String,
    pub(crate) failure: Option<Failure>,
    /// What the agent called the conversation.
    pub(crate) conversation: Option<String>,
    /// It said something, or did.
    pub(crate) did_anything: bool,
}

/// What is known of a run of an agent.
pub(crate) struct SoFar {
    parser: Parser,
    supervisor: Supervisor,
    stderr: Tail,
    /// The end of its messages and of what its dialect did not understand: why it failed, if anything says so.
    printed: Tail,
    did_anything: bool,
}

impl SoFar {
    /// Nothing yet.
    pub(crate) fn nothing(parser: Parser, bounds: Bounds) -> Self {
        let supervisor = Supervisor::new(bounds, Instant::now());
        let (stderr, printed) = (Tail::new(Attempt::TAIL_BYTES), Tail::new(LAST_LINES_BYTES));
        Self { parser, supervisor, stderr, printed, did_anything: false }
    }

    /// What was journaled of it, and how long ago it began.
    pub(crate) fn recalled(parser: Parser, mut bounds: Bounds, events: &[EventBody], age: Duration) -> Self {
        bounds.wall = bounds.wall.saturating_sub(age);
        let mut known = Self::nothing(parser, bounds);
        for event in events {
            known.parser.recall(event);
            known.did_anything |= is_work(event);
            push_text(&mut known.printed, event);
            if let EventBody::Raw { stream, line } = event {
                known.stderr.push_if(OutputStream::Stderr, *stream, line.as_bytes(), true);
            }
        }
        // A limit that was reached has been told.
        let _ = known.supervisor.heard(Instant::now(), events);
        known
    }
}

/// What the agent's watch has to look at.
enum Next {
    Output(Output),
    Breach(Breach),
    End(Failure),
    Signal(EndingStep),
    Nothing,
}

impl From<Option<Breach>> for Next {
    fn from(breach: Option<Breach>) -> Self {
        breach.map_or(Self::Nothing, Self::Breach)
    }
}

impl Turn {
    /// Journals what the agent prints until it ends or has to.
    pub(crate) async fn watch(
        &self,
        place: &Place,
        process: &mut Process,
        attempt: &AttemptId,
        so_far: SoFar,
    ) -> Result<Ended, Halt> {
        let SoFar { mut parser, mut supervisor, mut stderr, mut printed, mut did_anything } = so_far;
        let mut answers = self.meter.answers();
        let mut checkpoints = Checkpoints::new(self, place);
        if place.is_taken_over() && did_anything {
            checkpoints.due();
        }
        let grace = Duration::from_millis(self.task.settings.supervision.grace_ms);
        let mut ending: Option<Ending> = None;
        let mut ended_by: Option<Failure> = None;
        let mut killed = false;
        let exit_code = loop {
            let due = ending.as_ref().map_or(supervisor.due(), Ending::due);
            let next = tokio::select! {
                biased;
                () = self.stop.requested_at_once(), if !killed => {
                    killed = true;
                    ended_by.get_or_insert_with(|| self.stopped());
                    ending = Some(Ending::at_once(Instant::now()));
                    continue;
                }
                () = self.stop.requested(), if ending.is_none() => Next::End(self.stopped()),
                () = self.meter.exhausted(), if ending.is_none() => {
                    Next::End(Failure::new(FailureReason::Budget, self.meter.message()))
                }
                Ok(()) = answers.changed(), if ending.is_none() => {
                    Next::from(supervisor.answered(Instant::now(), *answers.borrow_and_update()))
                }
                () = tokio::time::sleep_until(due) => match &mut ending {
                    None => Next::from(supervisor.check(Instant::now())),
                    Some(ending) => Next::Signal(ending.step(Instant::now())),
                },
                output = process.next() => Next::Output(output),
                taken = checkpoints.taken() => {
                    taken?;
                    continue;
                }
            };
            let output = match next {
                Next::Output(output) => output,
                Next::Breach(breach) => {
                    self.journal.write(vec![breach.event()]).await?;
                    ended_by = Some(breach.into_failure());
                    ending = Some(Ending::new(Instant::now(), grace));
                    continue;
                }
                Next::End(failure) => {
                    ended_by = Some(failure);
                    ending = Some(Ending::new(Instant::now(), grace));
                    continue;
                }
                Next::Signal(EndingStep::Signal(signal)) => {
                    self.signal(process, signal).await;
                    continue;
                }
                Next::Signal(EndingStep::GiveUp) => break None,
                Next::Nothing => continue,
            };
            let mut events = Vec::new();
            let mut journaled = None;
            let mut end = None;
            let mut output = Some(output);
            let mut lines = 0;
            while let Some(current) = output.take() {
                match current {
                    Output::Line { stream, line, continued, offset } => {
                        stderr.push_if(OutputStream::Stderr, stream, &line, !continued);
                        events.extend(parser.parse(stream, &line));
                        journaled = Some(offset);
                        lines += 1;
                    }
                    other => {
                        end = Some(other);
                        break;
                    }
                }
                if lines < BATCH {
                    output = process.next().now_or_never();
                }
            }
            events.iter().for_each(|event| push_text(&mut printed, event));
            let breach = supervisor.heard(Instant::now(), &events).filter(|_| ending.is_none() && end.is_none());
            if let Some(breach) = breach {
                events.push(breach.event());
                ended_by = Some(breach.into_failure());
                ending = Some(Ending::new(Instant::now(), grace));
            }
            if let Some(offset) = journaled {
                checkpoints.heard();
                let changed = events.iter().any(|event| matches!(event, EventBody::ToolResult { .. }));
                did_anything |= events.iter().any(is_work);
                let update = AttemptUpdate::Journaled { attempt: attempt.clone(), offset };
                self.journal.step(Step::new(self.journal.now(), events).with_attempt(update)).await?;
                // Only after the events are on disk may the runner forget them.
                process.acknowledge(offset).await?;
                if changed {
                    checkpoints.due();
                }
            }
            match end {
                None => {}
                Some(Output::Exited(exit)) => break exit.code,
                Some(Output::Failed { limit, message }) => {
                    let failure = match limit {
                        Some(limit) => limit::failure(limit, &message),
                        None => Failure::new(FailureReason::Agent, message),
                    };
                    ended_by.get_or_insert(failure);
                    break None;
                }
                Some(_) if ended_by.is_some() => break None,
                Some(_) => return Err(Failure::new(FailureReason::Sandbox, "the sandbox was lost").into()),
            }
        };
        checkpoints.finish().await?;
        let failure = ended_by.or_else(|| {
            let failure = self.verdict(&parser, exit_code)?;
            Some(if parser.reports(exit_code) { failure } else { with_last_lines(failure, &printed.into_text()) })
        });
        let conversation = parser.conversation().map(str::to_owned);
        Ok(Ended { exit_code, stderr: stderr.into_text(), failure, conversation, did_anything })
    }

    fn verdict(&self, parser: &Parser, exit_code: Option<i32>) -> Option<Failure> {
        if self.meter.is_exhausted() {
            return Some(Failure::new(FailureReason::Budget, self.meter.message()));
        }
        match parser.verdict(exit_code) {
            Verdict::Done => None,
            Verdict::Failed { .. } if self.meter.has_refused() => {
                Some(Failure::new(FailureReason::Budget, self.meter.message()))
            }
            Verdict::Failed { reason, message } => Some(Failure { reason, message }),
        }
    }

    /// One that cannot be signalled meets the next step, and at last the end of its sandbox.
    async fn signal(&self, process: &Process, signal: Signal) {
        let sending = tokio::time::timeout(SIGNAL_LIMIT, process.signal(signal));
        if !matches!(sending.await, Ok(Ok(()))) {
            tracing::warn!(?signal, "the agent's process could not be signalled");
        }
    }
}

fn push_text(tail: &mut Tail, event: &EventBody) {
    if let EventBody::Raw { line: text, .. } | EventBody::Message { text, .. } = event {
        tail.push(text.as_bytes(), true);
    }
}

/// A failure of which the exit code alone is known, with the last lines that the agent printed.
fn with_last_lines(mut failure: Failure, printed: &str) -> Failure {
    if failure.reason != FailureReason::Agent {
        return failure;
    }
    let lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let [line] = lines.as_slice()
        && let Some((program, reason)) = unstarted(line)
    {
        failure.message = format!(
            "`{program}` could not be started: {reason}. The sandbox must have it, and the interpreter that its first line names"
        );
        return failure;
    }
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    if !last.is_empty() {
        failure.message = format!("{}; the last lines it printed:\n{last}", failure.message);
    }
    failure
}

/// The program that bubblewrap could not start, and why, if this is the line in which it says so.
fn unstarted(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("bwrap: execvp ")?.rsplit_once(": ")
}

/// Whether an event shows that the agent has come to work.
fn is_work(event: &EventBody) -> bool {
    matches!(event, EventBody::Message { .. } | EventBody::MessageDelta { .. } | EventBody::ToolCall { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_alone_comes_with_the_last_lines() {
        let failed = |reason| Failure::new(reason, "the agent exited with code 1");
        let printed = "one\n\ntwo\nthree\nfour\nfive\nCannot find module\n";
        let expected =
            "the agent exited with code 1; the last lines it printed:\ntwo\nthree\nfour\nfive\nCannot find module";
        assert_eq!(with_last_lines(failed(FailureReason::Agent), printed).message, expected);
        assert_eq!(with_last_lines(failed(FailureReason::Agent), "").message, "the agent exited with code 1");
        let told =
            with_last_lines(failed(FailureReason::Agent), "bwrap: execvp /opt/a b/x: No such file or directory\n");
        assert!(told.message.starts_with("`/opt/a b/x` could not be started: No such file or directory. "), "{told:?}");
        assert_eq!(with_last_lines(failed(FailureReason::Budget), printed).message, "the agent exited with code 1");
    }
}
