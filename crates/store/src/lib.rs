//! Tasks, sessions and the journal, durable.
//!
//! [`Store`] is the contract; `sqlite` implements it for one machine, `postgres` for many. A write that returned is on disk: it survives
//! `kill -9` and power loss. Every write about a claimed turn carries its [`Lease`], and one with an old fencing number is
//! refused, so that a worker which was thought dead can wake up and change nothing.

mod contract;
mod decode;
mod error;
pub mod postgres;
pub mod sqlite;

pub use contract::{
    Access, AccessToken, Answer, AnswerKey, Asker, AttemptUpdate, AuditEntry, AuditQuery, Balance, Begun, Bill,
    BrokenChain, Cap, Charge, Claim, Comments, Convoy, CredentialRecord, Delivery, End, Forgotten, Grown,
    IdempotencyKey, Inbox, Lease, Link, LinkEnd, LinkKind, Member, MissedRuns, Neighbour, Neighbours, NewAudit,
    NewSecret, NewTask, NewTurn, Order, Owner, OwnerKind, PlanDecision, PlanVerdict, Project, Projects,
    PullRequestStat, QueueSettings, QueueState, Quotas, Races, Reclaimed, Repository, Reservation, Rows, SandboxRecord,
    Schedule, SessionPage, SessionQuery, SessionSummary, Settlement, Spending, Stat, StatKey, StatQuery, Step, Store,
    Submitted, TaskDetail, TaskPage, TaskQuery, Template, TokenKind, TurnCounts,
};
pub use error::Error;
pub use postgres::Postgres;
pub use sqlite::Sqlite;
