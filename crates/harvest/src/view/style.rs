//! Colours and symbols, as far as the terminal can show them, and text from agents made harmless.

use std::io::IsTerminal;

use crate::environment::Environment;

#[derive(Debug, Clone, Copy)]
pub struct Style {
    color: bool,
    unicode: bool,
    pub terminal: bool,
}

impl Style {
    pub fn detect(environment: &Environment) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { color: terminal && environment.wants_color(), unicode: environment.says_utf8(), terminal }
    }

    pub fn without_color(self) -> Self {
        Self { color: false, ..self }
    }

    #[cfg(test)]
    pub fn plain(unicode: bool) -> Self {
        Self { color: false, unicode, terminal: false }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub fn accent(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// The symbol where the terminal has it, else the plain characters.
    pub fn symbol(self, symbol: &'static str, plain: &'static str) -> &'static str {
        if self.unicode { symbol } else { plain }
    }

    pub fn ok(self) -> String {
        self.good(self.symbol("✓", "ok"))
    }

    pub fn failed(self) -> String {
        self.bad(self.symbol("✗", "x"))
    }

    pub fn stopped(self) -> String {
        self.warn(self.symbol("■", "!"))
    }

    pub fn arrow(self) -> &'static str {
        self.symbol("→", "->")
    }

    pub fn dot(self) -> &'static str {
        self.symbol("·", "-")
    }

    pub fn ellipsis(self) -> &'static str {
        self.symbol("…", "...")
    }

    pub fn spinner(self) -> &'static [&'static str] {
        if self.unicode {
            &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏", " "]
        } else {
            &["|", "/", "-", "\\", " "]
        }
    }
}

/// Text from an agent without anything that could steer a terminal or turn the writing direction.
pub fn clean(text: &str) -> String {
    let harmless = |c: &char| {
        let steers = c.is_control() && !matches!(c, '\n' | '\t');
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
        !steers && !turns
    };
    text.chars().filter(harmless).collect()
}

/// A unified diff with colours; its lines stay as they are.
pub fn paint_diff(style: Style, diff: &str) -> String {
    let paint = |line: &str| match line.as_bytes() {
        [b'd', b'i', b'f', b'f', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..] => {
            style.bold(line)
        }
        [b'@', b'@', ..] => style.accent(line),
        [b'+', ..] => style.good(line),
        [b'-', ..] => style.bad(line),
        _ => line.to_owned(),
    };
    diff.lines().map(paint).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_has_colours_only_where_they_are_wanted() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n same";
        assert_eq!(paint_diff(Style::plain(true), diff), diff);
        let painted = paint_diff(Style { color: true, ..Style::plain(true) }, diff);
        let (bold, cyan, red, green, end) = ("\u{1b}[1m", "\u{1b}[36m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[0m");
        let expected = [
            format!("{bold}diff --git a/x b/x{end}\n{bold}--- a/x{end}\n{bold}+++ b/x{end}"),
            format!("{cyan}@@ -1 +1 @@{end}\n{red}-one{end}\n{green}+two{end}\n same"),
        ];
        assert_eq!(painted, expected.join("\n"));
    }

    #[test]
    fn agents_cannot_steer_the_terminal() {
        let hostile = "\u{1b}[2J\u{1b}]0;owned\u{7}safe\r\u{9b}31m\u{202e}txt\n\tend";
        assert_eq!(clean(hostile), "[2J]0;ownedsafe31mtxt\n\tend");
    }
}
