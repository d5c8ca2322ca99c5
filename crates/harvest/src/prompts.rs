//! What agents are told, as this installation wants it: the templates of Harvest, those of `prompts/NAME.md` beside the settings
//! in their place, and for the repositories of a project those of `prompts/PROJECT/NAME.md`. What agents' memories begin with is
//! in `memory.jsonl` there.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use harvest_agents::prompt::{Prompts, Seed};
use harvest_core::Code;
use harvest_engine::PromptBook;

use crate::environment::Environment;
use crate::failure::Failure;

const FOLDER: &str = "prompts";
const MEMORY: &str = "memory.jsonl";

/// As the files are now. One bad file is refused rather than left out.
pub fn prompts(environment: &Environment) -> Result<PromptBook, Failure> {
    let Some(folder) = environment.config_folder().map(|folder| folder.join(FOLDER)) else {
        return Ok(PromptBook::default());
    };
    let entries = list(&folder)?;
    let everyone = with_files(Prompts::default(), &entries)?;
    let (mut projects, mut memories) = (BTreeMap::new(), BTreeMap::new());
    for project in entries.iter().filter(|path| path.is_dir()) {
        let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = list(project)?;
        memories.extend(seed(&files)?.map(|seed| (name.clone(), seed)));
        projects.insert(name, with_files(everyone.clone(), &files)?);
    }
    let memory = seed(&entries)?.unwrap_or_default();
    Ok(PromptBook { everyone, projects, memory, memories })
}

/// What is in `memory.jsonl`, if there is one.
fn seed(entries: &[PathBuf]) -> Result<Option<Seed>, Failure> {
    let Some(file) = entries.iter().find(|path| path.ends_with(MEMORY)) else { return Ok(None) };
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    let seed = Seed::parse(&text).map_err(|error| {
        let help = "write one entity or relation per line, as JSON; docs/user-guide.md has an example";
        Failure::refused(Code::BadConfig, format!("{}: {error}", file.display()), help)
    })?;
    Ok(Some(seed))
}

fn with_files(prompts: Prompts, entries: &[PathBuf]) -> Result<Prompts, Failure> {
    let files = entries.iter().filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    files.into_iter().try_fold(prompts, |prompts, file| {
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        prompts.with(&name, &text).map_err(|error| {
            let help = "correct the file, or move it away; docs/user-guide.md has the names and values";
            Failure::refused(Code::BadConfig, format!("{}: {error}", file.display()), help)
        })
    })
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(|error| unreadable(folder, &error))?;
    paths.sort();
    Ok(paths)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be read: {error}", path.display());
    Failure::refused(Code::BadConfig, message, "check its owner and permissions")
}
