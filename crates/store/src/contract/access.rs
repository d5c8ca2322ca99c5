//! Who may use the API, what they did with it, and what they were answered.

use async_trait::async_trait;
use harvest_core::{Role, SessionId, TaskId, Timestamp, TokenId};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::{AuditEntry, AuditQuery, NewAudit, SessionPage, SessionQuery, Stat, StatQuery};
use crate::Error;

/// What the server needs of a store beside what the engine does.
#[async_trait]
pub trait Access {
    async fn add_token(&self, token: AccessToken) -> Result<(), Error>;

    /// Newest first, those that no longer open anything included.
    async fn tokens(&self, kind: TokenKind) -> Result<Vec<AccessToken>, Error>;

    /// Those of these ids, whether or not they still open anything.
    async fn tokens_by_id(&self, ids: &[TokenId]) -> Result<Vec<AccessToken>, Error>;

    /// The one whose secret has this digest, whether or not it still opens anything.
    async fn token(&self, digest: &str) -> Result<Option<AccessToken>, Error>;

    /// Uses one up that opens once: of any number who try, one gets it.
    async fn redeem_token(&self, digest: &str, at: Timestamp) -> Result<Option<AccessToken>, Error>;

    async fn token_used(&self, id: &TokenId, at: Timestamp) -> Result<(), Error>;

    /// Revokes it, and all that were made with it, and with those. False when there is none of this id, or it was revoked
    /// before. Whoever waits for the queue is woken, so that no one
    /// goes on believing in it.
    async fn revoke_token(&self, id: &TokenId, at: Timestamp) -> Result<bool, Error>;

    /// Takes a key before its request is carried out. `stale`: a request that began before this is taken for dead.
    async fn begin_answer(&self, key: &AnswerKey, at: Timestamp, stale: Timestamp) -> Result<Begun, Error>;

    /// What the request was answered, for whoever asks again.
    async fn finish_answer(&self, key: &AnswerKey, answer: Answer) -> Result<(), Error>;

    /// Nothing came of the request: the next one with this key is carried out.
    async fn abandon_answer(&self, key: &AnswerKey) -> Result<(), Error>;

    /// Forgets answers from before.
    async fn forget_answers(&self, before: Timestamp) -> Result<u64, Error>;

    /// Appends to the audit log. Nothing in it is ever changed.
    async fn audit(&self, entry: NewAudit) -> Result<AuditEntry, Error>;

    /// In the order of their numbers.
    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, Error>;

    /// The task of a session, and the number of the last event in its journal.
    async fn last_event(&self, session: &SessionId) -> Result<(TaskId, u64), Error>;

    async fn sessions(&self, query: SessionQuery) -> Result<SessionPage, Error>;

    /// What became of tasks. Costs as much as tasks have ended since it was last asked, and as there are sums.
    async fn statistics(&self, query: StatQuery) -> Result<Vec<Stat>, Error>;

    /// Every journal that grows, with the number of its last event.
    fn watch_journals(&self) -> broadcast::Receiver<Grown>;
}

/// A secret that lets someone in. The secret itself is kept nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    pub id: TokenId,
    pub kind: TokenKind,
    /// What it is for, in the words of whoever made it.
    pub name: String,
    /// Whom it stands for.
    pub user: String,
    pub role: Role,
    /// Nothing outside of these projects; `None`: everything.
    pub projects: Option<Vec<String>>,
    pub digest: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    /// The token that it was made with, if it was; it is revoked together with that one.
    pub made_by: Option<TokenId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// For programs.
    Api,
    /// For programs of a person who made it for themselves: it may at most what the person may when it is used.
    Personal,
    /// The cookie of a browser that is signed in.
    Login,
    /// The cookie of someone who signed in by name: they may what the projects they are a member of give them.
    Person,
    /// Opens once, and leaves a cookie.
    Link,
}

/// What makes asking twice the same as asking once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerKey {
    /// The id of the token or session that asks, and the key it chose.
    pub key: String,
    /// Of everything that was asked for.
    pub digest: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nobody asked before: carry it out.
    New,
    Answered(Answer),
    /// The request was carried out, and its server died before it could keep the answer. `made`: what the change was made to,
    /// as `schedule:ID`.
    Done {
        made: String,
    },
    /// The first request with this key is still being carried out.
    UnderWay,
    /// The key was used for something else.
    Reused,
}

/// A journal has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grown {
    Session {
        id: SessionId,
        last: u64,
    },
    /// The connection that tells was away; any of them may have.
    Any,
}
