//! What a repository needs, found in its files. Pure: paths and texts in, a plan out.

mod manager;
mod toolchain;
mod version;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use manager::{Manager, Project};
pub use toolchain::{Tool, Wanted};
pub use version::satisfies;

/// Files at the top that say something by what is in them.
const READ_AT_TOP: &[&str] = &[
    ".nvmrc",
    ".node-version",
    ".python-version",
    ".ruby-version",
    ".php-version",
    ".java-version",
    ".sdkmanrc",
    ".tool-versions",
    "rust-toolchain",
    "rust-toolchain.toml",
    "Cargo.toml",
    "go.mod",
    "Gemfile",
    "Pipfile",
    "composer.json",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
];
/// And wherever they are.
const READ_EVERYWHERE: &[&str] = &["package.json", "pyproject.toml", "yarn.lock"];
/// A repository with more of them than this is not read to the end.
const MAX_READ: usize = 200;

/// The paths of a repository, and the texts of those named by [`to_read`].
#[derive(Debug)]
pub struct Files<'a> {
    pub paths: &'a BTreeSet<String>,
    pub texts: &'a BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detected {
    pub toolchains: Vec<Wanted>,
    pub projects: Vec<Project>,
}

/// Which files have to be read.
pub fn to_read(paths: &BTreeSet<String>) -> Vec<String> {
    let wanted = |path: &&String| match path.rsplit_once('/') {
        None => READ_AT_TOP.contains(&path.as_str()) || READ_EVERYWHERE.contains(&path.as_str()),
        Some((folder, name)) => READ_EVERYWHERE.contains(&name) && folder.split('/').count() <= 3,
    };
    let mut found: Vec<String> = paths.iter().filter(wanted).cloned().collect();
    found.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    found.truncate(MAX_READ);
    found
}

pub fn detect(files: &Files<'_>) -> Detected {
    Detected { toolchains: toolchain::detect(files), projects: manager::detect(files) }
}

impl Detected {
    /// What has to be there, with the version that is asked for, if one is.
    pub fn tools(&self) -> Vec<(Tool, Option<&Wanted>)> {
        let needed = self.projects.iter().flat_map(|project| project.manager.tools()).copied();
        let all: BTreeSet<Tool> = needed.chain(self.toolchains.iter().map(|wanted| wanted.tool)).collect();
        all.into_iter().map(|tool| (tool, self.toolchains.iter().find(|wanted| wanted.tool == tool))).collect()
    }
}

impl<'a> Files<'a> {
    fn text(&self, path: &str) -> Option<&'a str> {
        self.texts.get(path).map(String::as_str)
    }

    fn json(&self, path: &str) -> Option<serde_json::Value> {
        serde_json::from_str(self.text(path)?).ok()
    }

    fn toml(&self, path: &str) -> Option<toml::Table> {
        self.text(path)?.parse().ok()
    }
}

fn file_of(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// Leaked, since it is a test's.
    pub(super) fn files(given: &[(&str, &str)]) -> Files<'static> {
        let paths: BTreeSet<String> = given.iter().map(|(path, _)| (*path).to_owned()).collect();
        let read = to_read(&paths);
        let texts = given.iter().filter(|(path, _)| read.iter().any(|wanted| wanted == path));
        let texts = texts.map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Files { paths: Box::leak(Box::new(paths)), texts: Box::leak(Box::new(texts)) }
    }
}
