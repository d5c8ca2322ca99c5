//! Whether the exit code of a test command says anything about its tests.

/// Why the exit code of a shell command does not tell that its tests failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It is that of the last command in a pipe.
    ByPipe,
    /// The last command always succeeds.
    BySuccess,
}

impl Hidden {
    /// What is wrong, and the way out.
    pub(super) fn explain(self) -> &'static str {
        match self {
            Self::ByPipe => {
                "no counts can be read from its output, and its exit code is that of the last command in a pipe; name \
                 the command without the pipe"
            }
            Self::BySuccess => {
                "no counts can be read from its output, and its last command succeeds whatever the tests do; name the \
                 command without it"
            }
        }
    }
}

/// Pipes and last commands are looked for outside of quotes and substitutions.
pub(super) fn hidden(command: &str) -> Option<Hidden> {
    let plain = without_quotes(command);
    let is_pipe = |at: usize| {
        let (before, after) = (&plain[..at], &plain[at + 1..]);
        !before.ends_with(['|', '>']) && !after.starts_with('|')
    };
    if !plain.contains("pipefail") && plain.match_indices('|').any(|(at, _)| is_pipe(at)) {
        return Some(Hidden::ByPipe);
    }
    let (_, last) = plain.trim_end().trim_end_matches(';').rsplit_once([';', '\n', '|'])?;
    matches!(last.trim(), "true" | ":" | "exit 0").then_some(Hidden::BySuccess)
}

/// The command with nothing in its quotes and in its `$(…)`.
fn without_quotes(command: &str) -> String {
    let mut plain = String::with_capacity(command.len());
    let mut letters = command.chars().peekable();
    let (mut quote, mut depth) = (None, 0_u32);
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some('\''), '\'') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(letters.next()),
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(letter),
            (None, '$') if letters.peek() == Some(&'(') => {
                letters.next();
                depth += 1;
            }
            (None, '(') if depth > 0 => depth += 1,
            (None, ')') if depth > 0 => depth -= 1,
            (None, _) if depth > 0 => {}
            (None, _) => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_or_a_last_command_that_always_succeeds_hides_the_exit_code() {
        for (command, expected) in [
            ("npm test", None),
            ("npm test | tail -5", Some(Hidden::ByPipe)),
            ("npm test 2>&1|grep -c pass", Some(Hidden::ByPipe)),
            ("npm test |& cat", Some(Hidden::ByPipe)),
            ("set -o pipefail; npm test | tail -5", None),
            ("npm test >| log", None),
            ("pytest || python3 -m pytest", None),
            ("pytest -k 'a|b'", None),
            ("grep -E \"a|b\" log", None),
            ("grep -E a\\|b log", None),
            ("test \"$(ls | wc -l)\" = 3", None),
            ("test $(ls | (cat; cat) | wc -l) = 3", None),
            ("npm test || true", Some(Hidden::BySuccess)),
            ("npm test; exit 0", Some(Hidden::BySuccess)),
            ("npm test\n:\n", Some(Hidden::BySuccess)),
            ("npm test && true", None),
            ("cd app; make test;", None),
            ("true", None),
        ] {
            assert_eq!(hidden(command), expected, "{command}");
        }
    }
}
