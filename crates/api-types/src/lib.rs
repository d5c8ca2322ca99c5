//! The requests and answers of the HTTP API, in one place for the server, its clients and the generators.
//!
//! The types here carry no behaviour: the server checks requests and builds answers, and a client sends and reads them. A
//! doc comment of a type or of its field is its description in `openapi.json`, where it has one.

#![allow(unused_qualifications, reason = "what utoipa generates qualifies the types of parameters")]

mod agent;
mod ask;
mod audit;
mod changes;
mod comment;
mod convoy;
mod credential;
mod demo;
mod event;
mod health;
mod interrupt;
mod me;
mod page;
mod problem;
mod project;
mod prompt;
mod queue;
mod race;
mod repository;
mod result;
mod schedule;
mod session;
mod settings;
mod stats;
mod task;
mod template;
#[cfg(feature = "schema")]
mod template_schema;
mod token;

pub use agent::{AgentCheck, AgentInfo, Check, CheckState};
pub use ask::Ask;
pub use audit::{AuditEntry, AuditFilter};
pub use changes::{ChangedFile, Diff, DiffRange, MOST_CONTEXT};
pub use comment::{NewComment, Person};
pub use convoy::Convoy;
pub use credential::{ListedCredential, ModelProvider, NewCredential, NewSecret};
pub use demo::Demo;
pub use event::{EventPage, Notice, Since};
pub use health::Health;
pub use interrupt::{AskInterrupt, AskResume};
pub use me::{Me, SignInWays};
pub use page::{Page, Sort};
pub use problem::Problem;
pub use project::{AskMember, AskProject, Member, Project, ProjectChange};
pub use prompt::{AskFork, AskMore};
pub use queue::{Cap, CapChange, Process, Queue, QueueChange, SpentToday, Turns};
pub use race::AskRace;
pub use repository::{NamedSnapshot, NewRepository, Repository, Snapshot};
pub use result::{Application, Envelope, EnvelopeSignature, EvidenceKey, Merge};
pub use schedule::{Missed, NewSchedule, Schedule};
pub use session::{Message, MessageFilter, SessionDetail, SessionFilter, SessionSummary};
pub use settings::{AskSettings, ProjectSettings, SettingInForce};
pub use stats::{By as StatsBy, PullRequestStats, PullRequestSums, StatFilter, Stats, Sums};
pub use task::{Approval, Rejection, TaskDetail, TaskFilter, TaskPullRequest, TaskPullRequestState};
pub use template::{Filling, NewTemplate, Template, TemplateOptions, TemplateTask};
pub use token::{AskToken, NewToken, Token};
