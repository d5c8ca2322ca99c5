//! Whether the exit code of a test command says anything about its tests.

/// Why the exit code of a shell command does not tell that its tests failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It is that of the last command in a pipe.
    ByPipe,
    /// The last command always succeeds.
    BySuccess,
    /// It may be that of another command than the tests: a later one, an alternative, or one that waits for them.
    ByOthers,
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
            Self::ByOthers => {
                "no counts can be read from its output, and its exit code may be that of another command than the tests; \
                 name one command, or join several with `&&`"
            }
        }
    }
}

/// Commands that prepare others, and whose own exit code says nothing about tests.
const PREPARE: [&str; 9] = ["cd", "export", "set", "unset", "source", ".", "umask", "ulimit", "trap"];
/// Words that begin a command whose exit code may be another's.
const CONTROL: [&str; 7] = ["if", "for", "while", "until", "case", "select", "!"];
/// Alternatives that fail as well.
const FAIL: [&str; 3] = ["false", "exit", "return"];
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];

/// What hides the exit code of the tests, as far as it can be seen in the command itself: what a script or a Makefile does is not
/// looked at. Only a single command, or several joined with `&&`, ends as its tests do.
pub(super) fn hidden(command: &str) -> Option<Hidden> {
    let (plain, quoted) = taken_apart(command);
    let is_pipe = |at: usize| {
        let (before, after) = (&plain[..at], &plain[at + 1..]);
        !before.ends_with(['|', '>']) && !after.starts_with('|')
    };
    if !plain.contains("pipefail") && plain.match_indices('|').any(|(at, _)| is_pipe(at)) {
        return Some(Hidden::ByPipe);
    }
    let ended = plain.trim_end().trim_end_matches(';');
    let last = ended.rsplit_once([';', '\n', '|']).map_or("", |(_, last)| last.trim());
    if matches!(last, "true" | ":" | "exit 0") {
        return Some(Hidden::BySuccess);
    }
    if runs_in_background(&plain) || runs_several(&plain) {
        return Some(Hidden::ByOthers);
    }
    // `sh -c '…'` ends as the command in the quotes does.
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is_shell = |pair: &[&str]| {
        let name = pair[0].rsplit('/').next().unwrap_or_default();
        SHELLS.contains(&name) && pair[1].starts_with('-') && pair[1].ends_with('c')
    };
    let is_script = words.first() == Some(&"eval") || words.windows(2).any(is_shell);
    quoted.iter().filter(|_| is_script).find_map(|inner| hidden(inner))
}

/// Whether one command is not waited for.
fn runs_in_background(plain: &str) -> bool {
    plain.match_indices('&').any(|(at, _)| {
        let (before, after) = (&plain[..at], &plain[at + 1..]);
        !before.ends_with(['&', '>', '<', '|']) && !after.starts_with(['&', '>'])
    })
}

/// Whether the exit code may be that of one of several commands, whatever the others did.
fn runs_several(plain: &str) -> bool {
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let commands: Vec<&str> = plain
        .split([';', '\n'])
        .map(|command| command.trim().trim_start_matches(['(', '{']).trim().trim_end_matches([')', '}']).trim())
        .filter(|command| !command.is_empty() && !command.starts_with('#'))
        .collect();
    let is_control = |command: &&str| command.split("&&").any(|one| CONTROL.contains(&first(one).as_str()));
    let is_assignment = |command: &str| {
        let (name, value) = command.split_once('=').unwrap_or_default();
        !name.is_empty() && !name.contains(char::is_whitespace) && !value.contains(char::is_whitespace)
    };
    let stops_at_a_failure = commands.iter().any(|command| {
        let options = command.strip_prefix("set ").unwrap_or_default();
        let is_short = |word: &str| word.starts_with('-') && !word.starts_with("--") && word.contains('e');
        options.contains("errexit") || options.split_whitespace().any(is_short)
    });
    let prepares = |command: &&&str| PREPARE.contains(&first(command).as_str()) || is_assignment(command);
    let others = commands.iter().filter(|command| !prepares(command)).count();
    let has_alternative = commands.iter().any(|command| {
        command
            .split("||")
            .skip(1)
            .any(|other| !FAIL.contains(&first(other.trim_start_matches([' ', '{', '('])).as_str()))
    });
    commands.iter().any(is_control) || has_alternative || (others > 1 && !stops_at_a_failure)
}

/// The command with nothing in its quotes and in its `$(…)`, and what stands in each of its quotes.
fn taken_apart(command: &str) -> (String, Vec<String>) {
    let (mut plain, mut quoted, mut inner) = (String::with_capacity(command.len()), Vec::new(), String::new());
    let mut letters = command.chars().peekable();
    let (mut quote, mut depth) = (None, 0_u32);
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => {
                quote = None;
                quoted.push(std::mem::take(&mut inner));
            }
            (Some('\''), _) => inner.push(letter),
            (Some(_), '\\') => inner.extend(letters.next()),
            (Some(_), _) => inner.push(letter),
            (None, '\\') => drop(letters.next()),
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
    (plain, quoted)
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

    #[test]
    fn several_commands_that_are_not_joined_by_and_hide_the_exit_code() {
        for command in [
            "pytest -q > log || echo ok",
            "pytest -q > log; echo done",
            "pytest -q > log\ncat log",
            "pytest -q > log &",
            "pytest -q > log & wait",
            "if ! pytest -q > log; then echo bad; fi",
            "! pytest -q",
            "cd app && if pytest; then :; fi",
            "for test in tests/*; do sh $test; done",
            "pytest || python3 -m pytest",
            "sh -c 'pytest -q > log; echo done'",
            "/bin/bash -ec \"pytest || echo ok\"",
            "eval 'pytest; echo done'",
            "(pytest -q; echo done)",
        ] {
            assert_eq!(hidden(command), Some(Hidden::ByOthers), "{command}");
        }
        assert_eq!(hidden("sh -c 'pytest; true'"), Some(Hidden::BySuccess));
        for command in [
            "npm ci && npm test",
            "export CI=1; CI=1 npm test",
            "A=1; cd app; npm test",
            "set -e; npm ci; npm test",
            "set -eu\nnpm ci\nnpm test\n",
            "# all of them\nnpm test",
            "npm test || exit 1",
            "npm test > log 2>&1",
            "npm test &> log",
            "(cd app && npm test)",
            "sh -c 'cd app && npm test'",
            "timeout 60 npm test",
            "python3 -c 'import app; app.test()'",
        ] {
            assert_eq!(hidden(command), None, "{command}");
        }
    }
}
