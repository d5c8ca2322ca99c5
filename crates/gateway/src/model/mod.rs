//! Requests to models: which endpoints exist, who may call them, and where they go.

mod answering;
mod dispatch;
mod edit;
mod fallback;
mod headers;
mod lane;
mod metered;
mod shapes;
mod sse;
mod upstream;
mod usage;
mod vendor;

pub(crate) use answering::Models;
pub(crate) use headers::HOP_BY_HOP;
pub use upstream::Upstream;
pub(crate) use vendor::{Endpoint, Vendor};
