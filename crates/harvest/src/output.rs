//! Standard output and error that may be closed early: whoever reads decides when they have seen enough.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

/// Whether lines for standard output go to standard error.
static IS_DIVERTED: AtomicBool = AtomicBool::new(false);

/// While it lives, everything for standard output goes to standard error: a command that runs others and prints one document
/// at its end holds it.
pub struct Diverted(());

pub fn divert() -> Diverted {
    IS_DIVERTED.store(true, Ordering::Relaxed);
    Diverted(())
}

impl Drop for Diverted {
    fn drop(&mut self) {
        IS_DIVERTED.store(false, Ordering::Relaxed);
    }
}

/// Nobody reads any more.
#[derive(Debug)]
pub struct Closed;

pub fn line(text: &str) -> Result<(), Closed> {
    bytes(format!("{text}\n").as_bytes())
}

/// To standard error. Nobody listening is no reason to stop.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", harvest_engine::redact(text));
}

pub fn bytes(bytes: &[u8]) -> Result<(), Closed> {
    if IS_DIVERTED.load(Ordering::Relaxed) {
        return io::stderr().lock().write_all(bytes).map_err(|_| Closed);
    }
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
