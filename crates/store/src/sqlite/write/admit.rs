//! Which turns may be claimed: those that wait for nothing and find a place under all their caps.

use harvest_core::{OnFailedDependency, TaskId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Effects;
use crate::Error;

/// Parked turns that are looked at when a place gets free: enough that one that is held by another cap does not block it.
const LOOKAHEAD: u32 = 32;

/// Puts a turn that no one holds where it belongs: blocked, parked or ready.
pub(crate) fn admit(db: &Connection, effects: &mut Effects, turn: i64, task: &TaskId) -> Result<(), Error> {
    let blockers: u64 =
        db.prepare_cached("SELECT blockers FROM tasks WHERE id = ?1")?.query_row([task.as_str()], |row| row.get(0))?;
    if blockers > 0 {
        return set_status(db, turn, "blocked");
    }
    if !try_ready(db, effects, turn)? {
        park(db, turn)?;
    }
    Ok(())
}

/// Takes a place under every cap of the turn, or under none. Ready turns that are worth less make room for it: what a cap
/// lets in is decided by rank until a worker has claimed it.
fn try_ready(db: &Connection, effects: &mut Effects, turn: i64) -> Result<bool, Error> {
    let caps = caps_of(db, turn)?;
    let Some(displaced) = displaceable(db, turn, &caps)? else { return Ok(false) };
    let mut freed = Vec::new();
    for other in displaced {
        park(db, other)?;
        let places = caps_of(db, other)?;
        release_places(db, &places)?;
        freed.extend(places);
    }
    for cap in &caps {
        db.prepare_cached("UPDATE caps SET used = used + 1 WHERE name = ?1")?.execute([cap])?;
        db.prepare_cached("UPDATE turn_caps SET parked = 0 WHERE turn = ?1 AND cap = ?2")?
            .execute(params![turn, cap])?;
    }
    set_status(db, turn, "ready")?;
    effects.queue = true;
    freed.iter().try_for_each(|cap| promote(db, effects, cap))?;
    Ok(true)
}

/// The ready turns that have to be parked before `turn` finds a place under all of `caps`; `None` when that does not help.
fn displaceable(db: &Connection, turn: i64, caps: &[String]) -> Result<Option<Vec<i64>>, Error> {
    let mut displaced: Vec<i64> = Vec::new();
    let mut freed: Vec<String> = Vec::new();
    for cap in caps {
        if freed.contains(cap) || !is_full(db, cap)? {
            continue;
        }
        let Some(other) = worst_behind(db, turn, cap)? else { return Ok(None) };
        displaced.push(other);
        freed.extend(caps_of(db, other)?);
    }
    Ok(Some(displaced))
}

/// The last of the ready turns under a cap that come after `turn`.
fn worst_behind(db: &Connection, turn: i64, cap: &str) -> Result<Option<i64>, Error> {
    let rank: i64 =
        db.prepare_cached("SELECT rank FROM turns WHERE number = ?1")?.query_row([turn], |row| row.get(0))?;
    // CROSS keeps the order: the ready turns behind this one are few, and those that a cap has ever had are many.
    let worst = db
        .prepare_cached(
            "SELECT turns.number FROM turns CROSS JOIN turn_caps ON turn_caps.turn = turns.number
             WHERE turns.status = 'ready' AND (turns.rank, turns.number) > (?2, ?3) AND turn_caps.cap = ?1
             ORDER BY turns.rank DESC, turns.number DESC LIMIT 1",
        )?
        .query_row(params![cap, rank, turn], |row| row.get(0))
        .optional()?;
    Ok(worst)
}

/// Whether a turn of a list still waits for a place: one before it may have made room that it took.
fn is_parked(db: &Connection, turn: i64, cap: &str) -> Result<bool, Error> {
    let parked = db
        .prepare_cached("SELECT parked FROM turn_caps WHERE turn = ?1 AND cap = ?2")?
        .query_row(params![turn, cap], |row| row.get(0))
        .optional()?;
    Ok(parked.unwrap_or(false))
}

fn park(db: &Connection, turn: i64) -> Result<(), Error> {
    db.prepare_cached("UPDATE turn_caps SET parked = 1 WHERE turn = ?1")?.execute([turn])?;
    set_status(db, turn, "parked")
}

/// Gives back the places of a turn that was ready or claimed, and lets parked ones take them. One that stepped aside has none.
pub(crate) fn give_back(db: &Connection, effects: &mut Effects, turn: i64) -> Result<(), Error> {
    if !step_back(db, turn)? { free(db, effects, turn) } else { Ok(()) }
}

/// A claimed turn keeps its owner and gives its places away.
pub(crate) fn step_aside(db: &Connection, effects: &mut Effects, turn: i64) -> Result<(), Error> {
    if db.prepare_cached("UPDATE turns SET aside = 1 WHERE number = ?1 AND aside = 0")?.execute([turn])? > 0 {
        free(db, effects, turn)?;
    }
    Ok(())
}

/// True when the turn had stepped aside.
pub(crate) fn step_back(db: &Connection, turn: i64) -> Result<bool, Error> {
    Ok(db.prepare_cached("UPDATE turns SET aside = 0 WHERE number = ?1 AND aside = 1")?.execute([turn])? > 0)
}

fn free(db: &Connection, effects: &mut Effects, turn: i64) -> Result<(), Error> {
    let caps = caps_of(db, turn)?;
    release_places(db, &caps)?;
    caps.iter().try_for_each(|cap| promote(db, effects, cap))
}

fn release_places(db: &Connection, caps: &[String]) -> Result<(), Error> {
    for cap in caps {
        db.prepare_cached("UPDATE caps SET used = used - 1 WHERE name = ?1")?.execute([cap])?;
    }
    Ok(())
}

/// The turn waits for no place any more.
pub(crate) fn forget_parked(db: &Connection, turn: i64) -> Result<(), Error> {
    db.prepare_cached("UPDATE turn_caps SET parked = 0 WHERE turn = ?1 AND parked = 1")?.execute([turn])?;
    Ok(())
}

/// The names that a turn carries, whether or not they are limited now. Most carry none: plain statements without `RETURNING`
/// or subqueries, which make a table of their own for every call, keep that cheap.
fn caps_of(db: &Connection, turn: i64) -> Result<Vec<String>, Error> {
    let mut statement = db.prepare_cached("SELECT cap FROM turn_caps WHERE turn = ?1")?;
    let caps = statement.query_map([turn], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(caps)
}

fn is_full(db: &Connection, cap: &str) -> Result<bool, Error> {
    let full = db
        .prepare_cached("SELECT used >= size FROM caps WHERE name = ?1")?
        .query_row([cap], |row| row.get(0))
        .optional()?;
    Ok(full.unwrap_or(false))
}

/// A turn that was claimed is ready again and keeps its places, unless a cap has become too small in the meantime or someone
/// waits who goes before it. One that had stepped aside takes places again, or waits for them.
pub(crate) fn keep_places(db: &Connection, effects: &mut Effects, turn: i64, task: &TaskId) -> Result<(), Error> {
    if step_back(db, turn)? {
        return admit(db, effects, turn, task);
    }
    let surplus: bool = db
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM turn_caps JOIN caps ON caps.name = turn_caps.cap
                            WHERE turn_caps.turn = ?1 AND caps.used > caps.size)",
        )?
        .query_row([turn], |row| row.get(0))?;
    if surplus {
        park(db, turn)?;
        return give_back(db, effects, turn);
    }
    caps_of(db, turn)?.iter().try_for_each(|cap| promote(db, effects, cap))
}

/// Lets parked turns of a cap become ready, the best first, until it is full of those that go before the rest.
pub(crate) fn promote(db: &Connection, effects: &mut Effects, cap: &str) -> Result<(), Error> {
    let parked: Vec<i64> = db
        .prepare_cached("SELECT turn FROM turn_caps WHERE cap = ?1 AND parked = 1 ORDER BY rank, turn LIMIT ?2")?
        .query_map(params![cap, LOOKAHEAD], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for turn in parked {
        if is_full(db, cap)? && worst_behind(db, turn, cap)?.is_none() {
            break;
        }
        if is_parked(db, turn, cap)? {
            try_ready(db, effects, turn)?;
        }
    }
    Ok(())
}

/// The size of a cap, now. Ready turns beyond it are parked; claimed ones go on.
pub(crate) fn set_cap(db: &Connection, effects: &mut Effects, name: &str, size: Option<u32>) -> Result<(), Error> {
    let ready: Vec<i64> = db
        .prepare_cached(
            "SELECT turns.number FROM turn_caps JOIN turns ON turns.number = turn_caps.turn
             WHERE turn_caps.cap = ?1 AND turns.status = 'ready'",
        )?
        .query_map([name], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for turn in &ready {
        db.prepare_cached("UPDATE caps SET used = used - 1 WHERE name IN (SELECT cap FROM turn_caps WHERE turn = ?1)")?
            .execute([turn])?;
        park(db, *turn)?;
    }
    match size {
        Some(size) => {
            let claimed: u32 = db.query_row(
                "SELECT count(*) FROM turn_caps JOIN turns ON turns.number = turn_caps.turn
                 WHERE turn_caps.cap = ?1 AND turns.status = 'claimed' AND turns.aside = 0",
                [name],
                |row| row.get(0),
            )?;
            db.execute(
                "INSERT INTO caps (name, size, used) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET size = ?2, used = ?3",
                params![name, size, claimed],
            )?;
        }
        None => {
            db.execute("DELETE FROM caps WHERE name = ?1", [name])?;
        }
    }
    let parked: Vec<i64> = db
        .prepare_cached("SELECT turn FROM turn_caps WHERE cap = ?1 AND parked = 1 ORDER BY rank, turn")?
        .query_map([name], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for turn in parked {
        if is_parked(db, turn, name)? {
            try_ready(db, effects, turn)?;
        }
    }
    // What was parked just now may have left places under other caps.
    for turn in ready {
        let freed: Vec<String> = db
            .prepare_cached("SELECT cap FROM turn_caps WHERE turn = ?1 AND parked = 1 AND cap <> ?2")?
            .query_map(params![turn, name], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        freed.iter().try_for_each(|cap| promote(db, effects, cap))?;
    }
    effects.queue = true;
    Ok(())
}

/// A task has completed: those that waited for it only may go.
pub(crate) fn unblock(db: &Connection, effects: &mut Effects, completed: &TaskId) -> Result<(), Error> {
    let waiting: Vec<String> = db
        .prepare_cached(
            "UPDATE dependencies SET satisfied = 1 WHERE after_id = ?1 AND satisfied = 0 RETURNING task_id",
        )?
        .query_map([completed.as_str()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for task in waiting {
        db.prepare_cached("UPDATE tasks SET blockers = blockers - 1 WHERE id = ?1")?.execute([&task])?;
        let blocked: Option<i64> = db
            .prepare_cached("SELECT number FROM turns WHERE task_id = ?1 AND status = 'blocked'")?
            .query_row([&task], |row| row.get(0))
            .optional()?;
        if let Some(turn) = blocked {
            admit(db, effects, turn, &crate::decode::id(&task)?)?;
        }
    }
    Ok(())
}

/// The unfinished tasks that are to be cancelled because `failed` did not complete.
pub(crate) fn doomed(db: &Connection, failed: &TaskId) -> Result<Vec<TaskId>, Error> {
    let policy = crate::decode::to_word(&OnFailedDependency::Cancel)?;
    // CROSS keeps the order: the other way round, every task that waits for anything would be looked at.
    let tasks: Vec<String> = db
        .prepare_cached(
            "SELECT tasks.id FROM dependencies CROSS JOIN tasks ON tasks.id = dependencies.task_id
             WHERE dependencies.after_id = ?1 AND dependencies.satisfied = 0 AND tasks.status = 'pending'
                 AND tasks.on_failed_dependency = ?2",
        )?
        .query_map(params![failed.as_str(), policy], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    tasks.iter().map(|task| crate::decode::id(task)).collect()
}

pub(crate) fn set_status(db: &Connection, turn: i64, status: &str) -> Result<(), Error> {
    db.prepare_cached(
        "UPDATE turns SET status = ?2, owner = NULL, lease_until_ms = NULL, due_ms = NULL WHERE number = ?1",
    )?
    .execute(params![turn, status])?;
    Ok(())
}
