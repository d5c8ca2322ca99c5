//! Spans, and ids that follow from what they are about.

use harvest_core::{TaskId, Timestamp};
use sha2::{Digest, Sha256};

/// All spans of a task have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// Something that took time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: Kind,
    pub start: Timestamp,
    pub end: Timestamp,
    pub attributes: Vec<(&'static str, serde_json::Value)>,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Internal,
    /// Someone asked us.
    Server,
    /// We asked someone.
    Client,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Unset,
    Ok,
    Failed(String),
}

impl TraceId {
    pub fn of(task: &TaskId) -> Self {
        Self(digest(task, "trace"))
    }

    pub fn hex(self) -> String {
        hex(&self.0)
    }
}

impl SpanId {
    /// The same for the same part of a task, whoever tells of it.
    pub fn of(task: &TaskId, part: &str) -> Self {
        Self(digest(task, part))
    }

    pub fn hex(self) -> String {
        hex(&self.0)
    }
}

/// The span of the task itself, which all others are below.
pub fn task_span(task: &TaskId) -> SpanId {
    SpanId::of(task, "task")
}

/// The span of the request that made the task, which the task itself is below.
pub fn request_span(task: &TaskId) -> SpanId {
    SpanId::of(task, "request")
}

fn digest<const N: usize>(task: &TaskId, part: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let whole = Sha256::digest(format!("harvest\0{task}\0{part}").as_bytes());
    bytes.copy_from_slice(&whole[..N]);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
