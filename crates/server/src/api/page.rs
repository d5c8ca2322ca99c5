//! Lists in pages.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use harvest_core::Code;
use harvest_store::Order;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::problem::Problem;

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
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

impl<T: Serialize> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        // Room for all of it at once: an answer that grows is copied again and again.
        let mut body = Vec::with_capacity(128 + self.items.len() * ITEM_BYTES);
        match serde_json::to_writer(&mut body, &self) {
            Ok(()) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => Problem::new(Code::Internal, error.to_string()).into_response(),
        }
    }
}

/// What most of them need.
const ITEM_BYTES: usize = 1024;

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub enum Sort {
    /// Newest first.
    #[default]
    #[serde(rename = "-created_at")]
    NewestFirst,
    /// Oldest first.
    #[serde(rename = "created_at")]
    OldestFirst,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::NewestFirst => Self::NewestFirst,
            Sort::OldestFirst => Self::OldestFirst,
        }
    }
}

const DEFAULT: u32 = 50;
const MOST: u32 = 500;

pub fn limit(asked: Option<u32>) -> Result<usize, Problem> {
    let limit = asked.unwrap_or(DEFAULT);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::bad("limit", format!("limit must be between 1 and {MOST}")));
    }
    Ok(limit as usize)
}

/// Cursors are numbers of ours; anything else never was one.
pub fn cursor(given: Option<String>) -> Result<Option<String>, Problem> {
    match given {
        Some(text) if text.parse::<i64>().is_err() => Err(Problem::bad("cursor", "unknown cursor")),
        given => Ok(given),
    }
}
