//! Requests to models: which endpoints exist, who may call them, and where they go.

mod answering;
mod array;
mod check;
mod dispatch;
mod edit;
mod fallback;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gemini;
mod headers;
mod lane;
mod lines;
mod metered;
mod ollama;
mod screen;
mod shapes;
mod upstream;
mod usage;
mod vendor;

pub(crate) use answering::Models;
pub use check::{KeyCheck, key_form_mismatch, key_prefixes};
pub(crate) use headers::{HOP_BY_HOP, IDENTITY, unreadable_encoding};
pub use screen::{GROUPS as SERVER_TOOL_NAMES, ServerTools};
pub(crate) use upstream::Clients;
pub use upstream::Upstream;
pub(crate) use vendor::{Dialect, Endpoint, KeptBack, Vendor};
