//! Migrations, forward only, each in its own transaction. The database's `user_version` is the number of the last one.

use rusqlite::Connection;

use crate::Error;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_start.sql"),
    include_str!("migrations/0002_queue.sql"),
    include_str!("migrations/0003_keys.sql"),
    include_str!("migrations/0004_credentials.sql"),
    include_str!("migrations/0005_repositories.sql"),
    include_str!("migrations/0006_stops.sql"),
    include_str!("migrations/0007_places.sql"),
    include_str!("migrations/0008_ledger.sql"),
    include_str!("migrations/0010_prompts.sql"),
    include_str!("migrations/0011_access.sql"),
    include_str!("migrations/0013_stats.sql"),
    include_str!("migrations/0014_projects.sql"),
    include_str!("migrations/0015_recovery.sql"),
    include_str!("migrations/0016_inbox.sql"),
    include_str!("migrations/0018_quotas.sql"),
    include_str!("migrations/0019_comments.sql"),
    include_str!("migrations/0020_neighbours.sql"),
    include_str!("migrations/0021_race_stats.sql"),
    include_str!("migrations/0022_races.sql"),
    include_str!("migrations/0023_stops.sql"),
    include_str!("migrations/0024_records.sql"),
    include_str!("migrations/0025_makers.sql"),
    include_str!("migrations/0026_people.sql"),
    include_str!("migrations/0027_former_results.sql"),
    include_str!("migrations/0028_quotas_of_turns.sql"),
    include_str!("migrations/0029_ends_of_turns.sql"),
    include_str!("migrations/0030_author_of_checks.sql"),
    include_str!("migrations/0031_rates.sql"),
];

pub(super) fn migrate(connection: &mut Connection) -> Result<(), Error> {
    let known = MIGRATIONS.len() as u32;
    if version(connection)? == known {
        return Ok(());
    }
    // Another process may be migrating as well: look again once the write lock is ours.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    if found > known {
        return Err(Error::TooNew { found, known });
    }
    for migration in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, Error> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}
