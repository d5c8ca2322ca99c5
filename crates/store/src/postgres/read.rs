//! Tasks and journals, as they are.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use harvest_core::{
    Attempt, AttemptId, Awaited, Cost, Event, FailureReason, IdError, Session, SessionId, Task, TaskId, TaskStatus,
    Timestamp, Turn, TurnId, Usage, Waiting,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::{Connection, Params};
use super::step::text;
use crate::Error;
use crate::contract::{Order, TaskDetail, TaskPage, TaskQuery};
use crate::decode::{self, branch, from_json, from_word, id, prompt};

const TASK: &str =
    "SELECT tasks.*, ARRAY(SELECT after_id FROM dependencies WHERE task_id = tasks.id ORDER BY after_id) AS after
     FROM tasks";
const MAX_PAGE: usize = 500;

pub(super) async fn events(
    db: &Connection,
    session: &SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<Event>, Error> {
    let sql =
        "SELECT seq, at, body FROM events WHERE session = (SELECT number FROM sessions WHERE id = $1) AND seq > $2
         ORDER BY seq LIMIT $3";
    let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = db.query(sql, &[&session.as_str(), &after, &limit]).await?;
    rows.iter()
        .map(|row| {
            Ok(Event {
                seq: number(row, "seq"),
                at: time(row, "at")?,
                session_id: session.clone(),
                body: from_json(row.get("body"), "events.body")?,
            })
        })
        .collect()
}

pub(super) async fn tasks(db: &Connection, query: &TaskQuery) -> Result<TaskPage, Error> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    let before =
        query.cursor.as_deref().map(|cursor| cursor.parse::<i64>().map_err(|_| Error::BadCursor(cursor.to_owned())));
    let order = query.order;
    let before = before.transpose()?.unwrap_or(order.start());
    let more = limit as i64 + 1;
    // Only the filters that are given, so that each list walks the index made for it.
    let mut filter = format!("number {} $1", order.comparison());
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&before, &more];
    let status = query.status.map(TaskStatus::as_str);
    let given = [
        ("status", status.as_ref().map(|value| value as &(dyn ToSql + Sync))),
        ("repository", query.repository.as_ref().map(|value| value as &(dyn ToSql + Sync))),
        ("convoy", query.convoy.as_ref().map(|value| value as &(dyn ToSql + Sync))),
        ("requested_by", query.requested_by.as_ref().map(|value| value as &(dyn ToSql + Sync))),
        ("agent", query.agent.as_ref().map(|value| value as &(dyn ToSql + Sync))),
    ];
    for (column, value) in given {
        if let Some(value) = value {
            values.push(value);
            filter.push_str(&format!(" AND {column} = ${}", values.len()));
        }
    }
    let words = query.search.as_ref().map(|words| text(&words.to_lowercase()).into_owned());
    if let Some(words) = &words {
        values.push(words);
        filter.push_str(&format!(" AND position(${} IN lower(prompt)) > 0", values.len()));
    }
    if let Some(repositories) = &query.among {
        values.push(repositories);
        filter.push_str(&format!(" AND repository = ANY(${})", values.len()));
    }
    let among = match order {
        Order::NewestFirst => query.status.map(among).unwrap_or_default(),
        Order::OldestFirst => String::new(),
    };
    let direction = order.direction();
    let rows =
        db.query(&format!("{TASK} {among} WHERE {filter} ORDER BY number {direction} LIMIT $2"), &values).await?;
    let items = rows.iter().take(limit).map(task_from).collect::<Result<_, _>>()?;
    let last = rows.get(limit - 1).map(|row| row.get::<_, i64>("number").to_string());
    Ok(TaskPage { items, next_cursor: last.filter(|_| rows.len() > limit) })
}

/// Where to look for the tasks of a status: in a table that holds few others.
fn among(status: TaskStatus) -> String {
    let tasks = match status {
        TaskStatus::Provisioning | TaskStatus::Running => {
            "SELECT DISTINCT task FROM leases JOIN turns ON turns.number = leases.turn WHERE task < $1".to_owned()
        }
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => {
            format!("SELECT task FROM endings WHERE status = '{}' AND task < $1", status.as_str())
        }
        TaskStatus::Pending | TaskStatus::AwaitingApproval | TaskStatus::Interrupted => return String::new(),
    };
    format!("JOIN ({tasks} ORDER BY task DESC) AS t ON number = t.task")
}

pub(super) async fn waiting(
    db: &Connection,
    tasks: &[TaskId],
    among: Option<&[String]>,
) -> Result<BTreeMap<TaskId, Waiting>, Error> {
    let tasks: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
    let sql = "SELECT sessions.task_id, turns.status FROM turns JOIN sessions ON sessions.id = turns.session_id
               JOIN tasks ON tasks.id = sessions.task_id
               WHERE sessions.task_id = ANY($1) AND tasks.status = 'pending' AND turns.status <> 'done'
               ORDER BY sessions.number, turns.ordinal";
    let mut found = BTreeMap::new();
    for row in db.query(sql, &[&tasks]).await? {
        let turn = from_word(row.get("status"), "turns.status")?;
        found.entry(id(row.get("task_id"))?).or_insert(Waiting { turn, after: Vec::new() });
    }
    let sql = "SELECT dependencies.task_id, after_id, status, repository
               FROM dependencies JOIN tasks ON tasks.id = after_id
               WHERE dependencies.task_id = ANY($1) AND status <> 'completed' ORDER BY dependencies.task_id, after_id";
    for row in db.query(sql, &[&tasks]).await? {
        let Some(waiting) = found.get_mut(&id::<TaskId>(row.get("task_id"))?) else { continue };
        let (status, repository): (String, String) = (row.get("status"), row.get("repository"));
        let status = TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?;
        let is_seen = among.is_none_or(|among| among.contains(&repository));
        waiting.after.push(Awaited { id: id(row.get("after_id"))?, status: is_seen.then_some(status) });
    }
    Ok(found)
}

pub(super) async fn tasks_by_id(db: &Connection, ids: &[&TaskId]) -> Result<HashMap<TaskId, Task>, Error> {
    let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    let rows = db.query(&format!("{TASK} WHERE id = ANY($1)"), &[&ids]).await?;
    rows.iter().map(|row| task_from(row).map(|task| (task.id.clone(), task))).collect()
}

pub(super) async fn task_detail(db: &Connection, task_id: &TaskId) -> Result<TaskDetail, Error> {
    let unknown = || Error::UnknownTask(task_id.to_string());
    let task = tasks_by_id(db, &[task_id]).await?.remove(task_id).ok_or_else(unknown)?;
    let sessions = sessions(db, "task_id = $1", task_id.as_str()).await?;
    Ok(TaskDetail { task, sessions })
}

pub(super) async fn session(db: &Connection, session: &SessionId) -> Result<Session, Error> {
    let unknown = || Error::UnknownSession(session.to_string());
    sessions(db, "id = $1", session.as_str()).await?.pop().ok_or_else(unknown)
}

async fn sessions(db: &Connection, which: &str, of: &str) -> Result<Vec<Session>, Error> {
    let sql = format!("SELECT id, branch, created_at, task_id FROM sessions WHERE {which} ORDER BY number");
    let mut sessions = Vec::new();
    for row in db.query(&sql, &[&of]).await? {
        let (session, task): (SessionId, TaskId) = (id(row.get("id"))?, id(row.get("task_id"))?);
        // By the task as well: that is the index there is.
        let (which, of) = ("task_id = $1 AND session_id = $2", [task.as_str(), session.as_str()]);
        sessions.push(Session {
            turns: turns(db, which, &[&of[0], &of[1]]).await?,
            id: session,
            task_id: task,
            branch: branch(row.get("branch"))?,
            created_at: time(&row, "created_at")?,
        });
    }
    Ok(sessions)
}

pub(super) async fn turn(db: &Connection, turn: &TurnId) -> Result<Turn, Error> {
    let found = turns(db, "id = $1", &[&turn.as_str()]).await?.pop();
    found.ok_or_else(|| Error::corrupt("turns", "a turn that is gone"))
}

async fn turns(db: &Connection, which: &str, of: Params<'_>) -> Result<Vec<Turn>, Error> {
    let sql = format!(
        "SELECT id, ordinal, author, prompt, status, created_at, session_id, agent, model, acts_for, token,
             CASE status WHEN 'done' THEN ended END AS ended
         FROM turns WHERE {which} ORDER BY ordinal"
    );
    let mut turns = Vec::new();
    for row in db.query(&sql, of).await? {
        let turn: TurnId = id(row.get("id"))?;
        turns.push(Turn {
            attempts: attempts(db, &turn).await?,
            id: turn,
            session_id: id(row.get("session_id"))?,
            number: small(&row, "ordinal")?,
            author: row.get("author"),
            prompt: prompt(row.get("prompt"))?,
            agent: row.get("agent"),
            model: row.get("model"),
            status: from_word(row.get("status"), "turns.status")?,
            ended: row.get::<_, Option<&str>>("ended").map(|word| from_word(word, "turns.ended")).transpose()?,
            created_at: time(&row, "created_at")?,
            acts_for: row.get("acts_for"),
            token: row.get::<_, Option<&str>>("token").map(id).transpose()?,
        });
    }
    Ok(turns)
}

async fn attempts(db: &Connection, turn: &TurnId) -> Result<Vec<Attempt>, Error> {
    let sql =
        "SELECT id, agent, command, exit_code, stderr_tail, started_at, finished_at FROM attempts WHERE turn_id = $1
         ORDER BY number";
    let rows = db.query(sql, &[&turn.as_str()]).await?;
    rows.iter()
        .map(|row| {
            Ok(Attempt {
                id: id(row.get("id"))?,
                turn_id: turn.clone(),
                agent: row.get("agent"),
                command: from_json(row.get("command"), "attempts.command")?,
                exit_code: row.get::<_, Option<i64>>("exit_code").map(|code| code as i32),
                stderr_tail: row.get("stderr_tail"),
                started_at: time(row, "started_at")?,
                finished_at: optional_time(row, "finished_at")?,
            })
        })
        .collect()
}

pub(super) async fn journaled(db: &Connection, attempt: &AttemptId) -> Result<u64, Error> {
    let found = db.query("SELECT journaled FROM attempts WHERE id = $1", &[&attempt.as_str()]).await?;
    Ok(found.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
}

pub(super) async fn find_task(db: &Connection, prefix: &str, among: Option<&[String]>) -> Result<TaskId, Error> {
    find(db, ("tasks", "repository"), prefix, among, Error::UnknownTask).await
}

pub(super) async fn find_session(db: &Connection, prefix: &str, among: Option<&[String]>) -> Result<SessionId, Error> {
    let repository = "(SELECT repository FROM tasks WHERE tasks.id = sessions.task_id)";
    find(db, ("sessions", repository), prefix, among, Error::UnknownSession).await
}

async fn find<T: FromStr<Err = IdError>>(
    db: &Connection,
    (table, repository): (&'static str, &str),
    text: &str,
    among: Option<&[String]>,
    unknown: fn(String) -> Error,
) -> Result<T, Error> {
    let Some(prefix) = decode::prefix(text) else { return Err(unknown(text.to_owned())) };
    let sql = format!(
        "SELECT id FROM {table} WHERE id >= $1 AND id < $2 AND ($3::text[] IS NULL OR {repository} = ANY($3)) ORDER BY id"
    );
    let rows = db.query(&sql, &[&prefix, &format!("{prefix}~"), &among]).await?;
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    decode::only(table, prefix, &found, unknown)
}

fn task_from(row: &Row) -> Result<Task, Error> {
    let status: String = row.get("status");
    let reason: Option<String> = row.get("reason");
    let (extra, evidence): (Option<&str>, Option<&str>) = (row.get("extra"), row.get("evidence"));
    let after: Vec<&str> = row.get("after");
    Ok(Task {
        id: id(row.get("id"))?,
        kind: from_word(row.get("kind"), "tasks.kind")?,
        source: from_word(row.get("source"), "tasks.source")?,
        status: TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?,
        reason: reason
            .map(|reason| FailureReason::parse(&reason).ok_or_else(|| Error::corrupt("tasks.reason", reason)))
            .transpose()?,
        error: row.get("error"),
        prompt: prompt(row.get("prompt"))?,
        agent: row.get("agent"),
        model: row.get("model"),
        repository: row.get("repository"),
        base: row.get("base"),
        settings: from_json(row.get("settings"), "tasks.settings")?,
        priority: from_word(row.get("priority"), "tasks.priority")?,
        after: after.into_iter().map(id).collect::<Result<_, _>>()?,
        on_failed_dependency: from_word(row.get("on_failed_dependency"), "tasks.on_failed_dependency")?,
        convoy: row.get("convoy"),
        retries_left: small(row, "retries_left")?,
        tries: small(row, "tries")?,
        source_url: row.get("source_url"),
        extra: extra.map(|extra| from_json(extra, "tasks.extra")).transpose()?,
        budget_usd: Cost::from_nanos(number(row, "budget_nanos")),
        branch: row.get::<_, Option<String>>("branch").map(branch).transpose()?,
        commit: row.get("commit_id"),
        evidence: evidence.map(|evidence| from_json(evidence, "tasks.evidence")).transpose()?,
        usage: Usage {
            input_tokens: number(row, "input_tokens"),
            output_tokens: number(row, "output_tokens"),
            cache_read_tokens: number(row, "cache_read_tokens"),
            cache_write_tokens: number(row, "cache_write_tokens"),
            reasoning_tokens: number(row, "reasoning_tokens"),
        },
        cost_usd: Cost::from_nanos(number(row, "cost_nanos")),
        requested_by: row.get("requested_by"),
        created_at: time(row, "created_at")?,
        finished_at: optional_time(row, "finished_at")?,
    })
}

/// Counts are never negative; the database has no type of its own for them.
pub(super) fn number(row: &Row, column: &str) -> u64 {
    row.get::<_, i64>(column).max(0) as u64
}

pub(super) fn small(row: &Row, column: &str) -> Result<u32, Error> {
    u32::try_from(row.get::<_, i64>(column)).map_err(|error| Error::corrupt("a count", error))
}

pub(super) fn time(row: &Row, column: &str) -> Result<Timestamp, Error> {
    row.get::<_, &str>(column).parse().map_err(|error: <Timestamp as FromStr>::Err| Error::corrupt("a time", error))
}

pub(super) fn optional_time(row: &Row, column: &str) -> Result<Option<Timestamp>, Error> {
    let text: Option<&str> = row.get(column);
    text.map(str::parse).transpose().map_err(|error: <Timestamp as FromStr>::Err| Error::corrupt("a time", error))
}
