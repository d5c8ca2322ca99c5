//! Tasks, sessions and the journal, durable.
//!
//! [`Store`] is the contract; `sqlite` implements it for one machine, `postgres` for many. A write that returned is on disk: it survives
//! `kill -9` and power loss. Every write about a claimed turn carries its [`Lease`], and one with an old fencing number is
//! refused, so that a worker which was thought dead can wake up and change nothing.

mod contract;
mod decode;
mod error;
pub mod postgres;
mod record;
pub mod sqlite;
mod words;

pub use contract::{
    Access, AccessToken, Admission, Answer, AnswerKey, Asker, AttemptUpdate, AuditEntry, AuditQuery, Balance, Begun,
    Bill, BrokenChain, Cap, Charge, Claim, Comments, Convoy, CredentialRecord, Delivery, End, Ever, Forgotten, Grown,
    IdempotencyKey, Inbox, Lease, Limit, Link, LinkEnd, LinkKind, ListedPage, Member, MissedRuns, Neighbour,
    Neighbours, NewAudit, NewSecret, NewTask, NewTurn, Order, Owner, OwnerKind, OwnerRight, PlanDecision, PlanVerdict,
    Project, Projects, PullRequestStat, QueueChange, QueueSettings, QueueState, QuotaExceeded, Quotas, Races, Rate,
    Rates, Reclaimed, Repository, Requester, Reservation, Rows, SandboxRecord, Schedule, ScheduleOwner, SessionPage,
    SessionQuery, SessionSummary, Settlement, Spending, Stat, StatKey, StatQuery, Step, Store, Submitted, Taken,
    TaskDetail, TaskPage, TaskQuery, Template, TokenKind, TurnCounts, WorkerAgents, day_of,
};
pub use error::Error;
pub use postgres::{Postgres, passwords_in};
pub use record::{Record, Recorded, describe, record_now, recorded};
pub use sqlite::Sqlite;
