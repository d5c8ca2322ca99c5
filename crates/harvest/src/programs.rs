//! Agents that are installed on this machine: where their programs are, and what a sandbox must be shown to run them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harvest_agents::Registry;

/// The programs of agents that were found, by name.
#[derive(Debug, Default, PartialEq)]
pub struct Programs {
    pub found: BTreeMap<String, PathBuf>,
    /// Their own folders and files, and nothing beside them.
    pub shown: Vec<PathBuf>,
}

/// Looks along `path` for the programs of all agents.
pub fn find(registry: &Registry, path: &str) -> Programs {
    let mut programs = Programs::default();
    for name in registry.iter().filter_map(|agent| agent.program.as_ref()) {
        let Some(program) = std::env::split_paths(path).find_map(|folder| executable(&folder.join(name))) else {
            continue;
        };
        programs.shown.push(own_place(&program));
        programs.found.insert(name.clone(), program);
    }
    programs
}

/// The file itself, behind all links.
fn executable(path: &Path) -> Option<PathBuf> {
    let file = path.canonicalize().ok()?;
    let data = file.metadata().ok()?;
    (data.is_file() && data.permissions().mode() & 0o111 != 0).then_some(file)
}

/// A program of npm needs the rest of its package; any other is a file of its own.
fn own_place(program: &Path) -> PathBuf {
    let modules = program.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "node_modules"));
    let Some(modules) = modules else { return program.to_owned() };
    let inside = program.strip_prefix(modules).unwrap_or(program);
    let scoped = inside.to_string_lossy().starts_with('@');
    inside.components().take(if scoped { 2 } else { 1 }).fold(modules.to_owned(), |place, part| place.join(part))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn place(files: &[&str]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for file in files {
            let file = place.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        }
        place
    }

    #[test]
    fn a_program_of_npm_is_shown_with_its_package_and_nothing_beside_it() {
        let place = place(&["lib/node_modules/@anthropic-ai/claude-code/bin/claude", "lib/node_modules/other/secret"]);
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("bin")).unwrap();
        symlink("../lib/node_modules/@anthropic-ai/claude-code/bin/claude", root.join("bin/claude")).unwrap();
        let found = find(&Registry::bundled().unwrap(), &format!("/nowhere:{}/bin", root.display()));
        let package = root.join("lib/node_modules/@anthropic-ai/claude-code");
        assert_eq!(found.found, BTreeMap::from([("claude".to_owned(), package.join("bin/claude"))]));
        assert_eq!(found.shown, [package]);
    }

    #[test]
    fn any_other_program_is_shown_alone() {
        let place = place(&["bin/codex", "bin/other"]);
        let root = place.path().canonicalize().unwrap();
        std::fs::write(root.join("claude"), "not executable").unwrap();
        let path = format!("{0}:{0}/bin", root.display());
        let found = find(&Registry::bundled().unwrap(), &path);
        assert_eq!(found.shown, [root.join("bin/codex")]);
        assert_eq!(found.found.keys().collect::<Vec<_>>(), ["codex"]);
    }
}
