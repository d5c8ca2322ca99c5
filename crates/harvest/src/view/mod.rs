//! What people see in a terminal.

mod activity;
mod style;
mod summary;

pub use activity::Activity;
pub use style::{Style, clean, elapsed};
pub use summary::{evidence_details, evidence_line, summary};
