//! The suite that every store passes. Each test runs on a database of its own, once in SQLite and once in PostgreSQL.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod access;
mod cancels;
mod caps;
mod claims;
mod comments;
mod contended;
mod credentials;
mod dependencies;
mod durability;
mod inbox;
mod journal;
mod leases;
mod ledger;
mod lists;
mod migrations;
mod model;
mod neighbours;
mod order;
mod plans;
mod postgres;
mod power;
mod projects;
mod prompts;
mod property;
mod quotas;
mod races;
mod rates;
mod records;
mod requests;
mod support;
mod withdrawals;
