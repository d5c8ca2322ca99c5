//! Sessions that go on: another prompt, now or when those before it are done.

use harvest_core::{EventBody, Priority, TaskStatus, TokenId, Turn};

use super::connection::Connection;
use super::quota;
use super::read::{self, small};
use super::step::text;
use crate::Error;
use crate::contract::NewTurn;
use crate::decode::{self, from_word, to_json};
use crate::record::Prompted;

/// In a transaction.
pub(super) async fn prompt(db: &Connection, new: &NewTurn) -> Result<Prompted, Error> {
    db.query("SELECT harvest_lock(true)", &[]).await?;
    if let Some(turn) = known(db, new).await? {
        return Ok(Prompted { turn, known: true });
    }
    let sql = "SELECT tasks.id, tasks.status, tasks.priority,
                   (SELECT max(ordinal) + 1 FROM turns WHERE task_id = tasks.id AND session_id = $1) AS ordinal
               FROM sessions JOIN tasks ON tasks.id = sessions.task_id WHERE sessions.id = $1";
    let rows = db.query(sql, &[&new.session.as_str()]).await?;
    let [row] = rows.as_slice() else { return Err(Error::UnknownSession(new.session.to_string())) };
    let (task, number): (String, u32) = (row.get("id"), small(row, "ordinal")?);
    let status: TaskStatus = from_word(row.get("status"), "tasks.status")?;
    let priority: Priority = from_word(row.get("priority"), "tasks.priority")?;
    let under_way = quota::under_way(db, &new.admission.limits).await?;
    insert(db, new, number, priority.rank(new.at)).await?;
    let queued = EventBody::TurnQueued {
        turn_id: new.id.clone(),
        number,
        author: new.author.clone(),
        prompt: new.prompt.clone(),
        agent: new.agent.clone(),
        model: new.model.clone(),
        delivers: new.delivers,
    };
    let event = to_json(&queued, "an event")?;
    let sql = "SELECT harvest_journal($1, $2, ARRAY[$3])";
    db.query(sql, &[&new.session.as_str(), &new.at.to_string(), &event]).await?;
    if status.is_finished() {
        quota::count_line_for(db, &task, new.admission.person.as_ref().unwrap_or(&new.author)).await?;
        db.query("SELECT harvest_go_on($1)", &[&task]).await?;
        quota::admit(db, &[&new.admission], new.at).await?;
    } else {
        quota::admit_more(db, &new.admission.limits, &under_way, new.at).await?;
    }
    Ok(Prompted { turn: read::turn(db, &new.id).await?, known: false })
}

/// The turn that was made under the same key before.
async fn known(db: &Connection, new: &NewTurn) -> Result<Option<Turn>, Error> {
    let Some(key) = &new.key else { return Ok(None) };
    let sql = "SELECT id, request_digest FROM turns WHERE idempotency_key = $1";
    let rows = db.query(sql, &[&text(&key.key)]).await?;
    match rows.as_slice() {
        [] => Ok(None),
        [row, ..] if !key.is_of(row.get(1)) => Err(Error::KeyReused(key.key.clone())),
        [row, ..] => read::turn(db, &decode::id(row.get(0))?).await.map(Some),
    }
}

async fn insert(db: &Connection, new: &NewTurn, number: u32, rank: i64) -> Result<(), Error> {
    let sql = "WITH made AS (
                   INSERT INTO turns (id, session_id, task_id, repository, ordinal, author, prompt, status, rank,
                       created_at, task, session, agent, model, idempotency_key, request_digest, token, counts_for)
                   SELECT $1, sessions.id, tasks.id, tasks.repository, $3, $4, $5, 'queued', $6, $7, tasks.number,
                       sessions.number, $8, $9, $10, $11, $13, $14
                   FROM sessions JOIN tasks ON tasks.id = sessions.task_id WHERE sessions.id = $2
                   RETURNING number, task, ordinal
               ), capped AS (
                   INSERT INTO turn_caps (turn, cap, rank) SELECT DISTINCT number, cap, $6::bigint
                   FROM made CROSS JOIN unnest($12::text[]) AS cap
               )
               INSERT INTO queued (task, ordinal, turn) SELECT task, ordinal, number FROM made";
    let key = new.key.as_ref();
    db.execute(
        sql,
        &[
            &new.id.as_str(),
            &new.session.as_str(),
            &i64::from(number),
            &text(&new.author),
            &text(new.prompt.as_str()),
            &rank,
            &new.at.to_string(),
            &new.agent.as_deref().map(text),
            &new.model.as_deref().map(text),
            &key.map(|key| text(&key.key)),
            &key.map(|key| text(&key.digest)),
            &new.caps.iter().map(|cap| text(cap)).collect::<Vec<_>>(),
            &new.admission.token.as_ref().map(TokenId::as_str),
            &text(new.admission.person.as_ref().unwrap_or(&new.author)),
        ],
    )
    .await
    .map(drop)
}
