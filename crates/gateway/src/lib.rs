//! The only thing a sandbox can reach: models, git, packages and allowed hosts.
//!
//! Each session has a Unix socket of its own, and that socket is its identity: whatever key a client sends is a
//! placeholder and is dropped. Requests to a model are paid for by the session's [`Meter`], get one of its [`Credentials`],
//! and pass on unchanged but for the edits listed in [`Options`]; what they used is read on the side and settled before the
//! client sees the end of the answer. Trouble with a model's host is met as [`Patience`] says. With a [`Script`] no model is
//! called at all. Git reaches one bare repository, and a push only the session's own refs. Packages come from [`registry`]
//! caches, read-only. Tools of servers whose keys the sandbox must not have are at [`mcp`]. Everything else goes through the
//! proxy in [`egress`], which allows nothing unless the session's policy does.

mod answer;
pub mod cassette;
mod credentials;
mod echo;
pub mod egress;
mod error;
pub mod git;
pub mod mcp;
mod meter;
mod model;
mod patience;
mod prices;
pub mod registry;
mod script;
mod service;

use std::sync::Arc;

#[cfg(fuzzing)]
pub use git::fuzzing as git_fuzzing;
#[cfg(fuzzing)]
pub use model::fuzzing;

pub use credentials::{Credentials, NoCredentials, Upstreams};
pub use echo::Echo;
pub use error::Error;
pub use harvest_core::budget::Range;
pub use meter::{Ask, Call, Grant, Meter, Refused, Trouble};
pub use model::{KeyCheck, SERVER_TOOL_NAMES, ServerTools, Upstream, key_form_mismatch, key_prefixes};
pub use patience::Patience;
pub use prices::{Prices, PricesError};
pub use script::{Script, ScriptError};
pub use service::{Gateway, Serving, Session};

/// What a gateway is made of.
///
/// Requests pass untouched, except that on the way out
/// - the client's `authorization`, `x-api-key` and `x-goog-api-key` are replaced by the real credential (with an OAuth
///   token of Anthropic's also the `anthropic-beta` that it needs), cookies, account and hop-by-hop headers are dropped,
/// - of the query of a request to Gemini a `key` is dropped; headers with which Google is told to leave parts of an answer
///   out are dropped, and such parameters refused,
/// - `accept-encoding` is `identity`, since neither a credential nor tokens are found in a compressed answer; one that comes
///   all the same is refused,
/// - an OpenAI Chat Completions stream asks for its usage (`stream_options.include_usage`),
/// - a request that falls back to another model ([`Patience::fallbacks`]) names that model.
#[derive(Debug, Default)]
pub struct Options {
    pub patience: Patience,
    /// Answers every model request in place of the upstreams.
    pub script: Option<Arc<Script>>,
    /// Answers requests for the model that it names, which no upstream has, and no others.
    pub sample: Option<Arc<Script>>,
    /// Records what goes to models, or answers in their place.
    pub cassette: Option<cassette::Cassette>,
    pub prices: Prices,
    /// Without it there are no packages to be had.
    pub registries: Option<registry::Options>,
    /// How other hosts are found. Nothing but a test has a reason to change it.
    pub network: egress::Network,
    /// How much one push may bring. Nothing but a test has a reason to change it.
    pub pushes: git::PushLimits,
}
