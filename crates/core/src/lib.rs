//! The nouns of Harvest: ids, states, events, evidence, error codes.
//!
//! This crate does no I/O, knows no clock and no async runtime. Whatever is decided here is decided by types, so that the
//! crates above cannot disagree about what a task is or which way it may move.

mod branch;
pub mod budget;
mod code;
mod comment;
mod cost;
mod credential;
mod event;
mod evidence;
mod id;
mod mcp;
mod named_by;
mod overlap;
mod prompt;
mod queue;
mod race;
mod race_table;
mod reason;
pub mod repository;
mod role;
#[cfg(feature = "schema")]
mod schema;
mod status;
mod task;
mod time;

pub use branch::{BranchName, slug};
pub use code::{Code, UnknownCode};
pub use comment::{Comment, CommentPlace, DiffSide, MAX_COMMENT_BYTES};
pub use cost::{Cost, Price, TokenCount, Usage};
pub use credential::{Credential, DEFAULT_CREDENTIAL, Identity, Scope, ScopeError};
pub use event::{
    EgressVerdict, Event, EventBody, FileChange, McpOutcome, MessageRole, OutputStream, Remedy, SandboxPurpose,
    StageName, SupervisedLimit, TestRun, WorkspaceKind,
};
pub use evidence::{Baseline, ChangedFiles, Evidence, Flag, MissingNames, TestChanges, TestNames, TestVerdict};
pub use id::{
    AttemptId, CallId, CommentId, CredentialId, Entropy, IdError, OwnerId, SandboxId, SessionId, TaskId, TokenId,
    TurnId,
};
pub use mcp::{McpAddress, McpCredential, McpServer};
pub use named_by::{NamedBy, may_name_hosts};
pub use overlap::Overlap;
pub use prompt::{MAX_PROMPT_BYTES, Prompt, PromptError};
pub use queue::{OnFailedDependency, Priority, find_cycle, retry_delay};
pub use race::{Entrant, JudgedBy, Race, Standing, Verdict, finalists, judge};
pub use race_table::{Judgement, MOST_ENTRANTS, RaceRow, RaceTable};
pub use reason::FailureReason;
pub use role::Role;
pub use status::{IllegalMove, Move, TaskStatus};
pub use task::{
    Attempt, Awaited, CHECKS_AUTHOR, Hook, HookStage, ListedTask, Origin, Outcome, Session, Settings, Source, Stopping,
    Supervision, Task, TaskKind, Trust, Turn, TurnEnd, TurnStatus, Waiting, Workflow, belongs_to_github, is_automatic,
};
pub use time::{Clock, Timestamp};
