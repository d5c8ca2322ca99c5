//! Steps on their way to `harvest_append`.

use std::borrow::Cow;
use std::collections::HashMap;

use harvest_core::{EventBody, FailureReason, IllegalMove, Move, TaskId, TaskStatus, Timestamp};

use super::connection::Connection;
use super::tell::News;
use crate::Error;
use crate::contract::{AttemptUpdate, End, Lease, Settlement, Step};
use crate::decode::{from_word, to_json};

const APPEND: &str = "SELECT steps, lasts, refusals FROM harvest_append(
         $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)";

/// A step with everything in the words of the database.
#[derive(Debug)]
pub(super) struct Prepared {
    lease: Lease,
    at: String,
    moves: Vec<Move>,
    change: Option<Change>,
    usage: [i64; 6],
    attempt: Option<serde_json::Value>,
    finish: Option<Finish>,
    due_ms: Option<i64>,
    bodies: Vec<String>,
    settled: Vec<Settlement>,
}

/// What the moves of a step make of a task's status.
#[derive(Debug)]
struct Change {
    /// The statuses that allow them, divided by commas.
    from: String,
    /// `None` when no status allows them.
    into: Option<TaskStatus>,
}

impl Change {
    fn of(moves: &[Move]) -> Self {
        let moved = |status: TaskStatus| moves.iter().try_fold(status, |status, by| status.after(*by)).ok();
        let from: Vec<TaskStatus> = TaskStatus::ALL.into_iter().filter(|status| moved(*status).is_some()).collect();
        Self {
            from: from.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(","),
            into: from.first().copied().and_then(moved),
        }
    }
}

/// How a task ended.
#[derive(Debug)]
struct Finish {
    status: TaskStatus,
    reason: Option<FailureReason>,
    error: Option<String>,
    branch: Option<String>,
    commit: String,
    evidence: Option<String>,
}

/// What became of the steps of one call.
pub(super) enum Appended {
    Done(Vec<Result<u64, Error>>),
    /// Nothing was written: one of them frees a place under a cap or is waited for, which takes the lock alone.
    Alone,
}

impl Prepared {
    pub(super) fn new(lease: &Lease, step: &Step) -> Result<Self, Error> {
        let (mut finish, mut due_ms) = (None, None);
        match &step.end {
            None => {}
            Some(End::Finished(outcome)) => {
                finish = Some(Finish {
                    status: outcome.status,
                    reason: outcome.reason,
                    error: outcome.error.as_deref().map(|error| text(error).into_owned()),
                    branch: outcome.branch.as_ref().map(|branch| branch.as_str().to_owned()),
                    commit: text(&outcome.commit).into_owned(),
                    evidence: outcome.evidence.as_ref().map(|evidence| to_json(evidence, "evidence")).transpose()?,
                });
            }
            Some(End::Retry { due }) => due_ms = Some(due.as_millisecond()),
        }
        let again = due_ms.map(|_| [Move::Fail, Move::Retry]).into_iter().flatten();
        let moves: Vec<Move> = step.to.into_iter().chain(again).collect();
        Ok(Self {
            lease: lease.clone(),
            at: step.at.to_string(),
            change: if moves.is_empty() { None } else { Some(Change::of(&moves)) },
            moves,
            usage: usage(&step.events),
            attempt: step.attempt.as_ref().map(attempt).transpose()?,
            finish,
            due_ms,
            bodies: step.events.iter().map(|body| to_json(body, "an event")).collect::<Result<_, _>>()?,
            settled: step.settled.clone(),
        })
    }

    pub(super) fn task(&self) -> &TaskId {
        &self.lease.task
    }

    pub(super) fn settled(&self) -> &[Settlement] {
        &self.settled
    }

    /// What others want to hear once the step is written.
    pub(super) fn news(&self, last: u64) -> News {
        // Whoever waits for the queue to run empty wants to know of those that did not complete, too.
        let wake = self.due_ms.is_some() || self.finish.as_ref().is_some_and(|end| end.status != TaskStatus::Completed);
        News { session: self.lease.session.clone(), last, wake }
    }

    fn stale(&self) -> Error {
        Error::StaleLease { turn: self.lease.turn.to_string(), held: self.lease.fence }
    }

    /// Why the step is not possible for a task in this status: the first of its moves that is not.
    fn impossible(&self, mut status: TaskStatus) -> Error {
        for by in &self.moves {
            match status.after(*by) {
                Ok(next) => status = next,
                Err(IllegalMove { from, by }) => return IllegalMove { from, by }.into(),
            }
        }
        Error::corrupt("an answer", format!("a step was refused for the status {status}, which allows it"))
    }
}

fn usage(events: &[EventBody]) -> [i64; 6] {
    let mut sums = [0i64; 6];
    for body in events {
        if let EventBody::Usage { usage, cost_usd, .. } = body {
            let more = [
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.cache_write_tokens,
                usage.reasoning_tokens,
                cost_usd.nanos(),
            ];
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum = sum.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
            }
        }
    }
    sums
}

fn attempt(update: &AttemptUpdate) -> Result<serde_json::Value, Error> {
    Ok(match update {
        AttemptUpdate::Started(attempt) => serde_json::json!({
            "what": "started",
            "id": attempt.id,
            "turn": attempt.turn_id,
            "agent": text(&attempt.agent),
            "command": to_json(&attempt.command, "a command")?,
            "started_at": Timestamp::to_string(&attempt.started_at),
        }),
        AttemptUpdate::Journaled { attempt, offset } => {
            serde_json::json!({ "what": "journaled", "id": attempt, "offset": offset })
        }
        AttemptUpdate::Finished { attempt, exit_code, stderr_tail } => serde_json::json!({
            "what": "finished",
            "id": attempt,
            "exit_code": exit_code,
            "stderr_tail": text(stderr_tail),
        }),
    })
}

/// One call for all steps, each of which is about another task.
pub(super) async fn append(db: &Connection, steps: &[&Prepared], alone: bool) -> Result<Appended, Error> {
    fn column<'a, T>(steps: &[&'a Prepared], value: impl Fn(&'a Prepared) -> T) -> Vec<T> {
        steps.iter().map(|step| value(step)).collect()
    }
    fn end<'a, T>(steps: &[&'a Prepared], value: impl Fn(&'a Finish) -> Option<T>) -> Vec<Option<T>> {
        column(steps, |step| step.finish.as_ref().and_then(&value))
    }
    let (mut usage_steps, mut usages, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of_step, mut places, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for (prepared, step) in steps.iter().zip(1i32..) {
        if prepared.usage != [0; 6] {
            usage_steps.push(step);
            usages.extend(prepared.usage);
        }
        if let Some(attempt) = &prepared.attempt {
            let mut attempt = attempt.clone();
            attempt["step"] = step.into();
            attempts.push(attempt.to_string());
        }
        for (body, place) in prepared.bodies.iter().zip(1i32..) {
            of_step.push(step);
            places.push(place);
            bodies.push(body.as_str());
        }
    }
    let row = db
        .row(
            APPEND,
            &[
                &alone,
                &column(steps, |step| step.lease.rows.turn),
                &column(steps, |step| step.lease.rows.task),
                &column(steps, |step| step.lease.rows.session),
                &column(steps, |step| step.lease.fence as i64),
                &column(steps, |step| step.at.as_str()),
                &column(steps, |step| step.bodies.len() as i32),
                &column(steps, |step| step.change.as_ref().map(|change| change.from.as_str())),
                &column(steps, |step| step.change.as_ref().and_then(|change| Some(change.into?.as_str()))),
                &column(steps, |step| step.due_ms),
                &end(steps, |end| Some(end.status.as_str())),
                &end(steps, |end| end.reason.map(FailureReason::as_str)),
                &end(steps, |end| end.error.as_deref()),
                &end(steps, |end| end.branch.as_deref()),
                &end(steps, |end| Some(end.commit.as_str())),
                &end(steps, |end| end.evidence.as_deref()),
                &attempts,
                &usage_steps,
                &usages,
                &of_step,
                &places,
                &bodies,
            ],
        )
        .await?;
    let Some(held) = row.get::<_, Option<Vec<i32>>>("steps") else {
        return Ok(Appended::Alone);
    };
    let (lasts, refusals): (Vec<Option<i64>>, Vec<Option<String>>) = (row.get("lasts"), row.get("refusals"));
    let mut answers: HashMap<i32, (Option<i64>, Option<String>)> =
        held.into_iter().zip(lasts.into_iter().zip(refusals)).collect();
    let results = steps.iter().zip(1i32..).map(|(prepared, step)| match answers.remove(&step) {
        Some((Some(last), _)) => Ok(last as u64),
        Some((None, Some(status))) => Err(prepared.impossible(from_word(&status, "tasks.status")?)),
        _ => Err(prepared.stale()),
    });
    Ok(Appended::Done(results.collect()))
}

/// PostgreSQL's text holds everything but a zero byte, which only broken output contains; it is shown as what it is: broken.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
