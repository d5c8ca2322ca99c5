//! What people say about sessions.

use async_trait::async_trait;
use harvest_core::{Comment, CommentId, SessionId};
use rusqlite::{Row, params};

use super::Sqlite;
use super::read::{id_at, time};
use crate::Error;
use crate::contract::Comments;
use crate::decode::{from_json, to_json};

const COMMENT: &str = "SELECT id, session_id, author, at, about, text FROM comments";

#[async_trait]
impl Comments for Sqlite {
    async fn add_comment(&self, comment: Comment) -> Result<(), Error> {
        self.change(format!("comment:{}/{}", comment.session_id, comment.id), move |db, _| {
            let Comment { id, session_id, author, at, about, text } = &comment;
            let sql = "INSERT INTO comments (id, session_id, author, at, about, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let about = to_json(about, "comments.about")?;
            db.execute(sql, params![id.as_str(), session_id.as_str(), author, at.to_string(), about, text])?;
            Ok(())
        })
        .await
    }

    async fn comments(&self, session: &SessionId) -> Result<Vec<Comment>, Error> {
        let session = session.clone();
        self.read(move |db| {
            let mut statement = db.prepare_cached(&format!("{COMMENT} WHERE session_id = ?1 ORDER BY number"))?;
            let mut rows = statement.query([session.as_str()])?;
            let mut comments = Vec::new();
            while let Some(row) = rows.next()? {
                comments.push(comment_from(row)?);
            }
            Ok(comments)
        })
        .await
    }

    async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, Error> {
        let id = id.clone();
        self.read(move |db| {
            let mut statement = db.prepare_cached(&format!("{COMMENT} WHERE id = ?1"))?;
            let mut rows = statement.query([id.as_str()])?;
            rows.next()?.map(comment_from).transpose()
        })
        .await
    }

    async fn remove_comment(&self, id: &CommentId) -> Result<bool, Error> {
        let id = id.clone();
        self.change(format!("comment:{id}"), move |db, _| {
            Ok(db.execute("DELETE FROM comments WHERE id = ?1", [id.as_str()])? > 0)
        })
        .await
    }
}

fn comment_from(row: &Row<'_>) -> Result<Comment, Error> {
    Ok(Comment {
        id: id_at(row, 0)?,
        session_id: id_at(row, 1)?,
        author: row.get(2)?,
        at: time(row, 3)?,
        about: from_json(&row.get::<_, String>(4)?, "comments.about")?,
        text: row.get(5)?,
    })
}
