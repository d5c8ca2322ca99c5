//! The requests and answers of the HTTP API, in one place for the server, its clients and the generators.
//!
//! The types here carry no behaviour: the server checks requests and builds answers, and a client sends and reads them. A
//! doc comment of a type or of its field is its description in `openapi.json`, where it has one.

#![allow(unused_qualifications, reason = "what utoipa generates qualifies the types of parameters")]

mod ask;
mod changes;
mod page;
mod problem;
mod prompt;
mod race;
mod session;
mod task;

pub use ask::Ask;
pub use changes::{ChangedFile, Diff, DiffRange, MOST_CONTEXT};
pub use page::{Page, Sort};
pub use problem::Problem;
pub use prompt::{AskFork, AskMore};
pub use race::AskRace;
pub use session::{Message, MessageFilter, SessionDetail, SessionFilter, SessionSummary};
pub use task::{Approval, Rejection, TaskDetail, TaskFilter, TaskPullRequest, TaskPullRequestState};
