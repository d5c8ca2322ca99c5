//! What forges tell, kept until it was acted on; and which of their issues and pull requests belong to which session.

use async_trait::async_trait;
use harvest_core::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use super::StatQuery;
use crate::Error;

#[async_trait]
pub trait Inbox {
    /// Keeps what was told, to be acted on. False when the same delivery came before: of any number that come at once one is
    /// kept. Whoever waits for the queue is woken.
    async fn receive(&self, delivery: Delivery) -> Result<bool, Error>;

    /// The oldest delivery that nobody acts on and that is due. Nobody else gets it before `until`.
    async fn take_delivery(&self, now: Timestamp, until: Timestamp) -> Result<Option<Delivery>, Error>;

    /// What came of it. What it told is forgotten, that it came is not.
    async fn settle_delivery(&self, id: &str, outcome: &str, at: Timestamp) -> Result<(), Error>;

    /// Forgets deliveries that were settled before.
    async fn forget_deliveries(&self, before: Timestamp) -> Result<u64, Error>;

    /// An issue or pull request belongs to a session from here on. The first session keeps it.
    async fn link(&self, link: Link) -> Result<Link, Error>;

    async fn linked(&self, url: &str) -> Result<Option<Link>, Error>;

    /// The newest pull request of a session.
    async fn pull_request_of(&self, session: &SessionId) -> Result<Option<Link>, Error>;

    /// A pull request is over. False when it was before, or is none of ours.
    async fn close_link(&self, url: &str, end: LinkEnd, at: Timestamp) -> Result<bool, Error>;

    /// Pull requests that were opened on these days: how they ended and how long they took.
    async fn pull_requests(&self, query: StatQuery) -> Result<Vec<PullRequestStat>, Error>;
}

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The forge's own number for it.
    pub id: String,
    /// What kind it is, in the forge's words.
    pub event: String,
    pub payload: String,
    pub received_at: Timestamp,
    /// How often someone began to act on it.
    pub tries: u32,
}

/// What an issue or a pull request is to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Where people look at it.
    pub url: String,
    pub kind: LinkKind,
    pub session: SessionId,
    pub repository: String,
    pub opened_at: Timestamp,
    pub end: Option<(LinkEnd, Timestamp)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    Issue,
    PullRequest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkEnd {
    Merged,
    Closed,
}

/// The pull requests of a day, repository, agent, model or person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PullRequestStat {
    pub key: String,
    pub opened: u64,
    pub merged: u64,
    pub closed: u64,
    /// From being asked to the pull request, all together.
    pub to_open_ms: u64,
    /// From the pull request to its merge, all together.
    pub to_merge_ms: u64,
}
