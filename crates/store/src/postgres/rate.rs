//! Rates that the servers on one database share. The database's clock counts, so that theirs need not agree.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;

use super::Postgres;
use super::connection::Connection;
use super::step::text;
use crate::Error;
use crate::contract::{Rate, Rates, Taken};

macro_rules! now_ms {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// Locks each row, whoever has made it, in the order of the keys, so that no two requests wait for each other. A clock that is
/// set back costs nothing.
const LOCK: &str = concat!(
    "INSERT INTO rates (key, drops, at_ms) SELECT key, quota, ",
    now_ms!(),
    " FROM unnest($1::text[], $2::float8[]) AS asked (key, quota) ORDER BY key COLLATE \"C\"
     ON CONFLICT (key) DO UPDATE SET key = rates.key RETURNING key, drops, greatest(0, ",
    now_ms!(),
    " - at_ms)"
);
const WRITE: &str = concat!(
    "UPDATE rates SET drops = now.drops, at_ms = ",
    now_ms!(),
    " FROM unnest($1::text[], $2::float8[]) AS now (key, drops) WHERE rates.key = now.key"
);
const FORGET: &str = concat!(
    "DELETE FROM rates WHERE key IN (SELECT key FROM rates WHERE abs(",
    now_ms!(),
    " - at_ms) > $1 FOR UPDATE SKIP LOCKED)"
);

#[async_trait]
impl Rates for Postgres {
    async fn take_rates(&self, rates: &[Rate]) -> Result<Option<Taken>, Error> {
        let lent = self.lend().await?;
        let db = lent.get()?;
        db.begin().await?;
        db.end(take(db, rates).await).await.map(Some)
    }

    async fn forget_rates(&self) -> Result<u64, Error> {
        let longest = 2 * Rate::WINDOW.as_millis() as i64;
        self.lend().await?.get()?.execute(FORGET, &[&longest]).await
    }
}

async fn take(db: &Connection, rates: &[Rate]) -> Result<Taken, Error> {
    let keys: Vec<_> = rates.iter().map(|rate| text(&rate.key)).collect();
    let quotas: Vec<f64> = rates.iter().map(|rate| f64::from(rate.quota)).collect();
    let rows = db.query(LOCK, &[&keys, &quotas]).await?;
    let filled = |(rate, key): (&Rate, &Cow<'_, str>)| {
        let row = rows.iter().find(|row| row.get::<_, &str>(0) == &**key);
        let (before, since) = row.map_or((f64::from(rate.quota), 0), |row| (row.get(1), row.get::<_, i64>(2)));
        rate.filled(before, Duration::from_millis(since.unsigned_abs()))
    };
    let filled: Vec<f64> = rates.iter().zip(&keys).map(filled).collect();
    let taken = Taken::of(rates, &filled);
    // A refusal is written as well: the clock may have been set back since the row was.
    let left = if let Taken::Left(left) = &taken { left } else { &filled };
    db.execute(WRITE, &[&keys, left]).await?;
    Ok(taken)
}
