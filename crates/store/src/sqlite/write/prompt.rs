//! Sessions that go on: another prompt, now or when those before it are done.

use harvest_core::{EventBody, Move, TaskStatus, TokenId, Turn};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Effects, admit, end, journal};
use crate::Error;
use crate::contract::NewTurn;
use crate::decode;
use crate::record::Prompted;
use crate::sqlite::{quota, read};

pub(crate) fn prompt(db: &Connection, effects: &mut Effects, new: &NewTurn) -> Result<Prompted, Error> {
    if let Some(turn) = known(db, new)? {
        return Ok(Prompted { turn, known: true });
    }
    let session = db
        .prepare_cached("SELECT number, task_id FROM sessions WHERE id = ?1")?
        .query_row([new.session.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((session, task_id)) = session else { return Err(Error::UnknownSession(new.session.to_string())) };
    let task = read::task(db, &decode::id(&task_id)?)?;
    let task_number: i64 =
        db.prepare_cached("SELECT number FROM tasks WHERE id = ?1")?.query_row([&task_id], |row| row.get(0))?;
    let number: u32 = db
        .prepare_cached("SELECT max(ordinal) + 1 FROM turns WHERE session_id = ?1")?
        .query_row([new.session.as_str()], |row| row.get(0))?;
    let rank = task.priority.rank(new.at);
    let under_way = quota::under_way(db, &new.admission.limits)?;
    db.prepare_cached(
        "INSERT INTO turns (id, session_id, task_id, repository, ordinal, author, prompt, status, rank, created_at,
             task, session, agent, model, idempotency_key, request_digest, token, counts_for)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(params![
        new.id.as_str(),
        new.session.as_str(),
        task_id,
        task.repository,
        number,
        new.author,
        new.prompt.as_str(),
        rank,
        new.at.to_string(),
        task_number,
        session,
        new.agent,
        new.model,
        new.key.as_ref().map(|key| &key.key),
        new.key.as_ref().map(|key| &key.digest),
        new.admission.token.as_ref().map(TokenId::as_str),
        new.admission.person.as_ref().unwrap_or(&new.author),
    ])?;
    let turn = db.last_insert_rowid();
    for cap in &new.caps {
        db.prepare_cached("INSERT OR IGNORE INTO turn_caps (turn, cap, rank) VALUES (?1, ?2, ?3)")?
            .execute(params![turn, cap, rank])?;
    }
    let queued = EventBody::TurnQueued {
        turn_id: new.id.clone(),
        number,
        author: new.author.clone(),
        prompt: new.prompt.clone(),
        agent: new.agent.clone(),
        model: new.model.clone(),
        delivers: new.delivers,
    };
    journal::write(db, effects, session, &new.session, new.at, &[queued])?;
    if task.status.is_finished() {
        quota::count_line_for(db, task_number, new.admission.person.as_ref().unwrap_or(&new.author))?;
        go_on(db, effects, task_number)?;
        quota::admit(db, &[&new.admission], new.at)?;
    } else {
        quota::admit_more(db, &new.admission.limits, &under_way, new.at)?;
    }
    Ok(Prompted { turn: read::turn(db, &new.id)?, known: false })
}

/// The turn that was made under the same key before.
fn known(db: &Connection, new: &NewTurn) -> Result<Option<Turn>, Error> {
    let Some(key) = &new.key else { return Ok(None) };
    let found = db
        .prepare_cached("SELECT id, request_digest FROM turns WHERE idempotency_key = ?1")?
        .query_row([&key.key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    match found {
        None => Ok(None),
        Some((_, digest)) if !key.is_of(&digest) => Err(Error::KeyReused(key.key.clone())),
        Some((id, _)) => read::turn(db, &decode::id(&id)?).map(Some),
    }
}

/// The next prompt in line for a task that has ended, if there is one: the task is pending again, and the turn where it
/// belongs. False when nothing is in line.
pub(crate) fn go_on(db: &Connection, effects: &mut Effects, task: i64) -> Result<bool, Error> {
    let next = db
        .prepare_cached(
            "SELECT number, task_id FROM turns WHERE task = ?1 AND status = 'queued' ORDER BY ordinal LIMIT 1",
        )?
        .query_row([task], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((turn, task_id)) = next else { return Ok(false) };
    let status: String =
        db.prepare_cached("SELECT status FROM tasks WHERE number = ?1")?.query_row([task], |row| row.get(0))?;
    let cancelled = status == TaskStatus::Cancelled.as_str();
    end::follow_up(db, task, if cancelled { Move::Retry } else { Move::FollowUp })?;
    admit::admit(db, effects, turn, &decode::id(&task_id)?)?;
    Ok(true)
}
