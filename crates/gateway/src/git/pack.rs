//! The sizes that a pack announces, read while it passes to git: a pack of a few kilobytes can stand for terabytes, and git
//! unpacks whatever it is given.

use flate2::{Decompress, FlushDecompress, Status};

use super::PushLimits;

const HEADER: usize = 12;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;
/// Of a delta, the bytes with the sizes of its base and of its result.
const DELTA_SIZES: usize = 20;
const BUFFER: usize = 16 << 10;

/// Why a pack is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the push is larger than {}", shown(*.0))]
    Pack(u64),
    #[error("an object of the push is larger than {}", shown(*.0))]
    Object(u64),
    #[error("the push unpacks to more than {}", shown(*.0))]
    Unpacked(u64),
    #[error("the host has only {} free for the push", shown(*.0))]
    NoRoom(u64),
    #[error("the pack is malformed")]
    Malformed,
}

/// Adds up a pack that comes in pieces.
#[derive(Debug)]
pub(super) struct Pack {
    limits: PushLimits,
    /// What the host has room for.
    room: u64,
    /// Bytes of a hash.
    hash: usize,
    state: State,
    objects: u32,
    received: u64,
    unpacked: u64,
    inflate: Decompress,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Header(Vec<u8>),
    /// The type and size of an object.
    Object(Option<Size>),
    /// So many bytes of the hash of a delta's base are left.
    BaseHash {
        left: usize,
        size: u64,
    },
    BaseOffset {
        size: u64,
    },
    Data {
        left: u64,
        delta: Option<Vec<u8>>,
    },
    /// All objects have passed.
    Trailer,
}

#[derive(Debug)]
struct Size {
    kind: u8,
    value: u64,
    shift: u32,
}

impl Pack {
    /// `hash` is how many bytes a hash of the repository has, `room` how many the host has free for the objects.
    pub(super) fn new(limits: PushLimits, hash: usize, room: u64) -> Self {
        let (inflate, buffer) = (Decompress::new(true), vec![0; BUFFER]);
        let state = State::Header(Vec::new());
        Self { limits, room, hash, state, objects: 0, received: 0, unpacked: 0, inflate, buffer }
    }

    /// Reads on. What is refused has not been passed on.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        self.received = self.received.saturating_add(bytes.len() as u64);
        if self.received > self.limits.pack_bytes {
            return Err(Refused::Pack(self.limits.pack_bytes));
        }
        while let Some((first, rest)) = bytes.split_first() {
            match &mut self.state {
                State::Data { .. } => {
                    bytes = self.inflate(bytes)?;
                    continue;
                }
                State::Header(read) => {
                    read.push(*first);
                    if read.len() == HEADER {
                        self.objects = objects(read)?;
                        self.state = if self.objects == 0 { State::Trailer } else { State::Object(None) };
                    }
                }
                State::Object(size) => {
                    let size = match size.take() {
                        None => Size { kind: (first >> 4) & 7, value: u64::from(first & 15), shift: 4 },
                        Some(Size { kind, value, shift }) => {
                            Size { kind, value: more(value, *first, shift)?, shift: shift + 7 }
                        }
                    };
                    self.state = if *first & 128 == 0 { self.object(&size)? } else { State::Object(Some(size)) };
                }
                State::BaseHash { left, size } => {
                    let size = *size;
                    *left -= 1;
                    if *left == 0 {
                        self.state = self.data(size, true);
                    }
                }
                State::BaseOffset { size } => {
                    let size = *size;
                    if first & 128 == 0 {
                        self.state = self.data(size, true);
                    }
                }
                State::Trailer => return Ok(()),
            }
            bytes = rest;
        }
        Ok(())
    }

    fn object(&mut self, size: &Size) -> Result<State, Refused> {
        self.count(size.value)?;
        match size.kind {
            1..=4 => Ok(self.data(size.value, false)),
            OFS_DELTA => Ok(State::BaseOffset { size: size.value }),
            REF_DELTA => Ok(State::BaseHash { left: self.hash, size: size.value }),
            _ => Err(Refused::Malformed),
        }
    }

    fn data(&mut self, size: u64, is_delta: bool) -> State {
        self.inflate.reset(true);
        State::Data { left: size, delta: is_delta.then(Vec::new) }
    }

    fn count(&mut self, size: u64) -> Result<(), Refused> {
        if size > self.limits.object_bytes {
            return Err(Refused::Object(self.limits.object_bytes));
        }
        self.unpacked = self.unpacked.saturating_add(size);
        if self.unpacked > self.limits.unpacked_bytes {
            return Err(Refused::Unpacked(self.limits.unpacked_bytes));
        }
        if self.unpacked > self.room {
            return Err(Refused::NoRoom(self.room));
        }
        Ok(())
    }

    /// Goes through a piece of an object's data and returns what follows it.
    fn inflate<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Refused> {
        let State::Data { left, delta } = &mut self.state else { return Ok(bytes) };
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let done = self.inflate.decompress(bytes, &mut self.buffer, FlushDecompress::None);
        let done = done.map_err(|_| Refused::Malformed)?;
        let taken = usize::try_from(self.inflate.total_in() - before.0).map_err(|_| Refused::Malformed)?;
        let made = self.inflate.total_out() - before.1;
        *left = left.checked_sub(made).ok_or(Refused::Malformed)?;
        let over = done == Status::StreamEnd;
        if taken == 0 && made == 0 && !over || over && *left > 0 {
            return Err(Refused::Malformed);
        }
        let mut result = None;
        if let Some(start) = delta {
            let plain = self.buffer.get(..usize::try_from(made).unwrap_or_default()).unwrap_or_default();
            start.extend(plain.iter().take(DELTA_SIZES - start.len()));
            if start.len() == DELTA_SIZES || over {
                result = Some(result_size(start)?);
                *delta = None;
            }
        }
        if let Some(result) = result {
            self.count(result)?;
        }
        if over {
            self.objects -= 1;
            self.state = if self.objects == 0 { State::Trailer } else { State::Object(None) };
        }
        bytes.get(taken..).ok_or(Refused::Malformed)
    }
}

/// The number of objects that a pack's header tells.
fn objects(header: &[u8]) -> Result<u32, Refused> {
    let word = |at: usize| header.get(at..at + 4)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
    match (header.starts_with(b"PACK"), word(4), word(8)) {
        (true, Some(2 | 3), Some(objects)) => Ok(objects),
        _ => Err(Refused::Malformed),
    }
}

/// A size goes on with seven more bits.
fn more(value: u64, byte: u8, shift: u32) -> Result<u64, Refused> {
    // No pack has objects of 128 PiB.
    if shift > 50 {
        return Err(Refused::Malformed);
    }
    Ok(value | (u64::from(byte & 127) << shift))
}

/// A delta begins with the size of its base and that of its result.
fn result_size(delta: &[u8]) -> Result<u64, Refused> {
    let mut bytes = delta.iter();
    let mut size = 0;
    for _ in 0..2 {
        let mut shift = 0;
        size = 0;
        loop {
            let byte = bytes.next().ok_or(Refused::Malformed)?;
            size = more(size, *byte, shift)?;
            shift += 7;
            if byte & 128 == 0 {
                break;
            }
        }
    }
    Ok(size)
}

fn shown(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;

    const LIMITS: PushLimits = PushLimits { pack_bytes: 1 << 20, object_bytes: 1 << 20, unpacked_bytes: 4 << 20 };
    const BLOB: u8 = 3;

    fn object(kind: u8, size: u64, base: &[u8], data: &[u8]) -> Vec<u8> {
        let goes_on = |rest: u64| if rest > 0 { 128 } else { 0 };
        let mut rest = size >> 4;
        let mut bytes = vec![(kind << 4) | u8::try_from(size & 15).unwrap() | goes_on(rest)];
        while rest > 0 {
            let byte = u8::try_from(rest & 127).unwrap();
            rest >>= 7;
            bytes.push(byte | goes_on(rest));
        }
        bytes.extend_from_slice(base);
        let mut encoder = ZlibEncoder::new(bytes, Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn blob(data: &[u8]) -> Vec<u8> {
        object(BLOB, data.len() as u64, &[], data)
    }

    /// A delta on a base of one byte that says how long its result is, and nothing of what it is.
    fn delta(kind: u8, base: &[u8], result: u64, length: usize) -> Vec<u8> {
        let (mut data, mut rest) = (vec![1], result);
        while rest > 127 {
            data.push(u8::try_from(rest & 127).unwrap() | 128);
            rest >>= 7;
        }
        data.push(u8::try_from(rest).unwrap());
        data.resize(data.len().max(length), 0);
        object(kind, data.len() as u64, base, &data)
    }

    fn pack(objects: &[Vec<u8>]) -> Vec<u8> {
        let count = u32::try_from(objects.len()).unwrap().to_be_bytes();
        [&b"PACK\0\0\0\x02"[..], &count, &objects.concat(), &[7; 20]].concat()
    }

    fn read(pack: &[u8], cut: usize) -> Result<u64, Refused> {
        let mut reader = Pack::new(LIMITS, 20, u64::MAX);
        for part in pack.chunks(cut) {
            reader.feed(part)?;
        }
        Ok(reader.unpacked)
    }

    #[test]
    fn every_object_counts_with_what_it_unpacks_to() {
        let (hash, offset) = ([9; 20], [129, 5]);
        let deltas = [delta(REF_DELTA, &hash, 300_000, 2), delta(OFS_DELTA, &offset, 5, 40)];
        let whole = pack(&[vec![blob(b""), blob(&[0; 100_000])], deltas.to_vec(), vec![blob(b"last")]].concat());
        for cut in [1, 2, 7, whole.len()] {
            // The deltas themselves, too: four bytes and forty.
            assert_eq!(read(&whole, cut), Ok(100_000 + 300_000 + 4 + 5 + 40 + 4), "{cut}");
        }
        assert_eq!(read(&pack(&[]), 5), Ok(0));
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused_before_all_of_it_is_there() {
        let large = (1 << 20) + 1;
        let most = || delta(REF_DELTA, &[9; 20], 1 << 20, 2);
        let (too_long, too_much) = (Refused::Object(1 << 20), Refused::Unpacked(4 << 20));
        for (objects, refused) in [
            (vec![object(BLOB, large, &[], b"")], &too_long),
            (vec![object(1, 1 << 45, &[], b"")], &too_long),
            (vec![blob(b"x"), delta(OFS_DELTA, &[3], large, 2)], &too_long),
            (vec![most(), most(), most(), most(), most()], &too_much),
        ] {
            for cut in [1, 50, usize::MAX] {
                assert_eq!(read(&pack(&objects), cut), Err(refused.clone()));
            }
        }
        assert_eq!(read(&pack(&[most(), most(), most()]), 3), Ok((3 << 20) + 3 * 4));
        assert_eq!(read(&vec![0; 2 << 20], 64 << 10), Err(Refused::Malformed));
        assert_eq!(read(&vec![0; 2 << 20], usize::MAX), Err(Refused::Pack(1 << 20)));
        let mut full = Pack::new(LIMITS, 20, 1000);
        assert_eq!(full.feed(&pack(&[blob(&[0; 1001])])), Err(Refused::NoRoom(1000)));
    }

    #[test]
    fn what_is_no_pack_is_refused() {
        let more = object(BLOB, 5, &[], b"six666");
        let less = object(BLOB, 7, &[], b"six666");
        let kind = |kind| object(kind, 1, &[], b"x");
        let endless = [&[0xbf][..], &[0xff; 12], &[0]].concat();
        let no_result = object(REF_DELTA, 1, &[9; 20], &[1]);
        for objects in [more, less, kind(0), kind(5), endless, no_result, vec![0x31, 1, 2, 3, 4]] {
            assert_eq!(read(&pack(&[objects]), usize::MAX), Err(Refused::Malformed));
        }
        for bytes in [&b"PACC\0\0\0\x02\0\0\0\0"[..], b"PACK\0\0\0\x04\0\0\0\0"] {
            assert_eq!(read(bytes, usize::MAX), Err(Refused::Malformed));
        }
    }

    proptest! {
        #[test]
        fn wherever_it_is_cut_the_same_is_read(
            sizes in prop::collection::vec(0u64..3_000_000, 0..6), noise: Vec<u8>, cut in 1usize..200
        ) {
            let objects: Vec<_> = sizes.iter().map(|size| delta(REF_DELTA, &[9; 20], *size, 25)).collect();
            let mut whole = pack(&objects);
            prop_assert_eq!(read(&whole, cut), read(&whole, usize::MAX));
            whole.truncate(HEADER + 30);
            whole.extend(noise);
            prop_assert_eq!(read(&whole, cut).ok(), read(&whole, usize::MAX).ok());
        }
    }
}
