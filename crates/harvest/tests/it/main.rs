//! The program as people meet it: the real binary with a cleared environment, real git, SQLite and sandboxes.
//!
//! Every test has its own data directory and repositories, so that all can run at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod actors;
mod agents;
mod agents_installed;
mod agents_recover;
mod agents_survive;
mod attacks;
mod attacks_git;
mod backups;
mod bridges;
mod cancels;
mod cassette;
mod chance;
mod clients;
#[path = "../../../store/tests/it/support/cluster.rs"]
#[allow(dead_code, reason = "the suite of the store needs more of it")]
mod cluster;
mod commands;
mod credentials;
#[path = "../../../forge/tests/it/description.rs"]
mod description;
mod egress;
mod evidence;
#[cfg(feature = "failpoints")]
mod failpoints;
#[cfg(feature = "failpoints")]
mod failpoints_sessions;
mod fake_github;
mod faults;
mod first_day;
mod follow_ups;
mod gate;
mod github;
mod github_accounts;
mod github_bases;
mod github_outages;
mod github_pull_requests;
mod github_reviews;
mod github_status;
mod github_trial;
mod github_webhooks;
mod guides;
mod guides_blocks;
mod hooks;
mod http;
mod interrupts;
mod journals;
mod journeys;
mod json_documents;
mod killed;
mod limits;
mod mcp;
mod money;
mod named;
mod ordinary;
mod packages;
mod page;
mod plan;
mod planted;
mod plot;
mod prompts;
mod queue;
mod race;
mod reattach;
#[cfg(feature = "failpoints")]
mod recorded;
mod refusals;
mod registries;
mod remote;
mod repo;
mod retries;
mod run;
mod script;
mod secret_names;
mod secret_scan;
mod secrets;
mod security;
mod serve;
mod serve_access;
#[cfg(feature = "failpoints")]
mod serve_answers;
mod serve_github;
mod serve_limits;
mod serve_projects;
mod serve_races;
mod serve_rates;
mod serve_results;
mod serve_schema;
mod serve_sessions;
mod serve_streams;
mod serve_tenants;
mod serve_trace;
mod served;
mod session;
mod soak;
mod stop;
mod supervision;
mod support;
mod survive;
mod task;
mod terminal;
mod torture;
mod verdict_table;
mod verdicts;
mod warm;
mod worker_limits;
