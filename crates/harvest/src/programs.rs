//! Agents that are installed on this machine: where their programs are, and what a sandbox must be shown to run them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harvest_agents::{Agent, Registry};

/// The programs of agents that were found, by name.
#[derive(Debug, Default, PartialEq)]
pub struct Programs {
    pub found: BTreeMap<String, PathBuf>,
    /// Their own folders and files, and nothing beside them.
    pub shown: Vec<PathBuf>,
}

/// What every sandbox has of the system.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/sbin", "/opt"];

/// Looks along `path` for the programs of all agents; one that was named by its whole path is looked for there alone.
pub fn find(registry: &Registry, path: &str) -> Programs {
    let mut programs = Programs::default();
    for name in registry.iter().filter_map(|agent| agent.program.as_ref()) {
        let Some((program, typed)) = look_for(name, path) else { continue };
        if is_of_the_system(&program) {
            // By the name it was called, if that is there: some programs of the system are many in one file.
            programs.found.insert(name.clone(), if is_of_the_system(&typed) { typed } else { program });
            continue;
        }
        programs.shown.extend(own_places(&program));
        programs.found.insert(name.clone(), program);
    }
    programs
}

/// Whether there is anything to start: what Harvest brings along always is.
pub fn is_installed(agent: &Agent, path: &str) -> bool {
    agent.program.as_ref().is_none_or(|name| look_for(name, path).is_some())
}

/// The file itself, and the name it was found by.
fn look_for(name: &str, path: &str) -> Option<(PathBuf, PathBuf)> {
    // A whole path replaces the folder it is joined to.
    std::env::split_paths(path).find_map(|folder| {
        let typed = folder.join(name);
        Some((executable(&typed)?, typed))
    })
}

fn is_of_the_system(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// The file itself, behind all links.
fn executable(path: &Path) -> Option<PathBuf> {
    let file = path.canonicalize().ok()?;
    let data = file.metadata().ok()?;
    (data.is_file() && data.permissions().mode() & 0o111 != 0).then_some(file)
}

/// A program of npm needs the rest of its package, one of Python its virtual environment and the Python that is made of; any
/// other is a file of its own.
fn own_places(program: &Path) -> Vec<PathBuf> {
    if let Some(environment) = program.ancestors().skip(1).find(|folder| folder.join("pyvenv.cfg").is_file()) {
        return [environment.to_owned()].into_iter().chain(python_of(environment)).collect();
    }
    vec![package_of(program)]
}

/// Where the Python of a virtual environment is installed, if in a folder of its own that is not the system's. One that also
/// holds the environment holds whatever else its owner has.
fn python_of(environment: &Path) -> Option<PathBuf> {
    let settings = std::fs::read_to_string(environment.join("pyvenv.cfg")).ok()?;
    let home = settings.lines().find_map(|line| line.strip_prefix("home")?.trim_start().strip_prefix('='))?;
    let prefix = Path::new(home.trim()).parent()?.to_owned();
    let is_its_own = prefix.join("lib").is_dir() && !environment.starts_with(&prefix) && !is_of_the_system(&prefix);
    is_its_own.then_some(prefix)
}

fn package_of(program: &Path) -> PathBuf {
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
    fn a_program_of_python_is_shown_with_its_virtual_environment() {
        let place = place(&["aider/venv/pyvenv.cfg", "aider/venv/bin/aider", "aider/other", "bin/else"]);
        let root = place.path().canonicalize().unwrap();
        symlink("../aider/venv/bin/aider", root.join("bin/codex")).unwrap();
        let found = find(&Registry::bundled().unwrap(), &format!("{}/bin", root.display()));
        assert_eq!(found.shown, [root.join("aider/venv")]);
        assert_eq!(found.found["codex"], root.join("aider/venv/bin/aider"));

        let settings = |python: &Path| format!("home = {}\nversion = 3.11.7\n", python.join("bin").display());
        let shown = |python: &Path| {
            std::fs::create_dir_all(python.join("lib")).unwrap();
            std::fs::write(root.join("aider/venv/pyvenv.cfg"), settings(python)).unwrap();
            find(&Registry::bundled().unwrap(), &format!("{}/bin", root.display())).shown
        };
        let python = root.join("python-3.11");
        assert_eq!(shown(&python), [root.join("aider/venv"), python]);
        assert_eq!(shown(&root), [root.join("aider/venv")], "nobody's whole home");
        assert_eq!(shown(Path::new("/usr")), [root.join("aider/venv")]);
    }

    #[test]
    fn a_program_can_be_named_by_its_whole_path() {
        let place = place(&["tools/mine"]);
        let mine = place.path().canonicalize().unwrap().join("tools/mine");
        let agent = |id: &str, command: &Path| {
            format!(
                "[[agent]]\nid = '{id}'\nname = 'x'\nproviders = ['openai']\ndialect = 'text'\nprompt = 'stdin'\n\
                 command = '{}'\ninstall_hint = ''\n",
                command.display()
            )
        };
        let text = agent("mine", &mine) + &agent("shell", Path::new("/bin/sh")) + &agent("none", &mine.join("x"));
        let found = find(&Registry::from_toml(&text).unwrap(), "/nowhere:/usr/bin");
        let (name, shell) = (mine.display().to_string(), "/bin/sh".to_owned());
        assert_eq!(found.found, BTreeMap::from([(name, mine.clone()), (shell.clone(), shell.into())]));
        assert_eq!(found.shown, [mine], "what is of the system is there anyway");
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
