//! Convoys: batches of tasks that are followed as one.

use std::collections::BTreeMap;

use harvest_core::Cost;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Convoy {
    pub name: String,
    /// Tasks by status.
    pub tasks: BTreeMap<String, u64>,
    pub cost_usd: Cost,
}
