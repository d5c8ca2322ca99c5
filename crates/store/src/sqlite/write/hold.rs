//! Turns that wait for a person.

use harvest_core::{EventBody, Move, Prompt, SessionId, TaskId, Timestamp, TokenId, TurnId};
use rusqlite::{Connection, params};

use super::{Effects, admit, claim, end, journal, step};
use crate::Error;
use crate::contract::{Lease, PlanDecision, PlanVerdict, Requester, Rows};
use crate::decode;
use crate::sqlite::{quota, read};

/// Gives a turn back until someone says how it goes on.
pub(crate) fn hold(
    db: &Connection,
    effects: &mut Effects,
    lease: &Lease,
    at: Timestamp,
    events: &[EventBody],
    by: Move,
) -> Result<u64, Error> {
    step::check_fence(db, lease)?;
    journal::move_task(db, lease.rows.task, by)?;
    admit::set_status(db, lease.rows.turn, "held")?;
    admit::give_back(db, effects, lease.rows.turn)?;
    // Whoever waits for the queue to run empty wants to know.
    effects.queue = true;
    let last = journal::write(db, effects, lease.rows.session, &lease.session, at, events)?;
    if claim::forget_stop(db, lease.rows.turn)? {
        end::cancel(db, effects, &lease.task, at, "stopped by a user")?;
    }
    Ok(last)
}

/// Gives a turn back that could not be worked on, until `due`.
pub(crate) fn put_off(
    db: &Connection,
    effects: &mut Effects,
    lease: &Lease,
    due: Timestamp,
    at: Timestamp,
    events: &[EventBody],
) -> Result<u64, Error> {
    step::check_fence(db, lease)?;
    journal::move_task(db, lease.rows.task, Move::LoseLease)?;
    step::set_waiting(db, lease.rows, due)?;
    admit::give_back(db, effects, lease.rows.turn)?;
    effects.queue = true;
    journal::write(db, effects, lease.rows.session, &lease.session, at, events)
}

/// An interrupted turn is in the queue again.
pub(crate) fn resume(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    by: &Requester,
    prompt: Option<&Prompt>,
    at: Timestamp,
) -> Result<(), Error> {
    read::task(db, task)?.status.after(Move::Resume)?;
    let Held { rows, session, turn } = held(db, task)?;
    if prompt.is_some() {
        instruct(db, rows.turn, by, at)?;
    }
    let resumed = EventBody::SessionResumed { turn_id: turn, author: by.person.clone(), prompt: prompt.cloned() };
    journal::write(db, effects, rows.session, &session, at, &[resumed])?;
    journal::move_task(db, rows.task, Move::Resume)?;
    begin_tries(db, rows.task)?;
    admit::admit(db, effects, rows.turn, task)
}

pub(crate) fn decide(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    decision: &PlanDecision,
    at: Timestamp,
) -> Result<(), Error> {
    read::task(db, task)?.status.after(Move::Approve)?;
    let Held { rows, session, .. } = held(db, task)?;
    if let Some(by) = decision.instructor() {
        instruct(db, rows.turn, by, at)?;
    }
    journal::write(db, effects, rows.session, &session, at, &[decision.event()])?;
    if decision.verdict == PlanVerdict::Rejected {
        return end::cancel(db, effects, task, at, PlanDecision::REJECTED).map(drop);
    }
    journal::move_task(db, rows.task, Move::Approve)?;
    begin_tries(db, rows.task)?;
    admit::admit(db, effects, rows.turn, task)
}

/// To continue what a person has decided on is no new try.
fn begin_tries(db: &Connection, task: i64) -> Result<(), Error> {
    db.prepare_cached("UPDATE tasks SET tries = 0 WHERE number = ?1")?.execute([task])?;
    Ok(())
}

/// The turn acts for this person from now on, if their quotas leave room for its task.
fn instruct(db: &Connection, turn: i64, by: &Requester, at: Timestamp) -> Result<(), Error> {
    let under_way = quota::under_way(db, &by.limits)?;
    act_for(db, turn, &by.person, by.token.as_ref(), &by.caps)?;
    quota::admit_more(db, &by.limits, &under_way, at)
}

/// The turn acts for this person from now on, counts against their caps, and spends with the token that they asked with.
pub(crate) fn act_for(
    db: &Connection,
    turn: i64,
    person: &str,
    token: Option<&TokenId>,
    caps: &[String],
) -> Result<(), Error> {
    db.prepare_cached("UPDATE turns SET acts_for = ?2, counts_for = ?2, token = ?3 WHERE number = ?1")?
        .execute(params![turn, person, token.map(TokenId::as_str)])?;
    let caps = serde_json::to_string(caps).unwrap_or_default();
    // One that counts against nothing goes on so.
    db.prepare_cached(
        "INSERT OR IGNORE INTO turn_caps (turn, cap, rank)
         SELECT ?1, value, (SELECT max(rank) FROM turn_caps WHERE turn = ?1) FROM json_each(?2)
         WHERE EXISTS (SELECT 1 FROM turn_caps WHERE turn = ?1)",
    )?
    .execute(params![turn, caps])?;
    db.prepare_cached(
        "DELETE FROM turn_caps WHERE turn = ?1 AND cap LIKE 'user:%' AND json_array_length(?2) > 0
             AND cap NOT IN (SELECT value FROM json_each(?2))",
    )?
    .execute(params![turn, caps])?;
    Ok(())
}

/// The turn of a task that waits for a person.
struct Held {
    rows: Rows,
    session: SessionId,
    turn: TurnId,
}

fn held(db: &Connection, task: &TaskId) -> Result<Held, Error> {
    let sql = "SELECT number, session, task, session_id, id FROM turns WHERE task_id = ?1 AND status = 'held'";
    let (rows, session, turn) = db.prepare_cached(sql)?.query_row(params![task.as_str()], |row| {
        let rows = Rows { turn: row.get(0)?, session: row.get(1)?, task: row.get(2)? };
        Ok((rows, row.get::<_, String>(3)?, row.get::<_, String>(4)?))
    })?;
    Ok(Held { rows, session: decode::id(&session)?, turn: decode::id(&turn)? })
}
