//! Request bodies that git has compressed, inflated in small steps so that a bomb cannot fill the memory.

use std::io::Write;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// At most about a thousand times this much comes out of one step.
const STEP: usize = 1 << 10;

/// Turns a body's bytes into those that were meant.
#[derive(Debug)]
pub(super) enum Decoder {
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Decoder {
    /// `None` for an encoding that git does not use.
    pub(super) fn new(content_encoding: Option<&str>) -> Option<Self> {
        match content_encoding.unwrap_or("identity") {
            "identity" => Some(Self::Plain),
            "gzip" | "x-gzip" => Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            _ => None,
        }
    }

    /// Takes a step's worth of `chunk` and returns what it stands for. To be called until `chunk` is empty.
    pub(super) fn step(&mut self, chunk: &mut Bytes) -> std::io::Result<Bytes> {
        match self {
            Self::Plain => Ok(chunk.split_to(chunk.len())),
            Self::Gzip(decoder) => {
                let part = chunk.split_to(chunk.len().min(STEP));
                decoder.write_all(&part)?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
        }
    }

    /// The body is over: what remains, or an error if it is incomplete.
    pub(super) fn finish(&mut self) -> std::io::Result<Bytes> {
        match self {
            Self::Plain => Ok(Bytes::new()),
            Self::Gzip(decoder) => {
                decoder.try_finish()?;
                Ok(std::mem::take(decoder.get_mut()).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compressed(bytes: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    fn inflate(mut body: Bytes) -> std::io::Result<(Vec<u8>, usize)> {
        let mut decoder = Decoder::new(Some("gzip")).unwrap();
        let (mut all, mut largest) = (Vec::new(), 0);
        while !body.is_empty() {
            let step = decoder.step(&mut body)?;
            largest = largest.max(step.len());
            all.extend_from_slice(&step);
        }
        all.extend_from_slice(&decoder.finish()?);
        Ok((all, largest))
    }

    #[test]
    fn a_bomb_comes_out_in_small_pieces() {
        let zeros = vec![0; 50 << 20];
        let (all, largest) = inflate(compressed(&zeros)).unwrap();
        assert_eq!(all.len(), zeros.len());
        assert!(largest < 2 << 20, "{largest}");
    }

    #[test]
    fn truncated_and_foreign_bytes_are_errors() {
        let whole = compressed(b"0000");
        assert!(inflate(whole.slice(..whole.len() - 4)).is_err());
        assert!(inflate(Bytes::from_static(b"0000 is not gzip")).is_err());
        assert!(Decoder::new(Some("br")).is_none());
    }
}
