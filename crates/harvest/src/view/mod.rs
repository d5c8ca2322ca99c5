//! What people see in a terminal.

mod activity;
mod style;
mod summary;
mod table;
mod time;

pub use activity::Activity;
pub use style::{Style, clean, paint_diff};
pub use summary::{Place, evidence_details, evidence_line, logged_end, summary};
pub use table::{Cell, Table};
pub use time::{age, age_of, elapsed, local};
