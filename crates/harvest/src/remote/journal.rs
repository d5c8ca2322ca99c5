//! A session's journal as a server tells it.

use std::time::Duration;

use harvest_core::Event;
use harvest_outbound::{Method, Stream};
use serde_json::Value;

use super::Remote;
use crate::failure::{Exit, Failure};
use crate::follow::Following;

/// How often a connection that is lost is made again before that is said, and how long to wait before each time.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// First what is there, then what comes, each event once and in order, over as many connections as it takes.
#[derive(Debug)]
pub struct Journal<'a> {
    remote: &'a Remote,
    session: String,
    last: u64,
    connection: Option<Stream>,
    /// What has come and is not a whole event yet.
    rest: Vec<u8>,
}

impl<'a> Journal<'a> {
    pub fn new(remote: &'a Remote, session: &str) -> Self {
        Self { remote, session: session.to_owned(), last: 0, connection: None, rest: Vec::new() }
    }

    async fn connect(&self) -> Result<Stream, Failure> {
        let path = format!("/api/sessions/{}/events", self.session);
        let ask = self.remote.request(Method::GET, &format!("{path}?after={}", self.last));
        let (status, stream) = self.remote.stream(ask.header("accept", "text/event-stream")).await?;
        if status != 200 {
            // What is wrong is said where a whole answer is read.
            self.remote.get::<Value>(&format!("{path}?limit=1")).await?;
        }
        Ok(stream)
    }
}

impl Following for Journal<'_> {
    async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        let mut tries = 0;
        loop {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                None => match self.connect().await {
                    Ok(connection) => self.connection.insert(connection),
                    Err(failure) if tries == TRIES || failure.exit != Exit::Failed => return Err(failure),
                    Err(_) => {
                        tries += 1;
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
            };
            let Ok(Some(part)) = connection.next().await else {
                (self.connection, tries) = (None, tries + 1);
                self.rest.clear();
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            self.rest.extend_from_slice(&part);
            let events = whole_events(&mut self.rest);
            if let Some(event) = events.last() {
                self.last = event.seq;
                return Ok(events);
            }
        }
    }
}

/// Takes out what is whole. Whatever is not an event, such as a sign of life, is left out.
fn whole_events(received: &mut Vec<u8>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut begin = 0;
    while let Some(length) = received[begin..].windows(2).position(|two| two == b"\n\n") {
        let lines = received[begin..begin + length].split(|byte| *byte == b'\n');
        let data = lines.filter_map(|line| line.strip_prefix(b"data: "));
        events.extend(data.filter_map(|data| serde_json::from_slice::<Event>(data).ok()));
        begin += length + 2;
    }
    received.drain(..begin);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces_and_once() {
        let told = b"retry: 1000\n\nid: 1\nevent: raw\ndata: {\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"session_id\":\
            \"0000000000000001\",\"type\":\"message.delta\",\"data\":{\"text\":\"a\"}}\n\n: alive\n\nevent: closing\ndata: {\"after\":1}\n\n";
        let whole = whole_events(&mut told.to_vec());
        assert_eq!(whole.len(), 1, "{whole:?}");
        for cut in 0..told.len() {
            let mut rest = told[..cut].to_vec();
            let mut events = whole_events(&mut rest);
            rest.extend_from_slice(&told[cut..]);
            events.extend(whole_events(&mut rest));
            assert_eq!(events, whole, "cut at {cut}");
            assert!(rest.is_empty());
        }
    }
}
