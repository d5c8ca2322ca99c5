//! How much someone has asked for, and the end of what nobody wants to keep.

use async_trait::async_trait;
use harvest_core::{Cost, SessionId, TaskId, TokenId};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Sqlite, stats};
use crate::Error;
use crate::contract::{Asker, Forgotten, Quotas};
use crate::decode::{id, to_json};

const UNFINISHED: &str = "status NOT IN ('completed', 'failed', 'cancelled')";

#[async_trait]
impl Quotas for Sqlite {
    async fn note_asked(&self, token: &TokenId, task: &TaskId, day: &str) -> Result<(), Error> {
        let (token, task, day) = (token.clone(), task.clone(), day.to_owned());
        self.write(move |db, _| {
            let sql = "INSERT OR IGNORE INTO asked (token, day, task) SELECT ?1, ?2, number FROM tasks WHERE id = ?3";
            db.execute(sql, params![token.as_str(), day, task.as_str()])?;
            Ok(())
        })
        .await
    }

    async fn unfinished(&self, of: &Asker) -> Result<u64, Error> {
        let of = of.clone();
        self.read(move |db| {
            let count = |filter: &str, value: String| {
                let sql = format!("SELECT count(*) FROM tasks WHERE {UNFINISHED} AND {filter}");
                Ok(db.prepare_cached(&sql)?.query_row([value], |row| row.get(0))?)
            };
            match of {
                Asker::Token(token) => count("number IN (SELECT task FROM asked WHERE token = ?1)", token.to_string()),
                Asker::People(names) => {
                    count("requested_by IN (SELECT value FROM json_each(?1))", to_json(&names, "people")?)
                }
                Asker::Repositories(names) => {
                    count("repository IN (SELECT value FROM json_each(?1))", to_json(&names, "repositories")?)
                }
            }
        })
        .await
    }

    async fn spent_with(&self, token: &TokenId, day: &str) -> Result<Cost, Error> {
        let (token, day) = (token.clone(), day.to_owned());
        self.read(move |db| {
            let sql = "SELECT coalesce(sum(cost_nanos), 0) FROM asked JOIN tasks ON tasks.number = asked.task
                       WHERE token = ?1 AND day = ?2";
            Ok(Cost::from_nanos(db.prepare_cached(sql)?.query_row([token.as_str(), &day], |row| row.get(0))?))
        })
        .await
    }

    async fn forget_session(&self, session: &SessionId) -> Result<Forgotten, Error> {
        let session = session.clone();
        self.write(move |db, effects| {
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
    db.execute("DELETE FROM answers WHERE instr(body, ?1) > 0", [session.as_str()])?;
    if last {
        for sql in ["DELETE FROM dependencies WHERE task_id = ?1", "DELETE FROM tasks WHERE id = ?1"] {
            db.execute(sql, [&task])?;
        }
        for sql in [
            "DELETE FROM counted WHERE task = ?1",
            "DELETE FROM asked WHERE task = ?1",
            "DELETE FROM reservations WHERE task = ?1",
        ] {
            db.execute(sql, [task_number])?;
        }
        db.execute("DELETE FROM answers WHERE instr(body, ?1) > 0", [&task])?;
    }
    Ok(Forgotten::Session)
}
