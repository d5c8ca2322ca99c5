//! The packages of this workspace, read from their `Cargo.toml` files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use toml::{Table, Value};

#[derive(Debug, Clone)]
pub struct Package {
    pub name: String,
    pub folder: PathBuf,
    pub has_description: bool,
    pub has_workspace_lints: bool,
    /// Whatever is linked into it or runs when it is built, on any target and with any feature.
    pub dependencies: BTreeSet<String>,
    /// What only its tests use.
    pub dev_dependencies: BTreeSet<String>,
}

pub fn root() -> &'static Path {
    const XTASK: &str = env!("CARGO_MANIFEST_DIR");
    Path::new(XTASK).parent().unwrap_or(Path::new(XTASK))
}

/// All packages below `crates/`, and this one.
pub fn read_workspace() -> anyhow::Result<Vec<Package>> {
    let crates = root().join("crates");
    let entries = fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))?;
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.join("Cargo.toml").exists()).collect();
    folders.sort();
    folders.push(root().join("xtask"));
    folders.iter().map(|folder| read(folder)).collect()
}

fn read(folder: &Path) -> anyhow::Result<Package> {
    let file = folder.join("Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text, folder).with_context(|| format!("cannot understand {}", file.display()))
}

fn parse(text: &str, folder: &Path) -> anyhow::Result<Package> {
    let manifest: Table = toml::from_str(text)?;
    let package = manifest.get("package").and_then(Value::as_table).context("it has no [package]")?;
    let name = package.get("name").and_then(Value::as_str).context("the package has no name")?;
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    Ok(Package {
        name: name.to_owned(),
        folder: folder.to_owned(),
        has_description: package.contains_key("description"),
        has_workspace_lints: lints.and_then(Value::as_bool) == Some(true),
        dependencies: dependencies(&manifest, &["dependencies", "build-dependencies"]),
        dev_dependencies: dependencies(&manifest, &["dev-dependencies"]),
    })
}

/// The names of the packages in these sections, those for single targets included.
fn dependencies(manifest: &Table, sections: &[&str]) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table).chain([manifest]);
    tables
        .flat_map(|table| sections.iter().filter_map(|section| table.get(*section)?.as_table()))
        .flatten()
        .map(|(key, value)| value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_wherever_they_are_written() {
        let text = r#"
            [package]
            name = "a"
            [dependencies]
            b.workspace = true
            renamed = { package = "c", path = "../c" }
            [build-dependencies]
            d = "1"
            [target.'cfg(unix)'.dependencies]
            e = "1"
            [dev-dependencies]
            f = "1"
        "#;
        let package = parse(text, Path::new("a")).unwrap();
        assert_eq!(package.dependencies.iter().map(String::as_str).collect::<Vec<_>>(), ["b", "c", "d", "e"]);
        assert_eq!(package.dev_dependencies.iter().map(String::as_str).collect::<Vec<_>>(), ["f"]);
        assert!(!package.has_description && !package.has_workspace_lints);
    }
}
