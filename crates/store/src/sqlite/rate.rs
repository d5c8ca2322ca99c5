//! Rates that all servers on a database share.

use async_trait::async_trait;
use harvest_core::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::Sqlite;
use crate::Error;
use crate::contract::{Bucket, Draw, Drawn, Rates};

#[async_trait]
impl Rates for Sqlite {
    async fn draw(&self, draw: &Draw, at: Timestamp) -> Result<Drawn, Error> {
        let draw = draw.clone();
        self.write(move |db, _| {
            let found = db
                .prepare_cached("SELECT drops, at_ms FROM rates WHERE key = ?1")?
                .query_row([&draw.key], |row| Ok(Bucket { drops: row.get(0)?, at_ms: row.get(1)? }))
                .optional()?;
            let mut bucket = found.unwrap_or_else(|| Bucket::full(&draw, at));
            let drawn = bucket.draw(&draw, at);
            db.prepare_cached("INSERT OR REPLACE INTO rates (key, drops, at_ms) VALUES (?1, ?2, ?3)")?
                .execute(params![draw.key, bucket.drops, bucket.at_ms])?;
            Ok(drawn)
        })
        .await
    }

    async fn forget_rates(&self, before: Timestamp) -> Result<u64, Error> {
        self.write(move |db, _| Ok(db.execute("DELETE FROM rates WHERE at_ms < ?1", [before.as_millisecond()])? as u64))
            .await
    }
}
