//! What forges tell, and what of theirs belongs to which session.

use async_trait::async_trait;
use harvest_core::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use super::read::time;
use crate::Error;
use crate::contract::{Delivery, Inbox, Link, LinkEnd, PullRequestStat, StatKey, StatQuery};
use crate::decode::{from_word, id, milliseconds, to_json, to_word};

const LINK: &str = "SELECT url, kind, session_id, repository, opened_ms, ended, ended_ms FROM links";

#[async_trait]
impl Inbox for Sqlite {
    async fn receive(&self, delivery: Delivery) -> Result<bool, Error> {
        self.write(move |db, effects| {
            let sql = "INSERT INTO deliveries (id, event, payload, received_at, due_ms) VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT DO NOTHING";
            let Delivery { id, event, payload, received_at, .. } = &delivery;
            let due = received_at.as_millisecond();
            let new = db.execute(sql, params![id, event, payload, received_at.to_string(), due])? > 0;
            effects.queue |= new;
            Ok(new)
        })
        .await
    }

    async fn take_delivery(&self, now: Timestamp, until: Timestamp) -> Result<Option<Delivery>, Error> {
        let due = "SELECT 1 FROM deliveries WHERE due_ms <= ?1 LIMIT 1";
        // Most of the time there is none, and looking takes no place in the writer's line.
        let any = self.read(move |db| Ok(db.query_row(due, [now.as_millisecond()], |_| Ok(())).optional()?)).await?;
        if any.is_none() {
            return Ok(None);
        }
        self.write(move |db, _| take(db, now, until)).await
    }

    async fn settle_delivery(&self, id: &str, outcome: &str, at: Timestamp) -> Result<(), Error> {
        let (id, outcome) = (id.to_owned(), outcome.to_owned());
        self.write(move |db, _| {
            let sql =
                "UPDATE deliveries SET payload = NULL, due_ms = NULL, outcome = ?2, settled_ms = ?3 WHERE id = ?1";
            db.execute(sql, params![id, outcome, at.as_millisecond()])?;
            Ok(())
        })
        .await
    }

    async fn forget_deliveries(&self, before: Timestamp) -> Result<u64, Error> {
        let before = before.as_millisecond();
        self.write(move |db, _| Ok(db.execute("DELETE FROM deliveries WHERE settled_ms < ?1", [before])? as u64)).await
    }

    async fn link(&self, link: Link) -> Result<Link, Error> {
        self.write(move |db, _| {
            let sql = "INSERT INTO links (url, kind, session_id, repository, opened_ms) VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT DO NOTHING";
            let (kind, opened) = (to_word(&link.kind)?, link.opened_at.as_millisecond());
            db.execute(sql, params![link.url, kind, link.session.as_str(), link.repository, opened])?;
            linked(db, "url = ?1", &link.url)?.ok_or_else(|| Error::corrupt("links", "a link is gone"))
        })
        .await
    }

    async fn linked(&self, url: &str) -> Result<Option<Link>, Error> {
        let url = url.to_owned();
        self.read(move |db| linked(db, "url = ?1", &url)).await
    }

    async fn pull_request_of(&self, session: &SessionId) -> Result<Option<Link>, Error> {
        let session = session.to_string();
        self.read(move |db| linked(db, "session_id = ?1 AND kind = 'pull_request' ORDER BY number DESC", &session))
            .await
    }

    async fn close_link(&self, url: &str, end: LinkEnd, at: Timestamp) -> Result<bool, Error> {
        let url = url.to_owned();
        self.write(move |db, _| {
            let sql = "UPDATE links SET ended = ?2, ended_ms = ?3 WHERE url = ?1 AND ended IS NULL";
            Ok(db.execute(sql, params![url, to_word(&end)?, at.as_millisecond()])? > 0)
        })
        .await
    }

    async fn pull_requests(&self, query: StatQuery) -> Result<Vec<PullRequestStat>, Error> {
        self.read(move |db| pull_requests(db, &query)).await
    }
}

fn take(db: &Connection, now: Timestamp, until: Timestamp) -> Result<Option<Delivery>, Error> {
    let sql = "UPDATE deliveries SET due_ms = ?2, tries = tries + 1
               WHERE number = (SELECT number FROM deliveries WHERE due_ms <= ?1 ORDER BY number LIMIT 1)
               RETURNING id, event, payload, received_at, tries";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([now.as_millisecond(), until.as_millisecond()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let delivery = Delivery {
        id: row.get(0)?,
        event: row.get(1)?,
        payload: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
        received_at: time(row, 3)?,
        tries: row.get(4)?,
    };
    // To its end, or nothing is changed.
    while rows.next()?.is_some() {}
    Ok(Some(delivery))
}

fn linked(db: &Connection, which: &str, value: &str) -> Result<Option<Link>, Error> {
    let mut statement = db.prepare_cached(&format!("{LINK} WHERE {which} LIMIT 1"))?;
    let mut rows = statement.query([value])?;
    rows.next()?.map(link_from).transpose()
}

fn link_from(row: &Row<'_>) -> Result<Link, Error> {
    let ended: Option<String> = row.get(5)?;
    let end = ended.map(|word| from_word(&word, "links.ended")).transpose()?;
    let opened = milliseconds(Some(row.get(4)?))?;
    Ok(Link {
        url: row.get(0)?,
        kind: from_word(&row.get::<_, String>(1)?, "links.kind")?,
        session: id(&row.get::<_, String>(2)?)?,
        repository: row.get(3)?,
        opened_at: opened.ok_or_else(|| Error::corrupt("links", "a time is missing"))?,
        end: end.zip(milliseconds(row.get(6)?)?),
    })
}

fn pull_requests(db: &Connection, query: &StatQuery) -> Result<Vec<PullRequestStat>, Error> {
    let among = query.among.as_ref().map(|among| to_json(among, "repositories")).transpose()?;
    let day = "strftime('%Y-%m-%d', opened_ms / 1000, 'unixepoch')";
    let key = match query.by {
        StatKey::Day => day,
        StatKey::Repository => "links.repository",
        StatKey::Agent => "tasks.agent",
        StatKey::Model => "coalesce(tasks.model, '')",
        StatKey::Person => "tasks.requested_by",
    };
    let sql = format!(
        "SELECT {key}, count(*), count(*) FILTER (WHERE ended = 'merged'), count(*) FILTER (WHERE ended = 'closed'),
           sum(max(0, opened_ms - cast(unixepoch(tasks.created_at, 'subsec') * 1000 AS INTEGER))),
           coalesce(sum(max(0, ended_ms - opened_ms)) FILTER (WHERE ended = 'merged'), 0)
         FROM links JOIN sessions ON sessions.id = links.session_id JOIN tasks ON tasks.id = sessions.task_id
         WHERE links.kind = 'pull_request' AND {day} BETWEEN ?1 AND ?2
           AND (?3 IS NULL OR links.repository IN (SELECT value FROM json_each(?3)))
         GROUP BY 1 ORDER BY 1"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let stats = statement.query_map(params![query.from, query.to, among], |row| {
        Ok(PullRequestStat {
            key: row.get(0)?,
            opened: row.get(1)?,
            merged: row.get(2)?,
            closed: row.get(3)?,
            to_open_ms: row.get(4)?,
            to_merge_ms: row.get(5)?,
        })
    })?;
    Ok(stats.collect::<Result<Vec<_>, _>>()?)
}
