//! Owners, sandboxes, the queue's settings, schedules and templates.

use harvest_core::{OwnerId, SandboxId, Timestamp};

use super::connection::Connection;
use super::create;
use super::step::text;
use super::tell::Teller;
use crate::Error;
use crate::contract::{NewTask, Owner, QueueChange, SandboxRecord, Schedule, Template, WorkerAgents};
use crate::decode::{to_json, to_word};

pub(super) async fn register_owner(db: &Connection, owner: &Owner) -> Result<(), Error> {
    let sql = "INSERT INTO owners (id, kind, pid) VALUES ($1, $2, $3)";
    db.execute(sql, &[&owner.id.as_str(), &to_word(&owner.kind)?, &i64::from(owner.pid)]).await.map(drop)
}

pub(super) async fn set_holding(db: &Connection, owner: &OwnerId, why: Option<&str>) -> Result<(), Error> {
    db.execute("UPDATE owners SET holding = $2 WHERE id = $1", &[&owner.as_str(), &why]).await.map(drop)
}

pub(super) async fn remove_owner(db: &Connection, owner: &OwnerId) -> Result<(), Error> {
    db.execute("DELETE FROM owners WHERE id = $1", &[&owner.as_str()]).await.map(drop)
}

pub(super) async fn record_sandbox(db: &Connection, record: &SandboxRecord) -> Result<(), Error> {
    let sql = "INSERT INTO sandboxes (id, owner, session_id, purpose, provider) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, session_id = excluded.session_id,
            purpose = excluded.purpose";
    let purpose = to_word(&record.purpose)?;
    let (id, owner, session) = (record.id.as_str(), record.owner.as_str(), record.session.as_str());
    db.execute(sql, &[&id, &owner, &session, &purpose, &text(&record.provider)]).await.map(drop)
}

pub(super) async fn forget_sandbox(db: &Connection, id: &SandboxId) -> Result<(), Error> {
    db.execute("DELETE FROM sandboxes WHERE id = $1", &[&id.as_str()]).await.map(drop)
}

pub(super) async fn change_queue(db: &Connection, change: QueueChange) -> Result<(), Error> {
    let sql = "WITH changed AS (
             UPDATE queue SET paused = coalesce($1, paused), agents = CASE WHEN $2 THEN $3 ELSE agents END)
         SELECT harvest_wake()";
    let QueueChange { paused, agents } = change;
    let number = agents.and_then(WorkerAgents::number).map(i64::from);
    db.query(sql, &[&paused, &agents.is_some(), &number]).await.map(drop)
}

pub(super) async fn set_cap(db: &Connection, name: &str, size: Option<u32>) -> Result<(), Error> {
    db.query("SELECT harvest_set_cap($1, $2)", &[&text(name), &size.map(i64::from)]).await.map(drop)
}

pub(super) async fn save_schedule(db: &Connection, schedule: &Schedule) -> Result<(), Error> {
    let sql = "WITH made AS (
             INSERT INTO schedules (id, cron, time_zone, missed, request, next_ms, last_ms, created_at, owner, problem)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (id) DO UPDATE SET owner = excluded.owner)
         SELECT harvest_wake()";
    let (missed, request) = (to_word(&schedule.missed)?, to_json(&schedule.request, "a request")?);
    let (next, last) = (schedule.next.map(Timestamp::as_millisecond), schedule.last.map(Timestamp::as_millisecond));
    let (cron, zone) = (text(&schedule.cron), text(&schedule.time_zone));
    let created = schedule.created_at.to_string();
    let owner = schedule.owner.as_ref().map(|owner| to_json(owner, "schedules.owner")).transpose()?;
    let problem = schedule.problem.as_deref().map(text);
    let id = text(&schedule.id);
    db.query(sql, &[&id, &cron, &zone, &missed, &request, &next, &last, &created, &owner, &problem]).await.map(drop)
}

pub(super) async fn remove_schedule(db: &Connection, id: &str) -> Result<bool, Error> {
    Ok(db.execute("DELETE FROM schedules WHERE id = $1", &[&text(id)]).await? > 0)
}

/// In a transaction: of several that fire the same run, the first one's update makes the others' find nothing.
pub(super) async fn fire_schedule(
    db: &Connection,
    teller: &Teller,
    id: &str,
    due: Timestamp,
    next: Option<Timestamp>,
    tasks: &[NewTask],
    problem: Option<&str>,
) -> Result<bool, Error> {
    // Everyone who writes takes the lock first.
    db.query("SELECT harvest_lock(true)", &[]).await?;
    let sql = "UPDATE schedules SET next_ms = $3, last_ms = $2, problem = $4 WHERE id = $1 AND next_ms = $2";
    let next = next.map(Timestamp::as_millisecond);
    if db.execute(sql, &[&text(id), &due.as_millisecond(), &next, &problem.map(text)]).await? == 0 {
        return Ok(false);
    }
    create::create_tasks(db, teller, tasks).await?;
    Ok(true)
}

pub(super) async fn save_template(db: &Connection, template: &Template) -> Result<(), Error> {
    let sql = "INSERT INTO templates (name, prompt, options, created_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO UPDATE SET prompt = excluded.prompt, options = excluded.options";
    let (options, created) = (to_json(&template.options, "options")?, template.created_at.to_string());
    db.execute(sql, &[&text(&template.name), &text(&template.prompt), &options, &created]).await.map(drop)
}

pub(super) async fn remove_template(db: &Connection, name: &str) -> Result<bool, Error> {
    Ok(db.execute("DELETE FROM templates WHERE name = $1", &[&text(name)]).await? > 0)
}
