//! The program as people meet it: the real binary with a cleared environment, real git, SQLite and sandboxes.
//!
//! Every test has its own data directory and repositories, so that all can run at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod commands;
mod evidence;
#[cfg(feature = "failpoints")]
mod failpoints;
mod killed;
mod ordinary;
mod refusals;
mod run;
mod script;
mod security;
mod stop;
mod support;
mod task;
