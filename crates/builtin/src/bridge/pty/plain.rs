//! Text as a person would have read it off a terminal, line by line: without control sequences, and of a line that was written
//! over again and again, what stood there last.

/// A line longer than this is told in pieces.
const MAX_LINE: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Plain {
    line: Vec<u8>,
    /// A carriage return was the last thing: the next text writes over the line, a line feed ends it.
    returned: bool,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// `ESC [` up to a letter.
    Control,
    /// `ESC ]`, `ESC P`, `ESC ^`, `ESC _` up to BEL or `ESC \`.
    String,
    StringEscape,
    /// One byte more, as in `ESC ( B`.
    Charset,
}

impl Plain {
    /// Takes what was printed and returns the lines that are whole.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for byte in bytes {
            if let Some(line) = self.take(*byte) {
                lines.push(line);
            }
        }
        lines
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }

    fn take(&mut self, byte: u8) -> Option<Vec<u8>> {
        self.state = match (self.state, byte) {
            (State::Text, 0x1b) => State::Escape,
            (State::Text, _) => return self.text(byte),
            (State::Escape, b'[') => State::Control,
            (State::Escape, b']' | b'P' | b'^' | b'_' | b'X') => State::String,
            (State::Escape, b'(' | b')' | b'*' | b'+' | b'#' | b' ' | b'%') => State::Charset,
            (State::Escape, 0x1b) => State::Escape,
            (State::Escape | State::Charset, _) => State::Text,
            (State::Control, 0x40..=0x7e) => State::Text,
            (State::Control, 0x1b) => State::Escape,
            // A line feed in the middle of a sequence is a sequence that was cut.
            (State::Control, b'\n') => {
                self.state = State::Text;
                return self.text(byte);
            }
            (State::Control, _) => State::Control,
            (State::String, 0x07) => State::Text,
            (State::String, 0x1b) => State::StringEscape,
            (State::String, _) => State::String,
            (State::StringEscape, b'\\') => State::Text,
            (State::StringEscape, 0x1b) => State::StringEscape,
            (State::StringEscape, _) => State::String,
        };
        None
    }

    fn text(&mut self, byte: u8) -> Option<Vec<u8>> {
        match byte {
            b'\n' => {
                self.returned = false;
                return Some(std::mem::take(&mut self.line));
            }
            b'\r' => self.returned = true,
            0x08 => drop(self.line.pop()),
            b'\t' | 0x20..=0x7e | 0x80.. => {
                if std::mem::take(&mut self.returned) {
                    self.line.clear();
                }
                self.line.push(byte);
                if self.line.len() >= MAX_LINE {
                    return Some(std::mem::take(&mut self.line));
                }
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text, fed in pieces of every size; all must be the same.
    fn lines(text: &str) -> Vec<String> {
        let read = |size: usize| {
            let mut plain = Plain::default();
            let mut lines: Vec<Vec<u8>> = text.as_bytes().chunks(size).flat_map(|piece| plain.feed(piece)).collect();
            lines.push(plain.finish());
            lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>()
        };
        let whole = read(usize::MAX);
        for size in 1..8 {
            assert_eq!(read(size), whole);
        }
        whole
    }

    #[test]
    fn control_sequences_are_taken_out() {
        assert_eq!(lines("\x1b[1;32mgreen\x1b[0m é\r\n\x1b]0;title\x07plain\x1b(B\n"), ["green é", "plain", ""]);
        assert_eq!(lines("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bP1$r\x1b\\end"), ["link end"]);
        assert_eq!(lines("a\x07\x00b\x1b[?25l"), ["ab"]);
    }

    #[test]
    fn what_stood_in_a_line_last_counts() {
        assert_eq!(lines("10 %\r50 %\r100 %\r\ndone\n"), ["100 %", "done", ""]);
        assert_eq!(lines("abc\x08\x08d"), ["ad"]);
    }

    #[test]
    fn a_sequence_that_was_cut_hides_only_its_line() {
        assert_eq!(lines("one\x1b[31\ntwo"), ["one", "two"]);
    }
}
