//! Owners, sandboxes, the queue's settings, schedules and templates.

use harvest_core::{OwnerId, SandboxId, Timestamp};
use rusqlite::{Connection, params};

use super::{Effects, create};
use crate::Error;
use crate::contract::{NewTask, Owner, OwnerKind, QueueChange, SandboxRecord, Schedule, Template, WorkerAgents};
use crate::decode;

pub(crate) fn register_owner(db: &Connection, owner: &Owner) -> Result<(), Error> {
    let kind = match owner.kind {
        OwnerKind::Run => "run",
        OwnerKind::Server => "server",
    };
    db.execute("INSERT INTO owners (id, kind, pid) VALUES (?1, ?2, ?3)", params![owner.id.as_str(), kind, owner.pid])?;
    Ok(())
}

pub(crate) fn set_holding(db: &Connection, owner: &OwnerId, why: Option<&str>) -> Result<(), Error> {
    db.execute("UPDATE owners SET holding = ?2 WHERE id = ?1", params![owner.as_str(), why])?;
    Ok(())
}

pub(crate) fn remove_owner(db: &Connection, owner: &OwnerId) -> Result<(), Error> {
    db.execute("DELETE FROM owners WHERE id = ?1", [owner.as_str()])?;
    Ok(())
}

pub(crate) fn record_sandbox(db: &Connection, record: &SandboxRecord) -> Result<(), Error> {
    let sql = "INSERT INTO sandboxes (id, owner, session_id, purpose, provider) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, session_id = excluded.session_id,
            purpose = excluded.purpose";
    db.prepare_cached(sql)?.execute(params![
        record.id.as_str(),
        record.owner.as_str(),
        record.session.as_str(),
        decode::to_word(&record.purpose)?,
        record.provider,
    ])?;
    Ok(())
}

pub(crate) fn forget_sandbox(db: &Connection, id: &SandboxId) -> Result<(), Error> {
    db.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}

pub(crate) fn change_queue(db: &Connection, effects: &mut Effects, change: QueueChange) -> Result<(), Error> {
    let QueueChange { paused, agents } = change;
    db.execute(
        "UPDATE queue SET paused = coalesce(?1, paused), agents = CASE WHEN ?2 THEN ?3 ELSE agents END",
        params![paused, agents.is_some(), agents.and_then(WorkerAgents::number)],
    )?;
    effects.queue = true;
    Ok(())
}

pub(crate) fn save_schedule(db: &Connection, effects: &mut Effects, schedule: &Schedule) -> Result<(), Error> {
    let request = serde_json::to_string(&schedule.request).map_err(|error| Error::corrupt("a request", error))?;
    db.execute(
        "INSERT INTO schedules (id, cron, time_zone, missed, request, next_ms, last_ms, created_at, owner, problem)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO UPDATE SET owner = excluded.owner",
        params![
            schedule.id,
            schedule.cron,
            schedule.time_zone,
            decode::to_word(&schedule.missed)?,
            request,
            schedule.next.map(Timestamp::as_millisecond),
            schedule.last.map(Timestamp::as_millisecond),
            schedule.created_at.to_string(),
            schedule.owner.as_ref().map(|owner| decode::to_json(owner, "schedules.owner")).transpose()?,
            schedule.problem,
        ],
    )?;
    effects.queue = true;
    Ok(())
}

pub(crate) fn remove_schedule(db: &Connection, id: &str) -> Result<bool, Error> {
    Ok(db.execute("DELETE FROM schedules WHERE id = ?1", [id])? > 0)
}

pub(crate) fn fire_schedule(
    db: &Connection,
    effects: &mut Effects,
    id: &str,
    due: Timestamp,
    next: Option<Timestamp>,
    tasks: &[NewTask],
    problem: Option<&str>,
) -> Result<bool, Error> {
    let moved = db.execute(
        "UPDATE schedules SET next_ms = ?3, last_ms = ?2, problem = ?4 WHERE id = ?1 AND next_ms = ?2",
        params![id, due.as_millisecond(), next.map(Timestamp::as_millisecond), problem],
    )?;
    if moved == 0 {
        return Ok(false);
    }
    create::create_tasks(db, effects, tasks)?;
    Ok(true)
}

pub(crate) fn save_template(db: &Connection, template: &Template) -> Result<(), Error> {
    let options = serde_json::to_string(&template.options).map_err(|error| Error::corrupt("options", error))?;
    db.execute(
        "INSERT INTO templates (name, prompt, options, created_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET prompt = ?2, options = ?3",
        params![template.name, template.prompt, options, template.created_at.to_string()],
    )?;
    Ok(())
}

pub(crate) fn remove_template(db: &Connection, name: &str) -> Result<bool, Error> {
    Ok(db.execute("DELETE FROM templates WHERE name = ?1", [name])? > 0)
}
