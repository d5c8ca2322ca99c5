//! A conversation with a model, whatever format it is sent in.

use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    User(String),
    Assistant(Reply),
    /// One result per call of the reply before, in the same order.
    Results(Vec<CallResult>),
}

/// What the model said and wants done.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) end: End,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum End {
    /// The model had nothing to add, or waits for results.
    #[default]
    Finished,
    /// It reached the length a reply may have.
    TooLong,
    /// The vendor's filter stopped it.
    Refused,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// Empty where the format has none, until the reply is complete.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Input,
    /// What the vendor wants back with the call, unread.
    pub(crate) signature: Option<String>,
}

/// The arguments of a call, as far as they can be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    Object(Map<String, Value>),
    /// Not a JSON object; the model is told so.
    Invalid(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallResult {
    pub(crate) id: String,
    pub(crate) output: String,
    pub(crate) is_error: bool,
}

impl Input {
    /// Models leave the arguments out altogether where there are none.
    pub(crate) fn read(json: &str) -> Self {
        if json.trim().is_empty() {
            return Self::Object(Map::new());
        }
        serde_json::from_str(json).map_or_else(|_| Self::Invalid(json.to_owned()), Self::Object)
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Object(map) => Value::Object(map.clone()),
            Self::Invalid(text) => Value::String(text.clone()),
        }
    }
}
