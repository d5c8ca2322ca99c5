//! Sessions at work on the same repository.

use async_trait::async_trait;
use harvest_core::{Overlap, SessionId, TaskId, Timestamp};
use rusqlite::{OptionalExtension, params};

use super::Sqlite;
use super::read::id_at;
use crate::Error;
use crate::contract::{MOST_NEIGHBOURS, Neighbour, Neighbours, ordered};
use crate::decode::{branch, from_json, milliseconds, to_json};

const NEIGHBOURS: &str = "SELECT t.id, s.id, s.branch FROM tasks t JOIN sessions s ON s.task_id = t.id
     WHERE t.status IN ('running', 'interrupted', 'awaiting_approval') AND t.repository = ?1 AND s.id <> ?2
     UNION SELECT s.task_id, s.id, s.branch FROM links l JOIN sessions s ON s.id = l.session_id
     WHERE l.repository = ?1 AND l.kind = 'pull_request' AND l.ended IS NULL AND s.id <> ?2
     ORDER BY 2 DESC LIMIT ?3";
const OVERLAPS: &str = "SELECT mine.id, theirs.task_id, theirs.id, o.paths, o.found_ms FROM sessions mine
     JOIN session_overlaps o ON mine.id IN (o.one, o.other)
     JOIN sessions theirs ON theirs.id = CASE WHEN o.one = mine.id THEN o.other ELSE o.one END
     JOIN tasks t ON t.id = theirs.task_id
     WHERE mine.task_id = ?1 AND (t.status NOT IN ('completed', 'failed', 'cancelled') OR EXISTS (
       SELECT 1 FROM links l WHERE l.session_id = theirs.id AND l.kind = 'pull_request' AND l.ended IS NULL))
     ORDER BY o.found_ms, theirs.id";

#[async_trait]
impl Neighbours for Sqlite {
    async fn neighbours(&self, repository: &str, of: &SessionId) -> Result<Vec<Neighbour>, Error> {
        let (repository, of) = (repository.to_owned(), of.to_string());
        self.read(move |db| {
            let mut statement = db.prepare_cached(NEIGHBOURS)?;
            let mut rows = statement.query(params![repository, of, MOST_NEIGHBOURS])?;
            let mut neighbours = Vec::new();
            while let Some(row) = rows.next()? {
                let branch = branch(row.get(2)?)?;
                neighbours.push(Neighbour { task: id_at(row, 0)?, session: id_at(row, 1)?, branch });
            }
            Ok(neighbours)
        })
        .await
    }

    async fn note_overlap(&self, between: [&SessionId; 2], paths: &[String], at: Timestamp) -> Result<bool, Error> {
        let [one, other] = ordered(between).map(ToString::to_string);
        let wanted = (!paths.is_empty()).then(|| to_json(&paths, "session_overlaps.paths")).transpose()?;
        let known = (one.clone(), other.clone());
        let before = self.read(move |db| {
            let sql = "SELECT paths FROM session_overlaps WHERE one = ?1 AND other = ?2";
            Ok(db.query_row(sql, params![known.0, known.1], |row| row.get::<_, String>(0)).optional()?)
        });
        // Most of the time nothing is new, and saying so takes no place in the writer's line.
        if before.await? == wanted {
            return Ok(false);
        }
        self.write(move |db, _| {
            match &wanted {
                Some(paths) => {
                    let sql = "INSERT INTO session_overlaps (one, other, paths, found_ms) VALUES (?1, ?2, ?3, ?4)
                               ON CONFLICT (one, other) DO UPDATE SET paths = ?3, found_ms = ?4";
                    db.execute(sql, params![one, other, paths, at.as_millisecond()])?;
                }
                None => {
                    db.execute("DELETE FROM session_overlaps WHERE one = ?1 AND other = ?2", [&one, &other])?;
                }
            }
            Ok(true)
        })
        .await
    }

    async fn overlaps(&self, task: &TaskId) -> Result<Vec<Overlap>, Error> {
        let task = task.to_string();
        self.read(move |db| {
            let mut statement = db.prepare_cached(OVERLAPS)?;
            let mut rows = statement.query([task])?;
            let mut overlaps = Vec::new();
            while let Some(row) = rows.next()? {
                overlaps.push(Overlap {
                    session_id: id_at(row, 0)?,
                    with_task: id_at(row, 1)?,
                    with_session: id_at(row, 2)?,
                    paths: from_json(&row.get::<_, String>(3)?, "session_overlaps.paths")?,
                    found_at: milliseconds(row.get(4)?)?.unwrap_or_default(),
                });
            }
            Ok(overlaps)
        })
        .await
    }

    async fn repository_pushed(&self, name: &str, at: Timestamp) -> Result<bool, Error> {
        let name = name.to_owned();
        self.write(move |db, effects| {
            let sql = "UPDATE repositories SET pushed_ms = ?2 WHERE name = ?1";
            let known = db.execute(sql, params![name, at.as_millisecond()])? > 0;
            effects.queue |= known;
            Ok(known)
        })
        .await
    }
}
