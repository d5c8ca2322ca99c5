//! Why a test command could not run, where the cause can be told from what it printed.

use std::fmt::Write as _;

/// A known cause, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) text: String,
    /// The cause is that the command itself, or a part of it, is not there: no test had a chance to run.
    pub(super) cannot_run: bool,
    /// It is about a program or file of the command, not about a package that the work may have begun to need.
    pub(super) of_command: bool,
}

/// What the way out depends on.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// The command that installs the dependencies which the repository declares.
    pub(super) prepare: String,
    /// That command has failed before, so it alone is no way out.
    pub(super) build_failed: bool,
    /// Sandboxes have the programs of the machine that Harvest runs on, not those of an image.
    pub(super) on_host: bool,
    /// The files of the repository at the base.
    pub(super) files: Vec<String>,
    /// Those that the result does not have any more.
    pub(super) deleted: Vec<String>,
}

/// What is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Missing<'o> {
    /// A package that the repository declares in one of these files, or should.
    Package {
        name: &'o str,
        declared_in: &'static str,
    },
    Program(&'o str),
    /// A file of the repository, or the program that its first line names.
    File(&'o str),
}

/// What a shell reports for a program that is not there, or is none.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

const PYTHON: &str = "requirements.txt or pyproject.toml";
const NODE: &str = "package.json";
const PHP: &str = "composer.json";
const ANOTHER: &str = "name another test command (--test, or `test` in .harvest.toml)";
/// Programs that are packages of Python.
const PYTHON_TOOLS: &[&str] =
    &["pytest", "py.test", "tox", "nox", "coverage", "ruff", "mypy", "flake8", "black", "pylint", "behave"];
/// Programs that no package of Node.js brings along.
const TOOLCHAINS: &[&str] = &[
    "node", "npm", "npx", "pnpm", "yarn", "bun", "deno", "make", "cmake", "cargo", "go", "python", "python3", "ruby",
    "bundle", "php", "composer", "java", "mvn", "gradle", "dotnet", "git", "bash", "docker",
];

pub(super) fn find(exit_code: i32, output: &str, surroundings: &Surroundings) -> Option<Hint> {
    if exit_code == 0 {
        return None;
    }
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let by_node = lines.iter().any(|line| is_line_of_npm(line));
    let cannot_run = |text: String| Some(Hint { text, cannot_run: true, of_command: true });
    for line in lines.iter().rev() {
        if let Some((registry, package)) = refused_by_registry(line) {
            let of = package.map(|name| format!(" for `{name}`")).unwrap_or_default();
            let prepare = &surroundings.prepare;
            return Some(Hint {
                text: format!(
                    "the test command asks the {registry} registry{of}, which refuses or cannot be reached: `{prepare}` \
                     installs what the repository declares before tests run; `harvest doctor --reach` tries the registries"
                ),
                cannot_run: true,
                of_command: false,
            });
        }
        if let Some(missing) = missing_program(line, by_node).or_else(|| missing_package(line)) {
            if let Some(hint) = surroundings.own_module(&missing) {
                return Some(hint);
            }
            let of_command = !matches!(missing, Missing::Package { .. });
            return Some(Hint { text: surroundings.way_to(&missing), cannot_run: true, of_command });
        }
        if line.contains("Missing script: \"") || line.contains("No rule to make target '") {
            return cannot_run(format!("the repository has no such command; {ANOTHER}"));
        }
        if line.contains("no matching package named") || line.contains("failed to download from") {
            let prepare = &surroundings.prepare;
            return cannot_run(format!(
                "a package is missing, and tests run without a network: `{prepare}` installs what the repository declares"
            ));
        }
    }
    if exit_code == NOT_EXECUTABLE {
        return cannot_run(
            "the command is not an executable file: `chmod +x` it and commit that, or run it by its interpreter"
                .to_owned(),
        );
    }
    if exit_code == NOT_FOUND {
        return cannot_run(format!("a program that the test command runs is not in the sandbox; {ANOTHER}"));
    }
    const NO_NETWORK: [&str; 5] = [
        "Temporary failure in name resolution",
        "Could not resolve host",
        "Name or service not known",
        "EAI_AGAIN",
        "getaddrinfo ENOTFOUND",
    ];
    let asks = lines.iter().any(|line| NO_NETWORK.iter().any(|words| line.contains(words)));
    let text = "tests run without a network; everything they need has to be in the repository or its dependencies";
    asks.then(|| Hint { text: text.to_owned(), cannot_run: false, of_command: false })
}

impl Surroundings {
    /// What to say where the package that is missing is a module of the repository itself.
    fn own_module(&self, missing: &Missing<'_>) -> Option<Hint> {
        let Missing::Package { name, declared_in } = missing else { return None };
        let is_own = |path: &&String| match *declared_in {
            PYTHON => is_python_module(path, name),
            NODE => is_node_package(path, name),
            _ => false,
        };
        let own: Vec<&String> = self.files.iter().filter(is_own).collect();
        let first = own.first()?;
        let is_deleted = |path: &&&String| self.deleted.contains(**path);
        // Where other files of the module are left, the work is to blame only for the one that is named.
        let is_named = |path: &&&String| *declared_in == PYTHON && is_file_of_python_module(path, name);
        let deleted = own.iter().filter(is_deleted).find(is_named);
        if let Some(path) = deleted.or_else(|| own.iter().all(|path| is_deleted(&path)).then_some(first)) {
            let text = format!("`{name}` is a module of the repository, and the result deletes or moves it ({path})");
            return Some(Hint { text, cannot_run: false, of_command: false });
        }
        let search_path =
            if *declared_in == PYTHON { ", set its search path, as in `PYTHONPATH=src pytest`" } else { "" };
        let install = match self.build_failed {
            true => format!(
                "the last build of the repository failed; `harvest repo list` says why, and `{}` builds it again",
                self.prepare
            ),
            false => format!("`{}` installs what the repository declares", self.prepare),
        };
        let text = format!(
            "`{name}` is a module of the repository ({first}) that the test command does not find: run the command in the \
             folder that has it{search_path}, or install it: {install}"
        );
        Some(Hint { text, cannot_run: true, of_command: false })
    }

    fn way_to(&self, missing: &Missing<'_>) -> String {
        let mut text = String::new();
        let _ = match missing {
            Missing::Package { name, .. } if self.build_failed => write!(
                text,
                "`{name}` is not installed in the sandbox: the last build of the repository failed; `harvest repo list` says \
                 why, and `{}` builds it again",
                self.prepare
            ),
            Missing::Package { name, declared_in } => write!(
                text,
                "`{name}` is not installed in the sandbox: declare its package in {declared_in} if it is not there; then `{}` \
                 installs it",
                self.prepare
            ),
            Missing::Program(name) if self.on_host => write!(
                text,
                "`{name}` is not installed on the machine that Harvest runs on, whose programs sandboxes use: install it \
                 there, or {ANOTHER}"
            ),
            Missing::Program(name) => {
                write!(text, "`{name}` is not in the image of the sandboxes: add it there, or {ANOTHER}")
            }
            Missing::File(name) => write!(
                text,
                "there is no `{name}` in the repository, or the program that its first line names is missing; {ANOTHER}"
            ),
        };
        text
    }
}

/// Whether a path belongs to the Python module of this name, at the top of the repository or in a folder that can hold modules.
fn is_python_module(path: &str, name: &str) -> bool {
    let module = name.split('.').next().unwrap_or(name);
    let is_at = |rest: &str| match rest.split_once('/') {
        Some((folder, file)) => folder == module && file.ends_with(".py"),
        None => rest.strip_suffix(".py") == Some(module),
    };
    is_at(path) || below_folder(path).is_some_and(is_at)
}

/// Whether a path is the very file that Python takes for a module: of `a.b`, `a/b.py` or `a/b/__init__.py`.
fn is_file_of_python_module(path: &str, name: &str) -> bool {
    let module = name.replace('.', "/");
    let is_at = |rest: &str| {
        let file = rest.strip_prefix(module.as_str());
        matches!(file, Some(".py" | "/__init__.py"))
    };
    is_at(path) || below_folder(path).is_some_and(is_at)
}

/// The path below its first folder, where the modules in that folder can be those that the tests import.
fn below_folder(path: &str) -> Option<&str> {
    path.split_once('/').filter(|(folder, _)| !is_aside(folder)).map(|(_, rest)| rest)
}

/// Folders whose contents are not imported under their own names: tests, examples, and copies of other projects.
fn is_aside(folder: &str) -> bool {
    super::guard::is_test_folder(folder) || matches!(folder, "examples" | "docs" | "scripts" | "vendor")
}

/// Whether a path is the manifest of a package of this name in the repository.
fn is_node_package(path: &str, name: &str) -> bool {
    let own = match name.strip_prefix('@') {
        Some(scoped) => scoped.split('/').nth(1).unwrap_or_default(),
        None => name.split('/').next().unwrap_or_default(),
    };
    let Some(folder) = path.strip_suffix("/package.json") else { return false };
    let (above, last) = folder.rsplit_once('/').unwrap_or(("", folder));
    last == own && !above.split('/').any(|part| part == "node_modules" || is_aside(part))
}

/// A line that a package manager of Node.js prints around a script, such as `> shop@1.0.0 test`.
fn is_line_of_npm(line: &str) -> bool {
    let names_package = line.strip_prefix("> ").is_some_and(|rest| {
        rest.split_once('@').is_some_and(|(_, rest)| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    });
    names_package || ["npm error", "npm ERR!", "ELIFECYCLE", "yarn run v"].iter().any(|start| line.starts_with(start))
}

/// `sh: 1: pytest: not found`, `bash: line 1: pytest: command not found`, `env: 'pytest': No such file or directory`,
/// `make: pytest: No such file or directory`, `exec: "gcc": executable file not found in $PATH`.
fn missing_program(line: &str, by_node: bool) -> Option<Missing<'_>> {
    const NO_FILE: &str = ": No such file or directory";
    let rest = line.strip_suffix(": command not found").or_else(|| line.strip_suffix(": not found"));
    let name = if let Some(rest) = rest {
        rest.rsplit(": ").next()?
    } else if let Some((before, _)) = line.split_once(": executable file not found in") {
        before.rsplit("exec: ").next()?
    } else {
        let (program, rest) = line.strip_suffix(NO_FILE)?.split_once(": ")?;
        (program == "env" || program == "make" || program.starts_with("make[")).then_some(rest)?
    };
    let name = name.trim_matches(['\'', '‘', '’', '"']);
    if !is_name(name) {
        return None;
    }
    let of_package = |declared_in| Some(Missing::Package { name, declared_in });
    match name.split_once('/') {
        Some(("vendor", _)) => of_package(PHP),
        Some(("node_modules", _)) => of_package(NODE),
        Some((".venv" | "venv", _)) => of_package(PYTHON),
        Some(_) if !name.starts_with('/') => Some(Missing::File(name)),
        _ if PYTHON_TOOLS.contains(&name) => of_package(PYTHON),
        _ if by_node && !TOOLCHAINS.contains(&name) => of_package(NODE),
        _ => Some(Missing::Program(name)),
    }
}

/// `/usr/bin/python3: No module named pytest`, `ModuleNotFoundError: No module named 'requests'`,
/// `Error: Cannot find module 'mocha'`, `Cannot find package 'vitest'`, `Failed to resolve import "vue" from "src/a.test.ts"`,
/// `error: no such command: `nextest``.
fn missing_package(line: &str) -> Option<Missing<'_>> {
    let starts = [
        ("No module named ", Some(PYTHON)),
        ("Cannot find module ", Some(NODE)),
        ("Cannot find package ", Some(NODE)),
        ("Failed to resolve import ", Some(NODE)),
        ("error: no such command: ", None),
    ];
    let (at, start, declared_in) =
        starts.iter().find_map(|(start, declared_in)| line.find(start).map(|at| (at, start, declared_in)))?;
    let rest = line[at + start.len()..].trim_start_matches(['\'', '"', '`']);
    let name = rest.split(['\'', '"', '`', ' ', ';']).next()?;
    // A file of the repository that cannot be found is no missing package. Bundlers have short names for folders: `@/cart`.
    if !is_name(name) || name.starts_with(['.', '/']) || name.starts_with("@/") {
        return None;
    }
    Some(match declared_in {
        Some(declared_in) => Missing::Package { name, declared_in },
        None => Missing::Program(name),
    })
}

/// `npm error 502 Bad Gateway - GET http://127.0.0.1:4321/registry/npm/vitest`, and the same of other package managers: the
/// registry that the gateway could not ask, and the package.
fn refused_by_registry(line: &str) -> Option<(&str, Option<&str>)> {
    const REFUSED: [&str; 6] = ["502", "503", "403", "507", "ECONNREFUSED", "Bad Gateway"];
    let (before, address) = line.split_once("http://127.0.0.1:")?;
    let (_, path) = address.split_once("/registry/")?;
    let end = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | ',' | ')' | ':');
    let (path, after) = path.split_at(path.find(end).unwrap_or(path.len()));
    if !REFUSED.iter().any(|words| before.contains(words) || after.contains(words)) {
        return None;
    }
    let (registry, rest) = path.split_once('/').unwrap_or((path, ""));
    let package = match registry {
        "pypi" => rest.strip_prefix("simple/")?.split('/').next(),
        "npm" => Some(rest.split("/-/").next().unwrap_or(rest)),
        _ => None,
    };
    Some((registry, package.filter(|name| is_name(name))))
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '@' | '+');
    !name.is_empty() && name.len() <= 100 && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREPARE: &str = "harvest repo add . --name shop && harvest repo build shop";

    fn found(exit_code: i32, output: &str) -> Option<Hint> {
        find(exit_code, output, &surroundings())
    }

    fn surroundings() -> Surroundings {
        let (files, deleted) = (Vec::new(), Vec::new());
        Surroundings { prepare: PREPARE.to_owned(), build_failed: false, on_host: true, files, deleted }
    }

    #[test]
    fn a_module_of_the_repository_is_not_installed_but_put_back_or_found() {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let files = owned(&["src/shop/cart.py", "tools.py", "packages/till/package.json", "tests/requests/a.py"]);
        let told = |output: &str, deleted: &[&str]| {
            let here = Surroundings { files: files.clone(), deleted: owned(deleted), ..surroundings() };
            find(1, output, &here).map(|hint| (hint.text, hint.cannot_run)).unwrap()
        };
        for (output, path) in [
            ("ModuleNotFoundError: No module named 'shop.cart'", "src/shop/cart.py"),
            ("ModuleNotFoundError: No module named 'tools'", "tools.py"),
            ("Error: Cannot find module '@scope/till'", "packages/till/package.json"),
        ] {
            let (deleted, cannot_run) = told(output, &[path]);
            assert!(
                deleted
                    .ends_with(&format!("is a module of the repository, and the result deletes or moves it ({path})"))
            );
            assert!(!cannot_run, "the work is to blame");
            let (kept, cannot_run) = told(output, &[]);
            assert!(
                kept.contains(&format!("is a module of the repository ({path}) that the test command does not find"))
            );
            assert!(cannot_run && !kept.contains("requirements.txt") && !kept.contains("package.json; then"), "{kept}");
        }
        for other in ["ModuleNotFoundError: No module named 'requests'", "Error: Cannot find module 'mocha'"] {
            assert!(told(other, &[]).0.contains("is not installed in the sandbox"), "{other}");
        }
    }

    /// What is said about a missing module of a repository with these files, and whether the command could not run.
    fn told_of(output: &str, files: &[&str], deleted: &[&str]) -> (String, bool) {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let here = Surroundings { files: owned(files), deleted: owned(deleted), ..surroundings() };
        find(1, output, &here).map(|hint| (hint.text, hint.cannot_run)).unwrap()
    }

    #[test]
    fn a_result_is_to_blame_for_a_module_only_if_it_deletes_its_file_or_all_of_it() {
        let files = ["src/shop/__init__.py", "src/shop/cart.py", "src/shop/till/__init__.py", "src/shop/till/tape.py"];
        for (module, deleted, is_to_blame) in [
            ("shop", &["src/shop/cart.py"][..], false),
            ("shop.till", &["src/shop/cart.py"], false),
            ("shop.cart", &["src/shop/till/tape.py"], false),
            ("shop.cart", &["src/shop/cart.py"], true),
            ("shop.till", &["src/shop/till/__init__.py"], true),
            ("shop", &["src/shop/__init__.py"], true),
            ("shop.old", &files, true),
        ] {
            let (text, cannot_run) = told_of(&format!("No module named '{module}'"), &files, deleted);
            assert_eq!(text.contains("the result deletes or moves it"), is_to_blame, "{module}: {text}");
            assert_eq!(cannot_run, !is_to_blame, "{module}: {text}");
        }
        let packages = ["a/till/package.json", "b/till/package.json"];
        assert!(told_of("Cannot find module 'till'", &packages, &packages[..1]).1);
        assert!(!told_of("Cannot find module 'till'", &packages, &packages).1);
    }

    #[test]
    fn a_module_of_the_repository_that_is_not_found_can_be_installed() {
        let (python, _) = told_of("No module named 'shop'", &["src/shop/__init__.py"], &[]);
        let advice =
            format!("`PYTHONPATH=src pytest`, or install it: `{PREPARE}` installs what the repository declares");
        assert!(python.ends_with(&advice), "{python}");
        let (node, _) = told_of("Cannot find module 'till'", &["packages/till/package.json"], &[]);
        assert!(node.contains(&format!("in the folder that has it, or install it: `{PREPARE}` installs")), "{node}");
        let files = vec!["tools.py".to_owned()];
        let failed = Surroundings { build_failed: true, files, ..surroundings() };
        let hint = find(1, "No module named 'tools'", &failed).map(|hint| hint.text).unwrap_or_default();
        assert!(hint.contains("or install it: the last build of the repository failed"), "{hint}");
    }

    #[test]
    fn a_name_in_a_folder_of_examples_or_copies_is_not_one_of_the_repository() {
        for folder in ["examples", "docs", "scripts", "vendor", "tests"] {
            let (python, _) = told_of("No module named 'requests'", &[&format!("{folder}/requests/a.py")], &[]);
            let (node, _) = told_of("Cannot find module 'till'", &[&format!("{folder}/till/package.json")], &[]);
            for text in [python, node] {
                assert!(text.contains("is not installed in the sandbox"), "{folder}: {text}");
            }
        }
        let (own, _) = told_of("No module named 'scripts.build'", &["scripts/build.py"], &[]);
        assert!(own.contains("is a module of the repository (scripts/build.py)"), "{own}");
    }

    #[test]
    fn a_known_cause_comes_with_the_way_out() {
        let npm = "> shop@1.0.0 test\n> vitest run\n\nsh: 1: vitest: not found";
        let make = "make: shellcheck: No such file or directory\nmake: *** [Makefile:2: test] Error 127";
        let package = |name: &str, file: &str| {
            format!(
                "`{name}` is not installed in the sandbox: declare its package in {file} if it is not there; then `{PREPARE}` \
                 installs it"
            )
        };
        let program = |name: &str| {
            format!(
                "`{name}` is not installed on the machine that Harvest runs on, whose programs sandboxes use: install it \
                 there, or name another test command (--test, or `test` in .harvest.toml)"
            )
        };
        let cases = [
            (127, "sh: 1: pytest: not found", package("pytest", PYTHON)),
            (1, "/usr/bin/python3: No module named pytest", package("pytest", PYTHON)),
            (127, "bash: line 1: vendor/bin/phpunit: command not found", package("vendor/bin/phpunit", PHP)),
            (127, npm, package("vitest", NODE)),
            (1, "Error: Cannot find module '@scope/x'\nRequire stack:", package("@scope/x", NODE)),
            (1, "Cannot find package 'left-pad' imported from /workspace/test/a.test.js", package("left-pad", NODE)),
            (
                1,
                "Error: Failed to resolve import \"vue\" from \"src/a.test.ts\". Does the file exist?",
                package("vue", NODE),
            ),
            (127, "sh: 1: go: not found", program("go")),
            (127, "> shop@1.0.0 test\nsh: 1: make: not found", program("make")),
            (2, make, program("shellcheck")),
            (2, "make[1]: gcc: No such file or directory\nmake: *** Error 2", program("gcc")),
            (1, "x_test.go:3: exec: \"gcc\": executable file not found in $PATH", program("gcc")),
            (101, "error: no such command: `nextest`", program("nextest")),
        ];
        for (exit_code, output, expected) in cases {
            let found = found(exit_code, output).map(|hint| (hint.text, hint.cannot_run));
            assert_eq!(found, Some((expected, true)), "{output}");
        }
        for (exit_code, output, expected) in [
            (1, "npm error Missing script: \"test\"", "the repository has no such command"),
            (2, "make: *** No rule to make target 'check'.  Stop.", "the repository has no such command"),
            (127, "sh: 1: ./run.sh: not found", "there is no `./run.sh` in the repository"),
            (126, "sh: 1: ./run: Permission denied", "is not an executable file"),
            (6, "curl: (6) Could not resolve host: example.com", "tests run without a network"),
        ] {
            let hint = found(exit_code, output).map(|hint| hint.text).unwrap_or_default();
            assert!(hint.contains(expected), "{output}: {hint}");
        }
        let failed = Surroundings { build_failed: true, ..surroundings() };
        let hint = find(127, "sh: 1: pytest: not found", &failed).map(|hint| hint.text).unwrap_or_default();
        assert!(hint.contains("the last build of the repository failed; `harvest repo list` says why"), "{hint}");
        let image = Surroundings { on_host: false, ..surroundings() };
        let hint = find(127, "sh: 1: go: not found", &image).map(|hint| hint.text).unwrap_or_default();
        assert!(hint.starts_with("`go` is not in the image of the sandboxes"), "{hint}");
    }

    #[test]
    fn a_registry_that_refuses_is_named_with_the_package() {
        let npm = "npm error code E502\nnpm error 502 Bad Gateway - GET http://127.0.0.1:4321/registry/npm/vitest\nnpm error A \
                   complete log of this run can be found in: /home/x.log";
        let cases = [
            (npm, "the npm registry for `vitest`"),
            (
                "npm error 403 403 Forbidden - GET http://127.0.0.1:4321/registry/npm/left-pad",
                "npm registry for `left-pad`",
            ),
            (
                "ERR_PNPM_FETCH_502  GET http://127.0.0.1:4321/registry/npm/pear: Bad Gateway - 502",
                "npm registry for `pear`",
            ),
            (
                "requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: http://127.0.0.1:4321/registry/pypi/simple/pear/",
                "pypi registry for `pear`",
            ),
            (
                "go: x/y@v1.0.0: reading http://127.0.0.1:4321/registry/go/x/y/@v/v1.0.0.mod: 502 Bad Gateway",
                "go registry,",
            ),
        ];
        for (output, expected) in cases {
            let hint = found(1, output).unwrap_or_else(|| panic!("{output}"));
            assert!(hint.cannot_run && hint.text.contains(expected), "{}", hint.text);
            assert!(hint.text.contains(PREPARE) && hint.text.contains("harvest doctor --reach"), "{}", hint.text);
        }
        for other in [
            "GET http://127.0.0.1:4321/registry/npm/vitest 404",
            "expected 502 from http://127.0.0.1:4321/orders",
            "GET http://127.0.0.1:4321/registry/npm/vitest",
        ] {
            assert_eq!(found(1, other), None, "{other}");
        }
    }

    #[test]
    fn a_failed_assertion_has_no_hint() {
        assert_eq!(found(1, "assert 1 == 2\n1 failed in 0.01s"), None);
        assert_eq!(found(1, "Error: Cannot find module './missing'"), None);
        assert_eq!(found(1, "Error: Failed to resolve import \"@/cart\" from \"src/a.test.ts\"."), None);
        assert_eq!(found(1, "cat: notes: No such file or directory"), None);
        assert_eq!(found(0, "sh: 1: x: not found"), None);
    }
}
