//! Whether the exit code of a test command says anything about its tests.

/// Why the exit code of a shell command does not tell that its tests failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It is that of the last command in a pipe.
    Pipe,
    /// The last command always succeeds.
    Success,
    /// It may be that of another command than the tests: a later one, an alternative, or one that waits for them.
    OtherCommands,
}

impl Hidden {
    /// What is wrong, and the way out.
    pub(super) fn explain(self) -> &'static str {
        match self {
            Self::Pipe => {
                "no counts can be read from its output, and its exit code is that of the last command in a pipe; name \
                 the command without the pipe"
            }
            Self::Success => {
                "no counts can be read from its output, and its last command succeeds whatever the tests do; name the \
                 command without it"
            }
            Self::OtherCommands => {
                "no counts can be read from its output, and its exit code may be that of another command than the tests; \
                 name one command, join several with `&&`, or put them into a script"
            }
        }
    }
}

/// Commands that prepare others, and whose own exit code says nothing about tests.
const PREPARE: [&str; 9] = ["cd", "export", "set", "unset", "source", ".", "umask", "ulimit", "trap"];
/// Words that begin a command whose exit code may be another's.
const CONTROL: [&str; 7] = ["if", "for", "while", "until", "case", "select", "!"];
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];
/// Stands for a substitution, in which any command may run.
const SUBSTITUTION: char = '\u{1}';

/// What hides the exit code of the tests, as far as it can be seen in the command itself: what a script or a Makefile does is not
/// looked at. Only a single command, or several joined with `&&`, ends as its tests do.
pub(super) fn hidden(command: &str) -> Option<Hidden> {
    hidden_in(command, Failures::Passed)
}

/// What a shell does when a command fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failures {
    Passed,
    /// It ends, as with `set -e`.
    End,
}

fn hidden_in(command: &str, failures: Failures) -> Option<Hidden> {
    let (plain, quoted) = taken_apart(command);
    let is_pipe = |at: usize| {
        let (before, after) = (&plain[..at], &plain[at + 1..]);
        !before.ends_with(['|', '>']) && !after.starts_with('|')
    };
    if !plain.contains("pipefail") && plain.match_indices('|').any(|(at, _)| is_pipe(at)) {
        return Some(Hidden::Pipe);
    }
    let ended = plain.trim_end().trim_end_matches(';');
    let last = ended.rsplit_once([';', '\n', '|']).map_or("", |(_, last)| last.trim());
    if matches!(last, "true" | ":" | "exit 0") {
        return Some(Hidden::Success);
    }
    let plain = without_failing_alternatives(&plain);
    if plain.contains("||") || runs_in_background(&plain) || runs_several(&plain, failures) {
        return Some(Hidden::OtherCommands);
    }
    // `sh -c '…'` ends as the command in the quotes does.
    let within = script_in(&plain)?;
    quoted.iter().find_map(|inner| hidden_in(inner, within))
}

/// `a || exit 1` fails as `a` does.
fn without_failing_alternatives(plain: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(plain.len()), plain);
    while let Some((before, after)) = rest.split_once("||") {
        kept.push_str(before);
        let after = after.trim_start();
        let close = match after.chars().next() {
            Some('{') => Some('}'),
            Some('(') => Some(')'),
            _ => None,
        };
        let end = match close {
            Some(close) => after.find(close).map_or(after.len(), |at| at + 1),
            None => after.find([';', '\n', '&', '|', ')', '}']).unwrap_or(after.len()),
        };
        let (other, next) = after.split_at(end);
        if !fails(other) {
            kept.push_str("||");
            kept.push_str(other);
        }
        rest = next;
    }
    kept.push_str(rest);
    kept
}

/// Whether an alternative ends with a failure, whatever it does before.
fn fails(other: &str) -> bool {
    let commands = other.trim_matches(|letter: char| letter.is_whitespace() || "{}()".contains(letter));
    let last = commands.trim_end_matches([';', ' ', '\n']).rsplit([';', '\n', '&', '|']).next().unwrap_or_default();
    let mut words = last.split_whitespace();
    match (words.next(), words.next()) {
        (Some("false"), None) => true,
        (Some("exit" | "return"), None | Some("$?")) => commands == last,
        (Some("exit" | "return"), Some(code)) => code.parse::<u8>().is_ok_and(|code| code != 0),
        _ => false,
    }
}

/// Whether one command is not waited for.
fn runs_in_background(plain: &str) -> bool {
    plain.match_indices('&').any(|(at, _)| {
        let (before, after) = (&plain[..at], &plain[at + 1..]);
        !before.ends_with(['&', '>', '<', '|']) && !after.starts_with(['&', '>'])
    })
}

/// Whether the exit code may be that of one of several commands, whatever the others did.
fn runs_several(plain: &str, failures: Failures) -> bool {
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let joined = joined(plain);
    let commands: Vec<&str> = joined
        .split([';', '\n'])
        .map(|command| command.trim().trim_start_matches(['(', '{']).trim().trim_end_matches([')', '}']).trim())
        .filter(|command| !command.is_empty() && !command.starts_with('#'))
        .collect();
    let is_control = |command: &&str| command.split("&&").any(|one| CONTROL.contains(&first(one).as_str()));
    if commands.iter().any(is_control) {
        return true;
    }
    let is_assignment = |command: &str| {
        let (name, value) = command.split_once('=').unwrap_or_default();
        let is_plain = |letter: char| !letter.is_whitespace() && letter != SUBSTITUTION;
        !name.is_empty() && !name.contains(char::is_whitespace) && value.chars().all(is_plain)
    };
    let prepares = |command: &&&str| PREPARE.contains(&first(command).as_str()) || is_assignment(command);
    let ends_at_failures = failures == Failures::End || commands.iter().any(|command| sets_errexit(command));
    let others: Vec<&str> = commands.iter().skip_while(prepares).copied().collect();
    match others.split_last() {
        None => false,
        // Even then the shell goes past a failure on the left of `&&`.
        Some((_, before)) if ends_at_failures => before.iter().any(|command| command.contains("&&")),
        Some((_, before)) => !before.is_empty(),
    }
}

/// `set -e`, `set -eu`, `set -o errexit`
fn sets_errexit(command: &str) -> bool {
    let options = command.strip_prefix("set ").unwrap_or_default();
    options.contains("errexit") || options.split_whitespace().any(|word| has_flag(word, 'e'))
}

/// `-eux` has the flag `e`.
fn has_flag(word: &str, flag: char) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(flag)
}

/// A line that ends in `&&`, `||` or `|` goes on in the next.
fn joined(plain: &str) -> String {
    let mut joined = String::with_capacity(plain.len());
    for line in plain.lines() {
        joined.push_str(line.trim_end());
        joined.push(if joined.ends_with("&&") || joined.ends_with('|') { ' ' } else { '\n' });
    }
    joined
}

/// Whether the command gives a script to a shell, and what that does with failures.
fn script_in(plain: &str) -> Option<Failures> {
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.first() == Some(&"eval") {
        return Some(Failures::Passed);
    }
    let is_shell = |word: &&str| SHELLS.contains(&word.rsplit('/').next().unwrap_or_default());
    let options = words.iter().position(is_shell).map(|at| &words[at + 1..])?;
    let options = options.iter().take_while(|word| word.starts_with('-'));
    let options: Vec<&str> = options.copied().collect();
    options.iter().any(|word| has_flag(word, 'c')).then(|| {
        let ends = options.iter().any(|word| has_flag(word, 'e'));
        if ends { Failures::End } else { Failures::Passed }
    })
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
                if open == '`' || (open == '"' && (inner.contains("$(") || inner.contains('`'))) {
                    plain.push(SUBSTITUTION);
                }
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
                plain.push(SUBSTITUTION);
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
            ("npm test | tail -5", Some(Hidden::Pipe)),
            ("npm test 2>&1|grep -c pass", Some(Hidden::Pipe)),
            ("npm test |& cat", Some(Hidden::Pipe)),
            ("set -o pipefail; npm test | tail -5", None),
            ("npm test >| log", None),
            ("pytest -k 'a|b'", None),
            ("grep -E \"a|b\" log", None),
            ("grep -E a\\|b log", None),
            ("test \"$(ls | wc -l)\" = 3", None),
            ("test $(ls | (cat; cat) | wc -l) = 3", None),
            ("npm test || true", Some(Hidden::Success)),
            ("npm test; exit 0", Some(Hidden::Success)),
            ("npm test\n:\n", Some(Hidden::Success)),
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
            "cd app; npm test; cd ..",
            "npm test > log; rc=$?",
            "out=$(npm test 2>&1); echo \"$out\"",
            "out=\"$(npm test)\"; echo \"$out\"",
            "set -e; npm test && echo ok; echo done",
            "npm test || { exit 0; }",
            "npm test || (exit 0)",
            "npm test || { echo red; exit; }",
            "bash -x -c 'npm test; echo done'",
            "bash --login -c 'npm test; echo done'",
            "bash -ec 'npm test && echo ok; echo done'",
        ] {
            assert_eq!(hidden(command), Some(Hidden::OtherCommands), "{command}");
        }
        assert_eq!(hidden("sh -c 'pytest; true'"), Some(Hidden::Success));
        for command in [
            "npm ci && npm test",
            "export CI=1; CI=1 npm test",
            "A=1; cd app; npm test",
            "set -e; npm ci; npm test",
            "set -eu\nnpm ci\nnpm test\n",
            "# all of them\nnpm test",
            "npm test || exit 1",
            "npm test || exit $?",
            "make test > log 2>&1 || { cat log; exit 1; }",
            "npm ci &&\nnpm test",
            "npm ci \\\n  && npm test",
            "bash -ec 'npm ci; npm test'",
            "set -e; npm ci; npm run build && npm test",
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
