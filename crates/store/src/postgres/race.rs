//! Races: who has won, and those who wait to hear it.

use async_trait::async_trait;
use harvest_core::{TaskId, Timestamp};

use super::Postgres;
use super::step::text;
use crate::Error;
use crate::contract::{Lease, Races};
use crate::decode::id;

#[async_trait]
impl Races for Postgres {
    async fn winner(&self, race: &str) -> Result<Option<TaskId>, Error> {
        let lent = self.lend().await?;
        let rows = lent.get()?.query("SELECT winner FROM races WHERE id = $1", &[&text(race)]).await?;
        rows.first().map(|row| id(row.get(0))).transpose()
    }

    async fn win(&self, lease: &Lease, race: &str, task: &TaskId) -> Result<TaskId, Error> {
        let lent = self.lend().await?;
        let sql = "SELECT harvest_win($1, $2, $3, $4)";
        let row = lent.get()?.row(sql, &[&lease.rows.turn, &(lease.fence as i64), &text(race), &task.as_str()]).await?;
        row.get::<_, Option<&str>>(0).map_or_else(|| Err(stale(lease)), id)
    }

    async fn step_aside(&self, lease: &Lease) -> Result<(), Error> {
        let lent = self.lend().await?;
        let sql = "SELECT harvest_step_aside($1, $2)";
        let row = lent.get()?.row(sql, &[&lease.rows.turn, &(lease.fence as i64)]).await?;
        if row.get(0) { Ok(()) } else { Err(stale(lease)) }
    }

    async fn let_go(&self, lease: &Lease, at: Timestamp) -> Result<(), Error> {
        let lent = self.lend().await?;
        let sql = "SELECT harvest_let_go($1, $2, $3)";
        let row = lent.get()?.row(sql, &[&lease.rows.turn, &(lease.fence as i64), &at.to_string()]).await?;
        if row.get(0) { Ok(()) } else { Err(stale(lease)) }
    }
}

fn stale(lease: &Lease) -> Error {
    Error::StaleLease { turn: lease.turn.to_string(), held: lease.fence }
}
