//! Migrations, forward only, all that are missing in one transaction. Whoever comes first holds the others off.
//!
//! Migrations change tables. The functions that work on them are no one's data: they are made anew with every upgrade.

use super::connection::Connection;
use super::pool::Pool;
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
    include_str!("migrations/0009_upkeep.sql"),
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
    include_str!("migrations/0032_work.sql"),
];
const FORGET_FUNCTIONS: &str = r"DO $$
DECLARE
  old regprocedure;
BEGIN
  FOR old IN SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'harvest\_%' LOOP
    EXECUTE 'DROP FUNCTION ' || old;
  END LOOP;
END $$;";
const FUNCTIONS: &[&str] = &[
    include_str!("functions/journal.sql"),
    include_str!("functions/admit.sql"),
    include_str!("functions/end.sql"),
    include_str!("functions/prompt.sql"),
    include_str!("functions/hold.sql"),
    include_str!("functions/append.sql"),
    include_str!("functions/claim.sql"),
    include_str!("functions/ledger.sql"),
    include_str!("functions/race.sql"),
];
const LOCK: &str = "SELECT pg_advisory_xact_lock(7233182600)";

pub(super) async fn migrate(pool: &Pool) -> Result<(), Error> {
    let known = MIGRATIONS.len() as u32;
    let lent = pool.lend().await?;
    let db = lent.get()?;
    if version(db).await? == known {
        return Ok(());
    }
    db.begin().await?;
    db.end(upgrade(db, known).await).await
}

async fn upgrade(db: &Connection, known: u32) -> Result<(), Error> {
    db.patient_batch("SET LOCAL statement_timeout = 0").await?;
    db.patient_batch(LOCK).await?;
    // Another process may have been migrating as well: look again now that the lock is ours.
    let found = version(db).await?;
    if found == known {
        // It has, and may be using the functions by now.
        return Ok(());
    }
    if found > known {
        return Err(Error::TooNew { found, known });
    }
    db.batch("CREATE TABLE IF NOT EXISTS harvest_version (version BIGINT NOT NULL)").await?;
    let missing = MIGRATIONS[found as usize..].join("\n");
    for batch in [FORGET_FUNCTIONS, &missing, &FUNCTIONS.join("\n")] {
        db.patient_batch(batch).await?;
    }
    db.batch(&format!("DELETE FROM harvest_version; INSERT INTO harvest_version VALUES ({known})")).await
}

async fn version(db: &Connection) -> Result<u32, Error> {
    // Read from the catalogue itself: what the session remembers of it may be older than the lock it has waited for.
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'harvest_version' AND pg_table_is_visible(oid))";
    let exists: bool = db.row(sql, &[]).await?.get(0);
    if !exists {
        return Ok(0);
    }
    let version: i64 = db.row("SELECT coalesce(max(version), 0) FROM harvest_version", &[]).await?.get(0);
    u32::try_from(version).map_err(|error| Error::corrupt("harvest_version", error))
}
