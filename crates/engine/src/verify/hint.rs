//! Why a test command could not run, where the cause can be told from what it printed.

const PREPARE: &str = "`harvest repo add .` prepares the repository's dependencies";

/// A known cause, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) text: String,
    /// The cause is that the command itself, or a part of it, is not there: no test had a chance to run.
    pub(super) cannot_run: bool,
}

/// What a shell reports for a program that is not there, or is none.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

pub(super) fn find(exit_code: i32, output: &str) -> Option<Hint> {
    if exit_code == 0 {
        return None;
    }
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let cannot_run = |text: String| Some(Hint { text, cannot_run: true });
    for line in lines.iter().rev() {
        if let Some(name) = missing_program(line) {
            return cannot_run(format!(
                "`{name}` is not installed in the sandbox: {PREPARE}, or name another command with --test"
            ));
        }
        if let Some(name) = missing_module(line) {
            return cannot_run(format!("{name} is not installed in the sandbox: {PREPARE}"));
        }
        if line.contains("Missing script: \"test\"") || line.contains("No rule to make target 'test'") {
            return cannot_run(
                "the repository has no such command; name the one that runs its tests with --test".to_owned(),
            );
        }
        if line.contains("no matching package named") || line.contains("failed to download from") {
            return cannot_run(format!("a package is missing, and tests run without a network: {PREPARE}"));
        }
    }
    if exit_code == NOT_EXECUTABLE {
        return cannot_run(
            "the command is not an executable file: `chmod +x` it and commit that, or run it by its interpreter"
                .to_owned(),
        );
    }
    if exit_code == NOT_FOUND {
        return cannot_run(format!("the command is not installed in the sandbox: {PREPARE}"));
    }
    const NO_NETWORK: [&str; 5] = [
        "Temporary failure in name resolution",
        "Could not resolve host",
        "Name or service not known",
        "EAI_AGAIN",
        "getaddrinfo ENOTFOUND",
    ];
    let asks = lines.iter().any(|line| NO_NETWORK.iter().any(|words| line.contains(words)));
    let text = "tests run without a network; what they need has to be in the repository or among its dependencies";
    asks.then(|| Hint { text: text.to_owned(), cannot_run: false })
}

/// `sh: 1: pytest: not found`, `bash: line 1: pytest: command not found`, `env: 'pytest': No such file or directory`.
fn missing_program(line: &str) -> Option<&str> {
    let rest = line.strip_suffix(": command not found").or_else(|| line.strip_suffix(": not found"));
    let name = match rest {
        Some(rest) => rest.rsplit(": ").next()?,
        None => {
            line.strip_prefix("env: ")?.strip_suffix(": No such file or directory")?.trim_matches(['\'', '‘', '’', '"'])
        }
    };
    is_name(name).then_some(name)
}

/// `/usr/bin/python3: No module named pytest`, `ModuleNotFoundError: No module named 'requests'`,
/// `Error: Cannot find module 'mocha'`, `Cannot find package 'vitest'`, `error: no such command: `nextest``.
fn missing_module(line: &str) -> Option<String> {
    let starts = ["No module named ", "Cannot find module ", "Cannot find package ", "error: no such command: "];
    let (at, start) = starts.iter().find_map(|start| line.find(start).map(|at| (at, start)))?;
    let rest = line[at + start.len()..].trim_start_matches(['\'', '"', '`']);
    let name = rest.split(['\'', '"', '`', ' ', ';']).next()?;
    // A file of the repository that cannot be found is no missing package.
    (is_name(name) && !name.starts_with(['.', '/'])).then(|| format!("`{name}`"))
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '@' | '+');
    !name.is_empty() && name.len() <= 100 && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_cause_comes_with_the_way_out() {
        let cases = [
            (127, "sh: 1: pytest: not found", "`pytest` is not installed"),
            (127, "bash: line 1: vendor/bin/phpunit: command not found", "`vendor/bin/phpunit` is not installed"),
            (1, "/usr/bin/python3: No module named pytest", "`pytest` is not installed"),
            (1, "Error: Cannot find module '@scope/x'\nRequire stack:", "`@scope/x` is not installed"),
            (101, "error: no such command: `nextest`", "`nextest` is not installed"),
            (1, "npm error Missing script: \"test\"", "the repository has no such command"),
            (126, "sh: 1: ./run: Permission denied", "is not an executable file"),
            (6, "curl: (6) Could not resolve host: example.com", "tests run without a network"),
        ];
        for (exit_code, output, expected) in cases {
            let hint = find(exit_code, output).map(|hint| hint.text).unwrap_or_default();
            assert!(hint.contains(expected), "{output}: {hint}");
        }
    }

    #[test]
    fn a_failed_assertion_has_no_hint() {
        assert_eq!(find(1, "assert 1 == 2\n1 failed in 0.01s"), None);
        assert_eq!(find(1, "Error: Cannot find module './missing'"), None);
        assert_eq!(find(0, "sh: 1: x: not found"), None);
    }
}
