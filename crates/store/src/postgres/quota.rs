//! Quotas, and the end of sessions that nobody wants to keep.

use async_trait::async_trait;
use harvest_core::{Cost, SessionId, Timestamp};
use tokio_postgres::types::ToSql;

use super::connection::Connection;
use super::step::text;
use super::{Postgres, ledger, stats};
use crate::Error;
use crate::contract::{Admission, Asker, Forgotten, Limit, Quotas, day_of};
use crate::decode::id;

const UNFINISHED: &str = "status NOT IN ('completed', 'failed', 'cancelled')";
/// The tasks that turns which have not ended count for someone in.
const UNDER_WAY: &str =
    "EXISTS (SELECT 1 FROM turns WHERE task_id = tasks.id AND turns.status <> 'done' AND counts_for = ANY($1))";
/// The same for the token that they were asked for with.
const UNDER_WAY_OF_TOKEN: &str =
    "EXISTS (SELECT 1 FROM turns WHERE task_id = tasks.id AND turns.status <> 'done' AND token = $1)";
const FORGET_ANSWERS: &str =
    "DELETE FROM answers WHERE strpos(coalesce(body, '') || ' ' || coalesce(made, ''), $1) > 0";

#[async_trait]
impl Quotas for Postgres {
    async fn unfinished(&self, of: &Asker) -> Result<u64, Error> {
        unfinished(self.lend().await?.get()?, of).await
    }

    async fn forget_session(&self, session: &SessionId) -> Result<Forgotten, Error> {
        let change = self.change(format!("session:{session}")).await?;
        let done = forget(change.db()?, session).await;
        change.end(done).await
    }
}

/// Refuses new work when a quota leaves no room. The work is written already, under the queue's
/// lock: nobody else is between the count and the commit. Whoever calls this gives up its transaction when it fails.
pub(super) async fn admit(db: &Connection, new: &[&Admission], at: Timestamp) -> Result<(), Error> {
    let day = day_of(at);
    for (limit, count) in Admission::limits(new.iter().copied()) {
        if limit.unfinished.is_some() {
            limit.check_unfinished(unfinished(db, &limit.asker).await?, count)?;
        }
        if limit.begun.is_some() {
            limit.check_begun(begun(db, &limit.asker, &day).await?, count, at)?;
        }
        check_spent(db, limit, at).await?;
    }
    Ok(())
}

/// Whoever lets a task that has ended continue answers for what was left in its line.
pub(super) async fn count_line_for(db: &Connection, task: &str, person: &str) -> Result<(), Error> {
    let sql = "UPDATE turns SET counts_for = $2 WHERE task_id = $1 AND status = 'queued'";
    db.execute(sql, &[&task, &text(person)]).await.map(drop)
}

/// How many tasks the asker of each limit has under way, for [`admit_more`]. The caller holds the queue's lock.
pub(super) async fn under_way(db: &Connection, limits: &[Limit]) -> Result<Vec<u64>, Error> {
    let mut all = Vec::with_capacity(limits.len());
    for limit in limits {
        all.push(if limit.unfinished.is_some() { unfinished(db, &limit.asker).await? } else { 0 });
    }
    Ok(all)
}

/// Refuses more work on a task that is under way when it makes the task someone's whose quota leaves no room for it, or when
/// the day's money is spent. The work is written already; `before` was counted before that.
pub(super) async fn admit_more(db: &Connection, limits: &[Limit], before: &[u64], at: Timestamp) -> Result<(), Error> {
    for ((limit, before), now) in limits.iter().zip(before).zip(under_way(db, limits).await?) {
        limit.check_more(*before, now)?;
        check_spent(db, limit, at).await?;
    }
    Ok(())
}

async fn check_spent(db: &Connection, limit: &Limit, at: Timestamp) -> Result<(), Error> {
    if limit.daily.is_none() {
        return Ok(());
    }
    let all = ledger::spending(db, &day_of(at)).await?;
    let theirs = all.iter().filter(|one| limit.accounts.contains(&one.account));
    let spent = Cost::from_nanos(theirs.map(|one| one.cost_usd.nanos() + one.reserved_usd.nanos()).sum());
    Ok(limit.check_spent(spent, at)?)
}

async fn unfinished(db: &Connection, of: &Asker) -> Result<u64, Error> {
    let (filter, value) = tasks_of(of);
    let filter = match of {
        Asker::People(_) => UNDER_WAY,
        Asker::Token(_) => UNDER_WAY_OF_TOKEN,
        Asker::Repositories(_) | Asker::StrangersOf(_) => filter,
    };
    let sql = format!("SELECT count(*) FROM tasks WHERE {UNFINISHED} AND {filter}");
    let found: i64 = db.row(&sql, &[&*value as &(dyn ToSql + Sync)]).await?.get(0);
    Ok(found.max(0) as u64)
}

/// The tasks of the day that people without a role began; the index of these alone is read.
async fn begun(db: &Connection, of: &Asker, day: &str) -> Result<u64, Error> {
    let (filter, value) = tasks_of(of);
    let sql = format!("SELECT count(*) FROM tasks WHERE stranger_day = $2 AND {filter}");
    let found: i64 = db.row(&sql, &[&*value as &(dyn ToSql + Sync), &day]).await?.get(0);
    Ok(found.max(0) as u64)
}

/// The condition that the tasks meet that someone asked for, and the value of its parameter.
fn tasks_of(asker: &Asker) -> (&'static str, Box<dyn ToSql + Send + Sync>) {
    match asker {
        // Nothing is counted by the day for tokens.
        Asker::Token(token) => ("false", Box::new(token.to_string())),
        Asker::People(names) => ("requested_by = ANY($1)", Box::new(names.clone())),
        Asker::Repositories(names) => ("repository = ANY($1)", Box::new(names.clone())),
        Asker::StrangersOf(name) => ("(repository = $1 AND stranger_day IS NOT NULL)", Box::new(name.clone())),
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
        FORGET_ANSWERS,
    ] {
        db.execute(sql, &[&session.as_str()]).await?;
    }
    db.execute("DELETE FROM events WHERE session = $1", &[&number]).await?;
    if last {
        for sql in ["DELETE FROM dependencies WHERE task_id = $1", "DELETE FROM tasks WHERE id = $1", FORGET_ANSWERS] {
            db.execute(sql, &[&task]).await?;
        }
        for sql in [
            "DELETE FROM counted WHERE task = $1",
            "DELETE FROM reservations WHERE task = $1",
            "DELETE FROM endings WHERE task = $1",
        ] {
            db.execute(sql, &[&task_number]).await?;
        }
    }
    Ok(Forgotten::Session)
}
