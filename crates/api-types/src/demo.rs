//! The demo.

use harvest_core::TaskId;
use serde::{Deserialize, Serialize};

/// The tasks of the demo and their repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Demo {
    /// The path of the sample repository.
    pub repository: String,
    pub tasks: Vec<TaskId>,
}
