//! What forges tell, and what of theirs belongs to which session.

use async_trait::async_trait;
use harvest_core::{SessionId, Timestamp};
use tokio_postgres::Row;

use super::Postgres;
use super::connection::Connection;
use super::read::{number, time};
use super::step::text;
use crate::Error;
use crate::contract::{Delivery, Inbox, Link, LinkEnd, PullRequestStat, StatKey, StatQuery};
use crate::decode::{from_word, id, milliseconds, to_word};

#[async_trait]
impl Inbox for Postgres {
    async fn receive(&self, delivery: Delivery) -> Result<bool, Error> {
        let lent = self.lend().await?;
        let sql = "WITH made AS (
                       INSERT INTO deliveries (id, event, payload, received_at, due_ms) VALUES ($1, $2, $3, $4, $5)
                       ON CONFLICT DO NOTHING RETURNING number)
                   SELECT harvest_wake() FROM made";
        let Delivery { id, event, payload, received_at, .. } = &delivery;
        let (received, due) = (received_at.to_string(), received_at.as_millisecond());
        let rows = lent.get()?.query(sql, &[&text(id), &text(event), &text(payload), &received, &due]).await?;
        Ok(!rows.is_empty())
    }

    async fn take_delivery(&self, now: Timestamp, until: Timestamp) -> Result<Option<Delivery>, Error> {
        let lent = self.lend().await?;
        let sql = "UPDATE deliveries SET due_ms = $2, tries = tries + 1 WHERE number = (
                       SELECT number FROM deliveries WHERE due_ms <= $1 ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED)
                   RETURNING id, event, payload, received_at, tries";
        let rows = lent.get()?.query(sql, &[&now.as_millisecond(), &until.as_millisecond()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Delivery {
            id: row.get("id"),
            event: row.get("event"),
            payload: row.get::<_, Option<String>>("payload").unwrap_or_default(),
            received_at: time(row, "received_at")?,
            tries: u32::try_from(row.get::<_, i64>("tries")).unwrap_or(u32::MAX),
        }))
    }

    async fn settle_delivery(&self, id: &str, outcome: &str, at: Timestamp) -> Result<(), Error> {
        let lent = self.lend().await?;
        let sql = "UPDATE deliveries SET payload = NULL, due_ms = NULL, outcome = $2, settled_ms = $3 WHERE id = $1";
        lent.get()?.execute(sql, &[&text(id), &text(outcome), &at.as_millisecond()]).await.map(drop)
    }

    async fn forget_deliveries(&self, before: Timestamp) -> Result<u64, Error> {
        let lent = self.lend().await?;
        lent.get()?.execute("DELETE FROM deliveries WHERE settled_ms < $1", &[&before.as_millisecond()]).await
    }

    async fn link(&self, link: Link) -> Result<Link, Error> {
        let lent = self.lend().await?;
        let db = lent.get()?;
        let sql = "INSERT INTO links (url, kind, session_id, repository, opened_ms) VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT DO NOTHING";
        let (kind, opened) = (to_word(&link.kind)?, link.opened_at.as_millisecond());
        let values = (text(&link.url), text(&link.repository));
        db.execute(sql, &[&values.0, &kind, &link.session.as_str(), &values.1, &opened]).await?;
        linked(db, "url = $1", &link.url).await?.ok_or_else(|| Error::corrupt("links", "a link is gone"))
    }

    async fn linked(&self, url: &str) -> Result<Option<Link>, Error> {
        linked(self.lend().await?.get()?, "url = $1", url).await
    }

    async fn pull_request_of(&self, session: &SessionId) -> Result<Option<Link>, Error> {
        let which = "session_id = $1 AND kind = 'pull_request' ORDER BY number DESC";
        linked(self.lend().await?.get()?, which, session.as_str()).await
    }

    async fn close_link(&self, url: &str, end: LinkEnd, at: Timestamp) -> Result<bool, Error> {
        let lent = self.lend().await?;
        let sql = "UPDATE links SET ended = $2, ended_ms = $3 WHERE url = $1 AND ended IS NULL";
        Ok(lent.get()?.execute(sql, &[&text(url), &to_word(&end)?, &at.as_millisecond()]).await? > 0)
    }

    async fn pull_requests(&self, query: StatQuery) -> Result<Vec<PullRequestStat>, Error> {
        let lent = self.lend().await?;
        let day = "to_char(to_timestamp(opened_ms / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') COLLATE \"C\"";
        let key = match query.by {
            StatKey::Day => day,
            StatKey::Repository => "links.repository COLLATE \"C\"",
            StatKey::Agent => "tasks.agent COLLATE \"C\"",
            StatKey::Model => "coalesce(tasks.model, '') COLLATE \"C\"",
            StatKey::Person => "tasks.requested_by COLLATE \"C\"",
        };
        let sql = format!(
            "SELECT {key} AS key, count(*) AS opened, count(*) FILTER (WHERE ended = 'merged') AS merged,
               count(*) FILTER (WHERE ended = 'closed') AS closed,
               sum(greatest(0, opened_ms - (extract(epoch FROM tasks.created_at::timestamptz) * 1000)::bigint))::bigint
                 AS to_open,
               coalesce(sum(greatest(0, ended_ms - opened_ms)) FILTER (WHERE ended = 'merged'), 0)::bigint AS to_merge
             FROM links JOIN sessions ON sessions.id = links.session_id JOIN tasks ON tasks.id = sessions.task_id
             WHERE links.kind = 'pull_request' AND {day} BETWEEN $1 AND $2
               AND ($3::text[] IS NULL OR links.repository = ANY($3))
             GROUP BY 1 ORDER BY 1"
        );
        let rows = lent.get()?.query(&sql, &[&query.from, &query.to, &query.among]).await?;
        let stat = |row: &Row| PullRequestStat {
            key: row.get("key"),
            opened: number(row, "opened"),
            merged: number(row, "merged"),
            closed: number(row, "closed"),
            to_open_ms: number(row, "to_open"),
            to_merge_ms: number(row, "to_merge"),
        };
        Ok(rows.iter().map(stat).collect())
    }
}

async fn linked(db: &Connection, which: &str, value: &str) -> Result<Option<Link>, Error> {
    let sql = format!(
        "SELECT url, kind, session_id, repository, opened_ms, ended, ended_ms FROM links WHERE {which} LIMIT 1"
    );
    let rows = db.query(&sql, &[&text(value)]).await?;
    rows.first().map(link_from).transpose()
}

fn link_from(row: &Row) -> Result<Link, Error> {
    let ended: Option<&str> = row.get("ended");
    let end = ended.map(|word| from_word(word, "links.ended")).transpose()?;
    let opened = milliseconds(Some(row.get("opened_ms")))?;
    Ok(Link {
        url: row.get("url"),
        kind: from_word(row.get("kind"), "links.kind")?,
        session: id(row.get("session_id"))?,
        repository: row.get("repository"),
        opened_at: opened.ok_or_else(|| Error::corrupt("links", "a time is missing"))?,
        end: end.zip(milliseconds(row.get("ended_ms"))?),
    })
}
