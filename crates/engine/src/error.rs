use harvest_core::{Code, FailureReason};

/// The engine cannot go on: nothing more can be recorded, or nothing could be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] harvest_store::Error),
    #[error(transparent)]
    Forge(#[from] harvest_forge::Error),
    #[error(transparent)]
    Workspace(#[from] harvest_workspace::Error),
    #[error(transparent)]
    Sandbox(#[from] harvest_sandbox::Error),
    #[error("there is no agent `{0}`")]
    UnknownAgent(String),
    #[error("{name} is not installed on this machine: {install_hint}")]
    AgentNotInstalled { name: String, install_hint: String },
    #[error("the session has {last} events: there is no event {at} yet")]
    BeyondTheEnd { at: u64, last: u64 },
    #[error("nothing of the session's work was saved up to event {at}{}", first.map(|first| format!("; the first is saved by event {first}")).unwrap_or_default())]
    NothingSaved { at: u64, first: Option<u64> },
    #[error("the session's work is not on this machine: it ran on another machine, or `harvest gc` removed it")]
    WorkElsewhere,
    #[error("`harvest gc --unpublished` removed the work of session {0}: there is nothing to continue from")]
    WorkRemoved(String),
    #[error("cannot {action} {path}")]
    Io { action: &'static str, path: String, source: std::io::Error },
    #[error("the disk is full: {what}")]
    NoRoom { what: String },
    #[error("failpoint {0}")]
    Failpoint(&'static str),
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::Forge(error) => error.code(),
            Self::Workspace(error) => error.code(),
            Self::Sandbox(error) => error.code(),
            Self::UnknownAgent(_) => Code::UnknownAgent,
            Self::AgentNotInstalled { .. } => Code::AgentNotInstalled,
            Self::BeyondTheEnd { .. } | Self::NothingSaved { .. } | Self::WorkElsewhere => Code::CannotFork,
            Self::WorkRemoved(_) => Code::WorkRemoved,
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => Code::DiskFull,
            Self::NoRoom { .. } => Code::DiskFull,
            Self::Io { .. } => Code::DataDirectory,
            Self::Failpoint(_) => Code::Internal,
        }
    }

    /// It would go well if there were room on the disk.
    pub(crate) fn is_full(&self) -> bool {
        self.code() == Code::DiskFull
    }
}

/// Why a turn did not come to a good end; becomes part of the task's outcome.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    pub reason: FailureReason,
    pub message: String,
}

impl Failure {
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What a stage may come to besides its result: a failure of the turn, which is recorded, or of the engine, which is not.
#[derive(Debug)]
pub(crate) enum Halt {
    Turn(Failure),
    Engine(Error),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Turn(failure)
    }
}

impl From<harvest_store::Error> for Halt {
    fn from(error: harvest_store::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(_) | Error::Failpoint(_) => Self::Engine(error),
            // No task can help it, and it passes.
            error if error.is_full() => Self::Engine(error),
            error => Self::Turn(Failure::new(reason_of(&error), chain(&error))),
        }
    }
}

impl From<harvest_sandbox::Error> for Halt {
    fn from(error: harvest_sandbox::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<harvest_workspace::Error> for Halt {
    fn from(error: harvest_workspace::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<harvest_forge::Error> for Halt {
    fn from(error: harvest_forge::Error) -> Self {
        Error::from(error).into()
    }
}

fn reason_of(error: &Error) -> FailureReason {
    match error {
        Error::Sandbox(_) => FailureReason::Sandbox,
        _ => FailureReason::Internal,
    }
}

/// An error with all its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
