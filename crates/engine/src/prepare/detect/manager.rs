//! Which package managers a repository uses, by its lockfiles, and how each installs exactly what they say.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Files, Tool, file_of};

/// How deep below the top projects are looked for, and how many are taken.
const MAX_DEPTH: usize = 3;
const MAX_PROJECTS: usize = 24;
/// Folders whose manifests are someone else's, or examples.
const FOREIGN: &[&str] =
    &["node_modules", "vendor", "third_party", "testdata", "fixtures", "__fixtures__", "target", "dist", "build"];
const MORE_REQUIREMENTS: &[&str] = &[
    "requirements-dev.txt",
    "requirements_dev.txt",
    "dev-requirements.txt",
    "requirements-test.txt",
    "requirements/test.txt",
    "requirements/tests.txt",
];

/// uv's lockfile has the addresses of files in it, which may be those of a host that is not to be reached. The same
/// versions with the same hashes are then taken from the index that is, and the project itself is installed as by `sync`.
const UV: &str = "uv sync --frozen || { uv venv --allow-existing .venv && uv export --frozen --no-emit-project --quiet | \
uv pip install --python .venv/bin/python --require-hashes -r - && { ! grep -q '^\\[build-system\\]' pyproject.toml || \
uv pip install --python .venv/bin/python --no-deps --editable .; }; }";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manager {
    Npm,
    Pnpm,
    YarnClassic,
    YarnBerry,
    Bun,
    Uv,
    Poetry,
    Pipenv,
    Pip,
    Cargo,
    Go,
    Maven,
    Gradle,
    Bundler,
    Composer,
}

/// One thing to install: a folder, and the file that says what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Relative to the top; empty for the top itself.
    pub folder: String,
    pub manager: Manager,
    /// The lockfile, or the manifest where there is none.
    pub file: String,
    pub locked: bool,
    pub install: String,
    pub build: Option<String>,
}

impl Project {
    /// The files that say what is installed, whether or not each is there.
    pub(in crate::prepare) fn inputs(&self) -> impl Iterator<Item = String> {
        let more = if self.manager == Manager::Pip { MORE_REQUIREMENTS } else { &[] };
        std::iter::once(self.file.clone()).chain(more.iter().map(|name| file_of(&self.folder, name)))
    }
}

impl Manager {
    /// What must be there for it to run.
    pub fn tools(self) -> &'static [Tool] {
        match self {
            Self::Npm => &[Tool::Node, Tool::Npm],
            Self::Pnpm => &[Tool::Node, Tool::Pnpm],
            Self::YarnClassic | Self::YarnBerry => &[Tool::Node, Tool::Yarn],
            Self::Bun => &[Tool::Bun],
            Self::Uv => &[Tool::Python, Tool::Uv],
            Self::Poetry => &[Tool::Python, Tool::Poetry],
            Self::Pipenv => &[Tool::Python, Tool::Pipenv],
            Self::Pip => &[Tool::Python],
            Self::Cargo => &[Tool::Rust],
            Self::Go => &[Tool::Go],
            Self::Maven => &[Tool::Java, Tool::Maven],
            Self::Gradle => &[Tool::Java, Tool::Gradle],
            Self::Bundler => &[Tool::Ruby, Tool::Bundler],
            Self::Composer => &[Tool::Php, Tool::Composer],
        }
    }
}

/// Kinds of projects; a folder has at most one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    JavaScript,
    Python,
    Rust,
    Go,
    Java,
    Ruby,
    Php,
}

const KINDS: &[Kind] = &[Kind::JavaScript, Kind::Python, Kind::Rust, Kind::Go, Kind::Java, Kind::Ruby, Kind::Php];

/// The top first. A folder below one that is installed already counts only with a lockfile of its own.
pub(super) fn detect(files: &Files<'_>) -> Vec<Project> {
    let mut projects: Vec<Project> = Vec::new();
    let mut covered: Vec<(Kind, String)> = Vec::new();
    for folder in folders(files) {
        for kind in KINDS {
            let Some(project) = project(files, &folder, *kind) else { continue };
            let below = |top: &str| top.is_empty() || folder.starts_with(&format!("{top}/"));
            let part_of_another = covered.iter().any(|(known, top)| known == kind && below(top));
            // Modules and subprojects are installed from the top, whatever files they have.
            let alone = project.locked && !matches!(kind, Kind::Java);
            if part_of_another && !alone {
                continue;
            }
            covered.push((*kind, folder.clone()));
            projects.push(project);
            if projects.len() == MAX_PROJECTS {
                return projects;
            }
        }
    }
    projects
}

/// Every folder that has files, by depth and name.
fn folders(files: &Files<'_>) -> Vec<String> {
    let mut found = BTreeSet::from([(0, String::new())]);
    for path in files.paths {
        let Some((folder, _)) = path.rsplit_once('/') else { continue };
        let parts: Vec<&str> = folder.split('/').collect();
        let foreign = parts.iter().any(|part| part.starts_with('.') || FOREIGN.contains(part));
        if parts.len() <= MAX_DEPTH && !foreign {
            found.insert((parts.len(), folder.to_owned()));
        }
    }
    found.into_iter().map(|(_, folder)| folder).collect()
}

fn project(files: &Files<'_>, folder: &str, kind: Kind) -> Option<Project> {
    let has = |name: &str| files.paths.contains(&file_of(folder, name));
    let text = |name: &str| files.text(&file_of(folder, name));
    let first = |names: &[&'static str]| names.iter().copied().find(|name| has(name));
    let make = |manager, file: &str, locked, install: &str, build: Option<String>| {
        let file = file_of(folder, file);
        Some(Project { folder: folder.to_owned(), manager, file, locked, install: install.to_owned(), build })
    };
    match kind {
        Kind::JavaScript => {
            let package = files.json(&file_of(folder, "package.json"))?;
            let script = package.get("scripts").and_then(|scripts| scripts.get("build")).is_some();
            let build = |command: &str| script.then(|| command.to_owned());
            let named = package.get("packageManager").and_then(|named| named.as_str()).unwrap_or_default();
            let named = named.split('@').next().unwrap_or_default();
            let locks: &[(&str, &[&'static str])] = &[
                ("pnpm", &["pnpm-lock.yaml"]),
                ("yarn", &["yarn.lock"]),
                ("bun", &["bun.lock", "bun.lockb"]),
                ("npm", &["package-lock.json", "npm-shrinkwrap.json"]),
            ];
            let present = |(name, names): &(&'static str, &[&'static str])| first(names).map(|lock| (*name, lock));
            let found: Vec<(&str, &str)> = locks.iter().filter_map(present).collect();
            let lock = found.iter().find(|(name, _)| *name == named).or_else(|| found.first()).copied();
            let manager = lock.map_or(if named.is_empty() { "npm" } else { named }, |(name, _)| name);
            let file = lock.map_or("package.json", |(_, lock)| lock);
            let locked = lock.is_some();
            match manager {
                "pnpm" => {
                    let install = if locked { "pnpm install --frozen-lockfile" } else { "pnpm install" };
                    make(Manager::Pnpm, file, locked, install, build("pnpm run build"))
                }
                "yarn" => {
                    let new = package.get("packageManager").and_then(|named| named.as_str());
                    let new = new.and_then(|named| named.strip_prefix("yarn@")).is_some_and(|v| !v.starts_with("1."));
                    let berry =
                        new || has(".yarnrc.yml") || text("yarn.lock").is_some_and(|lock| lock.contains("__metadata:"));
                    let (manager, install) = match (berry, locked) {
                        (true, true) => (Manager::YarnBerry, "yarn install --immutable"),
                        (true, false) => (Manager::YarnBerry, "yarn install"),
                        (false, true) => (Manager::YarnClassic, "yarn install --frozen-lockfile --non-interactive"),
                        (false, false) => (Manager::YarnClassic, "yarn install --pure-lockfile --non-interactive"),
                    };
                    make(manager, file, locked, install, build("yarn run build"))
                }
                "bun" => {
                    let install = if locked { "bun install --frozen-lockfile" } else { "bun install" };
                    make(Manager::Bun, file, locked, install, build("bun run build"))
                }
                _ => {
                    let install = if locked {
                        "npm ci --no-audit --no-fund"
                    } else {
                        "npm install --no-package-lock --no-audit --no-fund"
                    };
                    make(Manager::Npm, file, locked, install, build("npm run build"))
                }
            }
        }
        Kind::Python => {
            if has("uv.lock") {
                return make(Manager::Uv, "uv.lock", true, UV, None);
            }
            if has("poetry.lock") {
                let install = "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction";
                return make(Manager::Poetry, "poetry.lock", true, install, None);
            }
            if has("Pipfile.lock") {
                let install = "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev";
                return make(Manager::Pipenv, "Pipfile.lock", true, install, None);
            }
            const VENV: &str =
                "\"$PYTHON\" -m venv .venv && .venv/bin/python -m pip install --disable-pip-version-check";
            let more: String =
                MORE_REQUIREMENTS.iter().filter(|name| has(name)).map(|name| format!(" -r {name}")).collect();
            if has("requirements.txt") {
                return make(
                    Manager::Pip,
                    "requirements.txt",
                    true,
                    &format!("{VENV} -r requirements.txt{more}"),
                    None,
                );
            }
            let pyproject = files.toml(&file_of(folder, "pyproject.toml"));
            // Many have the file for the settings of tools alone.
            if pyproject.as_ref().is_some_and(|file| file.contains_key("project") || file.contains_key("build-system"))
            {
                let optional = pyproject.as_ref().and_then(|file| {
                    file.get("project")?.get("optional-dependencies")?.as_table().map(|table| {
                        let for_work = ["dev", "test", "tests"];
                        for_work.into_iter().filter(|name| table.contains_key(*name)).collect::<Vec<_>>().join(",")
                    })
                });
                let what = match optional {
                    Some(extras) if !extras.is_empty() => format!("'.[{extras}]'"),
                    _ => ".".to_owned(),
                };
                return make(Manager::Pip, "pyproject.toml", false, &format!("{VENV} -e {what}{more}"), None);
            }
            if has("setup.py") {
                return make(Manager::Pip, "setup.py", false, &format!("{VENV} -e .{more}"), None);
            }
            None
        }
        Kind::Rust => {
            let locked = has("Cargo.lock");
            let (file, flag) = if locked { ("Cargo.lock", " --locked") } else { ("Cargo.toml", "") };
            let build = format!("cargo build --all-targets{flag}");
            has("Cargo.toml").then(|| make(Manager::Cargo, file, locked, &format!("cargo fetch{flag}"), Some(build)))?
        }
        Kind::Go => {
            let file = if has("go.sum") { "go.sum" } else { "go.mod" };
            let build = Some("go build ./...".to_owned());
            has("go.mod").then(|| make(Manager::Go, file, true, "go mod download", build))?
        }
        Kind::Java => {
            if has("pom.xml") {
                let mvn = "m=./mvnw; [ -x \"$m\" ] || m=mvn; \"$m\" -B -q";
                let build = Some(format!("{mvn} -DskipTests package"));
                return make(Manager::Maven, "pom.xml", true, &format!("{mvn} dependency:go-offline"), build);
            }
            let file = first(&[
                "gradle.lockfile",
                "build.gradle.kts",
                "build.gradle",
                "settings.gradle.kts",
                "settings.gradle",
            ])?;
            let gradle = "g=./gradlew; [ -x \"$g\" ] || g=gradle; \"$g\" --no-daemon --console=plain -q";
            let build = Some(format!("{gradle} assemble"));
            make(Manager::Gradle, file, file == "gradle.lockfile", &format!("{gradle} dependencies"), build)
        }
        Kind::Ruby => {
            let locked = has("Gemfile.lock");
            let frozen = if locked { " && bundle config set --local frozen true" } else { "" };
            let install = format!("bundle config set --local path vendor/bundle{frozen} && bundle install");
            let file = if locked { "Gemfile.lock" } else { "Gemfile" };
            has("Gemfile").then(|| make(Manager::Bundler, file, locked, &install, None))?
        }
        Kind::Php => {
            let locked = has("composer.lock");
            let file = if locked { "composer.lock" } else { "composer.json" };
            let install = "composer install --no-interaction --no-progress --prefer-dist";
            has("composer.json").then(|| make(Manager::Composer, file, locked, install, None))?
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::detect::testing::files;

    /// Files with their texts; the lockfiles or manifests that count, with their commands.
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]);

    #[test]
    fn managers_by_lockfile() {
        const PACKAGE: (&str, &str) = ("package.json", "{}");
        let table: &[Row<'_>] = &[
            (&[("README.md", "")], &[]),
            (&[PACKAGE, ("package-lock.json", "")], &[("package-lock.json", "npm ci --no-audit --no-fund")]),
            (&[PACKAGE], &[("package.json", "npm install --no-package-lock --no-audit --no-fund")]),
            (&[PACKAGE, ("pnpm-lock.yaml", "")], &[("pnpm-lock.yaml", "pnpm install --frozen-lockfile")]),
            (&[PACKAGE, ("yarn.lock", "# v1")], &[("yarn.lock", "yarn install --frozen-lockfile --non-interactive")]),
            (&[PACKAGE, ("yarn.lock", "__metadata:\n")], &[("yarn.lock", "yarn install --immutable")]),
            (&[PACKAGE, ("yarn.lock", ""), (".yarnrc.yml", "")], &[("yarn.lock", "yarn install --immutable")]),
            (&[PACKAGE, ("bun.lock", "")], &[("bun.lock", "bun install --frozen-lockfile")]),
            // Two lockfiles: the manifest decides, if it says anything.
            (
                &[("package.json", r#"{"packageManager":"npm@10.0.0"}"#), ("package-lock.json", ""), ("yarn.lock", "")],
                &[("package-lock.json", "npm ci --no-audit --no-fund")],
            ),
            (
                &[PACKAGE, ("package-lock.json", ""), ("pnpm-lock.yaml", "")],
                &[("pnpm-lock.yaml", "pnpm install --frozen-lockfile")],
            ),
            // A lockfile without its manifest is nothing.
            (&[("package-lock.json", "")], &[]),
            (&[("pyproject.toml", "[project]\nname='x'"), ("uv.lock", "")], &[("uv.lock", UV)]),
            (
                &[("pyproject.toml", ""), ("poetry.lock", "")],
                &[("poetry.lock", "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction")],
            ),
            (
                &[("Pipfile", ""), ("Pipfile.lock", "{}")],
                &[("Pipfile.lock", "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev")],
            ),
            (
                &[("requirements.txt", "a"), ("requirements-dev.txt", "b")],
                &[(
                    "requirements.txt",
                    "\"$PYTHON\" -m venv .venv && .venv/bin/python -m pip install --disable-pip-version-check -r requirements.txt -r requirements-dev.txt",
                )],
            ),
            (
                &[(
                    "pyproject.toml",
                    "[project]\nname='x'\n[project.optional-dependencies]\ntest=['pytest']\ndocs=[]\n",
                )],
                &[(
                    "pyproject.toml",
                    "\"$PYTHON\" -m venv .venv && .venv/bin/python -m pip install --disable-pip-version-check -e '.[test]'",
                )],
            ),
            (&[("pyproject.toml", "[tool.ruff]\n")], &[]),
            (&[("Cargo.toml", ""), ("Cargo.lock", "")], &[("Cargo.lock", "cargo fetch --locked")]),
            (&[("Cargo.toml", "")], &[("Cargo.toml", "cargo fetch")]),
            (&[("go.mod", ""), ("go.sum", "")], &[("go.sum", "go mod download")]),
            (
                &[("pom.xml", ""), ("core/pom.xml", "")],
                &[("pom.xml", "m=./mvnw; [ -x \"$m\" ] || m=mvn; \"$m\" -B -q dependency:go-offline")],
            ),
            (
                &[("settings.gradle.kts", ""), ("app/build.gradle.kts", "")],
                &[(
                    "settings.gradle.kts",
                    "g=./gradlew; [ -x \"$g\" ] || g=gradle; \"$g\" --no-daemon --console=plain -q dependencies",
                )],
            ),
            (
                &[("Gemfile", ""), ("Gemfile.lock", "")],
                &[(
                    "Gemfile.lock",
                    "bundle config set --local path vendor/bundle && bundle config set --local frozen true && bundle install",
                )],
            ),
            (
                &[("composer.json", "{}"), ("composer.lock", "{}")],
                &[("composer.lock", "composer install --no-interaction --no-progress --prefer-dist")],
            ),
        ];
        for (given, expected) in table {
            let found = detect(&files(given));
            let found: Vec<_> = found.iter().map(|p| (p.file.as_str(), p.install.as_str())).collect();
            assert_eq!(found, *expected, "{given:?}");
        }
    }

    #[test]
    fn monorepos() {
        let found = detect(&files(&[
            ("package.json", r#"{"scripts":{"build":"tsc"}}"#),
            ("pnpm-lock.yaml", ""),
            // Part of the workspace: installed from the top.
            ("packages/a/package.json", "{}"),
            // On its own.
            ("tools/site/package.json", "{}"),
            ("tools/site/package-lock.json", ""),
            ("services/api/requirements.txt", ""),
            ("services/web/app/deep/er/requirements.txt", ""),
            ("crates/x/Cargo.toml", ""),
            ("vendor/y/go.mod", ""),
            ("test/fixtures/z/package.json", "{}"),
            ("test/fixtures/z/package-lock.json", "{}"),
            ("node_modules/q/package-lock.json", ""),
            (".github/package.json", "{}"),
        ]));
        let found: Vec<_> = found.iter().map(|p| (p.folder.as_str(), p.manager, p.build.as_deref())).collect();
        assert_eq!(
            found,
            [
                ("", Manager::Pnpm, Some("pnpm run build")),
                ("crates/x", Manager::Cargo, Some("cargo build --all-targets")),
                ("services/api", Manager::Pip, None),
                ("tools/site", Manager::Npm, None),
            ]
        );
    }
}
