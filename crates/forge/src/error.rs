use std::path::PathBuf;

use harvest_core::Code;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is not a git repository", .path.display())]
    NotARepository { path: PathBuf, details: String },
    #[error("{} is in one of Harvest's own folders, which agents can write to", .path.display())]
    OwnFolder { path: PathBuf },
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
    #[error("{url} was given with a user name, password, query or key; addresses are stored and visible to others")]
    UrlHoldsAccess { url: String },
    #[error("the branch {branch} is at {found}, which Harvest did not push")]
    BranchMoved { branch: String, found: String },
    #[error("{name} could not be fetched")]
    Fetch { name: String, source: harvest_workspace::Error },
    #[error("{name} cannot take branches: {reason}")]
    ReadOnly { name: String, reason: String, is_local: bool },
    #[error("{name} cannot take branches: its branch `harvest` conflicts with branches `harvest/…`")]
    BranchConflict { name: String },
    #[error("the branch could not be pushed to {name}")]
    Push { name: String, source: harvest_workspace::Error },
    #[error("GitHub refused {doing} with {status}: {message}")]
    Refused { doing: String, status: u16, message: String },
    #[error("GitHub cannot be reached: {reason}")]
    Unreachable { reason: String },
    #[error("GitHub accepts no more requests for {seconds} s")]
    RateLimited { seconds: u64 },
    #[error("the GitHub App is not installed in {repository}")]
    NotInstalled { repository: String },
    #[error("unexpected response from GitHub: {reason}")]
    Unexpected { reason: String },
    #[error(transparent)]
    Account(#[from] crate::github::BadAccount),
    #[error(transparent)]
    Git(#[from] harvest_workspace::Error),
}

impl Error {
    /// Whether asking again may go better.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::RateLimited { .. } | Self::Push { .. } | Self::Fetch { .. } => true,
            Self::Refused { status, .. } => *status >= 500,
            _ => false,
        }
    }

    /// Whoever hosts the repository, or the way there, is away for a while. A refusal is none.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::RateLimited { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::Push { source, .. } | Self::Fetch { source, .. } => is_cut_off(source),
            _ => false,
        }
    }

    pub fn code(&self) -> Code {
        match self {
            Self::NotARepository { .. } | Self::OwnFolder { .. } => Code::NotARepository,
            Self::Empty { .. } => Code::EmptyRepository,
            Self::UnknownBase { .. } => Code::UnknownBase,
            Self::BadBase { .. } => Code::BadBase,
            Self::InProgress { .. } => Code::OperationInProgress,
            Self::RefLocked { .. }
            | Self::BranchMoved { .. }
            | Self::BranchConflict { .. }
            | Self::ReadOnly { is_local: true, .. } => Code::RefLocked,
            Self::UnsupportedUrl { .. } | Self::UrlHoldsAccess { .. } => Code::UnsupportedUrl,
            Self::Fetch { source, .. } | Self::Git(source) => source.code(),
            Self::Push { .. }
            | Self::Refused { .. }
            | Self::ReadOnly { is_local: false, .. }
            | Self::NotInstalled { .. }
            | Self::Account(_) => Code::ForgeRefused,
            Self::Unreachable { .. } | Self::RateLimited { .. } | Self::Unexpected { .. } => Code::ForgeUnreachable,
        }
    }

    /// What a person can do about it.
    pub fn help(&self) -> String {
        match self {
            Self::NotARepository { details, .. } if details.contains("dubious ownership") => {
                "it belongs to another user; if you trust it: git config --global --add safe.directory <path>".into()
            }
            Self::NotARepository { .. } => "go into a repository, name one with --repo, or make one: git init".into(),
            Self::OwnFolder { .. } => "name a repository outside of the data directory".into(),
            Self::Empty { .. } => "make a first commit: git commit --allow-empty -m start".into(),
            Self::UnknownBase { .. } => "list the branches: git branch --all; or fetch it first".into(),
            Self::BadBase { .. } => "name a branch, a tag or a commit hash: --base main".into(),
            Self::InProgress { operation, .. } => {
                format!("finish it or abort it first: git {operation} --continue, or git {operation} --abort")
            }
            Self::RefLocked { .. } => {
                "wait for the other git process to finish; if none is running, remove the file".into()
            }
            Self::ReadOnly { is_local: true, .. } => {
                "make it writable for the user that runs Harvest, or work in a clone: git clone".into()
            }
            Self::ReadOnly { is_local: false, .. } => {
                "unarchive it, give the App or the token write access to its contents, or name a fork with --repo"
                    .into()
            }
            Self::BranchConflict { .. } => "rename it: git branch -m harvest NEW-NAME".into(),
            Self::BranchMoved { .. } => "rename that branch, then retry the task".into(),
            Self::UrlHoldsAccess { .. } => {
                "leave it out, and let git find it: a credential helper, a netrc file or an SSH key".into()
            }
            Self::UnsupportedUrl { .. } => "use a path, or a URL that begins with https://, http:// or ssh://".into(),
            Self::Push { .. } | Self::Refused { .. } => {
                "check what the App or the token may do: contents, pull requests and issues to write, checks to read"
                    .into()
            }
            Self::NotInstalled { .. } => "install the App in it: GitHub, Settings, Applications, Configure".into(),
            Self::Account(_) => "add it again: harvest github setup, or harvest credential add github".into(),
            Self::RateLimited { .. } | Self::Unreachable { .. } | Self::Unexpected { .. } => {
                "wait a little and retry the task; https://www.githubstatus.com shows GitHub's status".into()
            }
            Self::Fetch { .. } => "check the address and your access: git ls-remote <url>".into(),
            Self::Git(_) => "look at the message above; `harvest doctor` checks the tools Harvest needs".into(),
        }
    }
}

/// What git says when nobody answers, or only that it cannot now.
const CUT_OFF: &[&str] = &[
    "could not resolve host",
    "couldn't resolve host",
    "temporary failure in name resolution",
    "failed to connect",
    "could not connect",
    "couldn't connect",
    "connection refused",
    "connection reset",
    "connection timed out",
    "operation timed out",
    "network is unreachable",
    "no route to host",
    "empty reply from server",
    "hung up unexpectedly",
    "early eof",
    "returned error: 429",
    "returned error: 5",
    "http 429",
    "http 5",
];

fn is_cut_off(error: &harvest_workspace::Error) -> bool {
    match error {
        harvest_workspace::Error::TimedOut { .. } => true,
        harvest_workspace::Error::Git { message, .. } => {
            let message = message.to_lowercase();
            CUT_OFF.iter().any(|words| message.contains(words))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(message: &str) -> Error {
        let source = harvest_workspace::Error::Git { command: "push".into(), message: message.into() };
        Error::Push { name: "ada/shop".into(), source }
    }

    #[test]
    fn an_outage_is_told_from_a_refusal() {
        let refused = |status| Error::Refused { doing: "POST /pulls".into(), status, message: String::new() };
        for outage in [
            Error::Unreachable { reason: "it did not answer in time".into() },
            Error::RateLimited { seconds: 7 },
            refused(502),
            refused(429),
            push("fatal: unable to access 'https://github.com/ada/shop/': Could not resolve host: github.com"),
            push("fatal: unable to access 'http://127.0.0.1:1/ada/shop/': The requested URL returned error: 503"),
            push("error: RPC failed; HTTP 502 curl 22"),
        ] {
            assert!(outage.is_outage(), "{outage:?}");
        }
        for refusal in [
            refused(401),
            refused(403),
            refused(404),
            refused(422),
            push("fatal: unable to access 'https://github.com/ada/shop/': The requested URL returned error: 403"),
            push("! [remote rejected] main (protected branch hook declined)"),
            Error::BranchMoved { branch: "harvest/x".into(), found: "b".into() },
        ] {
            assert!(!refusal.is_outage(), "{refusal:?}");
        }
    }
}
