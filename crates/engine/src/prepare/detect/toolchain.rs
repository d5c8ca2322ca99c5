//! Which versions of which tools a repository asks for, by the files people keep that in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Files;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    Node,
    Npm,
    Pnpm,
    Yarn,
    Bun,
    Python,
    Uv,
    Poetry,
    Pipenv,
    Rust,
    Go,
    Java,
    Maven,
    Gradle,
    Ruby,
    Bundler,
    Php,
    Composer,
}

impl Tool {
    /// The program that stands for it.
    pub fn program(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
            Self::Python => "python3",
            Self::Uv => "uv",
            Self::Poetry => "poetry",
            Self::Pipenv => "pipenv",
            Self::Rust => "rustc",
            Self::Go => "go",
            Self::Java => "java",
            Self::Maven => "mvn",
            Self::Gradle => "gradle",
            Self::Ruby => "ruby",
            Self::Bundler => "bundle",
            Self::Php => "php",
            Self::Composer => "composer",
        }
    }
}

/// A version that the repository asks for, and the file that says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub tool: Tool,
    pub version: String,
    pub from: String,
}

/// Of several files about one tool the most particular one counts.
pub(super) fn detect(files: &Files<'_>) -> Vec<Wanted> {
    let package = files.json("package.json");
    let mut wanted = Vec::new();
    let mut first = |tool: Tool, found: Vec<Option<(String, &str)>>| {
        if let Some((version, from)) = found.into_iter().flatten().find(|(version, _)| !version.is_empty()) {
            wanted.push(Wanted { tool, version, from: from.to_owned() });
        }
    };
    let line = |file: &'static str| Some((first_line(files.text(file)?)?, file));
    let listed = |tool: &str| Some((tool_versions(files.text(".tool-versions")?, tool)?, ".tool-versions"));
    let in_package =
        |path: &[&str]| Some((text_at(package.as_ref()?, path)?, "package.json")).filter(|(text, _)| text.len() < 100);
    let manager = |name: &str| {
        let named = text_at(package.as_ref()?, &["packageManager"])?;
        let (tool, version) = named.split_once('@')?;
        let version = version.split('+').next().unwrap_or_default();
        (tool == name).then(|| (version.to_owned(), "package.json"))
    };
    first(
        Tool::Node,
        vec![
            line(".nvmrc"),
            line(".node-version"),
            in_package(&["volta", "node"]),
            listed("nodejs").or_else(|| listed("node")),
            in_package(&["engines", "node"]),
        ],
    );
    for (tool, name) in [(Tool::Npm, "npm"), (Tool::Pnpm, "pnpm"), (Tool::Yarn, "yarn"), (Tool::Bun, "bun")] {
        first(tool, vec![manager(name), in_package(&["volta", name]), listed(name), in_package(&["engines", name])]);
    }
    let pyproject = files.toml("pyproject.toml");
    let in_pyproject = |path: &[&str]| Some((toml_at(pyproject.as_ref()?, path)?, "pyproject.toml"));
    let pipfile = files.toml("Pipfile");
    first(
        Tool::Python,
        vec![
            line(".python-version"),
            listed("python"),
            in_pyproject(&["project", "requires-python"]),
            in_pyproject(&["tool", "poetry", "dependencies", "python"]),
            pipfile.as_ref().and_then(|file| Some((toml_at(file, &["requires", "python_version"])?, "Pipfile"))),
        ],
    );
    for (tool, name) in [(Tool::Uv, "uv"), (Tool::Poetry, "poetry")] {
        first(tool, vec![listed(name)]);
    }
    let channel = |file: &'static str| {
        let table: toml::Table = files.text(file)?.parse().ok()?;
        Some((toml_at(&table, &["toolchain", "channel"])?, file))
    };
    let cargo = files.toml("Cargo.toml");
    let in_cargo = |path: &[&str]| Some((format!(">={}", toml_at(cargo.as_ref()?, path)?), "Cargo.toml"));
    first(
        Tool::Rust,
        vec![
            channel("rust-toolchain.toml"),
            channel("rust-toolchain").or_else(|| line("rust-toolchain")),
            listed("rust"),
            in_cargo(&["package", "rust-version"]),
            in_cargo(&["workspace", "package", "rust-version"]),
        ],
    );
    let directive = |name: &str| {
        let found =
            files.text("go.mod")?.lines().find_map(|line| line.trim().strip_prefix(name)?.split_whitespace().next());
        found.map(|version| version.trim_start_matches("go").to_owned())
    };
    let toolchain = directive("toolchain ").map(|version| (format!(">={version}"), "go.mod"));
    let go = directive("go ").map(|version| (format!(">={version}"), "go.mod"));
    first(Tool::Go, vec![listed("golang").or_else(|| listed("go")), toolchain, go]);
    let sdkman = || {
        let found = files.text(".sdkmanrc")?.lines().find_map(|line| line.trim().strip_prefix("java="))?;
        Some((found.to_owned(), ".sdkmanrc"))
    };
    let gradle = |file: &'static str| {
        let text = files.text(file)?;
        let of = ["JavaLanguageVersion.of(", "sourceCompatibility = JavaVersion.VERSION_", "jvmToolchain("];
        of.iter().find_map(|start| Some((digits_after(text, start)?, file)))
    };
    let maven = |tag: &str| Some((digits_after(files.text("pom.xml")?, &format!("<{tag}>"))?, "pom.xml"));
    first(
        Tool::Java,
        vec![
            line(".java-version"),
            sdkman(),
            listed("java"),
            maven("maven.compiler.release"),
            maven("java.version"),
            maven("maven.compiler.source"),
            gradle("build.gradle.kts"),
            gradle("build.gradle"),
        ],
    );
    let gemfile = || {
        let line = files.text("Gemfile")?.lines().find(|line| line.trim_start().starts_with("ruby "))?;
        let quoted = line.split(['"', '\'']).nth(1)?;
        Some((quoted.to_owned(), "Gemfile"))
    };
    first(Tool::Ruby, vec![line(".ruby-version"), listed("ruby"), gemfile()]);
    let composer = files.json("composer.json");
    let in_composer = |path: &[&str]| Some((text_at(composer.as_ref()?, path)?, "composer.json"));
    first(Tool::Php, vec![line(".php-version"), listed("php"), in_composer(&["require", "php"])]);
    wanted
}

fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    (line.len() < 60).then(|| line.trim_start_matches("ruby-").to_owned())
}

fn tool_versions(text: &str, tool: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        if words.next()? == tool { words.next().map(str::to_owned) } else { None }
    })
}

fn digits_after(text: &str, start: &str) -> Option<String> {
    let rest = &text[text.find(start)? + start.len()..];
    let digits: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    // Java 8 calls itself 1.8.
    let version = digits.strip_prefix("1.").unwrap_or(&digits);
    (!version.is_empty()).then(|| version.to_owned())
}

fn text_at(value: &Value, path: &[&str]) -> Option<String> {
    path.iter().try_fold(value, |value, key| value.get(key))?.as_str().map(str::to_owned)
}

fn toml_at(table: &toml::Table, path: &[&str]) -> Option<String> {
    let (last, parents) = path.split_last()?;
    let table = parents.iter().try_fold(table, |table, key| table.get(*key)?.as_table())?;
    table.get(*last)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::detect::testing::files;

    /// Files with their texts; the versions they ask for, each with the file that says so.
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [(Tool, &'a str, &'a str)]);

    #[test]
    fn versions_by_file() {
        use Tool::{Bun, Go, Java, Node, Npm, Php, Pnpm, Poetry, Python, Ruby, Rust, Yarn};
        let table: &[Row<'_>] = &[
            (&[], &[]),
            (&[(".nvmrc", "v18.17.0\n")], &[(Node, "v18.17.0", ".nvmrc")]),
            (&[(".nvmrc", "# why\n\nlts/hydrogen\n")], &[(Node, "lts/hydrogen", ".nvmrc")]),
            (&[(".nvmrc", "18"), (".node-version", "20")], &[(Node, "18", ".nvmrc")]),
            (&[(".node-version", "20.1.0")], &[(Node, "20.1.0", ".node-version")]),
            (
                &[("package.json", r#"{"engines":{"node":">=18 <21","npm":"^9"}}"#)],
                &[(Node, ">=18 <21", "package.json"), (Npm, "^9", "package.json")],
            ),
            (&[("package.json", r#"{"packageManager":"pnpm@9.1.0+sha512.abc"}"#)], &[(Pnpm, "9.1.0", "package.json")]),
            (
                &[("package.json", r#"{"packageManager":"yarn@4.1.0","volta":{"node":"20.11.1","yarn":"1.22.19"}}"#)],
                &[(Node, "20.11.1", "package.json"), (Yarn, "4.1.0", "package.json")],
            ),
            (&[("package.json", r#"{"packageManager":"bun@1.1.0"}"#)], &[(Bun, "1.1.0", "package.json")]),
            (&[("package.json", "{ not json")], &[]),
            (&[(".python-version", "3.12\n")], &[(Python, "3.12", ".python-version")]),
            (
                &[("pyproject.toml", "[project]\nname='x'\nrequires-python = '>=3.9,<4'\n")],
                &[(Python, ">=3.9,<4", "pyproject.toml")],
            ),
            (
                &[("pyproject.toml", "[tool.poetry.dependencies]\npython = '^3.11'\n")],
                &[(Python, "^3.11", "pyproject.toml")],
            ),
            (&[("Pipfile", "[requires]\npython_version = '3.10'\n")], &[(Python, "3.10", "Pipfile")]),
            (
                &[("rust-toolchain.toml", "[toolchain]\nchannel = '1.80.0'\ncomponents = ['clippy']\n")],
                &[(Rust, "1.80.0", "rust-toolchain.toml")],
            ),
            (&[("rust-toolchain", "nightly-2024-01-01\n")], &[(Rust, "nightly-2024-01-01", "rust-toolchain")]),
            (&[("rust-toolchain", "[toolchain]\nchannel = 'stable'\n")], &[(Rust, "stable", "rust-toolchain")]),
            (&[("Cargo.toml", "[package]\nname='x'\nrust-version='1.70'\n")], &[(Rust, ">=1.70", "Cargo.toml")]),
            (&[("go.mod", "module x\n\ngo 1.21\n")], &[(Go, ">=1.21", "go.mod")]),
            (&[("go.mod", "module x\ngo 1.21\ntoolchain go1.22.3\n")], &[(Go, ">=1.22.3", "go.mod")]),
            (
                &[(".tool-versions", "nodejs 18.2.0 # lts\npython 3.11.1 2.7\ngolang 1.22\npoetry 1.8.2\n")],
                &[
                    (Node, "18.2.0", ".tool-versions"),
                    (Python, "3.11.1", ".tool-versions"),
                    (Poetry, "1.8.2", ".tool-versions"),
                    (Go, "1.22", ".tool-versions"),
                ],
            ),
            (&[(".ruby-version", "ruby-3.2.2\n")], &[(Ruby, "3.2.2", ".ruby-version")]),
            (&[("Gemfile", "source 'x'\nruby '~> 3.1'\n")], &[(Ruby, "~> 3.1", "Gemfile")]),
            (&[("composer.json", r#"{"require":{"php":"^8.1"}}"#)], &[(Php, "^8.1", "composer.json")]),
            (
                &[("pom.xml", "<properties><maven.compiler.source>1.8</maven.compiler.source></properties>")],
                &[(Java, "8", "pom.xml")],
            ),
            (&[("pom.xml", "<java.version>17</java.version>")], &[(Java, "17", "pom.xml")]),
            (
                &[("build.gradle.kts", "java { toolchain { languageVersion = JavaLanguageVersion.of(21) } }")],
                &[(Java, "21", "build.gradle.kts")],
            ),
            (&[(".sdkmanrc", "# sdk\njava=17.0.2-tem\n")], &[(Java, "17.0.2-tem", ".sdkmanrc")]),
        ];
        for (given, expected) in table {
            let found = detect(&files(given));
            let found: Vec<_> = found.iter().map(|w| (w.tool, w.version.as_str(), w.from.as_str())).collect();
            assert_eq!(found, *expected, "{given:?}");
        }
    }
}
