//! Races: who has won, and those who wait to hear it.

use async_trait::async_trait;
use harvest_core::{TaskId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use super::write::{admit, claim, step};
use crate::Error;
use crate::contract::{Lease, Races};
use crate::decode::id;

#[async_trait]
impl Races for Sqlite {
    async fn winner(&self, race: &str) -> Result<Option<TaskId>, Error> {
        let race = race.to_owned();
        self.read(move |db| winner(db, &race)).await
    }

    async fn win(&self, lease: &Lease, race: &str, task: &TaskId) -> Result<TaskId, Error> {
        let (lease, race, task) = (lease.clone(), race.to_owned(), task.clone());
        self.write(move |db, effects| {
            step::check_fence(db, &lease)?;
            db.execute("INSERT OR IGNORE INTO races (id, winner) VALUES (?1, ?2)", params![race, task.as_str()])?;
            // Whoever waits for the verdict wants to know.
            effects.queue = true;
            Ok(winner(db, &race)?.unwrap_or_else(|| task.clone()))
        })
        .await
    }

    async fn step_aside(&self, lease: &Lease) -> Result<(), Error> {
        let lease = lease.clone();
        self.write(move |db, effects| {
            step::check_fence(db, &lease)?;
            admit::step_aside(db, effects, lease.rows.turn)
        })
        .await
    }

    async fn let_go(&self, lease: &Lease, at: Timestamp) -> Result<(), Error> {
        let lease = lease.clone();
        self.write(move |db, effects| {
            step::check_fence(db, &lease)?;
            claim::let_go(db, effects, &lease, at)
        })
        .await
    }
}

fn winner(db: &Connection, race: &str) -> Result<Option<TaskId>, Error> {
    let mut statement = db.prepare_cached("SELECT winner FROM races WHERE id = ?1")?;
    let winner: Option<String> = statement.query_row([race], |row| row.get(0)).optional()?;
    winner.map(|winner| id(&winner)).transpose()
}
