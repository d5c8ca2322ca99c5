//! Sums over tasks, brought up to date when someone asks.

use harvest_core::Cost;

use super::connection::Connection;
use super::read::number;
use crate::Error;
use crate::contract::{Stat, StatQuery};

/// One after the other: each takes what is uncounted as a whole.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7233182602)";

/// What was counted of a task before is taken out, and what it is now is put in. In a transaction.
pub(super) async fn bring_up_to_date(db: &Connection) -> Result<(), Error> {
    db.batch(LOCK).await?;
    let taken =
        "WITH gone AS (DELETE FROM uncounted RETURNING task) SELECT array_agg(DISTINCT task) AS tasks FROM gone";
    let Some(tasks) = db.row(taken, &[]).await?.get::<_, Option<Vec<i64>>>("tasks") else { return Ok(()) };
    let sums = |sign: &str| {
        format!(
            "INSERT INTO stats SELECT day, repository, agent, model, person, status, ({sign}count(*))::bigint,
               ({sign}sum(delivered))::bigint, ({sign}sum(cost_nanos))::bigint, ({sign}sum(time_ms))::bigint,
               ({sign}sum(raced))::bigint, ({sign}sum(won))::bigint
             FROM counted WHERE task = ANY($1) GROUP BY day, repository, agent, model, person, status
             ON CONFLICT (day, repository, agent, model, person, status) DO UPDATE SET
               tasks = stats.tasks + excluded.tasks, delivered = stats.delivered + excluded.delivered,
               cost_nanos = stats.cost_nanos + excluded.cost_nanos, time_ms = stats.time_ms + excluded.time_ms,
               raced = stats.raced + excluded.raced, won = stats.won + excluded.won"
        )
    };
    db.execute(&sums("-"), &[&tasks]).await?;
    db.execute("DELETE FROM counted WHERE task = ANY($1)", &[&tasks]).await?;
    let counted = "INSERT INTO counted SELECT number, substr(finished_at, 1, 10), repository, agent, coalesce(model, ''),
           requested_by, status, (branch IS NOT NULL)::int, cost_nanos, greatest(0, (extract(epoch FROM
             finished_at::timestamptz - created_at::timestamptz) * 1000)::bigint),
           (settings::json #>> '{race,id}' IS NOT NULL)::int,
           EXISTS (SELECT 1 FROM races WHERE races.id = settings::json #>> '{race,id}' AND races.winner = tasks.id)::int
         FROM tasks WHERE number = ANY($1) AND finished_at IS NOT NULL AND status IN ('completed', 'failed', 'cancelled')";
    db.execute(counted, &[&tasks]).await?;
    db.execute(&sums("+"), &[&tasks]).await.map(drop)
}

pub(super) async fn read(db: &Connection, query: &StatQuery) -> Result<Vec<Stat>, Error> {
    let column = query.by.column();
    let sql = format!(
        "SELECT {column} AS key, coalesce(sum(tasks) FILTER (WHERE status = 'completed'), 0)::bigint AS completed,
           coalesce(sum(tasks) FILTER (WHERE status = 'failed'), 0)::bigint AS failed,
           coalesce(sum(tasks) FILTER (WHERE status = 'cancelled'), 0)::bigint AS cancelled,
           sum(delivered)::bigint AS delivered, sum(cost_nanos)::bigint AS cost, sum(time_ms)::bigint AS time,
           sum(raced)::bigint AS races, sum(won)::bigint AS wins
         FROM stats WHERE day BETWEEN $1 AND $2 AND ($3::text[] IS NULL OR repository = ANY($3))
         GROUP BY {column} HAVING sum(tasks) > 0 ORDER BY {column}"
    );
    let rows = db.query(&sql, &[&query.from, &query.to, &query.among]).await?;
    let stat = |row: &tokio_postgres::Row| Stat {
        key: row.get("key"),
        completed: number(row, "completed"),
        failed: number(row, "failed"),
        cancelled: number(row, "cancelled"),
        delivered: number(row, "delivered"),
        cost: Cost::from_nanos(number(row, "cost")),
        time_ms: number(row, "time"),
        races: number(row, "races"),
        wins: number(row, "wins"),
    };
    Ok(rows.iter().map(stat).collect())
}
