//! Repositories that snapshots are prepared of.

use super::connection::Connection;
use super::read::time;
use super::step::text;
use crate::Error;
use crate::contract::Repository;
use crate::decode::{from_json, milliseconds, to_json};

pub(super) async fn save_repository(db: &Connection, saved: &Repository) -> Result<(), Error> {
    let sql = "WITH made AS (
             INSERT INTO repositories (name, source, settings, created_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (name) DO UPDATE SET source = excluded.source, settings = excluded.settings)
         SELECT harvest_wake()";
    let (settings, created) = (to_json(&saved.settings, "settings")?, saved.created_at.to_string());
    db.query(sql, &[&text(&saved.name), &text(&saved.source), &settings, &created]).await.map(drop)
}

pub(super) async fn repositories(db: &Connection) -> Result<Vec<Repository>, Error> {
    let sql = "SELECT name, source, settings, created_at, pushed_ms FROM repositories ORDER BY name";
    let rows = db.query(sql, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Repository {
                name: row.get("name"),
                source: row.get("source"),
                settings: from_json(row.get("settings"), "repositories.settings")?,
                created_at: time(row, "created_at")?,
                pushed_at: milliseconds(row.get("pushed_ms"))?,
            })
        })
        .collect()
}

pub(super) async fn remove_repository(db: &Connection, name: &str) -> Result<bool, Error> {
    Ok(db.execute("DELETE FROM repositories WHERE name = $1", &[&text(name)]).await? > 0)
}
