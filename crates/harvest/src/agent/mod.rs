//! `harvest agent …`, and the agents there are.

mod check;
mod list;
mod registry;

pub use check::{check, rehearsal};
pub use list::{Item, Versions, items, list};
pub use registry::registry;
