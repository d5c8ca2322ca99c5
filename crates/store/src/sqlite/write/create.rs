//! New tasks: all of a batch or none.

use std::collections::HashSet;

use harvest_core::{EventBody, TaskId, TaskStatus, TokenId, find_cycle};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Effects, admit, claim, end, journal};
use crate::Error;
use crate::contract::{Claim, NewTask, Submitted, day_of};
use crate::decode;
use crate::sqlite::{quota, read};

pub(crate) fn create_tasks(db: &Connection, effects: &mut Effects, new: &[NewTask]) -> Result<Vec<Submitted>, Error> {
    refuse_cycles(new)?;
    let in_batch: HashSet<&TaskId> = new.iter().map(|task| &task.id).collect();
    let mut turns = Vec::new();
    let mut submitted = Vec::new();
    for task in new {
        match known(db, task)? {
            Some(before) => submitted.push(before),
            None => {
                turns.push((insert(db, effects, task)?, task));
                submitted.push(Submitted {
                    task: read::task(db, &task.id)?,
                    session: task.session.clone(),
                    turn: task.turn.clone(),
                    lease: None,
                    known: false,
                });
            }
        }
    }
    // Only now, since a task may wait for one behind it in the batch.
    for &(turn, task) in &turns {
        let doomed = link(db, task, &in_batch)?;
        admit::admit(db, effects, turn, &task.id)?;
        if doomed {
            end::cancel(db, effects, &task.id, task.at, "a task that it waits for did not complete")?;
        } else if let Some(owner) = &task.claim_for {
            let this = Claim {
                owner: owner.clone(),
                turn: Some(task.turn.clone()),
                most: 1,
                warm: Vec::new(),
                at: task.at,
                until: None,
            };
            let lease = claim::claim(db, effects, &this)?.pop();
            if let Some(made) = submitted.iter_mut().find(|made| made.turn == task.turn) {
                made.lease = lease;
            }
        }
    }
    let new: Vec<_> = turns.iter().map(|(_, task)| &task.admission).collect();
    if let Some((_, first)) = turns.first() {
        quota::admit(db, &new, first.at)?;
    }
    for known in &mut submitted {
        known.task = read::task(db, &known.task.id)?;
    }
    Ok(submitted)
}

fn refuse_cycles(new: &[NewTask]) -> Result<(), Error> {
    let edges: Vec<(&TaskId, &TaskId)> =
        new.iter().flat_map(|task| task.after.iter().map(move |after| (&task.id, after))).collect();
    match find_cycle(&edges) {
        None => Ok(()),
        Some(cycle) => Err(Error::Cycle(cycle.iter().map(|task| task.as_str()).collect::<Vec<_>>().join(" → "))),
    }
}

/// The task that was made under the same key before.
fn known(db: &Connection, new: &NewTask) -> Result<Option<Submitted>, Error> {
    let Some(key) = &new.key else { return Ok(None) };
    let found = db
        .prepare_cached("SELECT id, request_digest FROM tasks WHERE idempotency_key = ?1")?
        .query_row([&key.key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((id, digest)) = found else { return Ok(None) };
    if !key.is_of(&digest) {
        return Err(Error::KeyReused(key.key.clone()));
    }
    let detail = read::task_detail(db, &decode::id(&id)?)?;
    let session = detail.sessions.into_iter().next().ok_or_else(|| Error::corrupt("sessions", "a task without one"))?;
    let turn = session.turns.first().ok_or_else(|| Error::corrupt("turns", "a session without one"))?.id.clone();
    Ok(Some(Submitted { task: detail.task, session: session.id, turn, lease: None, known: true }))
}

fn insert(db: &Connection, effects: &mut Effects, new: &NewTask) -> Result<i64, Error> {
    let json = |what, value: Result<String, serde_json::Error>| value.map_err(|error| Error::corrupt(what, error));
    db.prepare_cached(
        "INSERT INTO tasks (id, kind, source, source_url, status, prompt, agent, model, repository, base, settings,
             budget_nanos, priority, on_failed_dependency, convoy, retries_left, extra, idempotency_key, request_digest,
             requested_by, created_at, stranger_day)
         VALUES (?1, ?2, ?3, ?4, 'pending', ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
             ?21)",
    )?
    .execute(params![
        new.id.as_str(),
        decode::to_word(&new.kind)?,
        decode::to_word(&new.source)?,
        new.source_url,
        new.prompt.as_str(),
        new.agent,
        new.model,
        new.repository,
        new.base,
        json("settings", serde_json::to_string(&new.settings))?,
        new.budget.nanos(),
        new.priority.as_str(),
        decode::to_word(&new.on_failed_dependency)?,
        new.convoy,
        new.retries,
        new.extra.as_ref().map(|extra| json("extra", serde_json::to_string(extra))).transpose()?,
        new.key.as_ref().map(|key| &key.key),
        new.key.as_ref().map(|key| &key.digest),
        new.requested_by,
        new.at.to_string(),
        new.admission.is_stranger.then(|| day_of(new.at)),
    ])?;
    let task = db.last_insert_rowid();
    db.prepare_cached("INSERT INTO sessions (id, task_id, branch, created_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![new.session.as_str(), new.id.as_str(), new.branch.as_str(), new.at.to_string()])?;
    let session = db.last_insert_rowid();
    let rank = new.priority.rank(new.at);
    db.prepare_cached(
        "INSERT INTO turns (id, session_id, task_id, repository, ordinal, author, prompt, status, rank, created_at,
             task, session, token, counts_for)
         VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, 'blocked', ?7, ?8, ?9, ?10, ?11, ?5)",
    )?
    .execute(params![
        new.turn.as_str(),
        new.session.as_str(),
        new.id.as_str(),
        new.repository,
        new.requested_by,
        new.prompt.as_str(),
        rank,
        new.at.to_string(),
        task,
        session,
        new.admission.token.as_ref().map(TokenId::as_str),
    ])?;
    let turn = db.last_insert_rowid();
    for cap in &new.caps {
        db.prepare_cached("INSERT OR IGNORE INTO turn_caps (turn, cap, rank) VALUES (?1, ?2, ?3)")?
            .execute(params![turn, cap, rank])?;
    }
    let created = EventBody::TaskCreated {
        task_id: new.id.clone(),
        prompt: new.prompt.clone(),
        repository: new.repository.clone(),
        base: new.base.clone(),
        agent: new.agent.clone(),
        model: new.model.clone(),
    };
    let warnings = new.warnings.iter().map(|message| EventBody::Warning { message: message.clone() });
    let events: Vec<EventBody> = std::iter::once(created).chain(warnings).collect();
    journal::write(db, effects, session, &new.session, new.at, &events)?;
    Ok(turn)
}

/// Records what the task waits for and counts what is unfinished. True when it waits for one that did not complete and is
/// to be cancelled for it.
fn link(db: &Connection, new: &NewTask, in_batch: &HashSet<&TaskId>) -> Result<bool, Error> {
    let (mut blockers, mut doomed) = (0u64, false);
    for after in new.after.iter().collect::<HashSet<_>>() {
        let status: Option<String> = db
            .prepare_cached("SELECT status FROM tasks WHERE id = ?1")?
            .query_row([after.as_str()], |row| row.get(0))
            .optional()?;
        let status = status.as_deref().and_then(TaskStatus::parse);
        let Some(status) = status else { return Err(Error::UnknownDependency(after.to_string())) };
        let satisfied = status == TaskStatus::Completed && !in_batch.contains(after);
        db.prepare_cached("INSERT INTO dependencies (task_id, after_id, satisfied) VALUES (?1, ?2, ?3)")?
            .execute(params![new.id.as_str(), after.as_str(), satisfied])?;
        blockers += u64::from(!satisfied);
        let failed = matches!(status, TaskStatus::Failed | TaskStatus::Cancelled);
        doomed |= failed && new.on_failed_dependency == harvest_core::OnFailedDependency::Cancel;
    }
    if blockers > 0 {
        db.prepare_cached("UPDATE tasks SET blockers = ?2 WHERE id = ?1")?
            .execute(params![new.id.as_str(), blockers])?;
    }
    Ok(doomed)
}
