//! Output records: one line of one process, as it lies in the spool and as it travels.
//!
//! A record's offset is the spool's length after it, and its size in the spool follows from its bytes. So whoever receives
//! records can tell from each alone whether it follows the one before: no gap and no duplicate can go unnoticed.

use crate::frame::{self, Error};
use crate::message::is_valid_id;

/// The longest line in one record; longer ones are cut.
pub const MAX_LINE: usize = 8 * 1024 * 1024;

/// Bytes before each line in a spool: its length and its flags.
pub const SPOOL_HEADER: usize = 5;

const STDERR: u8 = 1;
const CONTINUED: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// A record as it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub process: String,
    /// The length of the spool after this record.
    pub offset: u64,
    pub stream: Stream,
    /// The line goes on in the next record of this stream.
    pub continued: bool,
    /// The line without its newline.
    pub line: Vec<u8>,
}

/// A record as it lies in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolRecord<'a> {
    pub stream: Stream,
    pub continued: bool,
    pub line: &'a [u8],
}

fn flags(stream: Stream, continued: bool) -> u8 {
    let stream = match stream {
        Stream::Stdout => 0,
        Stream::Stderr => STDERR,
    };
    if continued { stream | CONTINUED } else { stream }
}

fn read_flags(flags: u8) -> Result<(Stream, bool), Error> {
    if flags & !(STDERR | CONTINUED) != 0 {
        return Err(Error::BadRecord);
    }
    let stream = if flags & STDERR == 0 { Stream::Stdout } else { Stream::Stderr };
    Ok((stream, flags & CONTINUED != 0))
}

impl Record {
    /// The offset of the record before this one.
    pub fn start(&self) -> u64 {
        self.offset.saturating_sub((SPOOL_HEADER + self.line.len()) as u64)
    }

    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let record = SpoolRecord { stream: self.stream, continued: self.continued, line: &self.line };
        record.encode(&self.process, self.offset)
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Error> {
        let (&length, rest) = payload.split_first().ok_or(Error::BadRecord)?;
        let (process, rest) = rest.split_at_checked(usize::from(length)).ok_or(Error::BadRecord)?;
        let (offset, rest) = rest.split_first_chunk::<8>().ok_or(Error::BadRecord)?;
        let (&flags, line) = rest.split_first().ok_or(Error::BadRecord)?;
        let process = std::str::from_utf8(process).map_err(|_| Error::BadRecord)?;
        let offset = u64::from_be_bytes(*offset);
        let (stream, continued) = read_flags(flags)?;
        if !is_valid_id(process) || line.len() > MAX_LINE || offset < (SPOOL_HEADER + line.len()) as u64 {
            return Err(Error::BadRecord);
        }
        Ok(Self { process: process.to_owned(), offset, stream, continued, line: line.to_vec() })
    }
}

impl<'a> SpoolRecord<'a> {
    /// What the record takes in the spool.
    pub fn size(&self) -> u64 {
        (SPOOL_HEADER + self.line.len()) as u64
    }

    pub fn append_to(&self, spool: &mut Vec<u8>) -> Result<(), Error> {
        if self.line.len() > MAX_LINE {
            return Err(Error::TooLarge { length: self.line.len() });
        }
        spool.extend_from_slice(&(self.line.len() as u32).to_be_bytes());
        spool.push(flags(self.stream, self.continued));
        spool.extend_from_slice(self.line);
        Ok(())
    }

    /// The first record in `spool`, or none when it is not whole.
    pub fn read(spool: &'a [u8]) -> Result<Option<Self>, Error> {
        let Some((header, rest)) = spool.split_first_chunk::<SPOOL_HEADER>() else {
            return Ok(None);
        };
        let [a, b, c, d, flags] = *header;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MAX_LINE {
            return Err(Error::BadRecord);
        }
        let (stream, continued) = read_flags(flags)?;
        Ok(rest.get(..length).map(|line| Self { stream, continued, line }))
    }

    /// The frame that carries this record of `process`, which ends at `offset`.
    pub fn encode(&self, process: &str, offset: u64) -> Result<Vec<u8>, Error> {
        let length = u8::try_from(process.len()).map_err(|_| Error::BadRecord)?;
        frame::output(&[
            &[length],
            process.as_bytes(),
            &offset.to_be_bytes(),
            &[flags(self.stream, self.continued)],
            self.line,
        ])
    }
}
