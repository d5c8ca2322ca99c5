//! Frames: a big-endian length of what follows, one byte that says what it is, and the payload.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest payload of a frame.
pub const MAX_PAYLOAD: usize = 16 * 1024 * 1024;

const LENGTH: usize = 4;
const CONTROL: u8 = 1;
const OUTPUT: u8 = 2;

/// The peer does not keep to the protocol, or was asked to say something that does not fit into it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a frame of {length} bytes is larger than the {MAX_PAYLOAD} allowed")]
    TooLarge { length: usize },
    #[error("an empty frame")]
    Empty,
    #[error("a frame of unknown kind {kind}")]
    UnknownKind { kind: u8 },
    #[error("a control message that cannot be read: {0}")]
    Control(#[from] serde_json::Error),
    #[error("an output record that is cut short or out of range")]
    BadRecord,
    #[error("the other side speaks version {theirs} of the link, which this build does not")]
    Version { theirs: u32 },
}

/// Messages that travel in frames.
pub trait Message: Sized {
    fn from_control(payload: &[u8]) -> Result<Self, Error>;
    fn from_output(payload: &[u8]) -> Result<Self, Error>;
}

/// Collects bytes as they arrive and hands out whole messages.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        } else if self.start > 64 * 1024 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message. After an error the stream is of no more use.
    pub fn message<M: Message>(&mut self) -> Result<Option<M>, Error> {
        let pending = self.buffer.get(self.start..).unwrap_or_default();
        let Some(header) = pending.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_be_bytes(*header) as usize;
        if length == 0 {
            return Err(Error::Empty);
        }
        if length > MAX_PAYLOAD + 1 {
            return Err(Error::TooLarge { length });
        }
        let Some(body) = pending.get(LENGTH..LENGTH + length) else { return Ok(None) };
        let (kind, payload) = (body[0], &body[1..]);
        let message = match kind {
            CONTROL => M::from_control(payload),
            OUTPUT => M::from_output(payload),
            kind => Err(Error::UnknownKind { kind }),
        }?;
        self.start += LENGTH + length;
        Ok(Some(message))
    }
}

pub(crate) fn control<T: Serialize>(message: &T) -> Result<Vec<u8>, Error> {
    frame(CONTROL, &[&serde_json::to_vec(message)?])
}

pub(crate) fn output(parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
    frame(OUTPUT, parts)
}

pub(crate) fn read_control<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Error> {
    Ok(serde_json::from_slice(payload)?)
}

fn frame(kind: u8, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length > MAX_PAYLOAD {
        return Err(Error::TooLarge { length });
    }
    let mut bytes = Vec::with_capacity(LENGTH + 1 + length);
    // The bound above keeps this within 32 bits.
    bytes.extend_from_slice(&((length + 1) as u32).to_be_bytes());
    bytes.push(kind);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}
