use std::path::Path;

use harvest_core::{Code, Credential, IllegalMove};

use crate::contract::QuotaExceeded;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no task's id begins with `{0}`")]
    UnknownTask(String),
    #[error("`{prefix}` matches {count} {what}: {examples}")]
    AmbiguousId { what: &'static str, prefix: String, count: usize, examples: String },
    #[error("no session's id begins with `{0}`")]
    UnknownSession(String),
    #[error("there is no task {0} to wait for")]
    UnknownDependency(String),
    #[error("tasks cannot wait for each other in a cycle: {0}")]
    Cycle(String),
    #[error("the idempotency key `{0}` was used for another request")]
    KeyReused(String),
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    #[error("there is a credential `{name}` for {provider} of {scope} already")]
    CredentialExists { provider: String, scope: String, name: String },
    #[error("unknown cursor `{0}`")]
    BadCursor(String),
    #[error("the lease on turn {turn} was lost: fencing number {held} is stale")]
    StaleLease { turn: String, held: u64 },
    #[error(transparent)]
    IllegalMove(#[from] IllegalMove),
    #[error("the database has version {found}; this Harvest supports up to version {known}")]
    TooNew { found: u32, known: u32 },
    #[error("PostgreSQL {found} is too old: Harvest needs {needed} or newer")]
    TooOld { found: String, needed: u32 },
    #[error("the database's address cannot be used: {0}")]
    BadAddress(String),
    #[error("the database at {place} cannot be reached")]
    Unreachable { place: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("no space left for the database")]
    DiskFull(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the database {path} is damaged")]
    Damaged { path: String, source: rusqlite::Error },
    #[error("the database {path} cannot be written")]
    ReadOnly { path: String, source: rusqlite::Error },
    #[error("the database failed")]
    Sqlite(#[source] rusqlite::Error),
    #[error("the database failed")]
    Postgres(#[source] tokio_postgres::Error),
    #[error("the database has unreadable data in {what}")]
    Corrupt { what: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the store has shut down")]
    Closed,
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Self::UnknownTask(_) => Code::UnknownTask,
            Self::AmbiguousId { .. } => Code::AmbiguousId,
            Self::UnknownSession(_) => Code::UnknownSession,
            Self::UnknownDependency(_) => Code::UnknownDependency,
            Self::Cycle(_) => Code::DependencyCycle,
            Self::KeyReused(_) => Code::KeyReused,
            Self::Quota(_) => Code::Quota,
            Self::CredentialExists { .. } => Code::CredentialExists,
            Self::BadCursor(_) | Self::BadAddress(_) => Code::BadOption,
            Self::TooNew { .. } => Code::DatabaseTooNew,
            Self::DiskFull(_) => Code::DiskFull,
            Self::Unreachable { .. } => Code::DatabaseUnreachable,
            Self::ReadOnly { .. } => Code::DataDirectory,
            Self::TooOld { .. }
            | Self::Damaged { .. }
            | Self::Sqlite(_)
            | Self::Postgres(_)
            | Self::Corrupt { .. }
            | Self::Closed => Code::Database,
            Self::StaleLease { .. } | Self::IllegalMove(_) => Code::Internal,
        }
    }

    /// Whether the same may go better later, without anyone changing what is asked.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::DiskFull(_) | Self::ReadOnly { .. } | Self::Sqlite(_) | Self::Postgres(_)
        )
    }

    /// The same with the file's path, for the failures that a person mends at the file itself.
    pub(crate) fn at(self, path: &Path) -> Self {
        use rusqlite::ErrorCode::{CannotOpen, DatabaseCorrupt, NotADatabase, PermissionDenied, ReadOnly};
        match self {
            Self::Sqlite(source) => {
                let path = path.display().to_string();
                match source.sqlite_error_code() {
                    Some(DatabaseCorrupt | NotADatabase) => Self::Damaged { path, source },
                    Some(CannotOpen | PermissionDenied | ReadOnly) => Self::ReadOnly { path, source },
                    _ => Self::Sqlite(source),
                }
            }
            other => other,
        }
    }

    pub(crate) fn credential_exists(credential: &Credential) -> Self {
        let Credential { provider, scope, name, .. } = credential;
        Self::CredentialExists { provider: provider.clone(), scope: scope.to_string(), name: name.clone() }
    }

    pub(crate) fn corrupt(what: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Corrupt { what, source: source.into() }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::DiskFull(Box::new(error)),
            _ => Self::Sqlite(error),
        }
    }
}
