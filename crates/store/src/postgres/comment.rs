//! What people say about sessions.

use async_trait::async_trait;
use harvest_core::{Comment, CommentId, SessionId};
use tokio_postgres::Row;

use super::Postgres;
use super::read::time;
use super::step::text;
use crate::Error;
use crate::contract::Comments;
use crate::decode::{from_json, id, to_json};

#[async_trait]
impl Comments for Postgres {
    async fn add_comment(&self, comment: Comment) -> Result<(), Error> {
        let Comment { id, session_id, author, at, about, text: said } = &comment;
        let sql = "INSERT INTO comments (id, session_id, author, at, about, text) VALUES ($1, $2, $3, $4, $5, $6)";
        let (about, at) = (to_json(about, "comments.about")?, at.to_string());
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&id.as_str(), &session_id.as_str(), &text(author), &at, &text(&about), &text(said)];
        let change = self.change(format!("comment:{session_id}/{id}")).await?;
        let done = change.db()?.execute(sql, &values).await.map(drop);
        change.end(done).await
    }

    async fn comments(&self, session: &SessionId) -> Result<Vec<Comment>, Error> {
        let lent = self.lend().await?;
        let sql = "SELECT * FROM comments WHERE session_id = $1 ORDER BY number";
        lent.get()?.query(sql, &[&session.as_str()]).await?.iter().map(comment_from).collect()
    }

    async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, Error> {
        let lent = self.lend().await?;
        let rows = lent.get()?.query("SELECT * FROM comments WHERE id = $1", &[&id.as_str()]).await?;
        rows.first().map(comment_from).transpose()
    }

    async fn remove_comment(&self, id: &CommentId) -> Result<bool, Error> {
        let change = self.change(format!("comment:{id}")).await?;
        let removed = change.db()?.execute("DELETE FROM comments WHERE id = $1", &[&id.as_str()]).await;
        change.end(removed.map(|count| count > 0)).await
    }
}

fn comment_from(row: &Row) -> Result<Comment, Error> {
    Ok(Comment {
        id: id(row.get("id"))?,
        session_id: id(row.get("session_id"))?,
        author: row.get("author"),
        at: time(row, "at")?,
        about: from_json(row.get("about"), "comments.about")?,
        text: row.get("text"),
    })
}
