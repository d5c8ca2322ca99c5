//! What people say about sessions.

use async_trait::async_trait;
use harvest_core::{Comment, CommentId, SessionId};

use crate::Error;

#[async_trait]
pub trait Comments {
    async fn add_comment(&self, comment: Comment) -> Result<(), Error>;

    /// Of one session, oldest first.
    async fn comments(&self, session: &SessionId) -> Result<Vec<Comment>, Error>;

    async fn comment(&self, id: &CommentId) -> Result<Option<Comment>, Error>;

    async fn remove_comment(&self, id: &CommentId) -> Result<bool, Error>;
}
