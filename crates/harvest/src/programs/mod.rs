//! Agents that are installed on this machine: where their programs are, and what a sandbox must be shown to run them.
//!
//! A program is found along the search path. Version managers and pnpm put small stand-ins there; `shim.rs` finds the
//! program behind one. `needs.rs` lists the files and folders that a program cannot run without.

mod needs;
mod shim;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harvest_agents::{Agent, Registry};

/// The programs of agents that were found, by name.
#[derive(Debug, Default, PartialEq)]
pub struct Programs {
    pub found: BTreeMap<String, PathBuf>,
    /// The files and folders that these programs need, and nothing beside them.
    pub shown: Vec<PathBuf>,
    /// Folders with interpreters of these programs. They precede the search path of the sandbox.
    pub interpreters: Vec<PathBuf>,
}

/// Folders of the system that every sandbox shows.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/sbin", "/opt"];

/// Looks along `path` for the programs of all agents. An agent whose program is an absolute path is looked for there alone.
pub fn find(registry: &Registry, path: &str) -> Programs {
    let mut programs = Programs::default();
    for name in registry.iter().filter_map(|agent| agent.program.as_ref()) {
        let Some(Found { program, typed }) = look_for(name, path) else { continue };
        let program = if is_of_the_system(&program) {
            // Under the name it was called by, if the system has that: some programs are many in one file.
            if is_of_the_system(&typed) { typed } else { program }
        } else {
            let needed = needs::of(&program, &typed, path);
            programs.shown.extend(needed.shown);
            programs.interpreters.extend(needed.interpreter_folder);
            program
        };
        programs.found.insert(name.clone(), program);
    }
    for list in [&mut programs.shown, &mut programs.interpreters] {
        list.sort();
        list.dedup();
    }
    programs
}

/// Whether there is a program to start. Agents that are part of Harvest have none and are always installed.
pub fn is_installed(agent: &Agent, path: &str) -> bool {
    agent.program.as_ref().is_none_or(|name| look_for(name, path).is_some())
}

/// A program behind all links and stand-ins, and the name it was found by.
#[derive(Debug)]
struct Found {
    program: PathBuf,
    typed: PathBuf,
}

fn look_for(name: &str, path: &str) -> Option<Found> {
    // An absolute path replaces the folder it is joined to.
    std::env::split_paths(path).find_map(|folder| {
        let typed = folder.join(name);
        let program = executable(&typed)?;
        Some(Found { program: shim::behind(&typed, &program).unwrap_or(program), typed })
    })
}

/// Whether every sandbox shows it anyway.
pub fn is_of_the_system(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// The file behind all links, if it can be executed.
fn executable(path: &Path) -> Option<PathBuf> {
    let file = path.canonicalize().ok()?;
    let data = file.metadata().ok()?;
    (data.is_file() && data.permissions().mode() & 0o111 != 0).then_some(file)
}

#[cfg(test)]
mod tests;
