//! Steps on their way to `harvest_append`.

use std::borrow::Cow;
use std::collections::HashMap;

use harvest_core::{EventBody, FailureReason, IllegalMove, Move, TaskId, TaskStatus, Timestamp};
use serde::Serialize;
use tokio_postgres::Row;

use super::connection::Connection;
use super::tell::News;
use crate::Error;
use crate::contract::{AttemptUpdate, End, Lease, Step};
use crate::decode::{from_word, to_json, to_word};

const APPEND: &str = "SELECT step, refused, detail, last FROM harvest_append($1, $2, $3, $4, $5, $6)";

/// A step with everything in the words of the database.
#[derive(Debug)]
pub(super) struct Prepared {
    lease: Lease,
    at: String,
    moves: Vec<String>,
    usage: [i64; 6],
    attempt: Option<serde_json::Value>,
    finish: Option<serde_json::Value>,
    due_ms: Option<i64>,
    bodies: Vec<String>,
}

/// The object that the function reads.
#[derive(Serialize)]
struct Wire<'a> {
    step: usize,
    turn: &'a str,
    fence: u64,
    at: &'a str,
    events: usize,
    moves: &'a [String],
    usage: [i64; 6],
    attempt: &'a Option<serde_json::Value>,
    finish: &'a Option<serde_json::Value>,
    due_ms: Option<i64>,
}

/// What became of the steps of one call.
pub(super) enum Appended {
    Done(Vec<Result<u64, Error>>),
    /// Nothing was written: one of them frees a place under a cap or is waited for, which takes the lock alone.
    Alone,
}

impl Prepared {
    pub(super) fn new(lease: &Lease, step: &Step) -> Result<Self, Error> {
        let mut usage = [0i64; 6];
        for body in &step.events {
            if let EventBody::Usage { usage: used, cost_usd, .. } = body {
                let more = [
                    used.input_tokens,
                    used.output_tokens,
                    used.cache_read_tokens,
                    used.cache_write_tokens,
                    used.reasoning_tokens,
                    cost_usd.nanos(),
                ];
                for (sum, more) in usage.iter_mut().zip(more) {
                    *sum = sum.saturating_add(i64::try_from(more).unwrap_or(i64::MAX));
                }
            }
        }
        let mut moves: Vec<String> = step.to.iter().map(to_word).collect::<Result<_, _>>()?;
        let (mut finish, mut due_ms) = (None, None);
        match &step.end {
            None => {}
            Some(End::Finished(outcome)) => {
                finish = Some(serde_json::json!({
                    "status": outcome.status,
                    "reason": outcome.reason.map(FailureReason::as_str),
                    "error": outcome.error.as_deref().map(text),
                    "branch": outcome.branch,
                    "commit": text(&outcome.commit),
                    "evidence": outcome.evidence.as_ref().map(|evidence| to_json(evidence, "evidence")).transpose()?,
                }));
            }
            Some(End::Retry { due }) => {
                moves.push(to_word(&Move::Fail)?);
                moves.push(to_word(&Move::Retry)?);
                due_ms = Some(due.as_millisecond());
            }
        }
        let attempt = step.attempt.as_ref().map(attempt).transpose()?;
        let bodies = step.events.iter().map(|body| to_json(body, "an event")).collect::<Result<_, _>>()?;
        Ok(Self { lease: lease.clone(), at: step.at.to_string(), moves, usage, attempt, finish, due_ms, bodies })
    }

    /// What others want to hear once the step is written.
    pub(super) fn news(&self, last: u64) -> News {
        // Whoever waits for the queue to run empty wants to know of those that did not complete, too.
        let completed = self.finish.as_ref().is_some_and(|finish| finish["status"] == "completed");
        News { session: self.lease.session.clone(), last, wake: self.ends() && !completed }
    }

    pub(super) fn task(&self) -> &TaskId {
        &self.lease.task
    }

    fn ends(&self) -> bool {
        self.finish.is_some() || self.due_ms.is_some()
    }
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
    let wire: Vec<Wire<'_>> = steps
        .iter()
        .zip(1..)
        .map(|(prepared, step)| Wire {
            step,
            turn: prepared.lease.turn.as_str(),
            fence: prepared.lease.fence,
            at: &prepared.at,
            events: prepared.bodies.len(),
            moves: &prepared.moves,
            usage: prepared.usage,
            attempt: &prepared.attempt,
            finish: &prepared.finish,
            due_ms: prepared.due_ms,
        })
        .collect();
    let wire = to_json(&wire, "a step")?;
    let ending: Vec<&str> = steps.iter().filter(|step| step.ends()).map(|step| step.lease.turn.as_str()).collect();
    let (mut of_step, mut places, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
    for (prepared, step) in steps.iter().zip(1i32..) {
        for (body, place) in prepared.bodies.iter().zip(1i32..) {
            of_step.push(step);
            places.push(place);
            bodies.push(body.as_str());
        }
    }
    let rows = db.query(APPEND, &[&alone, &wire, &ending, &of_step, &places, &bodies]).await?;
    let mut found: HashMap<usize, Result<u64, Error>> = HashMap::new();
    for row in &rows {
        if row.get::<_, Option<&str>>("refused") == Some("alone") {
            return Ok(Appended::Alone);
        }
        let step = row.get::<_, i32>("step") as usize;
        let result = steps.get(step.wrapping_sub(1)).map(|prepared| result(prepared, row));
        found.extend(result.map(|result| (step, result)));
    }
    let missing = || Err(Error::corrupt("an answer", "a step is missing"));
    Ok(Appended::Done((1..=steps.len()).map(|step| found.remove(&step).unwrap_or_else(missing)).collect()))
}

fn result(prepared: &Prepared, row: &Row) -> Result<u64, Error> {
    let detail: Option<String> = row.get("detail");
    let detail = detail.unwrap_or_default();
    match row.get::<_, Option<&str>>("refused") {
        None => Ok(row.get::<_, i64>("last") as u64),
        Some("stale") => Err(Error::StaleLease { turn: prepared.lease.turn.to_string(), held: prepared.lease.fence }),
        Some("illegal") => {
            let (from, by) = detail.split_once(' ').unwrap_or((&detail, ""));
            let (from, by): (TaskStatus, Move) = (from_word(from, "tasks.status")?, from_word(by, "a move")?);
            Err(IllegalMove { from, by }.into())
        }
        Some(_) => Err(Error::corrupt("attempts", format!("there already is an attempt {detail}"))),
    }
}

/// PostgreSQL's text holds everything but a zero byte, which only broken output contains; it is shown as what it is: broken.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
