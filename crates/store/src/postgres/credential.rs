//! Credentials, sealed. Whoever uses them is woken when there are others.

use harvest_core::{Credential, CredentialId, Timestamp};

use super::connection::Connection;
use super::read::{optional_time, time};
use super::step::text;
use crate::Error;
use crate::contract::{CredentialRecord, NewSecret};
use crate::decode::id;

pub(super) async fn add(db: &Connection, record: &CredentialRecord) -> Result<(), Error> {
    let Credential { id, provider, scope, name, last4, base_url, created_at, rotated_at, last_used_at } =
        &record.credential;
    let sql =
        "INSERT INTO credentials (id, provider, scope, name, sealed, last4, base_url, created_at, rotated_at, last_used_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING";
    let added = db
        .execute(
            sql,
            &[
                &id.as_str(),
                &text(provider),
                &text(&scope.to_string()),
                &text(name),
                &record.sealed,
                &text(last4),
                &base_url.as_deref().map(text),
                &created_at.to_string(),
                &rotated_at.map(|time| time.to_string()),
                &last_used_at.map(|time| time.to_string()),
            ],
        )
        .await?;
    if added == 0 {
        return Err(Error::credential_exists(&record.credential));
    }
    wake(db).await
}

async fn wake(db: &Connection) -> Result<(), Error> {
    db.query("SELECT harvest_wake()", &[]).await.map(drop)
}

pub(super) async fn all(db: &Connection) -> Result<Vec<CredentialRecord>, Error> {
    let rows = db.query("SELECT * FROM credentials ORDER BY provider, scope, name", &[]).await?;
    rows.iter()
        .map(|row| {
            let scope: &str = row.get("scope");
            let credential = Credential {
                id: id(row.get("id"))?,
                provider: row.get("provider"),
                scope: scope.parse().map_err(|error| Error::corrupt("credentials.scope", error))?,
                name: row.get("name"),
                last4: row.get("last4"),
                base_url: row.get("base_url"),
                created_at: time(row, "created_at")?,
                rotated_at: optional_time(row, "rotated_at")?,
                last_used_at: optional_time(row, "last_used_at")?,
            };
            Ok(CredentialRecord { credential, sealed: row.get("sealed") })
        })
        .collect()
}

pub(super) async fn reseal(db: &Connection, id: &CredentialId, from: &str, to: &str) -> Result<bool, Error> {
    let sql = "UPDATE credentials SET sealed = $3 WHERE id = $1 AND sealed = $2";
    Ok(db.execute(sql, &[&id.as_str(), &from, &to]).await? > 0)
}

pub(super) async fn replace(db: &Connection, id: &CredentialId, new: &NewSecret) -> Result<bool, Error> {
    let sql = "UPDATE credentials SET sealed = $2, last4 = $3, rotated_at = $4 WHERE id = $1";
    let replaced = db.execute(sql, &[&id.as_str(), &new.sealed, &text(&new.last4), &new.at.to_string()]).await?;
    wake(db).await?;
    Ok(replaced > 0)
}

pub(super) async fn used(db: &Connection, id: &CredentialId, at: Timestamp) -> Result<(), Error> {
    let sql = "UPDATE credentials SET last_used_at = $2 WHERE id = $1";
    db.execute(sql, &[&id.as_str(), &at.to_string()]).await.map(drop)
}

pub(super) async fn begin_refresh(
    db: &Connection,
    person: &str,
    holder: &str,
    at: Timestamp,
    until: Timestamp,
) -> Result<bool, Error> {
    let sql = "INSERT INTO refreshes AS r (person, holder, until_ms) VALUES ($1, $2, $4)
         ON CONFLICT (person) DO UPDATE SET holder = $2, until_ms = $4 WHERE r.holder = $2 OR r.until_ms <= $3";
    let (at, until) = (at.as_millisecond(), until.as_millisecond());
    Ok(db.execute(sql, &[&text(person), &holder, &at, &until]).await? > 0)
}

pub(super) async fn end_refresh(db: &Connection, person: &str, holder: &str) -> Result<(), Error> {
    let sql = "DELETE FROM refreshes WHERE person = $1 AND holder = $2";
    db.execute(sql, &[&text(person), &holder]).await.map(drop)
}

pub(super) async fn remove(db: &Connection, id: &CredentialId) -> Result<bool, Error> {
    let removed = db.execute("DELETE FROM credentials WHERE id = $1", &[&id.as_str()]).await?;
    wake(db).await?;
    Ok(removed > 0)
}
