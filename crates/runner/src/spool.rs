//! A process' output on disk: appended to as it comes, read from as the link can take it.
//!
//! Everything that is sent is read from here, so a slow link or none at all costs disk and not memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use harvest_link::{MAX_LINE, SPOOL_HEADER, SpoolRecord};
use rustix::fs::FallocateFlags;

/// How much is read at once.
const READ: usize = 256 * 1024;
/// How much has to be forgotten before the disk is told.
const FORGET: u64 = 1024 * 1024;

#[derive(Debug)]
pub struct Spool {
    file: File,
    length: u64,
    forgotten: u64,
}

/// Frames ready to be sent, and the offset after them.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    pub frames: Vec<u8>,
    pub end: u64,
}

impl Spool {
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(path)?;
        Ok(Self { file, length: 0, forgotten: 0 })
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends whole records.
    pub fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(records);
        match written {
            Ok(()) => self.length += records.len() as u64,
            // Half a record would make everything after it unreadable.
            Err(_) => self.file.set_len(self.length)?,
        }
        written
    }

    /// Some of the records from `offset` on that begin before `limit`; none when there is none.
    pub fn read(&self, process: &str, offset: u64, limit: u64) -> io::Result<Option<Chunk>> {
        if offset == self.length || offset >= limit {
            return Ok(None);
        }
        let mut buffer = self.read_at(offset, READ)?;
        if SpoolRecord::read(&buffer).map_err(invalid)?.is_none() {
            buffer = self.read_at(offset, SPOOL_HEADER + MAX_LINE)?;
        }
        let mut chunk = Chunk { frames: Vec::new(), end: offset };
        let mut rest = buffer.as_slice();
        while chunk.end < limit
            && let Some(record) = SpoolRecord::read(rest).map_err(invalid)?
        {
            chunk.end += record.size();
            chunk.frames.extend(record.encode(process, chunk.end).map_err(invalid)?);
            rest = rest.get(SPOOL_HEADER + record.line.len()..).unwrap_or_default();
        }
        if chunk.end == offset { Err(invalid("no record begins at this offset")) } else { Ok(Some(chunk)) }
    }

    /// Gives back the space of what will not be asked for again.
    pub fn forget(&mut self, offset: u64) {
        let offset = offset.min(self.length);
        if offset >= self.forgotten + FORGET {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Some file systems cannot; then the space comes back with the sandbox.
            let _ = rustix::fs::fallocate(&self.file, flags, self.forgotten, offset - self.forgotten);
            self.forgotten = offset;
        }
    }

    fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let left = self.length.checked_sub(offset).ok_or_else(|| invalid("the offset is past the end"))?;
        let mut buffer = vec![0; most.min(usize::try_from(left).unwrap_or(most))];
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harvest_link::{Decoder, FromRunner, Stream};

    fn spool() -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(&folder.path().join("p")).unwrap();
        (folder, spool)
    }

    fn record(line: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        SpoolRecord { stream: Stream::Stdout, continued: false, line }.append_to(&mut bytes).unwrap();
        bytes
    }

    fn read_from(spool: &Spool, mut offset: u64) -> Vec<Vec<u8>> {
        let mut decoder = Decoder::new();
        let mut lines = Vec::new();
        while let Some(chunk) = spool.read("p", offset, u64::MAX).unwrap() {
            decoder.feed(&chunk.frames);
            while let Some(FromRunner::Output(record)) = decoder.message().unwrap() {
                assert_eq!(record.start(), offset);
                offset = record.offset;
                lines.push(record.line);
            }
            assert_eq!(offset, chunk.end);
        }
        lines
    }

    #[test]
    fn reading_from_any_record_on_gives_the_rest() {
        let (_folder, mut spool) = spool();
        let lines: Vec<Vec<u8>> = vec![b"one".to_vec(), vec![], vec![b'x'; MAX_LINE], b"last".to_vec()];
        let mut offsets = vec![0];
        for line in &lines {
            spool.append(&record(line)).unwrap();
            offsets.push(spool.length());
        }
        for (number, offset) in offsets.into_iter().enumerate() {
            assert_eq!(read_from(&spool, offset), lines.get(number..).unwrap());
        }
    }

    #[test]
    fn no_record_begins_behind_the_limit() {
        let (_folder, mut spool) = spool();
        for line in [b"one", b"two", b"six"] {
            spool.append(&record(line)).unwrap();
        }
        assert_eq!(spool.read("p", 0, 0).unwrap(), None);
        assert_eq!(spool.read("p", 0, 1).unwrap().unwrap().end, 8);
        assert_eq!(spool.read("p", 0, 8).unwrap().unwrap().end, 8);
        assert_eq!(spool.read("p", 0, 9).unwrap().unwrap().end, 16);
    }

    #[test]
    fn offsets_that_are_none_are_errors() {
        let (_folder, mut spool) = spool();
        spool.append(&record(b"hello")).unwrap();
        assert!(spool.read("p", 3, u64::MAX).is_err());
        assert!(spool.read("p", 1000, u64::MAX).is_err());
    }

    #[test]
    fn what_is_forgotten_leaves_the_rest_in_place() {
        let (_folder, mut spool) = spool();
        spool.append(&record(&vec![b'x'; 2 * 1024 * 1024])).unwrap();
        let kept = spool.length();
        spool.append(&record(b"kept")).unwrap();
        spool.forget(kept);
        assert_eq!(read_from(&spool, kept), [b"kept"]);
    }
}
