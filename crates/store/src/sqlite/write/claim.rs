//! Claims and leases.

use harvest_core::{EventBody, Move, OwnerId, SessionId, Stopping, TaskId, Timestamp, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Effects, admit, journal};
use crate::Error;
use crate::contract::{Claim, Lease, Reclaimed, Rows};
use crate::decode;

/// How much longer someone may wait so that a warm repository is used again.
const WARM_MS: i64 = 5 * 60 * 1000;
const BATCH: u32 = 500;
const LOST: &str = "the worker was lost; the turn is in the queue again";
const LET_GO: &str = "the worker takes no more work; the turn is in the queue again";

/// A ready turn that may be claimed.
struct Candidate {
    number: i64,
    rank: i64,
}

pub(crate) fn claim(db: &Connection, effects: &mut Effects, claim: &Claim) -> Result<Vec<Lease>, Error> {
    let paused: bool = db.prepare_cached("SELECT paused FROM queue")?.query_row([], |row| row.get(0))?;
    let chosen = match &claim.turn {
        Some(turn) => db
            .prepare_cached("SELECT number FROM turns WHERE id = ?1 AND status = 'ready'")?
            .query_row([turn.as_str()], |row| row.get(0))
            .optional()?
            .into_iter()
            .collect(),
        None if paused => Vec::new(),
        None => choose(db, claim)?,
    };
    chosen.into_iter().map(|turn| take(db, effects, claim, turn)).collect()
}

/// The best turns: by rank, where those of warm repositories get a small head start.
fn choose(db: &Connection, claim: &Claim) -> Result<Vec<i64>, Error> {
    let candidate = |row: &Row<'_>| Ok(Candidate { number: row.get(0)?, rank: row.get(1)? });
    let mut found: Vec<Candidate> = db
        .prepare_cached("SELECT number, rank FROM turns WHERE status = 'ready' ORDER BY rank, number LIMIT ?1")?
        .query_map([claim.most as u64], candidate)?
        .collect::<Result<_, _>>()?;
    let Some(best) = found.first().map(|first| first.rank) else { return Ok(Vec::new()) };
    for repository in &claim.warm {
        let warm = db
            .prepare_cached(
                "SELECT number, rank - ?3 FROM turns WHERE status = 'ready' AND repository = ?1 AND rank <= ?2
                 ORDER BY rank, number LIMIT ?4",
            )?
            .query_map(params![repository, best + WARM_MS, WARM_MS, claim.most as u64], candidate)?
            .collect::<Result<Vec<_>, _>>()?;
        found.extend(warm);
    }
    found.sort_by_key(|candidate| (candidate.rank, candidate.number));
    let mut chosen = Vec::new();
    for candidate in found {
        if chosen.len() < claim.most && !chosen.contains(&candidate.number) {
            chosen.push(candidate.number);
        }
    }
    Ok(chosen)
}

fn take(db: &Connection, effects: &mut Effects, claim: &Claim, turn: i64) -> Result<Lease, Error> {
    let until = claim.until.map(Timestamp::as_millisecond);
    let (lease, number, author) = db
        .prepare_cached(
            "SELECT id, session_id, task_id, fence + 1, number, session, task, ordinal, author FROM turns
             WHERE number = ?1",
        )?
        .query_row([turn], |row| Ok((raw_lease(row)?, row.get::<_, u32>(7)?, row.get::<_, String>(8)?)))?;
    db.prepare_cached(
        "UPDATE turns SET status = 'claimed', owner = ?2, fence = fence + 1, lease_until_ms = ?3 WHERE number = ?1",
    )?
    .execute(params![turn, claim.owner.as_str(), until])?;
    let lease = lease.checked()?;
    let status = journal::after(db, lease.rows.task, Move::Claim)?;
    db.prepare_cached("UPDATE tasks SET tries = tries + 1, status = ?2 WHERE number = ?1")?
        .execute(params![lease.rows.task, status.as_str()])?;
    let started = EventBody::TurnStarted { turn_id: lease.turn.clone(), number, author };
    journal::write(db, effects, lease.rows.session, &lease.session, claim.at, &[started])?;
    Ok(lease)
}

/// Claims a waiting turn to end its task, without a try and without an event: no one is going to work on it.
pub(crate) fn claim_to_stop(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    how: &Stopping,
    claim: &Claim,
) -> Result<Option<Lease>, Error> {
    // A retry or follow-up that nobody has begun is withdrawn, and its task keeps the result before it.
    let found: Option<(i64, String)> = db
        .prepare_cached(
            "SELECT turns.number, turns.status FROM turns JOIN tasks ON tasks.number = turns.task
             WHERE turns.task_id = ?1 AND turns.status IN ('ready', 'blocked', 'waiting', 'parked', 'held')
                 AND turns.fence > coalesce(json_extract(tasks.former, '$.fence'), 0)
                 AND tasks.status IN ('pending', 'interrupted')",
        )?
        .query_row([task.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((turn, was)) = found else { return Ok(None) };
    if was != "ready" {
        admit::forget_parked(db, turn)?;
        db.prepare_cached("UPDATE turns SET aside = 1 WHERE number = ?1")?.execute([turn])?;
    }
    db.prepare_cached(
        "UPDATE turns SET status = 'claimed', owner = ?2, fence = fence + 1, lease_until_ms = ?3, due_ms = NULL
         WHERE number = ?1",
    )?
    .execute(params![turn, claim.owner.as_str(), claim.until.map(Timestamp::as_millisecond)])?;
    let taken = leases(
        db,
        "SELECT id, session_id, task_id, fence, number, session, task FROM turns WHERE number = ?1",
        params![turn],
    )?;
    let Some(lease) = taken.into_iter().next() else { return Ok(None) };
    if was == "held" {
        journal::move_task(db, lease.rows.task, Move::Resume)?;
    }
    journal::move_task(db, lease.rows.task, Move::Claim)?;
    request_stop(db, effects, task, how)?;
    Ok(Some(lease))
}

pub(crate) fn heartbeat(db: &Connection, owner: &OwnerId, until: Timestamp) -> Result<Vec<Lease>, Error> {
    leases(
        db,
        "UPDATE turns SET lease_until_ms = ?2 WHERE owner = ?1 AND status = 'claimed'
         RETURNING id, session_id, task_id, fence, number, session, task",
        params![owner.as_str(), until.as_millisecond()],
    )
}

pub(crate) fn was_given_back(db: &Connection, lease: &Lease) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (
        SELECT 1 FROM turns WHERE number = ?1 AND fence = ?2 AND status IN ('done', 'held', 'waiting'))";
    Ok(db.prepare_cached(sql)?.query_row(params![lease.rows.turn, lease.fence], |row| row.get(0))?)
}

pub(crate) fn turns_of(db: &Connection, owner: &OwnerId) -> Result<Vec<Lease>, Error> {
    leases(
        db,
        "SELECT id, session_id, task_id, fence, number, session, task FROM turns WHERE owner = ?1 AND status = 'claimed'",
        params![owner.as_str()],
    )
}

pub(crate) fn take_over(
    db: &Connection,
    dead: &OwnerId,
    heir: &OwnerId,
    only: Option<&[SessionId]>,
) -> Result<Vec<Lease>, Error> {
    let only = only.map(|sessions| decode::to_json(&sessions, "sessions")).transpose()?;
    leases(
        db,
        "UPDATE turns SET owner = ?2, fence = fence + 1, lease_until_ms = NULL WHERE owner = ?1 AND status = 'claimed'
             AND (?3 IS NULL OR session_id IN (SELECT value FROM json_each(?3)))
         RETURNING id, session_id, task_id, fence, number, session, task",
        params![dead.as_str(), heir.as_str(), only],
    )
}

pub(crate) fn release(
    db: &Connection,
    effects: &mut Effects,
    dead: &OwnerId,
    at: Timestamp,
) -> Result<Vec<Lease>, Error> {
    let lost = turns_of(db, dead)?;
    give_back(db, effects, lost, LOST, at)
}

/// One turn is given back by whoever holds it.
pub(crate) fn let_go(db: &Connection, effects: &mut Effects, lease: &Lease, at: Timestamp) -> Result<(), Error> {
    give_back(db, effects, vec![lease.clone()], LET_GO, at).map(drop)
}

pub(crate) fn reclaim(db: &Connection, effects: &mut Effects, now: Timestamp) -> Result<Reclaimed, Error> {
    let expired = leases(
        db,
        "SELECT id, session_id, task_id, fence, number, session, task FROM turns
         WHERE status = 'claimed' AND lease_until_ms < ?1 LIMIT ?2",
        params![now.as_millisecond(), BATCH],
    )?;
    let expired = give_back(db, effects, expired, LOST, now)?;
    let due: Vec<(i64, String)> = db
        .prepare_cached("SELECT number, task_id FROM turns WHERE status = 'waiting' AND due_ms <= ?1 LIMIT ?2")?
        .query_map(params![now.as_millisecond(), BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (turn, task) in &due {
        admit::admit(db, effects, *turn, &decode::id(task)?)?;
    }
    let next: Option<i64> =
        db.prepare_cached("SELECT min(due_ms) FROM turns WHERE status = 'waiting'")?.query_row([], |row| row.get(0))?;
    let next_due = next.map(Timestamp::from_millisecond).transpose();
    let next_due = next_due.map_err(|error| Error::corrupt("turns.due_ms", error))?;
    Ok(Reclaimed { expired: expired.len(), due: due.len(), next_due })
}

pub(crate) fn request_stop(
    db: &Connection,
    effects: &mut Effects,
    task: &TaskId,
    how: &Stopping,
) -> Result<bool, Error> {
    db.execute("DELETE FROM stops WHERE turn IN (SELECT number FROM turns WHERE status = 'done')", [])?;
    let wanted = "INSERT INTO stops (turn, how, weight) SELECT number, ?2, ?3 FROM turns
         WHERE task_id = ?1 AND status = 'claimed' ON CONFLICT (turn) DO UPDATE SET how = excluded.how,
         weight = excluded.weight WHERE excluded.weight >= stops.weight";
    db.execute(wanted, params![task.as_str(), decode::to_json(how, "a stop")?, how.weight()])?;
    effects.queue = true;
    let asked = "SELECT EXISTS (SELECT 1 FROM stops JOIN turns ON turns.number = stops.turn
         WHERE turns.task_id = ?1 AND turns.status = 'claimed')";
    Ok(db.query_row(asked, [task.as_str()], |row| row.get(0))?)
}

/// The turns that `owner` works on and is asked to stop.
pub(crate) fn stops(db: &Connection, owner: &OwnerId) -> Result<Vec<(Lease, Stopping)>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT turns.id, turns.session_id, turns.task_id, turns.fence, turns.number, turns.session, turns.task, stops.how
         FROM stops CROSS JOIN turns ON turns.number = stops.turn WHERE turns.owner = ?1 AND turns.status = 'claimed'",
    )?;
    let asked = statement.query_map([owner.as_str()], |row| Ok((raw_lease(row)?, row.get::<_, Option<String>>(7)?)))?;
    let asked = asked.collect::<Result<Vec<_>, _>>()?;
    asked.iter().map(|(lease, how)| Ok((lease.checked()?, decode::stopping(how.as_deref())?))).collect()
}

/// Nobody wants a turn stopped any more. True when someone wanted it over.
pub(crate) fn forget_stop(db: &Connection, turn: i64) -> Result<bool, Error> {
    let how: Option<Option<String>> =
        db.prepare_cached("SELECT how FROM stops WHERE turn = ?1")?.query_row([turn], |row| row.get(0)).optional()?;
    let Some(how) = how else { return Ok(false) };
    db.prepare_cached("DELETE FROM stops WHERE turn = ?1")?.execute([turn])?;
    Ok(decode::stopping(how.as_deref())?.is_for_good())
}

/// The turns are in the queue again; their tasks and journals say so. One after the other: those that are still to come hold
/// their places until it is decided whether they keep them.
fn give_back(
    db: &Connection,
    effects: &mut Effects,
    mut lost: Vec<Lease>,
    why: &str,
    at: Timestamp,
) -> Result<Vec<Lease>, Error> {
    for lease in &mut lost {
        lease.fence += 1;
        db.prepare_cached(
            "UPDATE turns SET status = 'ready', owner = NULL, fence = ?2, lease_until_ms = NULL WHERE number = ?1",
        )?
        .execute(params![lease.rows.turn, lease.fence])?;
        journal::move_task(db, lease.rows.task, Move::LoseLease)?;
        let message = why.to_owned();
        journal::write(db, effects, lease.rows.session, &lease.session, at, &[EventBody::Warning { message }])?;
        admit::keep_places(db, effects, lease.rows.turn, &lease.task)?;
        effects.queue = true;
    }
    Ok(lost)
}

struct RawLease {
    turn: String,
    session: String,
    task: String,
    fence: u64,
    rows: Rows,
}

impl RawLease {
    fn checked(&self) -> Result<Lease, Error> {
        let (task, session, turn): (TaskId, SessionId, TurnId) =
            (decode::id(&self.task)?, decode::id(&self.session)?, decode::id(&self.turn)?);
        Ok(Lease { task, session, turn, fence: self.fence, rows: self.rows })
    }
}

fn raw_lease(row: &Row<'_>) -> rusqlite::Result<RawLease> {
    let rows = Rows { turn: row.get(4)?, session: row.get(5)?, task: row.get(6)? };
    Ok(RawLease { turn: row.get(0)?, session: row.get(1)?, task: row.get(2)?, fence: row.get(3)?, rows })
}

fn leases(db: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<Lease>, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(params, raw_lease)?;
    rows.map(|row| row?.checked()).collect()
}
