//! Journals for tests.

use harvest_core::{Event, EventBody, SessionId, Timestamp, TurnId};

/// What a session tells, from its first event on.
pub(crate) fn journal(bodies: Vec<EventBody>) -> Vec<Event> {
    let session_id: SessionId = "0000000000000001".parse().unwrap();
    let at = Timestamp::UNIX_EPOCH;
    bodies.into_iter().zip(1..).map(|(body, seq)| Event { seq, at, session_id: session_id.clone(), body }).collect()
}

pub(crate) fn turn(number: u32) -> TurnId {
    format!("000000000000000{number}").parse().unwrap()
}
