//! Rates that all servers on a database share.

use async_trait::async_trait;
use harvest_core::Timestamp;

use super::Postgres;
use super::connection::Connection;
use super::step::text;
use crate::Error;
use crate::contract::{Bucket, Draw, Drawn, Rates};

#[async_trait]
impl Rates for Postgres {
    async fn draw(&self, draw: &Draw, at: Timestamp) -> Result<Drawn, Error> {
        let lent = self.lend().await?;
        let db = lent.get()?;
        db.begin().await?;
        db.end(take(db, draw, at).await).await
    }

    async fn forget_rates(&self, before: Timestamp) -> Result<u64, Error> {
        let lent = self.lend().await?;
        lent.get()?.execute("DELETE FROM rates WHERE at_ms < $1", &[&before.as_millisecond()]).await
    }
}

async fn take(db: &Connection, draw: &Draw, at: Timestamp) -> Result<Drawn, Error> {
    let key = text(&draw.key);
    let full = Bucket::full(draw, at);
    // The update of nothing locks the row, whoever has made it.
    let sql = "INSERT INTO rates (key, drops, at_ms) VALUES ($1, $2, $3)
         ON CONFLICT (key) DO UPDATE SET key = rates.key RETURNING drops, at_ms";
    let row = db.row(sql, &[&key, &full.drops, &full.at_ms]).await?;
    let mut bucket = Bucket { drops: row.get(0), at_ms: row.get(1) };
    let drawn = bucket.draw(draw, at);
    let sql = "UPDATE rates SET drops = $2, at_ms = $3 WHERE key = $1";
    db.execute(sql, &[&key, &bucket.drops, &bucket.at_ms]).await?;
    Ok(drawn)
}
