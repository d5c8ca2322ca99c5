//! Everything that only looks.

use std::str::FromStr;

use harvest_core::{
    Attempt, BranchName, Cost, Event, EventBody, FailureReason, IdError, Prompt, Session, SessionId, Task, TaskId,
    TaskStatus, Timestamp, Turn, TurnId, Usage,
};
use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::contract::{Owner, OwnerKind, SandboxRecord, TaskDetail, TaskPage, TaskQuery};

const TASK: &str = "SELECT id, kind, source, status, reason, error, prompt, agent, model, repository, base, settings,
     budget_nanos, branch, commit_id, evidence, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
     reasoning_tokens, cost_nanos, requested_by, created_at, finished_at, number FROM tasks";
const MAX_PAGE: usize = 500;
const EXAMPLES: usize = 3;

pub(super) fn events(db: &Connection, session: &SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT seq, at, body FROM events WHERE session = (SELECT number FROM sessions WHERE id = ?1) AND seq > ?2
         ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query(params![session.as_str(), after, limit as u64])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let body: EventBody =
            serde_json::from_str(row.get_ref(2)?.as_str().map_err(|error| Error::corrupt("events.body", error))?)
                .map_err(|error| Error::corrupt("events.body", error))?;
        events.push(Event { seq: row.get(0)?, at: time(row, 1)?, session_id: session.clone(), body });
    }
    Ok(events)
}

pub(super) fn tasks(db: &Connection, query: &TaskQuery) -> Result<TaskPage, Error> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    let before = query.cursor.as_deref().map(str::parse::<i64>).transpose();
    let before = before.map_err(|_| Error::UnknownTask(format!("cursor {}", query.cursor.as_deref().unwrap_or_default())))?;
    let mut statement = db.prepare_cached(&format!(
        "{TASK} WHERE number < ?1 AND (?2 IS NULL OR status = ?2) ORDER BY number DESC LIMIT ?3"
    ))?;
    let status = query.status.map(TaskStatus::as_str);
    let mut rows = statement.query(params![before.unwrap_or(i64::MAX), status, limit as u64 + 1])?;
    let mut items = Vec::new();
    let mut last = None;
    while let Some(row) = rows.next()? {
        if items.len() == limit {
            return Ok(TaskPage { items, next_cursor: last });
        }
        last = Some(row.get::<_, i64>(25)?.to_string());
        items.push(task_from(row)?);
    }
    Ok(TaskPage { items, next_cursor: None })
}

pub(super) fn task(db: &Connection, id: &TaskId) -> Result<Task, Error> {
    let mut statement = db.prepare_cached(&format!("{TASK} WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    let row = rows.next()?.ok_or_else(|| Error::UnknownTask(id.to_string()))?;
    task_from(row)
}

pub(super) fn task_of_session(db: &Connection, session: &SessionId) -> Result<TaskId, Error> {
    let task: String = db
        .prepare_cached("SELECT task_id FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))?;
    id(&task)
}

pub(super) fn task_detail(db: &Connection, task_id: &TaskId) -> Result<TaskDetail, Error> {
    let task = task(db, task_id)?;
    let mut statement =
        db.prepare_cached("SELECT id, branch, created_at FROM sessions WHERE task_id = ?1 ORDER BY number")?;
    let mut rows = statement.query([task_id.as_str()])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let session: SessionId = id_at(row, 0)?;
        sessions.push(Session {
            turns: turns(db, &session)?,
            id: session,
            task_id: task_id.clone(),
            branch: branch(row.get(1)?)?,
            created_at: time(row, 2)?,
        });
    }
    Ok(TaskDetail { task, sessions })
}

fn turns(db: &Connection, session: &SessionId) -> Result<Vec<Turn>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT id, ordinal, author, prompt, status, created_at FROM turns WHERE session_id = ?1 ORDER BY ordinal",
    )?;
    let mut rows = statement.query([session.as_str()])?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        let turn: TurnId = id_at(row, 0)?;
        turns.push(Turn {
            attempts: attempts(db, &turn)?,
            id: turn,
            session_id: session.clone(),
            number: row.get(1)?,
            author: row.get(2)?,
            prompt: prompt(row.get(3)?)?,
            status: from_word(&row.get::<_, String>(4)?, "turns.status")?,
            created_at: time(row, 5)?,
        });
    }
    Ok(turns)
}

fn attempts(db: &Connection, turn: &TurnId) -> Result<Vec<Attempt>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT id, agent, command, exit_code, stderr_tail, started_at, finished_at FROM attempts WHERE turn_id = ?1
         ORDER BY number",
    )?;
    let mut rows = statement.query([turn.as_str()])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        attempts.push(Attempt {
            id: id_at(row, 0)?,
            turn_id: turn.clone(),
            agent: row.get(1)?,
            command: from_json(&row.get::<_, String>(2)?, "attempts.command")?,
            exit_code: row.get(3)?,
            stderr_tail: row.get(4)?,
            started_at: time(row, 5)?,
            finished_at: optional_time(row, 6)?,
        });
    }
    Ok(attempts)
}

pub(super) fn find_task(db: &Connection, prefix: &str) -> Result<TaskId, Error> {
    // An id is plain ASCII; anything else fits no task, and never becomes part of a pattern.
    if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Error::UnknownTask(prefix.to_owned()));
    }
    let prefix = prefix.to_ascii_lowercase();
    let mut statement = db.prepare_cached("SELECT id FROM tasks WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id")?;
    let found: Vec<String> = statement.query_map([&prefix], |row| row.get(0))?.collect::<Result<_, _>>()?;
    match found.as_slice() {
        [] => Err(Error::UnknownTask(prefix)),
        [only] => id(only),
        several => Err(Error::AmbiguousId {
            prefix,
            count: several.len(),
            examples: several.iter().take(EXAMPLES).cloned().collect::<Vec<_>>().join(", "),
        }),
    }
}

pub(super) fn owners(db: &Connection) -> Result<Vec<Owner>, Error> {
    let mut statement = db.prepare_cached("SELECT id, kind, pid FROM owners")?;
    let mut rows = statement.query([])?;
    let mut owners = Vec::new();
    while let Some(row) = rows.next()? {
        let kind: OwnerKind = from_word(&row.get::<_, String>(1)?, "owners.kind")?;
        owners.push(Owner { id: id_at(row, 0)?, kind, pid: row.get(2)? });
    }
    Ok(owners)
}

pub(super) fn sandboxes(db: &Connection) -> Result<Vec<SandboxRecord>, Error> {
    let mut statement = db.prepare_cached("SELECT id, owner, session_id, purpose, provider FROM sandboxes")?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(SandboxRecord {
            id: id_at(row, 0)?,
            owner: id_at(row, 1)?,
            session: id_at(row, 2)?,
            purpose: from_word(&row.get::<_, String>(3)?, "sandboxes.purpose")?,
            provider: row.get(4)?,
        });
    }
    Ok(records)
}

fn task_from(row: &Row<'_>) -> Result<Task, Error> {
    let status: String = row.get(3)?;
    let reason: Option<String> = row.get(4)?;
    let evidence: Option<String> = row.get(15)?;
    Ok(Task {
        id: id_at(row, 0)?,
        kind: from_word(&row.get::<_, String>(1)?, "tasks.kind")?,
        source: from_word(&row.get::<_, String>(2)?, "tasks.source")?,
        status: TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?,
        reason: reason
            .map(|reason| FailureReason::parse(&reason).ok_or_else(|| Error::corrupt("tasks.reason", reason)))
            .transpose()?,
        error: row.get(5)?,
        prompt: prompt(row.get(6)?)?,
        agent: row.get(7)?,
        model: row.get(8)?,
        repository: row.get(9)?,
        base: row.get(10)?,
        settings: from_json(&row.get::<_, String>(11)?, "tasks.settings")?,
        budget_usd: Cost::from_nanos(row.get(12)?),
        branch: row.get::<_, Option<String>>(13)?.map(branch).transpose()?,
        commit: row.get(14)?,
        evidence: evidence.map(|evidence| from_json(&evidence, "tasks.evidence")).transpose()?,
        usage: Usage {
            input_tokens: row.get(16)?,
            output_tokens: row.get(17)?,
            cache_read_tokens: row.get(18)?,
            cache_write_tokens: row.get(19)?,
            reasoning_tokens: row.get(20)?,
        },
        cost_usd: Cost::from_nanos(row.get(21)?),
        requested_by: row.get(22)?,
        created_at: time(row, 23)?,
        finished_at: optional_time(row, 24)?,
    })
}

fn prompt(text: String) -> Result<Prompt, Error> {
    Prompt::new(text).map_err(|error| Error::corrupt("a prompt", error))
}

fn branch(text: String) -> Result<BranchName, Error> {
    serde_json::from_value(text.into()).map_err(|error| Error::corrupt("a branch", error))
}

fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, Error> {
    let text = row.get_ref(column)?.as_str().map_err(|error| Error::corrupt("a time", error))?;
    text.parse().map_err(|error: <Timestamp as FromStr>::Err| Error::corrupt("a time", error))
}

fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, Error> {
    if row.get_ref(column)? == rusqlite::types::ValueRef::Null { Ok(None) } else { time(row, column).map(Some) }
}

fn id_at<T: FromStr<Err = IdError>>(row: &Row<'_>, column: usize) -> Result<T, Error> {
    id(&row.get::<_, String>(column)?)
}

pub(super) fn id<T: FromStr<Err = IdError>>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::corrupt("an id", error))
}

fn from_json<T: DeserializeOwned>(text: &str, what: &'static str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::corrupt(what, error))
}

/// Enums without fields are stored under the word that the wire uses.
fn from_word<T: DeserializeOwned>(word: &str, what: &'static str) -> Result<T, Error> {
    serde_json::from_value(word.into()).map_err(|error| Error::corrupt(what, error))
}

pub(super) fn to_word(value: &impl Serialize) -> Result<String, Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(Error::corrupt("an enum", format!("{other} is not a word"))),
        Err(error) => Err(Error::corrupt("an enum", error)),
    }
}
