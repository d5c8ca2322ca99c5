//! The body of an error answer.

use serde::{Deserialize, Serialize};

/// An error response, as `application/problem+json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:harvest:HV-0604`; the page of the code explains it.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schema(example = "urn:harvest:HV-0604"))]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// What happened in this case.
    pub detail: String,
    /// The error code; `harvest explain HV-0604` explains it.
    #[cfg_attr(feature = "schema", schema(pattern = "^HV-[0-9]{4}$", example = "HV-0604"))]
    pub code: String,
    /// The field of the body, the parameter or the header that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}
