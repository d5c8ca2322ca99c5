//! Harvest over HTTP: everything that a person or a program can ask of it, live, with an answer for every mistake.
//!
//! [`Service`] listens and owns its connections; [`Handle`] is how the rest of the process speaks to it. The server knows the
//! store and the engine by their handles. What only an installation knows (its settings, its keys, its agents) it asks for
//! through [`Desk`].

#![allow(unused_qualifications, reason = "what utoipa generates qualifies the types of parameters")]

mod api;
mod auth;
mod desk;
mod error;
mod events;
mod extract;
mod idempotency;
mod limits;
mod metrics;
mod openapi;
mod pages;
mod patient;
mod problem;
mod proxies;
mod reference;
mod repository_access;
mod service;
mod state;
mod telemetry;
mod webhooks;

pub use api::convoys::describe_convoy;
pub use api::queue::read_queue;
pub use api::repositories::describe_repository;
pub use api::schedules::{describe_schedule, missed_runs};
pub use api::sessions::read_session;
pub use api::stats::{describe_stats, is_day, stat_key};
pub use api::tasks::read_task;
pub use api::tokens::describe_token;
pub use auth::github::{Membership, Options as GithubSignIn};
pub use auth::secret::Secret;
pub use auth::{Mint, origin_of};
pub use desk::{Desk, Reach, Refusal};
pub use error::Error;
pub use limits::Pace;
pub use openapi::document;
pub use proxies::Proxies;
pub use service::{Handle, Options, Service, link};
pub use webhooks::Webhooks;
