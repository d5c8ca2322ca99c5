//! Schedules: tasks that are created at set times.

use harvest_core::Timestamp;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::Ask;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Schedule {
    pub id: String,
    pub cron: String,
    pub time_zone: String,
    pub missed: Missed,
    /// The task that each run creates.
    pub request: Value,
    pub next: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// The user that it runs as, with their permissions and quotas at the time of the run.
    pub owner: Option<String>,
    /// Why the last run created no task.
    pub problem: Option<String>,
    pub created_at: Timestamp,
}

/// What happens to runs that were missed while Harvest was not running.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Nothing: it goes on with the next one.
    Skip,
    /// One run for all of them.
    #[default]
    RunOnce,
}

/// A schedule to add.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    /// Minute, hour, day of month, month, day of week.
    #[cfg_attr(feature = "schema", schema(example = "0 3 * * 1-5"))]
    pub cron: String,
    /// The time zone; default: the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "Europe/Paris"))]
    pub time_zone: Option<String>,
    #[serde(default)]
    pub missed: Missed,
    #[serde(deserialize_with = "object")]
    pub task: Ask,
}

/// Part of a body that has to be an object, like the body itself.
fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = Map::deserialize(deserializer)?;
    serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)
}
