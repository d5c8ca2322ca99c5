//! Output that is too long for a model keeps its beginning and its end, and says what is missing in between.

use std::collections::VecDeque;

/// Takes any amount of bytes and keeps at most `limit` of them.
#[derive(Debug)]
pub(crate) struct Truncated {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Truncated {
    pub(crate) fn new(limit: usize) -> Self {
        Self { half: limit / 2, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let to_head = bytes.len().min(self.half - self.head.len());
        let (head, rest) = bytes.split_at(to_head);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    pub(crate) fn into_text(self) -> String {
        let tail: Vec<u8> = self.tail.into();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[self.head, tail].concat()).into_owned();
        }
        let (head, tail) = (whole_end(&self.head), whole_start(&tail));
        let head = String::from_utf8_lossy(head);
        let tail = String::from_utf8_lossy(tail);
        format!("{head}\n[… {} bytes left out here …]\n{tail}", self.left_out)
    }
}

/// Without the first bytes of a character that was cut.
fn whole_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Without the last bytes of a character that was cut.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let continued = bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    &bytes[continued..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truncated(limit: usize, pieces: &[&str]) -> String {
        let mut truncated = Truncated::new(limit);
        for piece in pieces {
            truncated.push(piece.as_bytes());
        }
        truncated.into_text()
    }

    #[test]
    fn short_output_is_whole() {
        assert_eq!(truncated(10, &["12345", "678", "90"]), "1234567890");
        assert_eq!(truncated(10, &["éééé", "é"]), "ééééé");
    }

    #[test]
    fn long_output_loses_its_middle() {
        assert_eq!(truncated(10, &["abcdefgh", "ijklmnop"]), "abcde\n[… 6 bytes left out here …]\nlmnop");
        assert_eq!(truncated(10, &["éééééé"]), "éé\n[… 2 bytes left out here …]\néé");
    }
}
