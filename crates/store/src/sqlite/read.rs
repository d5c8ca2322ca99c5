//! Everything that only looks.

pub(super) mod repository;

use std::collections::BTreeMap;
use std::str::FromStr;

use harvest_core::{
    Attempt, AttemptId, Awaited, Cost, Event, EventBody, FailureReason, IdError, Session, SessionId, Task, TaskId,
    TaskStatus, Timestamp, Turn, TurnId, Usage, Waiting,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;
use crate::contract::{
    Cap, Convoy, Ever, Owner, OwnerKind, QueueSettings, QueueState, SandboxRecord, Schedule, TaskDetail, TaskPage,
    TaskQuery, Template, TurnCounts,
};
use crate::decode::{self, branch, from_json, from_word, id, milliseconds, prompt, to_json};

const TASK: &str = "SELECT id, kind, source, status, reason, error, prompt, agent, model, repository, base, settings,
     budget_nanos, branch, commit_id, evidence, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
     reasoning_tokens, cost_nanos, requested_by, created_at, finished_at, number, priority, on_failed_dependency, convoy,
     retries_left, tries, source_url, extra,
     (SELECT group_concat(after_id, ' ' ORDER BY after_id) FROM dependencies WHERE task_id = tasks.id) FROM tasks";
const MAX_PAGE: usize = 500;

pub(super) fn events(db: &Connection, session: &SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT seq, at, body FROM events WHERE session = (SELECT number FROM sessions WHERE id = ?1) AND seq > ?2
         ORDER BY seq LIMIT ?3",
    )?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
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
    let before =
        query.cursor.as_deref().map(|cursor| cursor.parse::<i64>().map_err(|_| Error::BadCursor(cursor.to_owned())));
    let order = query.order;
    let before = before.transpose()?.unwrap_or(order.start());
    // Only the filters that are given, so that each list walks the index made for it.
    let mut filter = format!("number {} ?1", order.comparison());
    let mut values: Vec<Box<dyn rusqlite::ToSql>> = vec![Box::new(before), Box::new(limit as u64 + 1)];
    let given = [
        ("status", query.status.map(|status| status.as_str().to_owned())),
        ("repository", query.repository.clone()),
        ("convoy", query.convoy.clone()),
        ("requested_by", query.requested_by.clone()),
        ("agent", query.agent.clone()),
    ];
    for (column, value) in given {
        if let Some(value) = value {
            values.push(Box::new(value));
            filter.push_str(&format!(" AND {column} = ?{}", values.len()));
        }
    }
    if let Some(words) = &query.search {
        values.push(Box::new(words.to_lowercase()));
        filter.push_str(&format!(" AND instr(lower(prompt), ?{}) > 0", values.len()));
    }
    if let Some(among) = &query.among {
        values.push(Box::new(to_json(among, "repositories")?));
        filter.push_str(&format!(" AND repository IN (SELECT value FROM json_each(?{}))", values.len()));
    }
    let direction = order.direction();
    let mut statement = db.prepare_cached(&format!("{TASK} WHERE {filter} ORDER BY number {direction} LIMIT ?2"))?;
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let mut items = Vec::with_capacity(limit);
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

pub(super) fn waiting(
    db: &Connection,
    tasks: &[TaskId],
    among: Option<&[String]>,
) -> Result<BTreeMap<TaskId, Waiting>, Error> {
    let tasks = to_json(&tasks, "tasks")?;
    let mut found = BTreeMap::new();
    let mut statement = db.prepare_cached(
        "SELECT sessions.task_id, turns.status FROM turns JOIN sessions ON sessions.id = turns.session_id
         JOIN tasks ON tasks.id = sessions.task_id
         WHERE sessions.task_id IN (SELECT value FROM json_each(?1)) AND tasks.status = 'pending' AND turns.status <> 'done'
         ORDER BY sessions.number, turns.ordinal",
    )?;
    let mut rows = statement.query([&tasks])?;
    while let Some(row) = rows.next()? {
        let turn = from_word(&row.get::<_, String>(1)?, "turns.status")?;
        found.entry(id_at(row, 0)?).or_insert(Waiting { turn, after: Vec::new() });
    }
    let mut statement = db.prepare_cached(
        "SELECT task_id, after_id, status, repository FROM dependencies JOIN tasks ON tasks.id = after_id
         WHERE task_id IN (SELECT value FROM json_each(?1)) AND status <> 'completed' ORDER BY task_id, after_id",
    )?;
    let mut rows = statement.query([&tasks])?;
    while let Some(row) = rows.next()? {
        let Some(waiting) = found.get_mut(&id_at::<TaskId>(row, 0)?) else { continue };
        let (status, repository): (String, String) = (row.get(2)?, row.get(3)?);
        let status = TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?;
        let is_seen = among.is_none_or(|among| among.contains(&repository));
        waiting.after.push(Awaited { id: id_at(row, 1)?, status: is_seen.then_some(status) });
    }
    Ok(found)
}

pub(super) fn task(db: &Connection, id: &TaskId) -> Result<Task, Error> {
    let mut statement = db.prepare_cached(&format!("{TASK} WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    let row = rows.next()?.ok_or_else(|| Error::UnknownTask(id.to_string()))?;
    task_from(row)
}

pub(super) fn task_detail(db: &Connection, task_id: &TaskId) -> Result<TaskDetail, Error> {
    let task = task(db, task_id)?;
    let sessions = sessions(db, "task_id = ?1", task_id.as_str())?;
    Ok(TaskDetail { task, sessions })
}

pub(super) fn session(db: &Connection, session: &SessionId) -> Result<Session, Error> {
    sessions(db, "id = ?1", session.as_str())?.pop().ok_or_else(|| Error::UnknownSession(session.to_string()))
}

fn sessions(db: &Connection, which: &str, of: &str) -> Result<Vec<Session>, Error> {
    let sql = format!("SELECT id, branch, created_at, task_id FROM sessions WHERE {which} ORDER BY number");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([of])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let session: SessionId = id_at(row, 0)?;
        sessions.push(Session {
            turns: turns(db, "session_id = ?1", session.as_str())?,
            id: session,
            task_id: id_at(row, 3)?,
            branch: branch(row.get(1)?)?,
            created_at: time(row, 2)?,
        });
    }
    Ok(sessions)
}

pub(super) fn turn(db: &Connection, turn: &TurnId) -> Result<Turn, Error> {
    turns(db, "id = ?1", turn.as_str())?.pop().ok_or_else(|| Error::corrupt("turns", "a turn that is gone"))
}

fn turns(db: &Connection, which: &str, of: &str) -> Result<Vec<Turn>, Error> {
    let sql = format!(
        "SELECT id, ordinal, author, prompt, status, created_at, session_id, agent, model, acts_for, token,
             CASE status WHEN 'done' THEN ended END
         FROM turns WHERE {which} ORDER BY ordinal"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([of])?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        let turn: TurnId = id_at(row, 0)?;
        turns.push(Turn {
            attempts: attempts(db, &turn)?,
            id: turn,
            session_id: id_at(row, 6)?,
            number: row.get(1)?,
            author: row.get(2)?,
            prompt: prompt(row.get(3)?)?,
            agent: row.get(7)?,
            model: row.get(8)?,
            status: from_word(&row.get::<_, String>(4)?, "turns.status")?,
            ended: row.get::<_, Option<String>>(11)?.map(|word| from_word(&word, "turns.ended")).transpose()?,
            created_at: time(row, 5)?,
            acts_for: row.get(9)?,
            token: row.get::<_, Option<String>>(10)?.as_deref().map(id).transpose()?,
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

pub(super) fn find_task(db: &Connection, prefix: &str, among: Option<&[String]>) -> Result<TaskId, Error> {
    find(db, ("tasks", "repository"), prefix, among, Error::UnknownTask)
}

pub(super) fn find_session(db: &Connection, prefix: &str, among: Option<&[String]>) -> Result<SessionId, Error> {
    let repository = "(SELECT repository FROM tasks WHERE tasks.id = sessions.task_id)";
    find(db, ("sessions", repository), prefix, among, Error::UnknownSession)
}

fn find<T: FromStr<Err = IdError>>(
    db: &Connection,
    (table, repository): (&'static str, &str),
    text: &str,
    among: Option<&[String]>,
    unknown: fn(String) -> Error,
) -> Result<T, Error> {
    let Some(prefix) = decode::prefix(text) else { return Err(unknown(text.to_owned())) };
    let among = among.map(|among| to_json(&among, "repositories")).transpose()?;
    let sql = format!(
        "SELECT id FROM {table} WHERE id >= ?1 AND id < ?1 || '~'
             AND (?2 IS NULL OR {repository} IN (SELECT value FROM json_each(?2))) ORDER BY id"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let found: Vec<String> =
        statement.query_map(params![prefix, among], |row| row.get(0))?.collect::<Result<_, _>>()?;
    decode::only(table, prefix, &found, unknown)
}

pub(super) fn journaled(db: &Connection, attempt: &AttemptId) -> Result<u64, Error> {
    let found = db
        .prepare_cached("SELECT journaled FROM attempts WHERE id = ?1")?
        .query_row([attempt.as_str()], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(0))
}

pub(super) fn owners(db: &Connection) -> Result<Vec<Owner>, Error> {
    let mut statement = db.prepare_cached("SELECT id, kind, pid, holding FROM owners")?;
    let mut rows = statement.query([])?;
    let mut owners = Vec::new();
    while let Some(row) = rows.next()? {
        let kind: OwnerKind = from_word(&row.get::<_, String>(1)?, "owners.kind")?;
        owners.push(Owner { id: id_at(row, 0)?, kind, pid: row.get(2)?, holding: row.get(3)? });
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
    let task: TaskId = id_at(row, 0)?;
    let after: Option<String> = row.get(33)?;
    let extra: Option<String> = row.get(32)?;
    let status: String = row.get(3)?;
    let reason: Option<String> = row.get(4)?;
    let evidence: Option<String> = row.get(15)?;
    Ok(Task {
        id: task,
        priority: from_word(&row.get::<_, String>(26)?, "tasks.priority")?,
        on_failed_dependency: from_word(&row.get::<_, String>(27)?, "tasks.on_failed_dependency")?,
        convoy: row.get(28)?,
        retries_left: row.get(29)?,
        tries: row.get(30)?,
        source_url: row.get(31)?,
        extra: extra.map(|extra| from_json(&extra, "tasks.extra")).transpose()?,
        after: after.iter().flat_map(|after| after.split(' ')).map(id).collect::<Result<_, _>>()?,
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

pub(super) fn upcoming(db: &Connection, most: usize) -> Result<Vec<TaskId>, Error> {
    db.prepare_cached("SELECT task_id FROM turns WHERE status = 'ready' ORDER BY rank, number LIMIT ?1")?
        .query_map([most as u64], |row| row.get::<_, String>(0))?
        .map(|id| decode::id(&id?))
        .collect()
}

pub(super) fn queue(db: &Connection) -> Result<QueueState, Error> {
    let settings = queue_settings(db)?;
    // The status is part of the text, so that the index of turns in that status counts them.
    let count = |status: &str| -> Result<u64, Error> {
        let mut statement = db.prepare_cached(&format!("SELECT count(*) FROM turns WHERE status = '{status}'"))?;
        Ok(statement.query_row([], |row| row.get(0))?)
    };
    let turns = TurnCounts {
        ready: count("ready")?,
        blocked: count("blocked")?,
        waiting: count("waiting")?,
        parked: count("parked")?,
        claimed: count("claimed")?,
    };
    let pairs = |sql: &str| -> Result<BTreeMap<String, u64>, Error> {
        let mut statement = db.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    let caps = db
        .prepare_cached(
            "SELECT name, size, (SELECT count(*) FROM turns CROSS JOIN turn_caps ON turn_caps.turn = turns.number
                 WHERE turns.status = 'claimed' AND turns.aside = 0 AND turn_caps.cap = caps.name)
             FROM caps ORDER BY name",
        )?
        .query_map([], |row| Ok(Cap { name: row.get(0)?, size: row.get(1)?, used: row.get(2)? }))?
        .collect::<Result<_, _>>()?;
    let totals = pairs("SELECT name, value FROM totals")?;
    let tasks = pairs("SELECT status, count(*) FROM tasks GROUP BY status")?;
    let cost_nanos = db.query_row("SELECT coalesce(sum(cost_nanos), 0) FROM tasks", [], |row| row.get(0))?;
    let ever = Ever::sum(&tasks, cost_nanos, &totals);
    Ok(QueueState {
        settings,
        turns,
        ever,
        tasks,
        failures: pairs(
            "SELECT reason, count(*) FROM tasks WHERE status = 'failed' AND reason IS NOT NULL GROUP BY reason",
        )?,
        cost_usd: Cost::from_nanos(ever.cost_nanos),
        caps,
    })
}

pub(super) fn queue_settings(db: &Connection) -> Result<QueueSettings, Error> {
    let mut statement = db.prepare_cached("SELECT paused, agents FROM queue")?;
    Ok(statement.query_row([], |row| Ok(QueueSettings { paused: row.get(0)?, agents: row.get(1)? }))?)
}

pub(super) fn convoys(db: &Connection) -> Result<Vec<Convoy>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT convoy, status, count(*), sum(cost_nanos) FROM tasks WHERE convoy IS NOT NULL GROUP BY convoy, status
         ORDER BY convoy",
    )?;
    let mut rows = statement.query([])?;
    let mut convoys: Vec<Convoy> = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if convoys.last().is_none_or(|last| last.name != name) {
            convoys.push(Convoy { name, tasks: BTreeMap::new(), cost_usd: Cost::ZERO });
        }
        if let Some(convoy) = convoys.last_mut() {
            convoy.tasks.insert(row.get(1)?, row.get(2)?);
            convoy.cost_usd += Cost::from_nanos(row.get(3)?);
        }
    }
    Ok(convoys)
}

pub(super) fn schedules(db: &Connection) -> Result<Vec<Schedule>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT id, cron, time_zone, missed, request, next_ms, last_ms, created_at, owner, problem FROM schedules
         ORDER BY created_at, id",
    )?;
    let mut rows = statement.query([])?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(Schedule {
            id: row.get(0)?,
            cron: row.get(1)?,
            time_zone: row.get(2)?,
            missed: from_word(&row.get::<_, String>(3)?, "schedules.missed")?,
            request: from_json(&row.get::<_, String>(4)?, "schedules.request")?,
            next: milliseconds(row.get(5)?)?,
            last: milliseconds(row.get(6)?)?,
            owner: row.get::<_, Option<String>>(8)?.map(|owner| from_json(&owner, "schedules.owner")).transpose()?,
            problem: row.get(9)?,
            created_at: time(row, 7)?,
        });
    }
    Ok(schedules)
}

pub(super) fn templates(db: &Connection) -> Result<Vec<Template>, Error> {
    let mut statement = db.prepare_cached("SELECT name, prompt, options, created_at FROM templates ORDER BY name")?;
    let mut rows = statement.query([])?;
    let mut templates = Vec::new();
    while let Some(row) = rows.next()? {
        templates.push(Template {
            name: row.get(0)?,
            prompt: row.get(1)?,
            options: from_json(&row.get::<_, String>(2)?, "templates.options")?,
            created_at: time(row, 3)?,
        });
    }
    Ok(templates)
}

pub(super) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, Error> {
    let text = row.get_ref(column)?.as_str().map_err(|error| Error::corrupt("a time", error))?;
    text.parse().map_err(|error: <Timestamp as FromStr>::Err| Error::corrupt("a time", error))
}

pub(super) fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>, Error> {
    if row.get_ref(column)? == rusqlite::types::ValueRef::Null { Ok(None) } else { time(row, column).map(Some) }
}

pub(super) fn id_at<T: FromStr<Err = IdError>>(row: &Row<'_>, column: usize) -> Result<T, Error> {
    id(&row.get::<_, String>(column)?)
}
