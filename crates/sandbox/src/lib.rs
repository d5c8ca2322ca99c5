//! Where attempts run.
//!
//! A [`Provider`] makes sandboxes; a [`Sandbox`] starts processes; a [`Process`] is a stream of output that survives the
//! loss of the server, since the runner in the sandbox spools it first. Nothing here knows about agents, tasks or git hosting.

mod actor;
mod arrival;
mod connection;
#[cfg(feature = "container")]
pub mod container;
mod contract;
mod error;
mod folder;
mod handle;
mod host;
mod layout;
pub mod local;
pub mod none;
mod pid;
mod remove;

pub use contract::{Binaries, Capabilities, Confined, Enforcement, Limits, Paths, Provider, Spec, Strength, Workspace};
pub use error::Error;
pub use handle::{Exit, Output, Process, Sandbox};
pub use harvest_link::{File, Limit, ProcessSpec, Signal};
pub use host::{Fact, State, report};
pub use remove::remove as remove_tree;
