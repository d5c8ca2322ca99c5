//! Projects that were made over the API, what they set, and who belongs to them.

use async_trait::async_trait;
use harvest_core::{Role, Timestamp};

use crate::Error;

/// Whatever changes here wakes whoever waits for the queue, so that no one goes on believing in what was.
#[async_trait]
pub trait Projects {
    /// By name.
    async fn projects(&self) -> Result<Vec<Project>, Error>;

    /// False when there is one of that name.
    async fn add_project(&self, project: Project) -> Result<bool, Error>;

    /// Changes the one whose version is one less; false when someone else did so before, or there is none.
    async fn change_project(&self, project: Project) -> Result<bool, Error>;

    /// Its members go with it.
    async fn remove_project(&self, name: &str) -> Result<bool, Error>;

    /// Everyone, by project and name.
    async fn members(&self) -> Result<Vec<Member>, Error>;

    /// Adds someone, or gives them another role.
    async fn set_member(&self, member: Member) -> Result<(), Error>;

    async fn remove_member(&self, project: &str, user: &str) -> Result<bool, Error>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub name: String,
    /// Their paths and URLs.
    pub repositories: Vec<String>,
    /// An object: what `harvest.toml` could say in its table.
    pub settings: serde_json::Value,
    /// Grows by one with every change.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub project: String,
    pub user: String,
    pub role: Role,
    pub since: Timestamp,
}
