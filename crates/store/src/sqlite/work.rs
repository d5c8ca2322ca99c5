//! The work of turns that have not ended, as the journal tells it.

use harvest_core::{EventBody, SessionId, StageName};
use rusqlite::{Connection, OptionalExtension, params};

use crate::Error;

/// The newest commit of what the unfinished turn of the session in row `number` has done; `None` if nothing arrived yet.
pub(super) fn newest(db: &Connection, number: i64) -> Result<Option<String>, Error> {
    // The type is in the first characters of every event: the many others are not read as JSON.
    let mut statement = db.prepare_cached(
        "SELECT body FROM events WHERE session = ?1 AND (
             body GLOB '{\"type\":\"checkpoint.created\"*' OR body GLOB '{\"type\":\"session.interrupted\"*'
             OR body GLOB '{\"type\":\"stage.finished\"*' OR body GLOB '{\"type\":\"delivery.proposed\"*'
             OR body GLOB '{\"type\":\"task.finished\"*')
         ORDER BY seq DESC",
    )?;
    let mut rows = statement.query(params![number])?;
    while let Some(row) = rows.next()? {
        let text = row.get_ref(0)?.as_str().map_err(|error| Error::corrupt("events.body", error))?;
        let body = serde_json::from_str(text).map_err(|error| Error::corrupt("events.body", error))?;
        match body {
            EventBody::CheckpointCreated { commit, .. }
            | EventBody::SessionInterrupted { commit, .. }
            | EventBody::DeliveryProposed { commit, .. } => return Ok(Some(commit)),
            EventBody::StageFinished { stage: StageName::Execute, result } => {
                return Ok(result.get("commit").and_then(serde_json::Value::as_str).map(str::to_owned));
            }
            // The turns before it have ended.
            EventBody::TaskFinished(_) => return Ok(None),
            _ => {}
        }
    }
    Ok(None)
}

pub(super) fn number_of(db: &Connection, session: &SessionId) -> Result<i64, Error> {
    let found = db
        .prepare_cached("SELECT number FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    found.ok_or_else(|| Error::UnknownSession(session.to_string()))
}
