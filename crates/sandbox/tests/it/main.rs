//! What every provider promises, checked against real ones; and what the local one keeps agents from.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod attacks;
mod calls;
mod confined;
mod conformance;
#[cfg(feature = "container")]
mod container;
#[cfg(feature = "container")]
mod engine_faults;
mod held;
mod image;
mod launchers;
mod limits;
mod ordinary;
#[cfg(feature = "container")]
mod podman;
mod support;
