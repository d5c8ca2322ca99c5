//! What every crate and every source file looks like.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::manifest::{self, Package};

/// A file is one idea; one this long holds several.
const MAX_LINES: usize = 700;
/// Begun and not finished, or left over from looking for something.
const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
/// What is in them is plain from their name.
const NEED_NO_INTRODUCTION: [&str; 1] = ["error.rs"];

/// Everything untidy, one sentence each.
pub fn faults(packages: &[Package]) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for package in packages {
        let name = &package.name;
        if !package.has_description {
            faults.push(format!("{name} has no description in its Cargo.toml"));
        }
        if !package.has_workspace_lints {
            faults.push(format!("{name} does not take the lints of the workspace: add `[lints] workspace = true`"));
        }
        for file in sources(&package.folder.join("src"))? {
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            faults.extend(source_faults(&file, &text));
        }
    }
    Ok(faults)
}

fn source_faults(file: &Path, text: &str) -> Vec<String> {
    let shown = file.strip_prefix(manifest::root()).unwrap_or(file).display();
    let mut faults = Vec::new();
    let introduced = text.starts_with("//!") || NEED_NO_INTRODUCTION.iter().any(|name| file.ends_with(name));
    if !introduced {
        faults.push(format!("{shown} must begin with a `//!` paragraph: what it owns, what it promises"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!("{shown} has {lines} lines: ask which ideas live in it, and give each its own file"));
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for word in UNFINISHED.iter().filter(|word| calls(code, word)) {
            faults.push(format!("{shown}:{}: {word}", number + 1));
        }
    }
    faults
}

/// Whether the macro stands there as code rather than within a string or a longer name.
fn calls(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"') && matches!(after, Some('(' | '[' | '{'))
    })
}

/// Every Rust file below a folder.
pub fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_tidy() {
        let faults = faults(&manifest::read_workspace().unwrap()).unwrap();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn untidy_files_are_found() {
        let look = |text: &str| source_faults(Path::new("x.rs"), text);
        assert_eq!(look("//! A file.\n"), [""; 0]);
        assert_eq!(look("fn x() {}\n"), ["x.rs must begin with a `//!` paragraph: what it owns, what it promises"]);
        assert_eq!(look("//! X.\nfn x() { todo!() }\n"), ["x.rs:2: todo!"]);
        assert_eq!(look("//! X.\n// todo!() no more\nmy_dbg!(1); \"dbg!\";\n"), [""; 0]);
        assert_eq!(look(&format!("//! X.\n{}", "\n".repeat(700))).len(), 1);
    }
}
