//! How the command line fails: one message with its code, what happened, why, and the way out.

use harvest_core::{Code, FailureReason, Outcome, TaskStatus};
use harvest_engine::{KeyInName, USE_A_PLAIN_NAME};
use serde_json::json;

use crate::output;

/// What the process tells its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Refused = 2,
    Stopped = 3,
}

impl Exit {
    pub fn of(outcome: &Outcome) -> Self {
        match (outcome.status, outcome.reason) {
            (TaskStatus::Completed, _) => Self::Done,
            (_, Some(reason)) if reason.is_stop() => Self::Stopped,
            _ => Self::Failed,
        }
    }
}

#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    pub help: Option<String>,
    pub exit: Exit,
}

impl Failure {
    /// Refused before anything was changed.
    pub fn refused(code: Code, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: Some(help.into()), exit: Exit::Refused }
    }

    pub fn failed(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None, exit: Exit::Failed }
    }

    /// By a person, before there was a task.
    pub fn stopped() -> Self {
        let message = "stopped by a user before the work started".to_owned();
        Self { code: Code::Cancelled, message, help: None, exit: Exit::Stopped }
    }

    pub fn refusing(mut self) -> Self {
        self.exit = Exit::Refused;
        self
    }

    /// In one line, for where it is a warning.
    pub fn with_help(&self) -> String {
        self.help.as_ref().map_or_else(|| self.message.clone(), |help| format!("{}; {help}", self.message))
    }

    /// For programs, with the names that the API uses.
    pub fn document(&self) -> serde_json::Value {
        json!({
            "type": format!("urn:harvest:{}", self.code),
            "code": self.code.to_string(),
            "title": self.code.title(),
            "detail": self.message,
            "help": self.help,
        })
    }

    pub fn print(&self) {
        let help = self.help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default();
        output::complain(&format!("error[{0}]: {1}{help}\n  more: harvest explain {0}", self.code, self.message));
    }
}

/// The code that explains how a task ended; `None` when it completed.
pub fn code_of(outcome: &Outcome) -> Option<Code> {
    let code = match outcome.reason? {
        FailureReason::Tests if outcome.evidence.is_none() => Code::NoTests,
        FailureReason::Agent => Code::Agent,
        FailureReason::Tests => Code::Tests,
        FailureReason::Sandbox => Code::SandboxFailed,
        FailureReason::ModelQuota => Code::Model,
        FailureReason::Timeout => Code::Timeout,
        FailureReason::Stall => Code::Stall,
        FailureReason::Loop => Code::Loop,
        FailureReason::Turns => Code::Turns,
        FailureReason::Hook => Code::Hook,
        FailureReason::Budget => Code::Budget,
        FailureReason::Cancelled | FailureReason::Interrupted => Code::Cancelled,
        FailureReason::Internal => Code::Internal,
    };
    Some(code)
}

/// An error with its causes, joined.
fn chain(error: &dyn std::error::Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        cause = error.source();
    }
    parts.join(": ")
}

impl From<harvest_engine::Error> for Failure {
    fn from(error: harvest_engine::Error) -> Self {
        let help = match &error {
            harvest_engine::Error::Forge(error) => Some(error.help()),
            harvest_engine::Error::UnknownAgent(_) => Some("see `harvest agent list`".to_owned()),
            harvest_engine::Error::Store(error) => help_with(error),
            _ => help_for(error.code()),
        };
        Self { code: error.code(), message: chain(&error), help, exit: Exit::Failed }
    }
}

impl From<KeyInName> for Failure {
    fn from(error: KeyInName) -> Self {
        Self::refused(Code::BadOption, error.to_string(), USE_A_PLAIN_NAME)
    }
}

impl From<harvest_store::Error> for Failure {
    fn from(error: harvest_store::Error) -> Self {
        let exit = match error.code() {
            Code::UnknownTask
            | Code::UnknownSession
            | Code::AmbiguousId
            | Code::BadOption
            | Code::UnknownDependency
            | Code::DependencyCycle
            | Code::KeyReused => Exit::Refused,
            _ => Exit::Failed,
        };
        Self { code: error.code(), message: chain(&error), help: help_with(&error), exit }
    }
}

fn help_with(error: &harvest_store::Error) -> Option<String> {
    match error {
        harvest_store::Error::Damaged { .. } | harvest_store::Error::Corrupt { .. } => Some(
            "put the newest backup into a new data directory: harvest restore FILE --data-dir DIR; keep the damaged one \
             until that works"
                .to_owned(),
        ),
        error => help_for(error.code()),
    }
}

impl From<harvest_forge::Error> for Failure {
    fn from(error: harvest_forge::Error) -> Self {
        Self { code: error.code(), message: chain(&error), help: Some(error.help()), exit: Exit::Refused }
    }
}

impl From<harvest_sandbox::Error> for Failure {
    fn from(error: harvest_sandbox::Error) -> Self {
        Self { code: error.code(), message: chain(&error), help: help_for(error.code()), exit: Exit::Refused }
    }
}

impl From<harvest_workspace::Error> for Failure {
    fn from(error: harvest_workspace::Error) -> Self {
        Self { code: error.code(), message: chain(&error), help: help_for(error.code()), exit: Exit::Failed }
    }
}

fn help_for(code: Code) -> Option<String> {
    let help = match code {
        Code::UnknownTask => "see `harvest task list`",
        Code::UnknownSession => "see `harvest task list`; the ID of a task works too",
        Code::WorkRemoved => "start a new task: harvest task add",
        Code::CannotFork => "list the events: harvest task logs ID --json",
        Code::AmbiguousId => "type more of the id",
        Code::AgentNotInstalled => {
            "install it, or use another: harvest agent list; --agent builtin is always available. A worker with --sandbox \
             container needs it in its image only: say so with HARVEST_CONTAINER_IMAGE"
        }
        Code::DiskFull => "free some space, or choose another place with --data-dir",
        Code::DataDirectory => "check its owner and permissions, or choose another with --data-dir",
        Code::KeyReused => "use another key, or repeat exactly the same request",
        Code::UnknownDependency => "see `harvest task list`; an id may be shortened to a unique prefix",
        Code::DependencyCycle => "leave out one of the dependencies",
        Code::DatabaseUnreachable => "check that PostgreSQL runs and the URL: psql \"$HARVEST_DATABASE_URL\"",
        Code::DatabaseTooNew => "use the newer Harvest, or another --data-dir",
        Code::SandboxToolMissing => {
            "install it: apt install bubblewrap (or your system's equivalent); check with `harvest doctor`"
        }
        Code::EngineMissing => "see `harvest doctor`; --sandbox local needs no engine",
        Code::NamespacesForbidden => "`harvest doctor` says what to set; --sandbox none runs without any isolation",
        _ => return None,
    };
    Some(help.to_owned())
}
