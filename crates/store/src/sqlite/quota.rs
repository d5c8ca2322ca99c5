//! Quotas, and the end of sessions that nobody wants to keep.

use async_trait::async_trait;
use harvest_core::{Cost, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Sqlite, ledger, stats};
use crate::Error;
use crate::contract::{Admission, Asker, Forgotten, Limit, Quotas, day_of};
use crate::decode::{id, to_json};

const UNFINISHED: &str = "status NOT IN ('completed', 'failed', 'cancelled')";
/// The tasks under way that turns which have not ended count for someone in; read from the index of such turns alone. What
/// waits in line of a task that has ended is not under way.
const UNDER_WAY: &str = "SELECT count(*) FROM tasks WHERE number IN (
         SELECT task FROM turns INDEXED BY turns_under_way
         WHERE status <> 'done' AND counts_for IN (SELECT value FROM json_each(?1)))";
/// The same for the token that they were asked for with.
const UNDER_WAY_OF_TOKEN: &str =
    "SELECT count(*) FROM tasks WHERE number IN (SELECT task FROM turns WHERE status <> 'done' AND token = ?1)";
const FORGET_ANSWERS: &str = "DELETE FROM answers WHERE instr(coalesce(body, '') || ' ' || coalesce(made, ''), ?1) > 0";

#[async_trait]
impl Quotas for Sqlite {
    async fn unfinished(&self, of: &Asker) -> Result<u64, Error> {
        let of = of.clone();
        self.read(move |db| unfinished(db, &of)).await
    }

    async fn forget_session(&self, session: &SessionId) -> Result<Forgotten, Error> {
        let session = session.clone();
        self.change(format!("session:{session}"), move |db, effects| {
            effects.queue = true;
            // What is deleted is overwritten, too: the pages of a database outlive what was on them.
            db.pragma_update(None, "secure_delete", true)?;
            let forgotten = forget(db, &session);
            db.pragma_update(None, "secure_delete", "FAST")?;
            forgotten
        })
        .await
    }
}

/// Refuses new work when a quota leaves no room. The work is written already: whoever calls this
/// gives up its transaction when it fails.
pub(super) fn admit(db: &Connection, new: &[&Admission], at: Timestamp) -> Result<(), Error> {
    let day = day_of(at);
    for (limit, count) in Admission::limits(new.iter().copied()) {
        if limit.unfinished.is_some() {
            limit.check_unfinished(unfinished(db, &limit.asker)?, count)?;
        }
        if limit.begun.is_some() {
            limit.check_begun(begun(db, &limit.asker, &day)?, count, at)?;
        }
        check_spent(db, limit, at)?;
    }
    Ok(())
}

/// Whoever lets a task that has ended continue answers for what was left in its line.
pub(super) fn count_line_for(db: &Connection, task: i64, person: &str) -> Result<(), Error> {
    let sql = "UPDATE turns SET counts_for = ?2 WHERE task = ?1 AND status = 'queued'";
    db.prepare_cached(sql)?.execute(params![task, person])?;
    Ok(())
}

/// How many tasks the asker of each limit has under way, for [`admit_more`].
pub(super) fn under_way(db: &Connection, limits: &[Limit]) -> Result<Vec<u64>, Error> {
    limits.iter().map(|limit| limit.unfinished.map_or(Ok(0), |_| unfinished(db, &limit.asker))).collect()
}

/// Refuses more work on a task that is under way when it makes the task someone's whose quota leaves no room for it, or when
/// the day's money is spent. The work is written already; `before` was counted before that.
pub(super) fn admit_more(db: &Connection, limits: &[Limit], before: &[u64], at: Timestamp) -> Result<(), Error> {
    for ((limit, before), now) in limits.iter().zip(before).zip(under_way(db, limits)?) {
        limit.check_more(*before, now)?;
        check_spent(db, limit, at)?;
    }
    Ok(())
}

fn check_spent(db: &Connection, limit: &Limit, at: Timestamp) -> Result<(), Error> {
    if limit.daily.is_none() {
        return Ok(());
    }
    let all = ledger::spending(db, &day_of(at))?;
    let theirs = all.iter().filter(|one| limit.accounts.contains(&one.account));
    let spent = Cost::from_nanos(theirs.map(|one| one.cost_usd.nanos() + one.reserved_usd.nanos()).sum());
    Ok(limit.check_spent(spent, at)?)
}

fn unfinished(db: &Connection, of: &Asker) -> Result<u64, Error> {
    let (filter, value) = tasks_of(of)?;
    let sql = match of {
        Asker::People(_) => format!("{UNDER_WAY} AND {UNFINISHED}"),
        Asker::Token(_) => format!("{UNDER_WAY_OF_TOKEN} AND {UNFINISHED}"),
        Asker::Repositories(_) | Asker::StrangersOf(_) => {
            format!("SELECT count(*) FROM tasks WHERE {UNFINISHED} AND {filter}")
        }
    };
    Ok(db.prepare_cached(&sql)?.query_row([value], |row| row.get(0))?)
}

/// The tasks of the day that people without a role began; the index of these alone is read.
fn begun(db: &Connection, of: &Asker, day: &str) -> Result<u64, Error> {
    let (filter, value) = tasks_of(of)?;
    let sql = begun_sql(filter);
    Ok(db.prepare_cached(&sql)?.query_row(params![value, day], |row| row.get(0))?)
}

fn begun_sql(filter: &str) -> String {
    format!("SELECT count(*) FROM tasks INDEXED BY tasks_of_strangers WHERE stranger_day = ?2 AND {filter}")
}

/// The condition that the tasks meet that someone asked for, and the value of its parameter.
fn tasks_of(asker: &Asker) -> Result<(&'static str, String), Error> {
    Ok(match asker {
        // Nothing is counted by the day for tokens.
        Asker::Token(token) => ("false", token.to_string()),
        Asker::People(names) => ("requested_by IN (SELECT value FROM json_each(?1))", to_json(names, "people")?),
        Asker::Repositories(names) => {
            ("repository IN (SELECT value FROM json_each(?1))", to_json(names, "repositories")?)
        }
        Asker::StrangersOf(name) => ("(repository = ?1 AND stranger_day IS NOT NULL)", name.clone()),
    })
}

fn forget(db: &Connection, session: &SessionId) -> Result<Forgotten, Error> {
    let sql = format!(
        "SELECT s.number, t.number, t.id, t.{UNFINISHED}, (SELECT count(*) FROM sessions WHERE task_id = t.id) = 1
         FROM sessions s JOIN tasks t ON t.id = s.task_id WHERE s.id = ?1"
    );
    type Found = (i64, i64, String, bool, bool);
    let found: Option<Found> = db
        .query_row(&sql, [session.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })
        .optional()?;
    let Some((number, task_number, task, unfinished, last)) = found else {
        return Err(Error::UnknownSession(session.to_string()));
    };
    if unfinished {
        return Ok(Forgotten::Busy);
    }
    let waiting = format!(
        "SELECT t.id FROM dependencies d JOIN tasks t ON t.id = d.task_id
         WHERE d.after_id = ?1 AND d.satisfied = 0 AND t.{UNFINISHED} LIMIT 1"
    );
    let waiting: Option<String> = db.query_row(&waiting, [&task], |row| row.get(0)).optional()?;
    if let Some(waiting) = waiting.filter(|_| last) {
        return Ok(Forgotten::Needed(id(&waiting)?));
    }
    // What it cost is counted before it goes.
    stats::bring_up_to_date(db)?;
    let turns = "SELECT number FROM turns WHERE session_id = ?1";
    for sql in [
        "DELETE FROM attempts WHERE turn_id IN (SELECT id FROM turns WHERE session_id = ?1)",
        &format!("DELETE FROM turn_caps WHERE turn IN ({turns})"),
        &format!("DELETE FROM stops WHERE turn IN ({turns})"),
        "DELETE FROM turns WHERE session_id = ?1",
        "DELETE FROM sessions WHERE id = ?1",
    ] {
        db.execute(sql, [session.as_str()])?;
    }
    db.execute("DELETE FROM events WHERE session = ?1", [number])?;
    db.execute(FORGET_ANSWERS, [session.as_str()])?;
    if last {
        for sql in ["DELETE FROM dependencies WHERE task_id = ?1", "DELETE FROM tasks WHERE id = ?1"] {
            db.execute(sql, [&task])?;
        }
        for sql in ["DELETE FROM counted WHERE task = ?1", "DELETE FROM reservations WHERE task = ?1"] {
            db.execute(sql, [task_number])?;
        }
        db.execute(FORGET_ANSWERS, [&task])?;
    }
    Ok(Forgotten::Session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate::migrate;

    #[test]
    fn the_days_tasks_of_strangers_are_counted_by_their_index_alone() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db).unwrap();
        for asker in [Asker::StrangersOf("/srv/orchard".into()), Asker::People(vec!["eve".into()])] {
            let (filter, value) = tasks_of(&asker).unwrap();
            let sql = format!("EXPLAIN QUERY PLAN {}", begun_sql(filter));
            let mut statement = db.prepare(&sql).unwrap();
            let steps = statement.query_map(params![value, "2026-01-02"], |row| row.get::<_, String>(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).filter(|step| step.contains(" tasks")).collect();
            let wanted = "SEARCH tasks USING COVERING INDEX tasks_of_strangers (stranger_day=?";
            assert!(steps.len() == 1 && steps[0].starts_with(wanted), "{asker:?}: {steps:?}");
        }
    }
}
