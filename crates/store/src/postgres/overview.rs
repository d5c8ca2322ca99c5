//! The queue at a glance, and what is kept beside it.

use std::collections::BTreeMap;

use harvest_core::{Cost, TaskId};

use super::connection::Connection;
use super::read::{number, small, time};
use crate::Error;
use crate::contract::{
    Cap, Convoy, Ever, Owner, QueueSettings, QueueState, SandboxRecord, Schedule, Template, TurnCounts,
};
use crate::decode::{from_json, from_word, id, milliseconds};

pub(super) async fn upcoming(db: &Connection, most: usize) -> Result<Vec<TaskId>, Error> {
    let sql = "SELECT turns.task_id FROM ready JOIN turns ON turns.number = ready.turn
               ORDER BY ready.rank, ready.turn LIMIT $1";
    let rows = db.query(sql, &[&i64::try_from(most).unwrap_or(i64::MAX)]).await?;
    rows.iter().map(|row| id(row.get(0))).collect()
}

pub(super) async fn queue(db: &Connection) -> Result<QueueState, Error> {
    let settings = queue_settings(db).await?;
    // Each from the table or index that holds these and few others.
    let counted = pairs(
        db,
        "SELECT 'ready', count(*) FROM ready
         UNION ALL SELECT 'claimed', count(*) FROM leases
         UNION ALL SELECT 'waiting', count(*) FROM turns WHERE due_ms IS NOT NULL
         UNION ALL SELECT 'blocked', count(*) FROM tasks WHERE blockers > 0 AND status = 'pending'
         UNION ALL SELECT 'parked', count(DISTINCT turn) FROM turn_caps WHERE parked",
    )
    .await?;
    let count = |status: &str| counted.get(status).copied().unwrap_or(0);
    let turns = TurnCounts {
        ready: count("ready"),
        blocked: count("blocked"),
        waiting: count("waiting"),
        parked: count("parked"),
        claimed: count("claimed"),
    };
    let failures = "SELECT reason, count(*) FROM tasks WHERE status = 'failed' AND reason IS NOT NULL GROUP BY reason";
    let cost = db.row("SELECT coalesce(sum(cost_nanos), 0)::bigint AS cost FROM tasks", &[]).await?;
    let totals = pairs(db, "SELECT name, value AS count FROM totals").await?;
    let tasks = pairs(db, "SELECT status, count(*) FROM tasks GROUP BY status").await?;
    let ever = Ever::sum(&tasks, number(&cost, "cost"), &totals);
    Ok(QueueState {
        settings,
        turns,
        ever,
        tasks,
        failures: pairs(db, failures).await?,
        cost_usd: Cost::from_nanos(ever.cost_nanos),
        caps: caps(db).await?,
    })
}

async fn pairs(db: &Connection, sql: &str) -> Result<BTreeMap<String, u64>, Error> {
    let rows = db.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), number(row, "count"))).collect())
}

async fn caps(db: &Connection) -> Result<Vec<Cap>, Error> {
    let sql = "SELECT name, size, (SELECT count(*) FROM leases JOIN turns ON turns.number = leases.turn
                     JOIN turn_caps ON turn_caps.turn = turns.number AND turn_caps.cap = caps.name
                   WHERE NOT turns.aside) AS used
               FROM caps ORDER BY name";
    let rows = db.query(sql, &[]).await?;
    rows.iter()
        .map(|row| Ok(Cap { name: row.get("name"), size: small(row, "size")?, used: small(row, "used")? }))
        .collect()
}

pub(super) async fn queue_settings(db: &Connection) -> Result<QueueSettings, Error> {
    let row = db.row("SELECT paused, agents FROM queue", &[]).await?;
    let agents = row.get::<_, Option<i64>>("agents").map(|_| small(&row, "agents")).transpose()?;
    Ok(QueueSettings { paused: row.get("paused"), agents })
}

pub(super) async fn convoys(db: &Connection) -> Result<Vec<Convoy>, Error> {
    let sql = "SELECT convoy, status, count(*), sum(cost_nanos)::bigint AS cost FROM tasks WHERE convoy IS NOT NULL
         GROUP BY convoy, status ORDER BY convoy";
    let mut convoys: BTreeMap<String, Convoy> = BTreeMap::new();
    for row in db.query(sql, &[]).await? {
        let name: String = row.get("convoy");
        let new = || Convoy { name: name.clone(), tasks: BTreeMap::new(), cost_usd: Cost::ZERO };
        let convoy = convoys.entry(name.clone()).or_insert_with(new);
        convoy.tasks.insert(row.get("status"), number(&row, "count"));
        convoy.cost_usd += Cost::from_nanos(number(&row, "cost"));
    }
    Ok(convoys.into_values().collect())
}

pub(super) async fn owners(db: &Connection) -> Result<Vec<Owner>, Error> {
    let rows = db.query("SELECT id, kind, pid, holding FROM owners", &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Owner {
                id: id(row.get("id"))?,
                kind: from_word(row.get("kind"), "owners.kind")?,
                pid: small(row, "pid")?,
                holding: row.get("holding"),
            })
        })
        .collect()
}

pub(super) async fn sandboxes(db: &Connection) -> Result<Vec<SandboxRecord>, Error> {
    let rows = db.query("SELECT id, owner, session_id, purpose, provider FROM sandboxes", &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(SandboxRecord {
                id: id(row.get("id"))?,
                owner: id(row.get("owner"))?,
                session: id(row.get("session_id"))?,
                purpose: from_word(row.get("purpose"), "sandboxes.purpose")?,
                provider: row.get("provider"),
            })
        })
        .collect()
}

pub(super) async fn schedules(db: &Connection) -> Result<Vec<Schedule>, Error> {
    let sql = "SELECT id, cron, time_zone, missed, request, next_ms, last_ms, created_at, owner, problem FROM schedules
         ORDER BY created_at, id";
    let rows = db.query(sql, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Schedule {
                id: row.get("id"),
                cron: row.get("cron"),
                time_zone: row.get("time_zone"),
                missed: from_word(row.get("missed"), "schedules.missed")?,
                request: from_json(row.get("request"), "schedules.request")?,
                next: milliseconds(row.get("next_ms"))?,
                last: milliseconds(row.get("last_ms"))?,
                owner: row
                    .get::<_, Option<&str>>("owner")
                    .map(|owner| from_json(owner, "schedules.owner"))
                    .transpose()?,
                problem: row.get("problem"),
                created_at: time(row, "created_at")?,
            })
        })
        .collect()
}

pub(super) async fn templates(db: &Connection) -> Result<Vec<Template>, Error> {
    let rows = db.query("SELECT name, prompt, options, created_at FROM templates ORDER BY name", &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Template {
                name: row.get("name"),
                prompt: row.get("prompt"),
                options: from_json(row.get("options"), "templates.options")?,
                created_at: time(row, "created_at")?,
            })
        })
        .collect()
}
