//! Turns that wait for a person.

use harvest_core::{EventBody, Move, TaskId, Timestamp};
use rusqlite::{Connection, params};

use super::{Effects, admit, end, journal, step};
use crate::Error;
use crate::contract::{Lease, PlanDecision, PlanVerdict, Rows};
use crate::decode;
use crate::sqlite::read;

pub(crate) fn ask_approval(
    db: &Connection,
    effects: &mut Effects,
    lease: &Lease,
    at: Timestamp,
    events: &[EventBody],
) -> Result<u64, Error> {
    step::check_fence(db, lease)?;
    journal::move_task(db, lease.rows.task, Move::AskApproval)?;
    admit::set_status(db, lease.rows.turn, "held")?;
    admit::give_back(db, effects, lease.rows.turn)?;
    // Whoever waits for the queue to run empty wants to know.
    effects.queue = true;
    journal::write(db, effects, lease.rows.session, &lease.session, at, events)
}

pub(crate) fn decide(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    decision: &PlanDecision,
    at: Timestamp,
) -> Result<(), Error> {
    read::task(db, task)?.status.after(Move::Approve)?;
    let (rows, session) = db
        .prepare_cached("SELECT number, session, task, session_id FROM turns WHERE task_id = ?1 AND status = 'held'")?
        .query_row(params![task.as_str()], |row| {
            let rows = Rows { turn: row.get(0)?, session: row.get(1)?, task: row.get(2)? };
            Ok((rows, row.get::<_, String>(3)?))
        })?;
    journal::write(db, effects, rows.session, &decode::id(&session)?, at, &[decision.event()])?;
    if decision.verdict == PlanVerdict::Rejected {
        return end::cancel(db, effects, task, at, PlanDecision::REJECTED).map(drop);
    }
    journal::move_task(db, rows.task, Move::Approve)?;
    admit::admit(db, effects, rows.turn, task)
}
