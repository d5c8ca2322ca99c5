use std::path::PathBuf;

use harvest_core::Code;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is not a git repository", .path.display())]
    NotARepository { path: PathBuf, details: String },
    #[error("{name} has no commit yet")]
    Empty { name: String },
    #[error("there is no commit `{base}` in {name}")]
    UnknownBase { base: String, name: String },
    #[error("`{base}` cannot be a base: {reason}")]
    BadBase { base: String, reason: &'static str },
    #[error("a {operation} is in progress in {}", .path.display())]
    InProgress { operation: &'static str, path: PathBuf },
    #[error("the ref lock {} exists", .lock.display())]
    RefLocked { lock: PathBuf },
    #[error("`{url}` cannot be used: {reason}")]
    UnsupportedUrl { url: String, reason: &'static str },
    #[error("the branch {branch} is at {found}, where Harvest did not put it")]
    BranchMoved { branch: String, found: String },
    #[error("{name} could not be fetched")]
    Fetch { name: String, source: harvest_workspace::Error },
    #[error(transparent)]
    Git(#[from] harvest_workspace::Error),
}

impl Error {
    pub fn code(&self) -> Code {
        match self {
            Self::NotARepository { .. } => Code::NotARepository,
            Self::Empty { .. } => Code::EmptyRepository,
            Self::UnknownBase { .. } => Code::UnknownBase,
            Self::BadBase { .. } => Code::BadBase,
            Self::InProgress { .. } => Code::OperationInProgress,
            Self::RefLocked { .. } | Self::BranchMoved { .. } => Code::RefLocked,
            Self::UnsupportedUrl { .. } => Code::UnsupportedUrl,
            Self::Fetch { source, .. } | Self::Git(source) => source.code(),
        }
    }

    /// What a person can do about it.
    pub fn help(&self) -> String {
        match self {
            Self::NotARepository { details, .. } if details.contains("dubious ownership") => {
                "it belongs to another user; if you trust it: git config --global --add safe.directory <path>".into()
            }
            Self::NotARepository { .. } => "go into a repository, name one with --repo, or make one: git init".into(),
            Self::Empty { .. } => "make a first commit: git commit --allow-empty -m start".into(),
            Self::UnknownBase { .. } => "list what there is: git branch --all; or fetch it first".into(),
            Self::BadBase { .. } => "name a branch, a tag or a commit hash: --base main".into(),
            Self::InProgress { operation, .. } => {
                format!("finish it or give it up first: git {operation} --continue, or git {operation} --abort")
            }
            Self::RefLocked { .. } => "wait for the other git to end; if none runs, remove the file".into(),
            Self::BranchMoved { .. } => "rename that branch, then retry the task".into(),
            Self::UnsupportedUrl { .. } => "use a path, or a URL that begins with https://, http:// or ssh://".into(),
            Self::Fetch { .. } => "check the address and your access: git ls-remote <url>".into(),
            Self::Git(_) => "look at the message above; `harvest doctor` checks the tools Harvest needs".into(),
        }
    }
}
