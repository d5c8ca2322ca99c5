//! The settings of a project, and the values in force there.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The settings of a project and the values in force.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProjectSettings {
    /// The settings of the project itself.
    pub settings: Map<String, Value>,
    /// Every setting as it applies to tasks of the project, unless the repository or the request overrides it. Values
    /// set by the installation are shown only to users who are not limited to projects.
    pub in_force: Vec<SettingInForce>,
}

/// A setting and the origin of its value.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SettingInForce {
    #[cfg_attr(feature = "schema", schema(example = "budget_usd"))]
    pub key: String,
    pub value: Option<Value>,
    /// `default`, `file`, `project` or `project_settings`.
    pub origin: String,
    /// The origin in words.
    pub source: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskSettings {
    /// All settings of the project, with the names of `harvest config show`; settings that are left out are unset.
    #[cfg_attr(feature = "schema", schema(example = json!({ "budget_usd": 5, "test": "make check" })))]
    pub settings: Map<String, Value>,
}
