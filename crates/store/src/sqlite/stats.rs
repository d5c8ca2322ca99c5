//! Sums over tasks, brought up to date when someone asks.

use harvest_core::Cost;
use rusqlite::{Connection, params};

use crate::Error;
use crate::contract::{Stat, StatQuery};
use crate::decode::to_json;

const ADD: &str = "ON CONFLICT (day, repository, agent, model, person, status) DO UPDATE SET
       tasks = stats.tasks + excluded.tasks, delivered = stats.delivered + excluded.delivered,
       cost_nanos = stats.cost_nanos + excluded.cost_nanos, time_ms = stats.time_ms + excluded.time_ms,
       raced = stats.raced + excluded.raced, won = stats.won + excluded.won";

/// What was counted of a task before is taken out, and what it is now is put in.
pub(super) fn bring_up_to_date(db: &Connection) -> Result<(), Error> {
    let sums = |sign: &str| {
        format!(
            "INSERT INTO stats SELECT day, repository, agent, model, person, status, {sign}count(*), {sign}sum(delivered),
               {sign}sum(cost_nanos), {sign}sum(time_ms), {sign}sum(raced), {sign}sum(won) FROM counted WHERE task IN (SELECT task FROM uncounted)
             GROUP BY day, repository, agent, model, person, status {ADD};"
        )
    };
    db.execute_batch(&format!(
        "{} DELETE FROM counted WHERE task IN (SELECT task FROM uncounted);
         INSERT INTO counted SELECT number, substr(finished_at, 1, 10), repository, agent, coalesce(model, ''), requested_by,
           status, branch IS NOT NULL, cost_nanos,
           max(0, CAST((julianday(finished_at) - julianday(created_at)) * 86400000 AS INTEGER)),
           json_extract(settings, '$.race.id') IS NOT NULL,
           EXISTS (SELECT 1 FROM races WHERE races.id = json_extract(settings, '$.race.id') AND races.winner = tasks.id)
         FROM tasks WHERE number IN (SELECT task FROM uncounted) AND finished_at IS NOT NULL
           AND status IN ('completed', 'failed', 'cancelled');
         {} DELETE FROM uncounted;",
        sums("-"),
        sums("+")
    ))?;
    Ok(())
}

pub(super) fn is_up_to_date(db: &Connection) -> Result<bool, Error> {
    Ok(!db.query_row("SELECT EXISTS (SELECT 1 FROM uncounted)", [], |row| row.get::<_, bool>(0))?)
}

pub(super) fn read(db: &Connection, query: &StatQuery) -> Result<Vec<Stat>, Error> {
    let among = query.among.as_ref().map(|among| to_json(among, "repositories")).transpose()?;
    let column = query.by.column();
    let mut statement = db.prepare_cached(&format!(
        "SELECT {column}, sum(iif(status = 'completed', tasks, 0)), sum(iif(status = 'failed', tasks, 0)),
           sum(iif(status = 'cancelled', tasks, 0)), sum(delivered), sum(cost_nanos), sum(time_ms), sum(raced), sum(won)
         FROM stats WHERE day BETWEEN ?1 AND ?2 AND (?3 IS NULL OR repository IN (SELECT value FROM json_each(?3)))
         GROUP BY {column} HAVING sum(tasks) > 0 ORDER BY {column}"
    ))?;
    let rows = statement.query_map(params![query.from, query.to, among], |row| {
        Ok(Stat {
            key: row.get(0)?,
            completed: row.get(1)?,
            failed: row.get(2)?,
            cancelled: row.get(3)?,
            delivered: row.get(4)?,
            cost: Cost::from_nanos(row.get(5)?),
            time_ms: row.get(6)?,
            races: row.get(7)?,
            wins: row.get(8)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
