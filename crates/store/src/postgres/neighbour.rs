//! Sessions at work on the same repository.

use async_trait::async_trait;
use harvest_core::{Overlap, SessionId, TaskId, Timestamp};

use super::Postgres;
use super::step::text;
use crate::Error;
use crate::contract::{MOST_NEIGHBOURS, Neighbour, Neighbours, ordered};
use crate::decode::{branch, from_json, id, milliseconds, to_json};

const NEIGHBOURS: &str =
    "SELECT t.id AS task, s.id AS session, s.branch FROM tasks t JOIN sessions s ON s.task_id = t.id
     WHERE t.status IN ('running', 'interrupted', 'awaiting_approval') AND t.repository = $1 AND s.id <> $2
     UNION SELECT s.task_id, s.id, s.branch FROM links l JOIN sessions s ON s.id = l.session_id
     WHERE l.repository = $1 AND l.kind = 'pull_request' AND l.ended IS NULL AND s.id <> $2
     ORDER BY 2 DESC LIMIT $3";
const OVERLAPS: &str =
    "SELECT mine.id AS mine, theirs.task_id, theirs.id AS theirs, o.paths, o.found_ms FROM sessions mine
     JOIN session_overlaps o ON mine.id IN (o.one, o.other)
     JOIN sessions theirs ON theirs.id = CASE WHEN o.one = mine.id THEN o.other ELSE o.one END
     JOIN tasks t ON t.id = theirs.task_id
     WHERE mine.task_id = $1 AND (t.status NOT IN ('completed', 'failed', 'cancelled') OR EXISTS (
       SELECT 1 FROM links l WHERE l.session_id = theirs.id AND l.kind = 'pull_request' AND l.ended IS NULL))
     ORDER BY o.found_ms, theirs.id";

#[async_trait]
impl Neighbours for Postgres {
    async fn neighbours(&self, repository: &str, of: &SessionId) -> Result<Vec<Neighbour>, Error> {
        let lent = self.lend().await?;
        let rows = lent.get()?.query(NEIGHBOURS, &[&text(repository), &of.as_str(), &MOST_NEIGHBOURS]).await?;
        let neighbour = |row: &tokio_postgres::Row| {
            let branch = branch(row.get("branch"))?;
            Ok(Neighbour { task: id(row.get("task"))?, session: id(row.get("session"))?, branch })
        };
        rows.iter().map(neighbour).collect()
    }

    async fn note_overlap(&self, between: [&SessionId; 2], paths: &[String], at: Timestamp) -> Result<bool, Error> {
        let lent = self.lend().await?;
        let (db, [one, other]) = (lent.get()?, ordered(between).map(SessionId::as_str));
        if paths.is_empty() {
            let sql = "DELETE FROM session_overlaps WHERE one = $1 AND other = $2";
            return Ok(db.execute(sql, &[&one, &other]).await? > 0);
        }
        let sql = "INSERT INTO session_overlaps (one, other, paths, found_ms) VALUES ($1, $2, $3, $4)
                   ON CONFLICT (one, other) DO UPDATE SET paths = excluded.paths, found_ms = excluded.found_ms
                   WHERE session_overlaps.paths <> excluded.paths";
        let paths = to_json(&paths, "session_overlaps.paths")?;
        Ok(db.execute(sql, &[&one, &other, &text(&paths), &at.as_millisecond()]).await? > 0)
    }

    async fn overlaps(&self, task: &TaskId) -> Result<Vec<Overlap>, Error> {
        let lent = self.lend().await?;
        let rows = lent.get()?.query(OVERLAPS, &[&task.as_str()]).await?;
        let overlap = |row: &tokio_postgres::Row| {
            Ok(Overlap {
                session_id: id(row.get("mine"))?,
                with_task: id(row.get("task_id"))?,
                with_session: id(row.get("theirs"))?,
                paths: from_json(row.get("paths"), "session_overlaps.paths")?,
                found_at: milliseconds(row.get("found_ms"))?.unwrap_or_default(),
            })
        };
        rows.iter().map(overlap).collect()
    }

    async fn repository_pushed(&self, name: &str, at: Timestamp) -> Result<bool, Error> {
        let lent = self.lend().await?;
        let sql = "WITH moved AS (UPDATE repositories SET pushed_ms = $2 WHERE name = $1 RETURNING name)
                   SELECT harvest_wake() FROM moved";
        Ok(!lent.get()?.query(sql, &[&text(name), &at.as_millisecond()]).await?.is_empty())
    }
}
