//! The coding agents Harvest can drive: how each is started, and what its output means.
//!
//! Everything here is a pure function over text. An [`Agent`] turns a [`Turn`] into an [`Invocation`] for someone else to
//! run, and its [`Parser`] turns the lines that come back into events. What an agent prints is untrusted: a dialect lets
//! through only the events an agent may speak about, and keeps every other line as [`harvest_core::EventBody::Raw`].
//!
//! Adding an agent that prints plain text is an entry in `registry.toml`. One with an output format of its own also gets a
//! file in `dialect/`.

mod agent;
mod dialect;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod invocation;
pub mod mcp;
pub mod prompt;
mod registry;
mod template;

pub use agent::{Agent, Features, Provider};
pub use dialect::{Parser, Verdict, plan_in};
pub use invocation::{File, Invocation, Turn};
pub use registry::{Error, Registry};
