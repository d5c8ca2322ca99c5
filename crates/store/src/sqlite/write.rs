//! Everything that changes the database. Each function runs in a savepoint of the writer's transaction.

use harvest_core::{
    Attempt, EventBody, FailureReason, Move, Outcome, OwnerId, SandboxId, SessionId, Task, TaskId, TaskStatus, Timestamp,
    TurnId, Usage,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::read;
use crate::Error;
use crate::contract::{AttemptUpdate, Lease, NewTask, Owner, OwnerKind, SandboxRecord, Step, Submitted};

pub(super) fn create_task(db: &Connection, new: &NewTask) -> Result<Submitted, Error> {
    db.prepare_cached(
        "INSERT INTO tasks (id, kind, source, status, prompt, agent, model, repository, base, settings, budget_nanos,
             requested_by, created_at)
         VALUES (?1, ?2, ?3, 'pending', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        new.id.as_str(),
        read::to_word(&new.kind)?,
        read::to_word(&new.source)?,
        new.prompt.as_str(),
        new.agent,
        new.model,
        new.repository,
        new.base,
        serde_json::to_string(&new.settings).map_err(|error| Error::corrupt("settings", error))?,
        new.budget.nanos(),
        new.requested_by,
        new.at.to_string(),
    ])?;
    db.prepare_cached("INSERT INTO sessions (id, task_id, branch, created_at) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        new.session.as_str(),
        new.id.as_str(),
        new.branch.as_str(),
        new.at.to_string()
    ])?;
    db.prepare_cached(
        "INSERT INTO turns (id, session_id, ordinal, author, prompt, status, rank, created_at, owner)
         VALUES (?1, ?2, 1, ?3, ?4, 'ready', ?5, ?6, ?7)",
    )?
    .execute(params![
        new.turn.as_str(),
        new.session.as_str(),
        new.requested_by,
        new.prompt.as_str(),
        new.at.as_millisecond(),
        new.at.to_string(),
        new.owner.as_ref().map(OwnerId::as_str),
    ])?;
    let created = EventBody::TaskCreated {
        task_id: new.id.clone(),
        prompt: new.prompt.clone(),
        repository: new.repository.clone(),
        base: new.base.clone(),
        agent: new.agent.clone(),
        model: new.model.clone(),
    };
    journal(db, &new.session, new.at, &[created])?;
    Ok(Submitted { task: read::task(db, &new.id)?, session: new.session.clone(), turn: new.turn.clone() })
}

/// Claims the best ready turn, or the given one, and returns the number of the session's last event.
pub(super) fn claim(
    db: &Connection,
    owner: &OwnerId,
    turn: Option<&TurnId>,
    at: Timestamp,
) -> Result<Option<(Lease, u64)>, Error> {
    let claimed = db
        .prepare_cached(
            "UPDATE turns SET status = 'claimed', owner = ?1, fence = fence + 1
             WHERE number = (SELECT number FROM turns WHERE status = 'ready' AND (?2 IS NULL OR id = ?2)
                               AND (owner IS NULL OR owner = ?1)
                             ORDER BY rank, number LIMIT 1)
             RETURNING id, session_id, fence, ordinal, author",
        )?
        .query_row(params![owner.as_str(), turn.map(TurnId::as_str)], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, u64>(2)?,
                row.get::<_, u32>(3)?,
                row.get::<_, String>(4)?,
            ))
        })
        .optional()?;
    let Some((turn, session, fence, number, author)) = claimed else { return Ok(None) };
    let turn: TurnId = read::id(&turn)?;
    let session: SessionId = read::id(&session)?;
    let task = read::task_of_session(db, &session)?;
    move_task(db, &task, Move::Claim)?;
    let last = journal(db, &session, at, &[EventBody::TurnStarted { turn_id: turn.clone(), number, author }])?;
    Ok(Some((Lease { task, session, turn, fence }, last)))
}

pub(super) fn take_over(db: &Connection, dead: &OwnerId, heir: &OwnerId) -> Result<Vec<Lease>, Error> {
    let mut statement = db.prepare_cached(
        "UPDATE turns SET status = 'claimed', owner = ?2, fence = fence + 1
         WHERE owner = ?1 AND status IN ('ready', 'claimed')
         RETURNING id, session_id, fence",
    )?;
    let rows = statement.query_map(params![dead.as_str(), heir.as_str()], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, u64>(2)?))
    })?;
    let mut leases = Vec::new();
    for row in rows {
        let (turn, session, fence) = row?;
        let session: SessionId = read::id(&session)?;
        let task = read::task_of_session(db, &session)?;
        if read::task(db, &task)?.status == TaskStatus::Pending {
            move_task(db, &task, Move::Claim)?;
        }
        leases.push(Lease { task, session, turn: read::id(&turn)?, fence });
    }
    Ok(leases)
}

pub(super) fn append(db: &Connection, lease: &Lease, step: &Step) -> Result<u64, Error> {
    let fence: Option<u64> = db
        .prepare_cached("SELECT fence FROM turns WHERE id = ?1 AND status = 'claimed'")?
        .query_row([lease.turn.as_str()], |row| row.get(0))
        .optional()?;
    if fence != Some(lease.fence) {
        return Err(Error::StaleLease { turn: lease.turn.to_string(), held: lease.fence });
    }
    for body in &step.events {
        if let EventBody::Usage { usage, cost_usd, .. } = body {
            add_usage(db, &lease.task, usage, cost_usd.nanos())?;
        }
    }
    if let Some(update) = &step.attempt {
        update_attempt(db, update, step.at)?;
    }
    if let Some(by) = step.to {
        move_task(db, &lease.task, by)?;
    }
    if let Some(outcome) = &step.outcome {
        end_task(db, outcome, step.at)?;
        db.prepare_cached("UPDATE turns SET status = 'done', owner = NULL WHERE id = ?1")?.execute([lease.turn.as_str()])?;
    }
    journal(db, &lease.session, step.at, &step.events)
}

pub(super) fn cancel_waiting(db: &Connection, task: &TaskId, at: Timestamp) -> Result<Option<(Outcome, u64)>, Error> {
    let waiting = db
        .prepare_cached(
            "SELECT turns.id, sessions.id FROM turns JOIN sessions ON sessions.id = turns.session_id
             WHERE sessions.task_id = ?1 AND turns.status = 'ready'",
        )?
        .query_row([task.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((turn, session)) = waiting else { return Ok(None) };
    let (turn_id, session_id): (TurnId, SessionId) = (read::id(&turn)?, read::id(&session)?);
    let Task { base, usage, cost_usd, .. } = read::task(db, task)?;
    let outcome = Outcome {
        task_id: task.clone(),
        session_id,
        status: TaskStatus::Cancelled,
        reason: Some(FailureReason::Cancelled),
        error: Some("cancelled before anyone worked on it".to_owned()),
        branch: None,
        commit: base.clone(),
        base,
        evidence: None,
        usage,
        cost_usd,
    };
    move_task(db, task, Move::Cancel)?;
    end_task(db, &outcome, at)?;
    db.prepare_cached("UPDATE turns SET status = 'done', owner = NULL WHERE id = ?1")?.execute([turn_id.as_str()])?;
    let events = [
        EventBody::TurnFinished { turn_id, reason: Some(FailureReason::Cancelled) },
        EventBody::TaskFinished(outcome.clone()),
    ];
    let last = journal(db, &outcome.session_id, at, &events)?;
    Ok(Some((outcome, last)))
}

pub(super) fn register_owner(db: &Connection, owner: &Owner) -> Result<(), Error> {
    let kind = match owner.kind {
        OwnerKind::Run => "run",
        OwnerKind::Server => "server",
    };
    db.execute("INSERT INTO owners (id, kind, pid) VALUES (?1, ?2, ?3)", params![owner.id.as_str(), kind, owner.pid])?;
    Ok(())
}

pub(super) fn remove_owner(db: &Connection, owner: &OwnerId) -> Result<(), Error> {
    db.execute("DELETE FROM owners WHERE id = ?1", [owner.as_str()])?;
    Ok(())
}

pub(super) fn record_sandbox(db: &Connection, record: &SandboxRecord) -> Result<(), Error> {
    db.prepare_cached("INSERT INTO sandboxes (id, owner, session_id, purpose, provider) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            record.id.as_str(),
            record.owner.as_str(),
            record.session.as_str(),
            read::to_word(&record.purpose)?,
            record.provider,
        ])?;
    Ok(())
}

pub(super) fn forget_sandbox(db: &Connection, id: &SandboxId) -> Result<(), Error> {
    db.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}

fn journal(db: &Connection, session: &SessionId, at: Timestamp, events: &[EventBody]) -> Result<u64, Error> {
    let (number, last): (i64, u64) = db
        .prepare_cached("UPDATE sessions SET last_seq = last_seq + ?2 WHERE id = ?1 RETURNING number, last_seq")?
        .query_row(params![session.as_str(), events.len() as u64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut insert = db.prepare_cached("INSERT INTO events (session, seq, at, body) VALUES (?1, ?2, ?3, ?4)")?;
    let at = at.to_string();
    let first = last - events.len() as u64 + 1;
    for (seq, body) in (first..).zip(events) {
        let body = serde_json::to_string(body).map_err(|error| Error::corrupt("an event", error))?;
        insert.execute(params![number, seq, at, body])?;
    }
    Ok(last)
}

fn move_task(db: &Connection, task: &TaskId, by: Move) -> Result<(), Error> {
    let status: String = db
        .prepare_cached("SELECT status FROM tasks WHERE id = ?1")?
        .query_row([task.as_str()], |row| row.get(0))?;
    let status = TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?;
    let next = status.after(by)?;
    db.prepare_cached("UPDATE tasks SET status = ?2 WHERE id = ?1")?.execute([task.as_str(), next.as_str()])?;
    Ok(())
}

fn end_task(db: &Connection, outcome: &Outcome, at: Timestamp) -> Result<(), Error> {
    let evidence = outcome.evidence.as_ref().map(serde_json::to_string).transpose();
    let evidence = evidence.map_err(|error| Error::corrupt("evidence", error))?;
    db.prepare_cached(
        "UPDATE tasks SET reason = ?2, error = ?3, branch = ?4, commit_id = ?5, evidence = ?6, finished_at = ?7
         WHERE id = ?1",
    )?
    .execute(params![
        outcome.task_id.as_str(),
        outcome.reason.map(FailureReason::as_str),
        outcome.error,
        outcome.branch.as_ref().map(harvest_core::BranchName::as_str),
        outcome.commit,
        evidence,
        at.to_string(),
    ])?;
    Ok(())
}

fn add_usage(db: &Connection, task: &TaskId, usage: &Usage, cost_nanos: u64) -> Result<(), Error> {
    db.prepare_cached(
        "UPDATE tasks SET input_tokens = input_tokens + ?2, output_tokens = output_tokens + ?3,
             cache_read_tokens = cache_read_tokens + ?4, cache_write_tokens = cache_write_tokens + ?5,
             reasoning_tokens = reasoning_tokens + ?6, cost_nanos = cost_nanos + ?7
         WHERE id = ?1",
    )?
    .execute(params![
        task.as_str(),
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        cost_nanos,
    ])?;
    Ok(())
}

fn update_attempt(db: &Connection, update: &AttemptUpdate, at: Timestamp) -> Result<(), Error> {
    match update {
        AttemptUpdate::Started(Attempt { id, turn_id, agent, command, started_at, .. }) => {
            let command = serde_json::to_string(command).map_err(|error| Error::corrupt("a command", error))?;
            db.prepare_cached(
                "INSERT INTO attempts (id, turn_id, agent, command, started_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![id.as_str(), turn_id.as_str(), agent, command, started_at.to_string()])?;
        }
        AttemptUpdate::Journaled { attempt, offset } => {
            db.prepare_cached("UPDATE attempts SET journaled = ?2 WHERE id = ?1")?
                .execute(params![attempt.as_str(), offset])?;
        }
        AttemptUpdate::Finished { attempt, exit_code, stderr_tail } => {
            db.prepare_cached("UPDATE attempts SET exit_code = ?2, stderr_tail = ?3, finished_at = ?4 WHERE id = ?1")?
                .execute(params![attempt.as_str(), exit_code, stderr_tail, at.to_string()])?;
        }
    }
    Ok(())
}
