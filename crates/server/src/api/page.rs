//! Lists in pages.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use harvest_api_types::{Page, Sort};
use harvest_core::Code;
use harvest_store::Order;
use serde::Serialize;

use crate::problem::Problem;

/// A page on its way to whoever asked for it.
#[derive(Debug)]
pub struct PageAnswer<T>(pub Page<T>);

impl<T> PageAnswer<T> {
    pub fn whole(items: Vec<T>) -> Self {
        Self(Page::whole(items))
    }
}

impl<T: Serialize> IntoResponse for PageAnswer<T> {
    fn into_response(self) -> Response {
        // Room for all of it at once: an answer that grows is copied again and again.
        let mut body = Vec::with_capacity(128 + self.0.items.len() * ITEM_BYTES);
        match serde_json::to_writer(&mut body, &self.0) {
            Ok(()) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => Problem::new(Code::Internal, error.to_string()).into_response(),
        }
    }
}

/// What most of them need.
const ITEM_BYTES: usize = 1024;

pub fn order(asked: Option<Sort>) -> Order {
    match asked.unwrap_or_default() {
        Sort::NewestFirst => Order::NewestFirst,
        Sort::OldestFirst => Order::OldestFirst,
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
