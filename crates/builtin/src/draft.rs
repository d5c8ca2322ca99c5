//! The text of a reply while it is being written, over all the tries it takes.
//!
//! When an answer breaks off, its beginning has already been shown. If the next try says the same, it goes on where the
//! first one stopped; if it says something else, what was shown ends as a message of its own, so that pieces and messages
//! always agree.

use std::io::{self, Write};

use crate::output::Output;

pub(crate) struct Draft<'a, W> {
    output: &'a mut Output<W>,
    shown: String,
    text: String,
}

impl<'a, W: Write> Draft<'a, W> {
    pub(crate) fn new(output: &'a mut Output<W>) -> Self {
        Self { output, shown: String::new(), text: String::new() }
    }

    /// Another try from the beginning.
    pub(crate) fn restart(&mut self) {
        self.text.clear();
    }

    pub(crate) fn add(&mut self, piece: &str) -> io::Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        self.text.push_str(piece);
        if self.shown.starts_with(&self.text) {
            return Ok(());
        }
        let rest = match self.text.strip_prefix(&self.shown) {
            Some(rest) => rest,
            None => {
                self.output.message(&self.shown)?;
                &self.text
            }
        };
        self.output.delta(rest)?;
        self.shown.clone_from(&self.text);
        Ok(())
    }

    /// The reply is complete.
    pub(crate) fn finish(self) -> io::Result<()> {
        if self.shown != self.text {
            self.output.message(&self.shown)?;
        }
        if !self.text.trim().is_empty() {
            self.output.message(&self.text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(tries: &[&[&str]]) -> Vec<String> {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        let mut draft = Draft::new(&mut output);
        for pieces in tries {
            draft.restart();
            for piece in *pieces {
                draft.add(piece).unwrap();
            }
        }
        draft.finish().unwrap();
        let lines = String::from_utf8(bytes).unwrap();
        let short = |line: &str| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let sign = if event["type"] == "message" { "=" } else { "+" };
            format!("{sign}{}", event["data"]["text"].as_str().unwrap())
        };
        lines.lines().map(short).collect()
    }

    #[test]
    fn one_try() {
        assert_eq!(events(&[&["Hel", "", "lo"]]), ["+Hel", "+lo", "=Hello"]);
        assert_eq!(events(&[&["\n"]]), ["+\n"]);
        assert!(events(&[&[]]).is_empty());
    }

    #[test]
    fn the_same_again_goes_on_where_it_stopped() {
        assert_eq!(events(&[&["Hel"], &["H", "ello"]]), ["+Hel", "+lo", "=Hello"]);
    }

    #[test]
    fn something_else_ends_what_was_shown() {
        assert_eq!(events(&[&["Hel"], &["Good", "bye"]]), ["+Hel", "=Hel", "+Good", "+bye", "=Goodbye"]);
        assert_eq!(events(&[&["Hello"], &["Hel"]]), ["+Hello", "=Hello", "=Hel"]);
    }
}
