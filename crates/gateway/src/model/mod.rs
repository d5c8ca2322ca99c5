//! Requests to models: which endpoints exist, who may call them, and where they go.

mod answering;
mod edit;
mod headers;
mod metered;
mod shapes;
mod sse;
mod upstream;
mod usage;
mod vendor;

pub(crate) use answering::Models;
pub(crate) use headers::HOP_BY_HOP;
pub use upstream::{Upstream, Upstreams};
pub(crate) use vendor::{Dialect, Endpoint, Vendor};
