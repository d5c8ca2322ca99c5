//! Tokens, answers, the audit log and lists of sessions.

use async_trait::async_trait;
use harvest_core::{SessionId, Settings, TaskId, TaskStatus, Timestamp, TokenId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::broadcast;

use super::read::{id_at, optional_time, time};
use super::{Sqlite, stats};
use crate::Error;
use crate::contract::{
    Access, AccessToken, Answer, AnswerKey, AuditEntry, AuditQuery, Begun, Grown, NewAudit, SessionPage, SessionQuery,
    SessionSummary, Stat, StatQuery, TokenKind,
};
use crate::decode::{branch, from_json, from_word, id, prompt, to_json, to_word};
use crate::record::Record;

const TOKEN: &str =
    "SELECT id, kind, name, user, role, projects, digest, created_at, expires_at, revoked_at, last_used_at, made_by
     FROM tokens";
/// Revokes what was made with a token, and with that.
const REVOKE_MADE: &str = "WITH RECURSIVE made (id) AS (
       SELECT id FROM tokens WHERE made_by = ?1
       UNION SELECT tokens.id FROM tokens JOIN made ON tokens.made_by = made.id)
     UPDATE tokens SET revoked_at = ?2 WHERE id IN (SELECT id FROM made) AND revoked_at IS NULL";
const MAX_PAGE: usize = 500;
const MAX_ENTRIES: usize = 1000;

#[async_trait]
impl Access for Sqlite {
    async fn add_token(&self, token: AccessToken) -> Result<(), Error> {
        self.change(format!("token:{}", token.id), move |db, _| add_token(db, &token)).await
    }

    async fn tokens(&self, kind: TokenKind) -> Result<Vec<AccessToken>, Error> {
        self.read(move |db| {
            let mut statement = db.prepare_cached(&format!("{TOKEN} WHERE kind = ?1 ORDER BY number DESC"))?;
            let mut rows = statement.query([to_word(&kind)?])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(token_from(row)?);
            }
            Ok(tokens)
        })
        .await
    }

    async fn tokens_by_id(&self, ids: &[TokenId]) -> Result<Vec<AccessToken>, Error> {
        let ids = to_json(&ids.iter().map(TokenId::as_str).collect::<Vec<_>>(), "ids")?;
        self.read(move |db| {
            let sql = format!("{TOKEN} WHERE id IN (SELECT value FROM json_each(?1))");
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query([ids])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(token_from(row)?);
            }
            Ok(tokens)
        })
        .await
    }

    async fn token(&self, digest: &str) -> Result<Option<AccessToken>, Error> {
        let digest = digest.to_owned();
        self.read(move |db| token(db, &digest)).await
    }

    async fn redeem_token(&self, digest: &str, at: Timestamp) -> Result<Option<AccessToken>, Error> {
        let digest = digest.to_owned();
        self.write(move |db, _| {
            let sql = "UPDATE tokens SET revoked_at = ?2, last_used_at = ?2 WHERE digest = ?1 AND revoked_at IS NULL";
            if db.execute(sql, params![digest, at.to_string()])? == 0 {
                return Ok(None);
            }
            token(db, &digest)
        })
        .await
    }

    async fn token_used(&self, id: &TokenId, at: Timestamp) -> Result<(), Error> {
        let id = id.clone();
        self.write(move |db, _| {
            let sql = "UPDATE tokens SET last_used_at = ?2 WHERE id = ?1";
            db.execute(sql, params![id.as_str(), at.to_string()])?;
            Ok(())
        })
        .await
    }

    async fn revoke_token(&self, id: &TokenId, at: Timestamp) -> Result<bool, Error> {
        let id = id.clone();
        self.change(format!("token:{id}"), move |db, effects| {
            effects.queue = true;
            let values = params![id.as_str(), at.to_string()];
            let sql = "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
            let revoked = db.execute(sql, values)? > 0;
            db.execute(REVOKE_MADE, values)?;
            Ok(revoked)
        })
        .await
    }

    async fn begin_answer(&self, key: &AnswerKey, at: Timestamp, stale: Timestamp) -> Result<Begun, Error> {
        let key = key.clone();
        self.write(move |db, _| begin_answer(db, &key, at, stale)).await
    }

    async fn finish_answer(&self, key: &AnswerKey, answer: Answer) -> Result<(), Error> {
        let key = key.clone();
        self.write(move |db, _| {
            let sql = "UPDATE answers SET status = ?3, body = ?4 WHERE key = ?1 AND digest = ?2";
            db.execute(sql, params![key.key, key.digest, answer.status, answer.body])?;
            Ok(())
        })
        .await
    }

    async fn abandon_answer(&self, key: &AnswerKey) -> Result<(), Error> {
        let key = key.clone();
        self.write(move |db, _| {
            let sql = "DELETE FROM answers WHERE key = ?1 AND digest = ?2 AND status IS NULL AND made IS NULL";
            db.execute(sql, [&key.key, &key.digest])?;
            Ok(())
        })
        .await
    }

    async fn forget_answers(&self, before: Timestamp) -> Result<u64, Error> {
        self.write(move |db, _| {
            Ok(db.execute("DELETE FROM answers WHERE begun_ms < ?1", [before.as_millisecond()])? as u64)
        })
        .await
    }

    async fn audit(&self, entry: NewAudit) -> Result<AuditEntry, Error> {
        self.write(move |db, _| audit(db, &entry)).await
    }

    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, Error> {
        self.read(move |db| audit_log(db, &query)).await
    }

    async fn last_event(&self, session: &SessionId) -> Result<(TaskId, u64), Error> {
        let session = session.clone();
        self.read(move |db| last_event(db, &session)).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<SessionPage, Error> {
        self.read(move |db| sessions(db, &query)).await
    }

    async fn statistics(&self, query: StatQuery) -> Result<Vec<Stat>, Error> {
        if !self.read(stats::is_up_to_date).await? {
            self.write(|db, _| stats::bring_up_to_date(db)).await?;
        }
        self.read(move |db| stats::read(db, &query)).await
    }

    fn watch_journals(&self) -> broadcast::Receiver<Grown> {
        self.shared.grown.subscribe()
    }
}

fn add_token(db: &Connection, token: &AccessToken) -> Result<(), Error> {
    let projects = token.projects.as_ref().map(|projects| to_json(projects, "tokens.projects")).transpose()?;
    db.execute(
        "INSERT INTO tokens
           (id, kind, name, user, role, projects, digest, created_at, expires_at, revoked_at, last_used_at, made_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            token.id.as_str(),
            to_word(&token.kind)?,
            token.name,
            token.user,
            token.role.as_str(),
            projects,
            token.digest,
            token.created_at.to_string(),
            token.expires_at.map(|time| time.to_string()),
            token.revoked_at.map(|time| time.to_string()),
            token.last_used_at.map(|time| time.to_string()),
            token.made_by.as_ref().map(TokenId::as_str),
        ],
    )?;
    // Its maker may have been revoked since it asked.
    let sql =
        "UPDATE tokens SET revoked_at = (SELECT maker.revoked_at FROM tokens maker WHERE maker.id = tokens.made_by)
               WHERE id = ?1 AND made_by IS NOT NULL AND revoked_at IS NULL";
    db.execute(sql, [token.id.as_str()])?;
    Ok(())
}

fn token(db: &Connection, digest: &str) -> Result<Option<AccessToken>, Error> {
    let mut statement = db.prepare_cached(&format!("{TOKEN} WHERE digest = ?1"))?;
    let mut rows = statement.query([digest])?;
    rows.next()?.map(token_from).transpose()
}

fn token_from(row: &Row<'_>) -> Result<AccessToken, Error> {
    let projects: Option<String> = row.get(5)?;
    Ok(AccessToken {
        id: id_at(row, 0)?,
        kind: from_word(&row.get::<_, String>(1)?, "tokens.kind")?,
        name: row.get(2)?,
        user: row.get(3)?,
        role: from_word(&row.get::<_, String>(4)?, "tokens.role")?,
        projects: projects.map(|projects| from_json(&projects, "tokens.projects")).transpose()?,
        digest: row.get(6)?,
        created_at: time(row, 7)?,
        expires_at: optional_time(row, 8)?,
        revoked_at: optional_time(row, 9)?,
        last_used_at: optional_time(row, 10)?,
        made_by: row.get::<_, Option<String>>(11)?.as_deref().map(id).transpose()?,
    })
}

fn begin_answer(db: &Connection, key: &AnswerKey, at: Timestamp, stale: Timestamp) -> Result<Begun, Error> {
    let sql = "INSERT INTO answers (key, digest, begun_ms) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    if db.execute(sql, params![key.key, key.digest, at.as_millisecond()])? > 0 {
        return Ok(Begun::New);
    }
    let sql = "SELECT digest, begun_ms, status, body, made FROM answers WHERE key = ?1";
    type Found = (String, i64, Option<u16>, Option<String>, Option<String>);
    let (digest, begun, status, body, made): Found =
        db.query_row(sql, [&key.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))?;
    if digest != key.digest {
        return Ok(Begun::Reused);
    }
    if let Some(status) = status {
        return Ok(Begun::Answered(Answer { status, body: body.unwrap_or_default() }));
    }
    if let Some(made) = made {
        return Ok(Begun::Done { made });
    }
    if begun >= stale.as_millisecond() {
        return Ok(Begun::UnderWay);
    }
    db.execute("UPDATE answers SET begun_ms = ?2 WHERE key = ?1", params![key.key, at.as_millisecond()])?;
    Ok(Begun::New)
}

/// In the transaction of the change that the record is about.
pub(super) fn write_record(db: &Connection, record: &Record, made: &str) -> Result<(), Error> {
    audit(db, &record.audit)?;
    if let Some(key) = &record.answer {
        let sql = "UPDATE answers SET made = ?3 WHERE key = ?1 AND digest = ?2";
        db.execute(sql, [&key.key, &key.digest, made])?;
    }
    Ok(())
}

fn audit(db: &Connection, new: &NewAudit) -> Result<AuditEntry, Error> {
    let sql = "SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1";
    let last = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let entry = AuditEntry::following(last, new);
    db.execute(
        "INSERT INTO audit (number, at, actor, action, target, project, detail, previous, digest)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            entry.number,
            entry.at.to_string(),
            entry.actor,
            entry.action,
            entry.target,
            entry.project,
            entry.detail.to_string(),
            entry.previous,
            entry.digest,
        ],
    )?;
    Ok(entry)
}

fn audit_log(db: &Connection, query: &AuditQuery) -> Result<Vec<AuditEntry>, Error> {
    let projects = query.projects.as_ref().map(|projects| to_json(projects, "projects")).transpose()?;
    let mut statement = db.prepare_cached(
        "SELECT number, at, actor, action, target, project, detail, previous, digest FROM audit
         WHERE number > ?1 AND (?3 IS NULL OR actor = ?3) AND (?4 IS NULL OR action = ?4)
           AND (?5 IS NULL OR project IN (SELECT value FROM json_each(?5)))
         ORDER BY number LIMIT ?2",
    )?;
    let limit = query.limit.clamp(1, MAX_ENTRIES) as u64;
    let after = i64::try_from(query.after).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![after, limit, query.actor, query.action, projects])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(AuditEntry {
            number: row.get(0)?,
            at: time(row, 1)?,
            actor: row.get(2)?,
            action: row.get(3)?,
            target: row.get(4)?,
            project: row.get(5)?,
            detail: from_json(&row.get::<_, String>(6)?, "audit.detail")?,
            previous: row.get(7)?,
            digest: row.get(8)?,
        });
    }
    Ok(entries)
}

fn last_event(db: &Connection, id: &SessionId) -> Result<(TaskId, u64), Error> {
    let mut statement = db.prepare_cached(
        "SELECT task_id, (SELECT coalesce(max(seq), 0) FROM events WHERE session = number) FROM sessions WHERE id = ?1",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let row = rows.next()?.ok_or_else(|| Error::UnknownSession(id.to_string()))?;
    Ok((id_at(row, 0)?, row.get(1)?))
}

fn sessions(db: &Connection, query: &SessionQuery) -> Result<SessionPage, Error> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    let order = query.order;
    let from = query.cursor.as_deref().map(|text| text.parse::<i64>().map_err(|_| Error::BadCursor(text.to_owned())));
    let from = from.transpose()?.unwrap_or(order.start());
    let mut filter = format!("s.number {} ?1", order.comparison());
    let mut values: Vec<Box<dyn rusqlite::ToSql>> = vec![Box::new(from), Box::new(limit as u64 + 1)];
    let given = [
        ("s.task_id", query.task.as_ref().map(ToString::to_string)),
        ("t.status", query.status.map(|status| status.as_str().to_owned())),
        ("t.repository", query.repository.clone()),
    ];
    for (column, value) in given {
        if let Some(value) = value {
            values.push(Box::new(value));
            filter.push_str(&format!(" AND {column} = ?{}", values.len()));
        }
    }
    if let Some(among) = &query.among {
        values.push(Box::new(to_json(among, "repositories")?));
        filter.push_str(&format!(" AND t.repository IN (SELECT value FROM json_each(?{}))", values.len()));
    }
    let mut statement = db.prepare_cached(&format!(
        "SELECT s.number, s.id, s.task_id, s.branch, s.created_at, t.status, t.repository, t.agent, t.requested_by, t.prompt, t.settings
         FROM sessions AS s JOIN tasks AS t ON t.id = s.task_id WHERE {filter} ORDER BY s.number {} LIMIT ?2",
        order.direction()
    ))?;
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let (mut items, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        if items.len() == limit {
            return Ok(SessionPage { items, next_cursor: last });
        }
        last = Some(row.get::<_, i64>(0)?.to_string());
        let status: String = row.get(5)?;
        items.push(SessionSummary {
            id: id_at(row, 1)?,
            task_id: id_at(row, 2)?,
            branch: branch(row.get(3)?)?,
            created_at: time(row, 4)?,
            status: TaskStatus::parse(&status).ok_or_else(|| Error::corrupt("tasks.status", status))?,
            repository: row.get(6)?,
            agent: row.get(7)?,
            requested_by: row.get(8)?,
            title: prompt(row.get(9)?)?.title().to_owned(),
            trust: from_json::<Settings>(&row.get::<_, String>(10)?, "tasks.settings")?.trust,
        });
    }
    Ok(SessionPage { items, next_cursor: None })
}
