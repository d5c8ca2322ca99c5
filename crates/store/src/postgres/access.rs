//! Tokens, answers, the audit log and lists of sessions.

use async_trait::async_trait;
use harvest_core::{SessionId, Settings, TaskId, TaskStatus, Timestamp, TokenId};
use tokio::sync::broadcast;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Connection;
use super::read::{number, optional_time, time};
use super::step::text;
use super::{Postgres, stats};
use crate::Error;
use crate::contract::{
    Access, AccessToken, Answer, AnswerKey, AuditEntry, AuditQuery, Begun, Grown, NewAudit, SessionPage, SessionQuery,
    SessionSummary, Stat, StatQuery, TokenKind,
};
use crate::decode::{branch, from_json, from_word, id, prompt, to_word};
use crate::record::Record;

const MAX_PAGE: usize = 500;
const MAX_ENTRIES: usize = 1000;
/// One after the other: each entry carries the digest of the one before. It is not the queue's lock, and is taken before that
/// one, so that no claim waits for the audit log.
const AUDIT_LOCK: &str = "SELECT pg_advisory_xact_lock(7233182603)";

#[async_trait]
impl Access for Postgres {
    async fn add_token(&self, token: AccessToken) -> Result<(), Error> {
        let change = self.change(format!("token:{}", token.id)).await?;
        let done = add_token(change.db()?, &token).await;
        change.end(done).await
    }

    async fn tokens(&self, kind: TokenKind) -> Result<Vec<AccessToken>, Error> {
        let lent = self.lend().await?;
        let sql = "SELECT * FROM tokens WHERE kind = $1 ORDER BY number DESC";
        lent.get()?.query(sql, &[&to_word(&kind)?]).await?.iter().map(token_from).collect()
    }

    async fn tokens_by_id(&self, ids: &[TokenId]) -> Result<Vec<AccessToken>, Error> {
        let lent = self.lend().await?;
        let ids: Vec<&str> = ids.iter().map(TokenId::as_str).collect();
        lent.get()?.query("SELECT * FROM tokens WHERE id = ANY($1)", &[&ids]).await?.iter().map(token_from).collect()
    }

    async fn token(&self, digest: &str) -> Result<Option<AccessToken>, Error> {
        let lent = self.lend().await?;
        let rows = lent.get()?.query("SELECT * FROM tokens WHERE digest = $1", &[&digest]).await?;
        rows.first().map(token_from).transpose()
    }

    async fn redeem_token(&self, digest: &str, at: Timestamp) -> Result<Option<AccessToken>, Error> {
        let lent = self.lend().await?;
        let sql =
            "UPDATE tokens SET revoked_at = $2, last_used_at = $2 WHERE digest = $1 AND revoked_at IS NULL RETURNING *";
        lent.get()?.query(sql, &[&digest, &at.to_string()]).await?.first().map(token_from).transpose()
    }

    async fn token_used(&self, id: &TokenId, at: Timestamp) -> Result<(), Error> {
        let lent = self.lend().await?;
        let sql = "UPDATE tokens SET last_used_at = $2 WHERE id = $1";
        lent.get()?.execute(sql, &[&id.as_str(), &at.to_string()]).await.map(drop)
    }

    async fn revoke_token(&self, id: &TokenId, at: Timestamp) -> Result<bool, Error> {
        let change = self.change(format!("token:{id}")).await?;
        let done = revoke_token(change.db()?, id, at).await;
        change.end(done).await
    }

    async fn begin_answer(&self, key: &AnswerKey, at: Timestamp, stale: Timestamp) -> Result<Begun, Error> {
        begin_answer(self.lend().await?.get()?, key, at, stale).await
    }

    async fn finish_answer(&self, key: &AnswerKey, answer: Answer) -> Result<(), Error> {
        let lent = self.lend().await?;
        let sql = "UPDATE answers SET status = $3, body = $4 WHERE key = $1 AND digest = $2";
        let (status, body) = (i64::from(answer.status), text(&answer.body));
        lent.get()?.execute(sql, &[&text(&key.key), &key.digest, &status, &body]).await.map(drop)
    }

    async fn abandon_answer(&self, key: &AnswerKey) -> Result<(), Error> {
        let lent = self.lend().await?;
        let sql = "DELETE FROM answers WHERE key = $1 AND digest = $2 AND status IS NULL AND made IS NULL";
        lent.get()?.execute(sql, &[&text(&key.key), &key.digest]).await.map(drop)
    }

    async fn forget_answers(&self, before: Timestamp) -> Result<u64, Error> {
        let lent = self.lend().await?;
        lent.get()?.execute("DELETE FROM answers WHERE begun_ms < $1", &[&before.as_millisecond()]).await
    }

    async fn audit(&self, entry: NewAudit) -> Result<AuditEntry, Error> {
        let lent = self.lend().await?;
        let db = lent.get()?;
        db.begin().await?;
        db.end(audit(db, &entry).await).await
    }

    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, Error> {
        audit_log(self.lend().await?.get()?, &query).await
    }

    async fn last_event(&self, session: &SessionId) -> Result<(TaskId, u64), Error> {
        last_event(self.lend().await?.get()?, session).await
    }

    async fn sessions(&self, query: SessionQuery) -> Result<SessionPage, Error> {
        sessions(self.lend().await?.get()?, &query).await
    }

    async fn statistics(&self, query: StatQuery) -> Result<Vec<Stat>, Error> {
        let lent = self.lend().await?;
        let db = lent.get()?;
        db.begin().await?;
        db.end(stats::bring_up_to_date(db).await).await?;
        stats::read(db, &query).await
    }

    fn watch_journals(&self) -> broadcast::Receiver<Grown> {
        self.shared.listener.watch_journals()
    }
}

async fn revoke_token(db: &Connection, id: &TokenId, at: Timestamp) -> Result<bool, Error> {
    let sql = "UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
    let revoked = db.execute(sql, &[&id.as_str(), &at.to_string()]).await? > 0;
    // All that were made with it, and with those: one generation after the other, each by a statement of its own. A token
    // that is just being made holds its maker's row; the update waits for it, and the next statement sees it.
    let sql = "UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE made_by = ANY($1) AND NOT id = ANY($3)
         RETURNING id";
    let mut seen = vec![id.to_string()];
    let mut makers = seen.clone();
    while !makers.is_empty() {
        let made = db.query(sql, &[&makers, &at.to_string(), &seen]).await?;
        makers = made.iter().map(|row| row.get(0)).collect();
        seen.extend(makers.iter().cloned());
    }
    db.query("SELECT harvest_wake()", &[]).await?;
    Ok(revoked)
}

async fn add_token(db: &Connection, token: &AccessToken) -> Result<(), Error> {
    let mut revoked_at = token.revoked_at.map(|time| time.to_string());
    if let Some(maker) = &token.made_by {
        // Its maker may have been revoked since it asked; whoever revokes it now waits, and finds this one.
        let rows = db.query("SELECT revoked_at FROM tokens WHERE id = $1 FOR SHARE", &[&maker.as_str()]).await?;
        revoked_at = revoked_at.or_else(|| rows.first().and_then(|row| row.get(0)));
    }
    let sql = "INSERT INTO tokens
         (id, kind, name, \"user\", role, projects, digest, created_at, expires_at, revoked_at, last_used_at, made_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    db.execute(
        sql,
        &[
            &token.id.as_str(),
            &to_word(&token.kind)?,
            &text(&token.name),
            &text(&token.user),
            &token.role.as_str(),
            &token.projects,
            &token.digest,
            &token.created_at.to_string(),
            &token.expires_at.map(|time| time.to_string()),
            &revoked_at,
            &token.last_used_at.map(|time| time.to_string()),
            &token.made_by.as_ref().map(TokenId::as_str),
        ],
    )
    .await
    .map(drop)
}

fn token_from(row: &Row) -> Result<AccessToken, Error> {
    Ok(AccessToken {
        id: id(row.get("id"))?,
        kind: from_word(row.get("kind"), "tokens.kind")?,
        name: row.get("name"),
        user: row.get("user"),
        role: from_word(row.get("role"), "tokens.role")?,
        projects: row.get("projects"),
        digest: row.get("digest"),
        created_at: time(row, "created_at")?,
        expires_at: optional_time(row, "expires_at")?,
        revoked_at: optional_time(row, "revoked_at")?,
        last_used_at: optional_time(row, "last_used_at")?,
        made_by: row.get::<_, Option<&str>>("made_by").map(id).transpose()?,
    })
}

async fn begin_answer(db: &Connection, key: &AnswerKey, at: Timestamp, stale: Timestamp) -> Result<Begun, Error> {
    let (now, name) = (at.as_millisecond(), text(&key.key));
    // One statement: of many who take up a request that died, one does.
    let sql = "INSERT INTO answers AS a (key, digest, begun_ms) VALUES ($1, $2, $3)
         ON CONFLICT (key) DO UPDATE SET begun_ms = $3 WHERE a.digest = $2 AND a.status IS NULL AND a.made IS NULL AND a.begun_ms < $4";
    if db.execute(sql, &[&name, &key.digest, &now, &stale.as_millisecond()]).await? > 0 {
        return Ok(Begun::New);
    }
    let rows = db.query("SELECT digest, status, body, made FROM answers WHERE key = $1", &[&name]).await?;
    // Given up between the two statements: whoever asks again gets it.
    let Some(row) = rows.first() else { return Ok(Begun::UnderWay) };
    if row.get::<_, &str>("digest") != key.digest {
        return Ok(Begun::Reused);
    }
    let Some(status) = row.get::<_, Option<i64>>("status") else {
        return Ok(row.get::<_, Option<String>>("made").map_or(Begun::UnderWay, |made| Begun::Done { made }));
    };
    let status = u16::try_from(status).map_err(|error| Error::corrupt("answers.status", error))?;
    let body: Option<String> = row.get("body");
    Ok(Begun::Answered(Answer { status, body: body.unwrap_or_default() }))
}

pub(super) async fn lock_audit(db: &Connection) -> Result<(), Error> {
    db.batch(AUDIT_LOCK).await
}

/// In the transaction of the change that the record is about, which holds the audit log's lock.
pub(super) async fn write_record(db: &Connection, record: &Record, made: &str) -> Result<(), Error> {
    audit(db, &record.audit).await?;
    if let Some(key) = &record.answer {
        let sql = "UPDATE answers SET made = $3 WHERE key = $1 AND digest = $2";
        db.execute(sql, &[&text(&key.key), &key.digest, &text(made)]).await?;
    }
    Ok(())
}

async fn audit(db: &Connection, new: &NewAudit) -> Result<AuditEntry, Error> {
    lock_audit(db).await?;
    let rows = db.query("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1", &[]).await?;
    let last = rows.first().map(|row| (number(row, "number"), row.get("digest")));
    let clean = NewAudit {
        actor: text(&new.actor).into_owned(),
        action: text(&new.action).into_owned(),
        target: text(&new.target).into_owned(),
        project: new.project.as_deref().map(|project| text(project).into_owned()),
        ..new.clone()
    };
    let entry = AuditEntry::following(last, &clean);
    let sql = "INSERT INTO audit (number, at, actor, action, target, project, detail, previous, digest)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let count = i64::try_from(entry.number).unwrap_or(i64::MAX);
    db.execute(
        sql,
        &[
            &count,
            &entry.at.to_string(),
            &entry.actor,
            &entry.action,
            &entry.target,
            &entry.project,
            &entry.detail.to_string(),
            &entry.previous,
            &entry.digest,
        ],
    )
    .await?;
    Ok(entry)
}

async fn audit_log(db: &Connection, query: &AuditQuery) -> Result<Vec<AuditEntry>, Error> {
    let sql = "SELECT * FROM audit WHERE number > $1 AND ($3::text IS NULL OR actor = $3)
           AND ($4::text IS NULL OR action = $4) AND ($5::text[] IS NULL OR project = ANY($5))
         ORDER BY number LIMIT $2";
    let after = i64::try_from(query.after).unwrap_or(i64::MAX);
    let limit = query.limit.clamp(1, MAX_ENTRIES) as i64;
    let rows = db.query(sql, &[&after, &limit, &query.actor, &query.action, &query.projects]).await?;
    rows.iter()
        .map(|row| {
            Ok(AuditEntry {
                number: number(row, "number"),
                at: time(row, "at")?,
                actor: row.get("actor"),
                action: row.get("action"),
                target: row.get("target"),
                project: row.get("project"),
                detail: from_json(row.get("detail"), "audit.detail")?,
                previous: row.get("previous"),
                digest: row.get("digest"),
            })
        })
        .collect()
}

async fn last_event(db: &Connection, session: &SessionId) -> Result<(TaskId, u64), Error> {
    let sql = "SELECT task_id, (SELECT coalesce(max(seq), 0) FROM events WHERE session = number) AS last
         FROM sessions WHERE id = $1";
    let rows = db.query(sql, &[&session.as_str()]).await?;
    let row = rows.first().ok_or_else(|| Error::UnknownSession(session.to_string()))?;
    Ok((id(row.get("task_id"))?, number(row, "last")))
}

async fn sessions(db: &Connection, query: &SessionQuery) -> Result<SessionPage, Error> {
    let limit = query.limit.clamp(1, MAX_PAGE);
    let order = query.order;
    let from = query.cursor.as_deref().map(|text| text.parse::<i64>().map_err(|_| Error::BadCursor(text.to_owned())));
    let from = from.transpose()?.unwrap_or(order.start());
    let more = limit as i64 + 1;
    let mut filter = format!("s.number {} $1", order.comparison());
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&from, &more];
    let (task, status) = (query.task.as_ref().map(TaskId::as_str), query.status.map(TaskStatus::as_str));
    let given = [
        ("s.task_id", task.as_ref().map(|value| value as &(dyn ToSql + Sync))),
        ("t.status", status.as_ref().map(|value| value as &(dyn ToSql + Sync))),
        ("t.repository", query.repository.as_ref().map(|value| value as &(dyn ToSql + Sync))),
    ];
    for (column, value) in given {
        if let Some(value) = value {
            values.push(value);
            filter.push_str(&format!(" AND {column} = ${}", values.len()));
        }
    }
    if let Some(repositories) = &query.among {
        values.push(repositories);
        filter.push_str(&format!(" AND t.repository = ANY(${})", values.len()));
    }
    let sql = format!(
        "SELECT s.number, s.id, s.task_id, s.branch, s.created_at, t.status, t.repository, t.agent, t.requested_by, t.prompt, t.settings
         FROM sessions AS s JOIN tasks AS t ON t.id = s.task_id WHERE {filter} ORDER BY s.number {} LIMIT $2",
        order.direction()
    );
    let rows = db.query(&sql, &values).await?;
    let items = rows.iter().take(limit).map(summary_from).collect::<Result<_, _>>()?;
    let last = rows.get(limit - 1).map(|row| row.get::<_, i64>("number").to_string());
    Ok(SessionPage { items, next_cursor: last.filter(|_| rows.len() > limit) })
}

fn summary_from(row: &Row) -> Result<SessionSummary, Error> {
    let status: &str = row.get("status");
    Ok(SessionSummary {
        id: id(row.get("id"))?,
        task_id: id(row.get("task_id"))?,
        branch: branch(row.get("branch"))?,
        created_at: time(row, "created_at")?,
        status: TaskStatus::parse(status).ok_or_else(|| Error::corrupt("tasks.status", status.to_owned()))?,
        repository: row.get("repository"),
        agent: row.get("agent"),
        requested_by: row.get("requested_by"),
        title: prompt(row.get("prompt"))?.title().to_owned(),
        trust: from_json::<Settings>(row.get("settings"), "tasks.settings")?.trust,
    })
}
