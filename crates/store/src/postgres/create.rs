//! New tasks: all of a batch or none.

use std::collections::{HashMap, HashSet};

use harvest_core::{EventBody, OnFailedDependency, TaskId, TaskStatus, find_cycle};
use serde::Serialize;

use super::connection::Connection;
use super::step::text;
use super::tell::Teller;
use super::{queue, quota, read};
use crate::Error;
use crate::contract::{Claim, NewTask, Submitted, day_of};
use crate::decode::{self, to_json, to_word};

/// A task with its session and turn, as the statements below read it.
#[derive(Serialize)]
struct Row {
    place: usize,
    id: String,
    kind: String,
    source: String,
    source_url: Option<String>,
    prompt: String,
    agent: String,
    model: Option<String>,
    repository: String,
    base: String,
    settings: String,
    budget_nanos: u64,
    priority: &'static str,
    on_failed_dependency: String,
    convoy: Option<String>,
    retries_left: u32,
    extra: Option<String>,
    idempotency_key: Option<String>,
    request_digest: Option<String>,
    requested_by: String,
    created_at: String,
    stranger_day: Option<String>,
    token: Option<String>,
    session: String,
    branch: String,
    turn: String,
    rank: i64,
    status: &'static str,
    blockers: usize,
    caps: Vec<String>,
    events: Vec<String>,
}

const TASKS: &str = "INSERT INTO tasks (id, kind, source, source_url, status, prompt, agent, model, repository, base, settings,
         budget_nanos, priority, on_failed_dependency, convoy, retries_left, extra, idempotency_key, request_digest,
         requested_by, created_at, blockers, stranger_day)
     SELECT id, kind, source, source_url, 'pending', prompt, agent, model, repository, base, settings, budget_nanos, priority,
         on_failed_dependency, convoy, retries_left, extra, idempotency_key, request_digest, requested_by, created_at, blockers,
         stranger_day
     FROM jsonb_to_recordset($1::text::jsonb) AS r (place bigint, id text, kind text, source text, source_url text, prompt text,
         agent text, model text, repository text, base text, settings text, budget_nanos bigint, priority text,
         on_failed_dependency text, convoy text, retries_left bigint, extra text, idempotency_key text, request_digest text,
         requested_by text, created_at text, blockers bigint, stranger_day text)
     ORDER BY place";
const SESSIONS: &str = "INSERT INTO sessions (id, task_id, branch, last_seq, created_at)
     SELECT session, id, branch, jsonb_array_length(events), created_at
     FROM jsonb_to_recordset($1::text::jsonb) AS r (place bigint, session text, id text, branch text, events jsonb,
         created_at text)
     ORDER BY place";
const TURNS: &str =
    "WITH made AS (
     INSERT INTO turns (id, session_id, task_id, repository, ordinal, author, prompt, status, rank, created_at, task, session,
         token, counts_for)
     SELECT r.turn, r.session, r.id, r.repository, 1, r.requested_by, r.prompt, r.status, r.rank, r.created_at,
         tasks.number, sessions.number, r.token, r.requested_by
     FROM jsonb_to_recordset($1::text::jsonb) AS r (place bigint, turn text, session text, id text, repository text,
         requested_by text, prompt text, status text, rank bigint, created_at text, token text)
     JOIN tasks ON tasks.id = r.id JOIN sessions ON sessions.id = r.session
     ORDER BY place
     RETURNING number, rank, repository, status)
     INSERT INTO ready (rank, turn, repository) SELECT rank, number, repository FROM made WHERE status = 'ready'";
const CAPS: &str = "INSERT INTO turn_caps (turn, cap, rank)
     SELECT turns.number, cap, r.rank
     FROM jsonb_to_recordset($1::text::jsonb) AS r (turn text, rank bigint, caps text[])
     JOIN turns ON turns.id = r.turn CROSS JOIN unnest(r.caps) AS cap
     ON CONFLICT DO NOTHING";
const EVENTS: &str = "INSERT INTO events (session, seq, at, body)
     SELECT sessions.number, e.seq, r.created_at, e.body
     FROM jsonb_to_recordset($1::text::jsonb) AS r (session text, created_at text, events text[])
     JOIN sessions ON sessions.id = r.session CROSS JOIN unnest(r.events) WITH ORDINALITY AS e (body, seq)";

pub(super) async fn create_tasks(db: &Connection, teller: &Teller, new: &[NewTask]) -> Result<Vec<Submitted>, Error> {
    refuse_cycles(new)?;
    // Plain tasks touch no one else's rows and need not be alone.
    let alone = |task: &NewTask| {
        task.key.is_some() || !task.after.is_empty() || !task.caps.is_empty() || !task.admission.limits.is_empty()
    };
    let alone = new.iter().any(alone);
    db.query("SELECT harvest_lock($1)", &[&alone]).await?;
    let before = known(db, new).await?;
    let fresh: Vec<&NewTask> =
        new.iter().filter(|task| before.get(&key_of(task)).is_none_or(|before| before.id == task.id)).collect();
    let links = links(db, &fresh).await?;
    insert(db, &fresh, &links).await?;
    let mut leases = HashMap::new();
    for (task, link) in fresh.iter().zip(&links) {
        if link.doomed {
            let why = "a task that it waits for did not complete";
            queue::cancel(db, &task.id, task.at, why).await?;
        } else if let Some(owner) = &task.claim_for {
            let turn = Some(task.turn.clone());
            let claim = Claim { owner: owner.clone(), turn, most: 1, warm: Vec::new(), at: task.at, until: None };
            leases.extend(queue::claim(db, teller, &claim).await?.into_iter().map(|lease| (lease.turn.clone(), lease)));
        }
    }
    if let Some(first) = fresh.first() {
        let new: Vec<_> = fresh.iter().map(|task| &task.admission).collect();
        quota::admit(db, &new, first.at).await?;
    }
    let made = fresh.iter().map(|task| &task.id).collect();
    submitted(db, new, &before, &made, leases).await
}

fn refuse_cycles(new: &[NewTask]) -> Result<(), Error> {
    let edges: Vec<(&TaskId, &TaskId)> =
        new.iter().flat_map(|task| task.after.iter().map(move |after| (&task.id, after))).collect();
    match find_cycle(&edges) {
        None => Ok(()),
        Some(cycle) => Err(Error::Cycle(cycle.iter().map(|task| task.as_str()).collect::<Vec<_>>().join(" → "))),
    }
}

/// The task that a key stands for.
struct Known {
    id: TaskId,
    digest: String,
}

fn key_of(task: &NewTask) -> Option<String> {
    task.key.as_ref().map(|key| text(&key.key).into_owned())
}

/// The tasks of all keys: those made before, and the first of each key in this batch.
async fn known(db: &Connection, new: &[NewTask]) -> Result<HashMap<Option<String>, Known>, Error> {
    let keys: Vec<String> = new.iter().filter_map(key_of).collect();
    let mut known = HashMap::new();
    if keys.is_empty() {
        return Ok(known);
    }
    let sql = "SELECT idempotency_key, id, request_digest FROM tasks WHERE idempotency_key = ANY($1)";
    for row in db.query(sql, &[&keys]).await? {
        known.insert(Some(row.get(0)), Known { id: decode::id(row.get(1))?, digest: row.get(2) });
    }
    for task in new {
        let Some(key) = &task.key else { continue };
        let first = || Known { id: task.id.clone(), digest: key.digest.clone() };
        if !key.is_of(&known.entry(key_of(task)).or_insert_with(first).digest) {
            return Err(Error::KeyReused(key.key.clone()));
        }
    }
    Ok(known)
}

/// What a task waits for.
struct Link {
    /// Each with whether it is done.
    after: Vec<(TaskId, bool)>,
    /// It waits for one that did not complete, and is to be cancelled for it.
    doomed: bool,
}

async fn links(db: &Connection, fresh: &[&NewTask]) -> Result<Vec<Link>, Error> {
    let in_batch: HashSet<&TaskId> = fresh.iter().map(|task| &task.id).collect();
    let outside: HashSet<&str> = fresh
        .iter()
        .flat_map(|task| &task.after)
        .filter(|after| !in_batch.contains(after))
        .map(TaskId::as_str)
        .collect();
    let mut statuses = HashMap::new();
    if !outside.is_empty() {
        let outside: Vec<&str> = outside.into_iter().collect();
        for row in db.query("SELECT id, status FROM tasks WHERE id = ANY($1)", &[&outside]).await? {
            let status: TaskStatus = decode::from_word(row.get(1), "tasks.status")?;
            statuses.insert(decode::id::<TaskId>(row.get(0))?, status);
        }
    }
    fresh
        .iter()
        .map(|task| {
            let mut link = Link { after: Vec::new(), doomed: false };
            for after in task.after.iter().collect::<HashSet<_>>() {
                let status =
                    if in_batch.contains(after) { Some(TaskStatus::Pending) } else { statuses.get(after).copied() };
                let Some(status) = status else { return Err(Error::UnknownDependency(after.to_string())) };
                link.after.push((after.clone(), status == TaskStatus::Completed));
                let failed = matches!(status, TaskStatus::Failed | TaskStatus::Cancelled);
                link.doomed |= failed && task.on_failed_dependency == OnFailedDependency::Cancel;
            }
            Ok(link)
        })
        .collect()
}

async fn insert(db: &Connection, fresh: &[&NewTask], links: &[Link]) -> Result<(), Error> {
    if fresh.is_empty() {
        return Ok(());
    }
    let rows: Vec<Row> = fresh
        .iter()
        .zip(links)
        .enumerate()
        .map(|(place, (task, link))| row(place, task, link))
        .collect::<Result<_, _>>()?;
    let json = to_json(&rows, "a task")?;
    for sql in [TASKS, SESSIONS, TURNS, EVENTS] {
        db.execute(sql, &[&json]).await?;
    }
    let (mut tasks, mut afters, mut satisfied) = (Vec::new(), Vec::new(), Vec::new());
    for (task, link) in fresh.iter().zip(links) {
        for (after, done) in &link.after {
            tasks.push(task.id.as_str());
            afters.push(after.as_str());
            satisfied.push(*done);
        }
    }
    if !tasks.is_empty() {
        let sql = "INSERT INTO dependencies (task_id, after_id, satisfied) SELECT * FROM unnest($1::text[], $2::text[], $3::bool[])";
        db.execute(sql, &[&tasks, &afters, &satisfied]).await?;
    }
    if rows.iter().any(|row| !row.caps.is_empty()) {
        db.execute(CAPS, &[&json]).await?;
        let capped: Vec<&str> = rows.iter().filter(|row| row.status == "parked").map(|row| row.turn.as_str()).collect();
        let sql = "SELECT harvest_admit(number, task_id) FROM (
                       SELECT number, task_id FROM turns WHERE id = ANY($1) ORDER BY number) AS capped";
        db.query(sql, &[&capped]).await?;
    }
    // No one can be following a journal that did not exist before.
    db.query("SELECT harvest_wake()", &[]).await.map(drop)
}

fn row(place: usize, new: &NewTask, link: &Link) -> Result<Row, Error> {
    let owned = |value: &str| text(value).into_owned();
    let blockers = link.after.iter().filter(|(_, done)| !done).count();
    let created = EventBody::TaskCreated {
        task_id: new.id.clone(),
        prompt: new.prompt.clone(),
        repository: new.repository.clone(),
        base: new.base.clone(),
        agent: new.agent.clone(),
        model: new.model.clone(),
    };
    let warnings = new.warnings.iter().map(|message| EventBody::Warning { message: message.clone() });
    Ok(Row {
        place,
        id: new.id.to_string(),
        kind: to_word(&new.kind)?,
        source: to_word(&new.source)?,
        source_url: new.source_url.as_deref().map(owned),
        prompt: owned(new.prompt.as_str()),
        agent: owned(&new.agent),
        model: new.model.as_deref().map(owned),
        repository: owned(&new.repository),
        base: owned(&new.base),
        settings: to_json(&new.settings, "settings")?,
        budget_nanos: new.budget.nanos(),
        priority: new.priority.as_str(),
        on_failed_dependency: to_word(&new.on_failed_dependency)?,
        convoy: new.convoy.as_deref().map(owned),
        retries_left: new.retries,
        extra: new.extra.as_ref().map(|extra| to_json(extra, "extra")).transpose()?,
        idempotency_key: key_of(new),
        request_digest: new.key.as_ref().map(|key| owned(&key.digest)),
        requested_by: owned(&new.requested_by),
        created_at: new.at.to_string(),
        stranger_day: new.admission.is_stranger.then(|| day_of(new.at)),
        token: new.admission.token.as_ref().map(ToString::to_string),
        session: new.session.to_string(),
        branch: new.branch.as_str().to_owned(),
        turn: new.turn.to_string(),
        rank: new.priority.rank(new.at),
        // One with caps is parked until they have been looked at.
        status: match (blockers, new.caps.as_slice()) {
            (0, []) => "ready",
            (0, _) => "parked",
            _ => "blocked",
        },
        blockers,
        caps: new.caps.iter().map(|cap| owned(cap)).collect(),
        events: std::iter::once(created)
            .chain(warnings)
            .map(|body| to_json(&body, "an event"))
            .collect::<Result<_, _>>()?,
    })
}

/// The tasks as they are now, in the order in which they were asked for.
async fn submitted(
    db: &Connection,
    new: &[NewTask],
    before: &HashMap<Option<String>, Known>,
    made: &HashSet<&TaskId>,
    mut leases: HashMap<harvest_core::TurnId, crate::Lease>,
) -> Result<Vec<Submitted>, Error> {
    let ids: Vec<&TaskId> =
        new.iter().map(|task| before.get(&key_of(task)).map_or(&task.id, |known| &known.id)).collect();
    let tasks = read::tasks_by_id(db, &ids).await?;
    let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    let sql = "SELECT task_id, session_id, id FROM turns WHERE task_id = ANY($1) AND ordinal = 1";
    let mut turns = HashMap::new();
    for row in db.query(sql, &[&names]).await? {
        turns.insert(row.get::<_, String>(0), (decode::id(row.get(1))?, decode::id(row.get(2))?));
    }
    ids.into_iter()
        .map(|id| {
            let task = tasks.get(id).cloned().ok_or_else(|| Error::UnknownTask(id.to_string()))?;
            let (session, turn) =
                turns.get(id.as_str()).cloned().ok_or_else(|| Error::corrupt("turns", "a task without one"))?;
            let lease = leases.remove(&turn);
            let known = !made.contains(id);
            Ok(Submitted { task, session, turn, lease, known })
        })
        .collect()
}
