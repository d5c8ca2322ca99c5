//! The gateway as its clients see it: over real sockets, with upstreams that speak the real protocols and a real git.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test that is how one fails")]

mod cassette;
mod clients;
mod egress;
mod formats;
mod git;
mod git_sizes;
mod mcp;
mod metering;
mod model_clients;
mod outside;
mod passing;
mod registry;
mod registry_reach;
mod resilience;
mod routes;
mod script;
mod script_formats;
mod spending;
mod support;
