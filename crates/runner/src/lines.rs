//! Cuts a stream of bytes into lines, with a bound on what is held.

/// What is left of a stream after its last newline.
#[derive(Debug)]
pub struct Lines {
    pending: Vec<u8>,
    max: usize,
}

impl Lines {
    pub fn new(max: usize) -> Self {
        Self { pending: Vec::new(), max }
    }

    /// Takes in what was read and hands out each line without its newline. A line longer than the bound comes in pieces, all
    /// but the last of which are said to be continued.
    pub fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8], bool)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = bytes.split_at(end);
            self.take(head, &mut line);
            line(&self.pending, false);
            self.pending.clear();
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.take(bytes, &mut line);
        if self.pending.capacity() > 1024 * 1024 && self.pending.is_empty() {
            self.pending = Vec::new();
        }
    }

    /// Hands out a last line that has no newline.
    pub fn finish(&mut self, mut line: impl FnMut(&[u8], bool)) {
        if !self.pending.is_empty() {
            line(&self.pending, false);
            self.pending.clear();
        }
    }

    fn take(&mut self, mut bytes: &[u8], line: &mut impl FnMut(&[u8], bool)) {
        while self.pending.len() + bytes.len() > self.max {
            let (head, rest) = bytes.split_at(self.max - self.pending.len());
            self.pending.extend_from_slice(head);
            line(&self.pending, true);
            self.pending.clear();
            bytes = rest;
        }
        self.pending.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(input: &[u8], cut: usize, max: usize) -> Vec<(Vec<u8>, bool)> {
        let mut lines = Lines::new(max);
        let mut seen = Vec::new();
        for piece in input.chunks(cut) {
            lines.push(piece, |line, continued| seen.push((line.to_vec(), continued)));
        }
        lines.finish(|line, continued| seen.push((line.to_vec(), continued)));
        seen
    }

    #[test]
    fn empty_lines_and_a_missing_newline_are_kept() {
        let expected: Vec<(Vec<u8>, bool)> =
            ["a", "", "b"].iter().map(|line| (line.as_bytes().to_vec(), false)).collect();
        assert_eq!(split(b"a\n\nb", 1, 10), expected);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_too_long(
            input in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            cut in 1usize..20,
            max in 1usize..20,
        ) {
            let seen = split(&input, cut, max);
            let mut joined = Vec::new();
            for (line, continued) in &seen {
                prop_assert!(line.len() <= max);
                joined.extend_from_slice(line);
                if !continued {
                    joined.push(b'\n');
                }
            }
            let mut expected = input.clone();
            if expected.last().is_some_and(|byte| *byte != b'\n') {
                expected.push(b'\n');
            }
            prop_assert_eq!(joined, expected);
        }
    }
}
