//! Comments on a session, and the people who view it.

use harvest_core::CommentPlace;
use serde::{Deserialize, Serialize};

/// A comment to add.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewComment {
    pub about: CommentPlace,
    /// The comment itself.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 10000, example = "Why not the other module?"))]
    pub text: String,
}

/// A person who has a session open in a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Person {
    pub user: String,
    /// The number of browser windows.
    pub windows: usize,
}
