//! Repositories that snapshots are prepared of.

use rusqlite::{Connection, params};

use super::Effects;
use crate::Error;
use crate::contract::Repository;

pub(crate) fn save_repository(db: &Connection, effects: &mut Effects, saved: &Repository) -> Result<(), Error> {
    let settings = serde_json::to_string(&saved.settings).map_err(|error| Error::corrupt("settings", error))?;
    db.execute(
        "INSERT INTO repositories (name, source, settings, created_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET source = ?2, settings = ?3",
        params![saved.name, saved.source, settings, saved.created_at.to_string()],
    )?;
    // Whoever prepares snapshots looks again.
    effects.queue = true;
    Ok(())
}

pub(crate) fn remove_repository(db: &Connection, name: &str) -> Result<bool, Error> {
    Ok(db.execute("DELETE FROM repositories WHERE name = ?1", [name])? > 0)
}
