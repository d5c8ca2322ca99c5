//! The two things a backup asks of the database file: a consistent copy while others write, and whether a copy is sound.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::Error;

const WAIT: Duration = Duration::from_secs(30);

/// A copy of one moment, whatever is being written meanwhile.
pub fn copy(database: &Path, target: &Path) -> Result<(), Error> {
    let db = open(database)?;
    db.execute("VACUUM INTO ?1", [target.to_string_lossy()])?;
    Ok(())
}

/// What is wrong with it, if anything.
pub fn check(database: &Path) -> Result<(), String> {
    let found = open(database).and_then(|db| db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)));
    match found {
        Ok(found) if found == "ok" => Ok(()),
        Ok(found) => Err(found),
        Err(error) => Err(error.to_string()),
    }
}

fn open(database: &Path) -> Result<Connection, rusqlite::Error> {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(WAIT)?;
    Ok(db)
}
