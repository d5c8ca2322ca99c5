//! One contract for all forges, and GitHub played by a fake that is held against GitHub's own description.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and starts programs and reads settings for itself"
)]

mod contract;
mod description;
mod github;
mod local;
mod support;
mod webhooks;
