//! Constructs that a reviewer would stop at, found line by line in what is new. It runs offline and knows a few dozen of them by
//! heart; whoever wants more names a linter of their own as a hook. A line that says `harvest: allow` is passed over.

/// What to look for, in which files, and why.
struct Rule {
    /// Endings of paths; empty: everywhere.
    endings: &'static [&'static str],
    /// All of these must occur.
    holds: &'static [&'static str],
    /// And none of these.
    unless: &'static [&'static str],
    why: &'static str,
}

const PYTHON: &[&str] = &[".py"];
const SCRIPT: &[&str] = &[".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte"];
const SHELL: &[&str] = &[".sh", ".bash", "Dockerfile", ".yml", ".yaml", "Makefile"];
const WORKFLOW: &[&str] = &[".yml", ".yaml"];
const PASSED_OVER: &str = "harvest: allow";

const fn rule(endings: &'static [&'static str], holds: &'static [&'static str], why: &'static str) -> Rule {
    Rule { endings, holds, unless: &[], why }
}

const RULES: &[Rule] = &[
    Rule {
        endings: PYTHON,
        holds: &["eval("],
        unless: &["literal_eval(", ".eval("],
        why: "eval runs whatever it is given",
    },
    rule(PYTHON, &["shell=True"], "the shell interprets the arguments; pass a list"),
    rule(PYTHON, &["os.system("], "the shell interprets the arguments; use subprocess with a list"),
    rule(PYTHON, &["pickle.load"], "unpickling can run code contained in the data"),
    rule(PYTHON, &["marshal.load"], "unmarshalling trusts the data"),
    Rule {
        endings: PYTHON,
        holds: &["yaml.load("],
        unless: &["SafeLoader"],
        why: "yaml.load creates arbitrary objects; use safe_load",
    },
    rule(PYTHON, &["verify=False"], "certificates are not checked"),
    rule(PYTHON, &["tempfile.mktemp("], "someone else can create the file first; use mkstemp"),
    rule(PYTHON, &["execute(f\""], "values in SQL text; pass them as parameters"),
    rule(PYTHON, &["execute(f'"], "values in SQL text; pass them as parameters"),
    rule(PYTHON, &["app.run(", "debug=True"], "the debugger runs code from anyone who can reach it"),
    rule(PYTHON, &["ssl._create_unverified_context"], "certificates are not checked"),
    Rule { endings: SCRIPT, holds: &["eval("], unless: &[".eval("], why: "eval runs whatever it is given" },
    rule(SCRIPT, &["new Function("], "code is built from text"),
    rule(SCRIPT, &[".innerHTML ="], "text is inserted as HTML; use textContent"),
    rule(SCRIPT, &["dangerouslySetInnerHTML"], "text is inserted as HTML"),
    rule(SCRIPT, &["document.write("], "text is inserted as HTML"),
    rule(SCRIPT, &["v-html="], "text is inserted as HTML"),
    rule(SCRIPT, &["exec(`"], "values in a shell command; use execFile with a list"),
    rule(SCRIPT, &["rejectUnauthorized: false"], "certificates are not checked"),
    rule(&[], &["NODE_TLS_REJECT_UNAUTHORIZED"], "certificates are not checked"),
    rule(&[".go"], &["InsecureSkipVerify: true"], "certificates are not checked"),
    rule(&[".go"], &["exec.Command(\"sh\", \"-c\""], "the shell interprets the arguments; pass them one by one"),
    rule(&[".rs"], &["danger_accept_invalid_certs(true)"], "certificates are not checked"),
    rule(
        &[".java", ".kt"],
        &["Runtime.getRuntime().exec("],
        "a command is built from text; use ProcessBuilder with a list",
    ),
    rule(&[".java", ".kt"], &["new ObjectInputStream("], "deserialization can run code contained in the data"),
    rule(&[".rb"], &["Marshal.load"], "deserialization can run code contained in the data"),
    Rule {
        endings: &[".rb"],
        holds: &["YAML.load("],
        unless: &["safe"],
        why: "YAML.load creates arbitrary objects; use safe_load",
    },
    rule(&[".php"], &["unserialize($_"], "deserialization can run code contained in the data"),
    rule(&[".php"], &["eval("], "eval runs whatever it is given"),
    rule(&[".c", ".cc", ".cpp", ".h"], &["gets("], "the buffer is unbounded; use fgets"),
    rule(SHELL, &["curl", "| sh"], "a script from the network runs without review"),
    rule(SHELL, &["curl", "| bash"], "a script from the network runs without review"),
    rule(SHELL, &["wget", "| sh"], "a script from the network runs without review"),
    rule(SHELL, &["chmod 777"], "anyone can write there"),
    rule(SHELL, &["curl", " --insecure"], "certificates are not checked"),
    rule(SHELL, &["curl -k"], "certificates are not checked"),
    rule(WORKFLOW, &["pull_request_target"], "strangers' code may run with the repository's secrets"),
    rule(WORKFLOW, &["run:", "${{ github.event."], "a stranger's text becomes part of a shell script"),
];

/// Why a line that is new in a file is dangerous.
pub(crate) fn findings(path: &str, line: &str) -> impl Iterator<Item = &'static str> {
    // A shell script's `gets(` is not C's; a comment that mentions something does nothing.
    let code = line.trim_start();
    let is_comment = ["#", "//", "*", "<!--"].iter().any(|sign| code.starts_with(sign));
    let looked_at = !is_comment && !line.contains(PASSED_OVER);
    RULES.iter().filter(move |rule| looked_at && rule.fits(path, line)).map(|rule| rule.why)
}

impl Rule {
    fn fits(&self, path: &str, line: &str) -> bool {
        (self.endings.is_empty() || self.endings.iter().any(|ending| path.ends_with(ending)))
            && self.holds.iter().all(|text| line.contains(text))
            && !self.unless.iter().any(|text| line.contains(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dangerous_is_named_and_what_only_looks_so_is_not() {
        let found = |path: &str, line: &str| findings(path, line).collect::<Vec<_>>();
        assert_eq!(found("a/run.py", "    subprocess.run(cmd, shell=True)").len(), 1);
        assert_eq!(found("web/a.tsx", "node.innerHTML = text"), ["text is inserted as HTML; use textContent"]);
        assert_eq!(found("ci.yml", "  - run: curl https://a.test/x | sh").len(), 1);
        for (path, line) in [
            ("a.py", "value = ast.literal_eval(text)"),
            ("a.py", "# never use eval(text)"),
            ("a.md", "subprocess.run(cmd, shell=True)"),
            ("a.py", "data = yaml.load(text, Loader=yaml.SafeLoader)"),
            ("a.py", "os.system(\"clear\")  # harvest: allow"),
            ("a.rs", "let eval = 1;"),
        ] {
            assert!(found(path, line).is_empty(), "{path}: {line}");
        }
    }
}
