//! Standard output and error that may be closed early: whoever reads decides when they have seen enough.

use std::io::{self, Write};

use serde::Serialize;

/// Nobody reads any more.
#[derive(Debug)]
pub struct Closed;

pub fn line(text: &str) -> Result<(), Closed> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|_| Closed)
}

/// To standard error. Nobody listening is no reason to stop.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", harvest_engine::redact(text));
}

pub fn bytes(bytes: &[u8]) -> Result<(), Closed> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|_| Closed)
}

/// One document on one line.
pub fn json(document: &impl Serialize) -> Result<(), Closed> {
    match serde_json::to_string(document) {
        Ok(text) => line(&text),
        Err(_) => Err(Closed),
    }
}
