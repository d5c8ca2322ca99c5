//! The sample repository and what the model says about it. Everything needs a shell and git, nothing more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use harvest_core::Code;
use harvest_gateway::Script;
use harvest_workspace::{Git, Home};

use crate::failure::Failure;

const SCRIPT: &str = include_str!("script.yaml");
/// How fast the model speaks: so that it can be watched, or so that it is over soon.
const WATCHED: &str = "delay: 800ms\nchunk_delay: 90ms\n";
const HURRIED: &str = "chunk_delay: 40ms\n";

const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("sample/README.md")),
    ("src/sum.sh", include_str!("sample/src/sum.sh")),
    ("src/greet.sh", include_str!("sample/src/greet.sh")),
    ("src/slug.sh", include_str!("sample/src/slug.sh")),
    ("tests/run.sh", include_str!("sample/tests/run.sh")),
    ("tests/sum.sh", include_str!("sample/tests/sum.sh")),
    ("tests/greet.sh", include_str!("sample/tests/greet.sh")),
    ("tests/slug.sh", include_str!("sample/tests/slug.sh")),
];

/// How a task of the demo should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Verified,
    FailsItsTests,
    StoppedByBudget,
}

#[derive(Debug)]
pub struct Job {
    pub label: &'static str,
    pub prompt: &'static str,
    pub test: &'static str,
    pub budget_usd: f64,
    pub expected: Expected,
}

pub const JOBS: &[Job] = &[
    Job {
        label: "fix",
        prompt: "Make the failing sum test pass",
        test: "sh tests/run.sh sum",
        budget_usd: 1.0,
        expected: Expected::Verified,
    },
    Job {
        label: "feature",
        prompt: "Add a --shout option to greet, with a test",
        test: "sh tests/run.sh greet",
        budget_usd: 1.0,
        expected: Expected::Verified,
    },
    Job {
        label: "broken",
        prompt: "Make slug keep upper-case letters",
        test: "sh tests/run.sh slug",
        budget_usd: 1.0,
        expected: Expected::FailsItsTests,
    },
    Job {
        label: "budget",
        prompt: "Rewrite everything in one go",
        test: "sh tests/run.sh",
        budget_usd: 0.05,
        expected: Expected::StoppedByBudget,
    },
];

/// What the model says, at a pace for people to watch or for programs to wait.
pub fn script(watched: bool) -> Result<Arc<Script>, Failure> {
    let pace = if watched { WATCHED } else { HURRIED };
    let parsed = Script::parse(&format!("{pace}{SCRIPT}"));
    parsed.map(Arc::new).map_err(|error| Failure::failed(Code::BadScript, error.to_string()))
}

/// The repository in `folder`, made if it is missing: branches of earlier demos stay.
pub async fn existing_or_new(folder: &Path) -> Result<PathBuf, Failure> {
    let repository = folder.join("orchard");
    if repository.join(".git/refs/heads/main").exists() { Ok(repository) } else { create(folder).await }
}

/// Makes the repository anew in `folder`.
pub async fn create(folder: &Path) -> Result<PathBuf, Failure> {
    let io =
        |error: std::io::Error| Failure::failed(Code::DataDirectory, format!("the sample cannot be written: {error}"));
    let repository = folder.join("orchard");
    if repository.exists() {
        std::fs::remove_dir_all(&repository).map_err(io)?;
    }
    for (name, content) in FILES {
        let path = repository.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io)?;
        }
        std::fs::write(&path, content).map_err(io)?;
    }
    let git = Git::new(Home::Nobody);
    git.run(&repository, &["init", "--quiet", "--template=", "--initial-branch=main"]).await?;
    git.run(&repository, &["config", "user.name", "Ada"]).await?;
    git.run(&repository, &["config", "user.email", "ada@example.com"]).await?;
    git.run(&repository, &["add", "--all"]).await?;
    git.run(&repository, &["commit", "--quiet", "--message", "Start the orchard"]).await?;
    Ok(repository)
}
