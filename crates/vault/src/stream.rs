//! Redaction of text that arrives in pieces. However a secret is cut up, the result is the same as for the whole text.
//!
//! Only what may still turn out to be the beginning of a secret is held back, so that text flows on without delay.

use crate::redactor::{Known, MARK, Redactor};
use crate::shape::{Alphabet, CONTEXT_BYTES};

/// Push pieces, write down what comes out, and [`StreamRedactor::finish`] at the end.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    /// A little of what is already out, then what is held back.
    text: String,
    /// Where the held back part begins: all that started before is settled.
    held: usize,
    /// Up to here, `text` is already out, as itself or as a mark.
    out: usize,
    /// Set when the last mark goes on for as long as such characters follow.
    goes_on: Option<Alphabet>,
}

impl StreamRedactor {
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, text: String::new(), held: 0, out: 0, goes_on: None }
    }

    /// Takes the next piece and returns what is certain by now.
    pub fn push(&mut self, piece: &str) -> String {
        self.text.push_str(piece);
        let known = self.redactor.known();
        let undecided = known.undecided(&self.text, self.held);
        let clean = self.settle(&known, undecided);
        self.forget_what_is_out();
        clean
    }

    /// What was still held back; afterwards the stream is as new.
    pub fn finish(&mut self) -> String {
        let clean = self.settle(&self.redactor.known(), self.text.len());
        self.text.clear();
        (self.held, self.out, self.goes_on) = (0, 0, None);
        clean
    }

    /// Puts out everything that starts before `until`.
    fn settle(&mut self, known: &Known, until: usize) -> String {
        let mut clean = String::new();
        if let Some(alphabet) = self.goes_on {
            self.out += alphabet.run(&self.text.as_bytes()[self.out..]);
            if self.out < self.text.len() {
                self.goes_on = None;
            }
        }
        for span in known.spans(&self.text, self.held, until) {
            if span.start >= self.out {
                clean.push_str(&self.text[self.out..span.start]);
                clean.push_str(MARK);
            }
            if span.end >= self.out {
                self.out = span.end;
                let open = span.goes_on.filter(|_| span.end == self.text.len());
                self.goes_on = self.goes_on.max(open);
            }
        }
        if self.out < until {
            clean.push_str(&self.text[self.out..until]);
            self.out = until;
        }
        self.held = until;
        clean
    }

    fn forget_what_is_out(&mut self) {
        let mut keep = self.held.saturating_sub(CONTEXT_BYTES);
        while !self.text.is_char_boundary(keep) {
            keep -= 1;
        }
        self.text.drain(..keep);
        self.held -= keep;
        self.out -= keep;
    }
}
