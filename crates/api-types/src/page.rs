//! Lists in pages: the page itself, its order, and the checked parameters that filters of lists share.

use serde::{Deserialize, Deserializer, Serialize};

/// One page of a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Pass it as `cursor` to get the next page; absent on the last page.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A list that is short by nature.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Sort {
    /// Newest first.
    #[default]
    #[serde(rename = "-created_at")]
    NewestFirst,
    /// Oldest first.
    #[serde(rename = "created_at")]
    OldestFirst,
}

/// The beginning of an id, in a query.
pub(crate) fn id_prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    const LONGEST: usize = 16;
    let text = String::deserialize(deserializer)?;
    match text.chars().count() {
        1..=LONGEST => Ok(Some(text)),
        _ => Err(serde::de::Error::custom(format!("`id` must have 1 to {LONGEST} characters"))),
    }
}
