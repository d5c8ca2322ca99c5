//! Credentials, sealed. Whoever uses them is woken when there are others.

use harvest_core::{Credential, CredentialId, Timestamp};
use rusqlite::{Connection, params};

use super::read::{id_at, optional_time, time};
use super::write::Effects;
use crate::Error;
use crate::contract::{CredentialRecord, NewSecret};

pub(super) fn add(db: &Connection, effects: &mut Effects, record: &CredentialRecord) -> Result<(), Error> {
    effects.queue = true;
    let Credential { id, provider, scope, name, last4, base_url, created_at, rotated_at, last_used_at } =
        &record.credential;
    let added = db.execute(
        "INSERT INTO credentials (id, provider, scope, name, sealed, last4, base_url, created_at, rotated_at, last_used_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        params![
            id.as_str(),
            provider,
            scope.to_string(),
            name,
            record.sealed,
            last4,
            base_url,
            created_at.to_string(),
            rotated_at.map(|time| time.to_string()),
            last_used_at.map(|time| time.to_string()),
        ],
    )?;
    if added == 0 { Err(Error::credential_exists(&record.credential)) } else { Ok(()) }
}

pub(super) fn all(db: &Connection) -> Result<Vec<CredentialRecord>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT id, provider, scope, name, sealed, last4, base_url, created_at, rotated_at, last_used_at
         FROM credentials ORDER BY provider, scope, name",
    )?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let scope: String = row.get(2)?;
        let credential = Credential {
            id: id_at(row, 0)?,
            provider: row.get(1)?,
            scope: scope.parse().map_err(|error| Error::corrupt("credentials.scope", error))?,
            name: row.get(3)?,
            last4: row.get(5)?,
            base_url: row.get(6)?,
            created_at: time(row, 7)?,
            rotated_at: optional_time(row, 8)?,
            last_used_at: optional_time(row, 9)?,
        };
        records.push(CredentialRecord { credential, sealed: row.get(4)? });
    }
    Ok(records)
}

pub(super) fn reseal(db: &Connection, id: &CredentialId, from: &str, to: &str) -> Result<bool, Error> {
    let sql = "UPDATE credentials SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
    Ok(db.execute(sql, params![id.as_str(), from, to])? > 0)
}

pub(super) fn replace(
    db: &Connection,
    effects: &mut Effects,
    id: &CredentialId,
    new: &NewSecret,
) -> Result<bool, Error> {
    effects.queue = true;
    let sql = "UPDATE credentials SET sealed = ?2, last4 = ?3, rotated_at = ?4 WHERE id = ?1";
    Ok(db.execute(sql, params![id.as_str(), new.sealed, new.last4, new.at.to_string()])? > 0)
}

pub(super) fn used(db: &Connection, id: &CredentialId, at: Timestamp) -> Result<(), Error> {
    db.execute("UPDATE credentials SET last_used_at = ?2 WHERE id = ?1", params![id.as_str(), at.to_string()])?;
    Ok(())
}

pub(super) fn begin_refresh(
    db: &Connection,
    person: &str,
    holder: &str,
    at: Timestamp,
    until: Timestamp,
) -> Result<bool, Error> {
    let sql = "INSERT INTO refreshes (person, holder, until_ms) VALUES (?1, ?2, ?4)
         ON CONFLICT (person) DO UPDATE SET holder = ?2, until_ms = ?4 WHERE holder = ?2 OR until_ms <= ?3";
    Ok(db.execute(sql, params![person, holder, at.as_millisecond(), until.as_millisecond()])? > 0)
}

pub(super) fn end_refresh(db: &Connection, person: &str, holder: &str) -> Result<(), Error> {
    db.execute("DELETE FROM refreshes WHERE person = ?1 AND holder = ?2", [person, holder])?;
    Ok(())
}

pub(super) fn remove(db: &Connection, effects: &mut Effects, id: &CredentialId) -> Result<bool, Error> {
    effects.queue = true;
    Ok(db.execute("DELETE FROM credentials WHERE id = ?1", [id.as_str()])? > 0)
}
