//! The signed-in user, and how a browser can sign in.

use std::collections::BTreeMap;

use harvest_core::Role;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Me {
    pub user: String,
    pub role: Role,
    /// The projects that the token is limited to; absent: no limit.
    pub projects: Option<Vec<String>>,
    /// The role in each of these projects.
    pub roles: Option<BTreeMap<String, Role>>,
    /// For browser sessions: the value that was sent as `X-Harvest-CSRF`, the half of the session's secret that is not
    /// in the cookie.
    pub csrf: Option<String>,
    pub version: String,
}

/// The ways to sign in that a browser can take.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SignInWays {
    /// The path that signs in with GitHub; absent where that is not set up.
    pub github: Option<String>,
}
