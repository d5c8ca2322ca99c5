//! Finds the files that a test command is made of, at the base commit.
//!
//! The base's versions of these files run in the verification, whatever the agent made of them:
//!
//! - A file that the command names, unless it is a program of the product: code below a source folder such as `src` whose name
//!   does not say that it checks anything. In `python3 src/app.py --selftest` the work itself is tested.
//! - The file that the command's tool reads, such as the `Makefile`, `justfile` or `package.json`, and the ones it includes.
//! - A script that those files run for this command, and a script that such a script names: everything in a folder for
//!   scripts (`scripts`, `ci`, `tools` and their like); elsewhere what has a name that says so (`check.py`, `run-tests.js`), and
//!   the shell script that a recipe runs as its runner (`run.sh`, `tests/run.sh`, `all.sh`).
//!
//! A file that such a script loads as code (`. tests/lib.sh`, `import helper`) and that is neither a script nor a program of the
//! product is a helper: its edited version runs, and the change is reported. A helper is in a folder for tests, or its name says
//! that it helps (`lib.sh`, `helpers.py`, `harness.js`).
//!
//! Everything else stays as the agent left it. Any other file in a folder for tests is a test, and is reported as one. Of a Makefile, a
//! justfile and a `package.json` only the targets that the command asks for are followed. The walk is bounded.

mod loads;
mod text;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use harvest_workspace::{Error, Mirror};

use self::text::{asked_for, first_words, resolve, words};
use super::guard::is_test;

const MOST_FILES: usize = 100;
const MOST_FILE_BYTES: usize = 256 * 1024;
const MOST_DEPTH: usize = 8;
const MOST_FOLDERS: usize = 16;
const MOST_WORDS: usize = 20_000;
/// Words with a star, of one text, and the files that one of them matches.
const MOST_PATTERNS: usize = 100;
const MOST_MATCHES: usize = 50;

const SHELLS: &[&str] = &["sh", "bash", "dash", "ksh", "zsh", "ash", "source", "."];
const SHELL_EXTENSIONS: &[&str] = &["sh", "bash", "ksh", "zsh", "bats"];
/// Extensions of programs that an interpreter runs as they are.
const CODE_EXTENSIONS: &[&str] = &[
    "py", "js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx", "rb", "pl", "php", "lua", "tcl", "awk", "r", "R",
    "ps1", "go", "rs", "java", "kt", "groovy", "ex", "exs", "erl", "scm", "el", "jl", "nu", "fish",
];
const SCRIPT_FOLDERS: &[&str] = &[
    "scripts",
    "script",
    "ci",
    ".ci",
    ".github",
    ".circleci",
    ".gitlab",
    ".buildkite",
    "tools",
    "tool",
    "hack",
    "dev",
    "devel",
    "devtools",
    "build",
    "build-aux",
    "maint",
    "make",
    "mk",
    "qa",
    "checks",
];
const SOURCE_FOLDERS: &[&str] =
    &["src", "lib", "libs", "app", "apps", "source", "sources", "bin", "cmd", "pkg", "internal", "crates"];
/// Options and commands that name the folder to work in.
const ENTERING: &[&str] = &["cd", "pushd", "-C", "--directory", "--prefix", "--dir", "--cwd"];

/// The files that a test command is made of.
#[derive(Debug, Default)]
pub(super) struct CommandFiles {
    /// Files of the base.
    of_base: BTreeSet<String>,
    /// Paths where the command's tools look for their files, whether there is one at the base or not.
    looked_for: BTreeSet<String>,
    /// Paths of helpers that scripts of the command load, whether there is one at the base or not.
    helpers: BTreeSet<String>,
}

impl CommandFiles {
    /// Whether the base's version of this file is used.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.of_base.contains(path)
    }

    /// Whether a script of the command loads this file, and loads it as the agent left it.
    pub(super) fn loads(&self, path: &str) -> bool {
        self.helpers.contains(path) && !self.of_base.contains(path)
    }

    /// Whether a tool of the command would read a file that is new at this path.
    pub(super) fn would_read(&self, path: &str) -> bool {
        self.looked_for.contains(path)
    }
}

pub(super) async fn find(mirror: &Mirror, base: &str, command: &str) -> Result<CommandFiles, Error> {
    let mut walk = Walk::new(mirror.files(base).await?, command);
    while let Some(named) = walk.next() {
        let content = mirror.file(base, &named.path).await?.unwrap_or_default();
        walk.read(&named, &String::from_utf8_lossy(&content));
    }
    Ok(walk.found)
}

/// The kind of text that names a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Command,
    /// A file that a tool reads its commands from.
    Recipe,
    Script,
}

/// A file that is named by another text.
#[derive(Debug, Clone)]
struct Named {
    path: String,
    by: By,
    /// It is run by a shell or as a program, not only mentioned.
    is_run: bool,
    /// It is the file that a tool looks for, or one that such a file includes.
    is_recipe: bool,
    /// A script of the command loads it as code.
    is_loaded: bool,
    /// Of a tool's file, the words of the text that names it: targets to make among them.
    asked: Arc<BTreeSet<String>>,
    /// Folders that the text's paths may start from.
    folders: Arc<Vec<String>>,
    depth: usize,
}

/// How a file was named so far.
#[derive(Debug, Default)]
struct Known {
    named: BTreeSet<(By, bool, bool, bool)>,
    asked: BTreeSet<String>,
}

#[derive(Debug)]
struct Walk {
    files: BTreeSet<String>,
    found: CommandFiles,
    known: BTreeMap<String, Known>,
    queue: VecDeque<Named>,
    read: usize,
}

impl Walk {
    fn new(files: Vec<String>, command: &str) -> Self {
        let files = files.into_iter().collect();
        let (found, known, queue) = (CommandFiles::default(), BTreeMap::new(), VecDeque::new());
        let mut walk = Self { files, found, known, queue, read: 0 };
        walk.scan(command, By::Command, &[String::new()], 0);
        walk
    }

    /// The next file to read.
    fn next(&mut self) -> Option<Named> {
        if self.read == MOST_FILES {
            return None;
        }
        self.read += 1;
        self.queue.pop_front()
    }

    fn read(&mut self, named: &Named, content: &str) {
        let content = text::start_of(content, MOST_FILE_BYTES);
        let is_shell = is_shell(&named.path, content);
        let is_part = named.is_recipe || is_part(named, is_shell, content);
        if is_part {
            self.found.of_base.insert(named.path.clone());
        }
        // The runner of a folder of tests is a test, and leads on to scripts.
        let is_runner = place_of(&named.path) == Place::Tests
            && (is_shell || (named.by != By::Script && is_one_of(CODE_EXTENSIONS, extension(&named.path))));
        if !(is_part || is_runner || named.is_loaded) || named.depth == MOST_DEPTH {
            return;
        }
        let own = folder_of(&named.path).to_owned();
        if !named.is_recipe {
            self.load(named, is_shell, content, &own);
        }
        if !(is_part || is_shell) {
            return;
        }
        let (by, folders) = if named.is_recipe {
            (By::Recipe, vec![own])
        } else {
            let mut folders = named.folders.to_vec();
            folders.extend([own, String::new()].into_iter().filter(|folder| !named.folders.contains(folder)));
            (By::Script, folders)
        };
        let followed = asked_for(&named.path, content, &named.asked);
        self.scan(&followed, by, &folders, named.depth + 1);
    }

    /// Notes the helpers that a script loads, and queues those that exist.
    fn load(&mut self, named: &Named, is_shell: bool, content: &str, own: &str) {
        let folders = [own.to_owned(), String::new()];
        for path in loads::loaded_by(&named.path, is_shell, content, &folders) {
            if is_helper(&path) {
                self.found.helpers.insert(path.clone());
            }
            if is_helper(&path) || place_of(&path) == Place::Scripts {
                let (by, folders) = (By::Script, named.folders.clone());
                let asked = Arc::default();
                let depth = named.depth + 1;
                self.queue(Named { path, by, is_run: false, is_recipe: false, is_loaded: true, asked, folders, depth });
            }
        }
    }

    /// Queues what a text names.
    fn scan(&mut self, text: &str, by: By, folders: &[String], depth: usize) {
        let mut all = words(text);
        all.truncate(MOST_WORDS);
        let folders = Arc::new(entered(&all, folders));
        let run: BTreeSet<String> = first_words(text)
            .into_iter()
            .chain(
                all.windows(2)
                    .enumerate()
                    .filter(|(_, pair)| is_one_of(SHELLS, &pair[0]))
                    .filter_map(|(at, _)| all[at + 1..].iter().find(|word| !word.starts_with('-')).cloned()),
            )
            .collect();
        let asked: Arc<BTreeSet<String>> = Arc::new(all.into_iter().collect());
        let mut patterns = 0;
        for word in asked.iter() {
            let is_run = run.contains(word);
            // In a longer text a tool's name is also an ordinary word.
            if by == By::Command || is_run {
                for folder in folders.iter() {
                    for name in implied_by(word) {
                        let path = text::join(folder, name);
                        self.found.looked_for.insert(path.clone());
                        self.queue(Named {
                            path,
                            by,
                            is_run,
                            is_recipe: true,
                            is_loaded: false,
                            asked: asked.clone(),
                            folders: folders.clone(),
                            depth,
                        });
                    }
                }
            }
            patterns += usize::from(word.contains('*'));
            if word.contains('*') && patterns > MOST_PATTERNS {
                continue;
            }
            for path in resolve(word, &folders, &self.files, MOST_MATCHES) {
                let is_recipe = is_included(&path) && (by != By::Script || is_run);
                self.queue(Named {
                    path,
                    by,
                    is_run,
                    is_recipe,
                    is_loaded: false,
                    asked: asked.clone(),
                    folders: folders.clone(),
                    depth,
                });
            }
        }
    }

    fn queue(&mut self, mut named: Named) {
        if !self.files.contains(&named.path) {
            return;
        }
        // The same file may be asked for more, and may be run where it was only mentioned before.
        let known = self.known.entry(named.path.clone()).or_default();
        let is_new = known.named.insert((named.by, named.is_run, named.is_recipe, named.is_loaded));
        let before = known.asked.len();
        if named.is_recipe {
            known.asked.extend(named.asked.iter().cloned());
        }
        if (is_new || known.asked.len() > before) && self.queue.len() < MOST_FILES {
            named.asked = Arc::new(known.asked.clone());
            self.queue.push_back(named);
        }
    }
}

/// The folders that paths of a text may start from: the ones it begins in, and those it goes into from there.
fn entered(words: &[String], folders: &[String]) -> Vec<String> {
    let mut all = folders.to_vec();
    for pair in words.windows(2).filter(|pair| is_one_of(ENTERING, &pair[0])) {
        let below = text::plain(&pair[1]);
        for folder in folders {
            let path = text::join(folder, below);
            if all.len() < MOST_FOLDERS && !all.contains(&path) {
                all.push(path);
            }
        }
    }
    all
}

/// Whether a named file is part of the command, see the rule at the top.
fn is_part(named: &Named, is_shell: bool, content: &str) -> bool {
    let path = named.path.as_str();
    let place = place_of(path);
    let is_code = is_shell || is_one_of(CODE_EXTENSIONS, extension(path)) || content.starts_with("#!");
    let says_so = says_check(path);
    match (named.by, place) {
        (By::Command, Place::Source) => is_shell || !is_code || says_so,
        (By::Command, _) => true,
        (_, Place::Scripts) => is_code || named.is_run,
        (by, Place::Tests) => is_shell && by == By::Recipe && named.is_run && says_run(path),
        (_, Place::Source) => is_shell && says_so,
        (by, Place::Elsewhere) if is_shell => says_so || (by == By::Recipe && named.is_run && says_run(path)),
        (_, Place::Elsewhere) => is_code && says_so && !is_test(path),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Scripts,
    Source,
    Tests,
    Elsewhere,
}

/// The outermost folder with a meaning decides.
fn place_of(path: &str) -> Place {
    let known = folder_of(path).split('/').find_map(|folder| {
        if is_one_of(SCRIPT_FOLDERS, folder) {
            Some(Place::Scripts)
        } else if is_one_of(SOURCE_FOLDERS, folder) {
            Some(Place::Source)
        } else if super::guard::is_test_folder(folder) {
            Some(Place::Tests)
        } else {
            None
        }
    });
    known.unwrap_or(Place::Elsewhere)
}

/// Whether a file's name says that it checks something.
fn says_check(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    ["test", "check", "verify", "validate", "lint"].iter().any(|word| stem.contains(word))
        || stem.split(['-', '_']).any(|word| word == "ci")
}

/// Whether a file's name says that it runs the tests.
fn says_run(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    stem.starts_with("run") || matches!(stem, "all" | "main" | "test" | "tests" | "check")
}

/// Whether a file that a script loads serves the tests. One with the name of a test is a test.
fn is_helper(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    match place_of(path) {
        Place::Tests => !is_test(name),
        Place::Scripts => false,
        Place::Source => says_check(path),
        Place::Elsewhere => says_check(path) && !is_test(name) || says_help(name),
    }
}

/// Whether a file's name says that it helps scripts. Shell scripts have more such names than programs.
fn says_help(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let helps = ["helper", "helpers", "harness", "assert", "asserts", "assertions", "fixture", "fixtures"];
    let shell_helps = ["lib", "common", "functions", "util", "utils", "setup", "env"];
    let is_shell = is_one_of(SHELL_EXTENSIONS, extension(name));
    stem.split(['-', '_']).any(|word| is_one_of(&helps, word) || (is_shell && is_one_of(&shell_helps, word)))
}

fn is_shell(path: &str, content: &str) -> bool {
    let shebang = content.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    let by_shebang = shebang.split(['/', ' ']).any(|word| is_one_of(SHELLS, word));
    by_shebang || is_one_of(SHELL_EXTENSIONS, extension(path))
}

/// Whether a file has recipes of the tool that includes it.
fn is_included(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    is_one_of(&["mk", "make", "just"], extension(path))
        || ["make", "just", "npm", "rake", "tox", "nox", "task"].iter().any(|tool| implied_by(tool).contains(&name))
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn is_one_of(list: &[&str], word: &str) -> bool {
    list.contains(&word)
}

/// The files that a tool reads its commands from.
fn implied_by(tool: &str) -> &'static [&'static str] {
    match tool.rsplit('/').next().unwrap_or_default() {
        "make" | "gmake" | "MAKE" => &["Makefile", "makefile", "GNUmakefile"],
        "just" => &["justfile", "Justfile", ".justfile"],
        "task" | "go-task" => &["Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"],
        "tox" => &["tox.ini"],
        "nox" => &["noxfile.py"],
        "invoke" | "inv" => &["tasks.py"],
        "rake" => &["Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"],
        "gradlew" | "gradle" => &["build.gradle", "build.gradle.kts"],
        "npm" | "pnpm" | "yarn" | "bun" => &["package.json"],
        "composer" => &["composer.json"],
        "deno" => &["deno.json", "deno.jsonc"],
        _ => &[],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn files(command: &str, repository: &[(&str, &str)]) -> Vec<String> {
        command_files(command, repository).of_base.into_iter().collect()
    }

    /// The files of a command in a repository of these files.
    pub(in crate::verify) fn command_files(command: &str, repository: &[(&str, &str)]) -> CommandFiles {
        let content: BTreeMap<&str, &str> = repository.iter().copied().collect();
        let mut walk = Walk::new(content.keys().map(|path| (*path).to_owned()).collect(), command);
        while let Some(named) = walk.next() {
            walk.read(&named, content[named.path.as_str()]);
        }
        walk.found
    }

    #[test]
    fn a_script_that_a_recipe_runs_is_part_of_the_command_and_so_is_what_it_names() {
        let repository = [
            ("Makefile", "test: lint\n\t@sh scripts/check.sh\nlint:\n\t./style\n"),
            ("scripts/check.sh", "set -e\n. \"$(dirname \"$0\")/common.sh\"\npython3 tools/count.py\nsh src/app.sh\n"),
            ("scripts/common.sh", "exec $ROOT/scripts/deep/last \"$@\"\n"),
            ("scripts/deep/last", "#!/usr/bin/env bash\n"),
            ("tools/count.py", "print(1)\n"),
            ("src/app.sh", "echo product\n"),
            ("style", "#!/bin/sh\n"),
            ("scripts/unused.sh", "exit 0\n"),
        ];
        assert_eq!(
            files("make test", &repository),
            ["Makefile", "scripts/check.sh", "scripts/common.sh", "scripts/deep/last", "tools/count.py"]
        );
    }

    #[test]
    fn the_product_and_the_tests_stay_as_the_agent_left_them() {
        let repository = [
            (
                "Makefile",
                "test:\n\tshellcheck tool.sh\n\tpython3 src/app.py --selftest\n\tsh tests/run.sh\n\tnode app.js\n",
            ),
            ("tool.sh", "echo product\n"),
            ("src/app.py", "print(1)\n"),
            ("tests/run.sh", "sh ci/prepare.sh\nsh tool.sh\n"),
            ("ci/prepare.sh", "true\n"),
            ("app.js", ""),
        ];
        assert_eq!(
            files("make test", &repository),
            ["Makefile", "ci/prepare.sh", "tests/run.sh"],
            "the runner is no test"
        );
        assert_eq!(files("python3 src/app.py --selftest", &repository), [""; 0]);
        assert_eq!(files("sh tests/run.sh", &repository), ["ci/prepare.sh", "tests/run.sh"], "the command names it");
    }

    #[test]
    fn helpers_that_a_runner_loads_are_known_and_the_product_is_not_among_them() {
        let helpers = |command: &str, repository: &[(&str, &str)]| -> Vec<String> {
            let found = command_files(command, repository);
            let all = found.helpers.iter().filter(|path| found.loads(path)).cloned();
            all.filter(|path| repository.iter().any(|(known, _)| known == path)).collect()
        };
        let shell = [
            ("run.sh", ". ./lib.sh\n. src/app.sh\n. ./product.sh\nsh tests/all.sh\n"),
            ("lib.sh", ". \"$(dirname \"$0\")/assert.sh\"\n"),
            ("assert.sh", ""),
            ("src/app.sh", ""),
            ("product.sh", ""),
            ("tests/all.sh", "source tests/more.sh\n. tests/test_one.sh\n"),
            ("tests/more.sh", ""),
            ("tests/test_one.sh", ""),
        ];
        assert_eq!(helpers("sh run.sh", &shell), ["assert.sh", "lib.sh", "tests/more.sh"]);
        let python = [
            ("Makefile", "test:\n\tpython3 tests/run.py\n"),
            ("tests/run.py", "import app, test_a\nfrom helper import check\n"),
            ("tests/helper.py", "from . import deep\n"),
            ("tests/deep.py", ""),
            ("tests/test_a.py", ""),
            ("app.py", ""),
        ];
        for command in ["make test", "python3 tests/run.py"] {
            assert_eq!(helpers(command, &python), ["tests/deep.py", "tests/helper.py"], "{command}");
        }
        let script = [("tools/check.js", "require('./count')\n"), ("tools/count.js", "")];
        assert_eq!(helpers("node tools/check.js", &script), [""; 0]);
        assert_eq!(files("node tools/check.js", &script), ["tools/check.js", "tools/count.js"], "a script is restored");
        let new = command_files("sh tests/run.sh", &[("tests/run.sh", "[ -f tests/env.sh ] && . tests/env.sh\n")]);
        assert!(new.loads("tests/env.sh"), "one that is not there yet");
    }

    #[test]
    fn only_the_targets_that_the_command_asks_for_are_followed() {
        let makefile = "CHECK := scripts/check.sh\nRELEASE = scripts/release.sh\ninclude ci/more.mk\n\
            all: build\n.PHONY: test release\nrelease:\n\tsh $(RELEASE)\ntest: \\\n  unit\nunit: VERBOSE=1\nunit:\n\t\
            sh $(CHECK) \\\n\t  --all\n\t$(MAKE) -C sub inner\nbuild:\n\tsh scripts/build.sh\n";
        let repository = [
            ("Makefile", makefile),
            ("ci/more.mk", "unit:\n\tsh scripts/more.sh\n"),
            ("sub/Makefile", "first:\n\tsh x.sh\ninner:\n\tsh check.sh\n"),
            ("sub/check.sh", ""),
            ("sub/x.sh", ""),
            ("scripts/check.sh", ""),
            ("scripts/release.sh", ""),
            ("scripts/build.sh", ""),
            ("scripts/more.sh", ""),
        ];
        let found = files("make test", &repository);
        assert_eq!(found, ["Makefile", "ci/more.mk", "scripts/check.sh", "sub/Makefile", "sub/check.sh"]);
        assert_eq!(files("make", &repository), ["Makefile", "ci/more.mk", "scripts/build.sh"], "the default target");
    }

    #[test]
    fn the_scripts_of_package_json_are_followed_by_name() {
        let package = r#"{"main": "scripts/main.js", "scripts": {"test": "npm run lint && run-s check:* && node run-tests.js",
            "pretest": "node scripts/before.js", "lint": "./scripts/lint", "check:a": "bash ci/a", "release": "sh ci/release.sh"}}"#;
        let repository = [
            ("web/package.json", package),
            ("web/scripts/before.js", ""),
            ("web/scripts/lint", "#!/usr/bin/env node\n"),
            ("web/scripts/main.js", ""),
            ("web/run-tests.js", ""),
            ("web/ci/a", "true\n"),
            ("web/ci/release.sh", ""),
        ];
        assert_eq!(
            files("cd web && npm test", &repository),
            ["web/ci/a", "web/package.json", "web/run-tests.js", "web/scripts/before.js", "web/scripts/lint"]
        );
        assert_eq!(files("npm --prefix=web run release", &repository), ["web/ci/release.sh", "web/package.json"]);
    }

    #[test]
    fn other_tools_have_files_too() {
        for (command, name, text) in [
            ("just test", "justfile", "build:\n    sh ci/build.sh\ntest: lint\nlint:\n    sh ci/check.sh {{x}}\n"),
            ("tox -e py", "tox.ini", "[testenv]\ncommands = sh ci/check.sh\n"),
            ("rake", "Rakefile", "task :default do\n  sh 'ci/check.sh'\nend\n"),
            ("nox", "noxfile.py", "session.run(\"bash\", \"ci/check.sh\")\n"),
            ("task test", "Taskfile.yml", "tasks:\n  test:\n    cmds:\n      - sh ci/check.sh\n"),
            ("sh run.sh", "run.sh", "for part in ci/che*.sh; do sh \"$part\"; done\n"),
        ] {
            let repository = [(name, text), ("ci/check.sh", ""), ("ci/build.sh", "")];
            let mut expected = [name, "ci/check.sh"];
            expected.sort_unstable();
            assert_eq!(files(command, &repository), expected, "{command}");
        }
    }

    #[test]
    fn files_that_name_each_other_end_the_walk() {
        let chain: String = (0..20_000).map(|number| format!("a{number}: a{}\n", number + 1)).collect();
        assert_eq!(files("make a0", &[("Makefile", &chain)]), ["Makefile"], "however long it is");
        let many: Vec<String> = (0..300).map(|number| format!("ci/{number}.sh")).collect();
        let text = many.join("\n");
        let repository: Vec<(&str, &str)> = many.iter().map(|path| (path.as_str(), text.as_str())).collect();
        assert!(files("sh ci/0.sh", &repository).len() <= MOST_FILES);
        let circle = [("a.sh", "sh b-check.sh\n# sh c-check.sh\n"), ("b-check.sh", "sh a.sh\n"), ("c-check.sh", "")];
        assert_eq!(files("sh a.sh", &circle), ["a.sh", "b-check.sh"], "comments name nothing");
    }
}
