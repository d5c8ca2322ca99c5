//! Repositories that snapshots are prepared of.

use rusqlite::Connection;

use super::time;
use crate::Error;
use crate::contract::Repository;
use crate::decode::{from_json, milliseconds};

pub(crate) fn repositories(db: &Connection) -> Result<Vec<Repository>, Error> {
    let mut statement =
        db.prepare_cached("SELECT name, source, settings, created_at, pushed_ms FROM repositories ORDER BY name")?;
    let mut rows = statement.query([])?;
    let mut repositories = Vec::new();
    while let Some(row) = rows.next()? {
        repositories.push(Repository {
            name: row.get(0)?,
            source: row.get(1)?,
            settings: from_json(&row.get::<_, String>(2)?, "repositories.settings")?,
            created_at: time(row, 3)?,
            pushed_at: milliseconds(row.get(4)?)?,
        });
    }
    Ok(repositories)
}
