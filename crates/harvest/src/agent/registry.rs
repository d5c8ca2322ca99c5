//! The agents of this installation: those that come with Harvest, and those of `agents/*.toml` beside the settings.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use harvest_agents::Registry;
use harvest_core::Code;

use crate::environment::Environment;
use crate::failure::Failure;

const FOLDER: &str = "agents";

/// As the files are now. One bad file is refused rather than left out, so that nobody's task goes to another agent.
pub fn registry(environment: &Environment) -> Result<Registry, Failure> {
    let bundled = Registry::bundled().map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
    let Some(folder) = environment.config_folder().map(|folder| folder.join(FOLDER)) else { return Ok(bundled) };
    files(&folder)?.iter().try_fold(bundled, |registry, file| {
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
        registry.with(&text).map_err(|error| {
            let help = "correct the file, or move it away; docs/user-guide.md has an example";
            Failure::refused(Code::BadConfig, format!("{}: {error}", file.display()), help)
        })
    })
}

/// In the order of their names, so that the list of agents is always the same.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<Result<Vec<_>, _>>().map_err(|error| unreadable(folder, &error))?;
    let mut files: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be read: {error}", path.display());
    Failure::refused(Code::BadConfig, message, "check its owner and permissions")
}
