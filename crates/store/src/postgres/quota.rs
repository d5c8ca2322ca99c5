//! How much someone has asked for, and the end of what nobody wants to keep.

use async_trait::async_trait;
use harvest_core::{Cost, SessionId, TaskId, TokenId};
use tokio_postgres::types::ToSql;

use super::connection::Connection;
use super::{Postgres, stats};
use crate::Error;
use crate::contract::{Asker, Forgotten, Quotas};
use crate::decode::id;

const UNFINISHED: &str = "status NOT IN ('completed', 'failed', 'cancelled')";

#[async_trait]
impl Quotas for Postgres {
    async fn note_asked(&self, token: &TokenId, task: &TaskId, day: &str) -> Result<(), Error> {
        let sql = "INSERT INTO asked (token, day, task) SELECT $1, $2, number FROM tasks WHERE id = $3
                   ON CONFLICT DO NOTHING";
        let lent = self.lend().await?;
        lent.get()?.execute(sql, &[&token.as_str(), &day, &task.as_str()]).await.map(drop)
    }

    async fn unfinished(&self, of: &Asker) -> Result<u64, Error> {
        let lent = self.lend().await?;
        let count = |filter: &str| format!("SELECT count(*) FROM tasks WHERE {UNFINISHED} AND {filter}");
        let (sql, value): (String, Box<dyn ToSql + Send + Sync>) = match of {
            Asker::Token(token) => {
                (count("number IN (SELECT task FROM asked WHERE token = $1)"), Box::new(token.to_string()))
            }
            Asker::People(names) => (count("requested_by = ANY($1)"), Box::new(names.clone())),
            Asker::Repositories(names) => (count("repository = ANY($1)"), Box::new(names.clone())),
        };
        let found: i64 = lent.get()?.row(&sql, &[&*value as &(dyn ToSql + Sync)]).await?.get(0);
        Ok(found.max(0) as u64)
    }

    async fn spent_with(&self, token: &TokenId, day: &str) -> Result<Cost, Error> {
        let sql = "SELECT coalesce(sum(cost_nanos), 0)::BIGINT FROM asked JOIN tasks ON tasks.number = asked.task
                   WHERE token = $1 AND day = $2";
        let lent = self.lend().await?;
        let nanos: i64 = lent.get()?.row(sql, &[&token.as_str(), &day]).await?.get(0);
        Ok(Cost::from_nanos(nanos.max(0) as u64))
    }

    async fn forget_session(&self, session: &SessionId) -> Result<Forgotten, Error> {
        let lent = self.lend().await?;
        let db = lent.get()?;
        db.begin().await?;
        db.end(forget(db, session).await).await
    }
}

async fn forget(db: &Connection, session: &SessionId) -> Result<Forgotten, Error> {
    // The task is held until the end, so that nobody begins it anew meanwhile.
    let sql = format!(
        "SELECT s.number AS session, t.number AS task, t.id, t.{UNFINISHED} AS unfinished,
           (SELECT count(*) FROM sessions WHERE task_id = t.id) = 1 AS last
         FROM sessions s JOIN tasks t ON t.id = s.task_id WHERE s.id = $1 FOR UPDATE OF t"
    );
    let rows = db.query(&sql, &[&session.as_str()]).await?;
    let row = rows.first().ok_or_else(|| Error::UnknownSession(session.to_string()))?;
    let (number, task_number, task): (i64, i64, String) = (row.get("session"), row.get("task"), row.get("id"));
    let last: bool = row.get("last");
    if row.get("unfinished") {
        return Ok(Forgotten::Busy);
    }
    let waiting = format!(
        "SELECT t.id FROM dependencies d JOIN tasks t ON t.id = d.task_id
         WHERE d.after_id = $1 AND NOT d.satisfied AND t.{UNFINISHED} LIMIT 1"
    );
    let waiting = db.query(&waiting, &[&task]).await?;
    if let (Some(waiting), true) = (waiting.first(), last) {
        return Ok(Forgotten::Needed(id(waiting.get(0))?));
    }
    // What it cost is counted before it goes.
    stats::bring_up_to_date(db).await?;
    let turns = "SELECT number FROM turns WHERE session_id = $1";
    for sql in [
        "DELETE FROM attempts WHERE turn_id IN (SELECT id FROM turns WHERE session_id = $1)",
        &format!("DELETE FROM turn_caps WHERE turn IN ({turns})"),
        &format!("DELETE FROM stops WHERE turn IN ({turns})"),
        &format!("DELETE FROM queued WHERE turn IN ({turns})"),
        "DELETE FROM turns WHERE session_id = $1",
        "DELETE FROM sessions WHERE id = $1",
        "DELETE FROM answers WHERE strpos(body, $1) > 0",
    ] {
        db.execute(sql, &[&session.as_str()]).await?;
    }
    db.execute("DELETE FROM events WHERE session = $1", &[&number]).await?;
    if last {
        for sql in [
            "DELETE FROM dependencies WHERE task_id = $1",
            "DELETE FROM tasks WHERE id = $1",
            "DELETE FROM answers WHERE strpos(body, $1) > 0",
        ] {
            db.execute(sql, &[&task]).await?;
        }
        for sql in [
            "DELETE FROM counted WHERE task = $1",
            "DELETE FROM asked WHERE task = $1",
            "DELETE FROM reservations WHERE task = $1",
            "DELETE FROM endings WHERE task = $1",
        ] {
            db.execute(sql, &[&task_number]).await?;
        }
    }
    Ok(Forgotten::Session)
}
