//! Where repositories come from and branches go.
//!
//! [`Forge`] is the contract. `local` is a repository on this machine: the finished branch is written into it and nothing
//! else of it changes. `remote` is a plain URL: work starts from it, and the branch stays with Harvest. `github` is a repository
//! on GitHub: the branch is pushed there, and [`Hosting`] is how people hear of it.

mod closed;
pub mod codeowners;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod fetch;
pub mod github;
mod happening;
mod hosting;
mod local;
mod remote;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use harvest_core::BranchName;
use harvest_workspace::{Git, Mirror};

pub use closed::ClosedFolders;
pub use error::Error;
pub use happening::{Checked, Happening, Place, Verdict, What};
pub use hosting::{
    Comment, FailedCheck, Hosting, Proposal, PullRequest, PullRequestState, Remark, Review, Standing, Thread,
};
pub use local::Local;
pub use remote::{Remote, holds_access, spelled};

#[async_trait]
pub trait Forge: Send + Sync + std::fmt::Debug {
    /// The repository as shown to people: its path or URL in the spelling of [`spelled`], never with a password in it.
    fn name(&self) -> &str;

    /// What makes two names the same repository; the key of its mirror.
    fn identity(&self) -> Vec<u8>;

    /// Checks that work can start and finds the full hash it starts from.
    async fn resolve(&self, base: Option<&str>) -> Result<Base, Error>;

    /// Brings `commit` into the mirror under [`Mirror::base_ref`].
    async fn fetch(&self, mirror: &Mirror, commit: &str) -> Result<(), harvest_workspace::Error>;

    /// The same with only a part of its history. A mirror that has more keeps it.
    async fn fetch_part(&self, mirror: &Mirror, commit: &str, part: Part) -> Result<(), harvest_workspace::Error>;

    /// Publishes `commit`, which lies in the bare repository `from`, as `branch`, which is at `previous` if it was published
    /// before. Doing it twice is the same as once; a branch that is anywhere else is left alone.
    async fn publish(
        &self,
        from: &Path,
        branch: &BranchName,
        commit: &str,
        previous: Option<&str>,
    ) -> Result<Published, Error>;

    /// Checks that a branch can be published, as far as that is known before there is one. What cannot be asked at the moment is
    /// no reason to refuse.
    async fn check_writable(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Where it is spoken about; `None` where nobody would hear it.
    fn hosting(&self) -> Option<&dyn Hosting> {
        None
    }
}

/// What of a history is fetched; all of it by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// Only this many of the newest commits.
    pub depth: Option<u32>,
    /// The contents of files only as of the commit itself. A mirror that was fetched into like this stays so.
    pub partial: bool,
}

/// Where work starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub commit: String,
    pub object_format: String,
    /// Name and e-mail address of the person, as git knows them.
    pub author: Option<(String, String)>,
    /// The branch that was named; `None` for a commit, a tag, or when none was.
    pub branch: Option<String>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The branch is in the person's own repository.
    InRepository,
    /// The branch is kept in the session's repository.
    KeptHere,
    /// The branch is where the repository is hosted.
    Hosted,
}

/// Whom hosts know this installation as. Accounts are added, replaced and removed while it runs.
#[async_trait]
pub trait Accounts: Send + Sync + std::fmt::Debug {
    /// The account on GitHub as of now, if there is one. The same client as long as nothing changes.
    async fn github(&self) -> Option<Arc<github::Client>>;
}

/// One that never changes.
#[async_trait]
impl Accounts for Option<Arc<github::Client>> {
    async fn github(&self) -> Option<Arc<github::Client>> {
        self.clone()
    }
}

/// Opens repositories by what people call them, with the accounts of this installation.
#[derive(Debug, Clone)]
pub struct Forges {
    git: Git,
    accounts: Arc<dyn Accounts>,
    closed: ClosedFolders,
    is_key: fn(&str) -> bool,
}

impl Forges {
    pub fn new(git: Git, accounts: Arc<dyn Accounts>, closed: ClosedFolders) -> Self {
        Self { git, accounts, closed, is_key: |_| false }
    }

    /// Those that open nothing whose address holds a key: addresses are stored and shown.
    pub fn without_keys(mut self, is_key: fn(&str) -> bool) -> Self {
        self.is_key = is_key;
        self
    }

    /// The account on GitHub as of now, if there is one.
    pub async fn github(&self) -> Option<Arc<github::Client>> {
        self.accounts.github().await
    }

    /// A path, `github:owner/name`, or a URL of a protocol that is safe to hand to git. What is on GitHub is reached with the
    /// installation's account where there is one, else as the person who runs this.
    pub async fn open(&self, text: &str) -> Result<Box<dyn Forge>, Error> {
        if (self.is_key)(text) {
            return Err(Error::UrlHoldsAccess { url: "the address".to_owned() });
        }
        if is_path(text) {
            self.closed.check(Path::new(text))?;
            let local = Local::open(Path::new(text), self.git.clone()).await?;
            // It may lead there by a link, or by a file in place of its `.git`.
            local.folders().into_iter().try_for_each(|folder| self.closed.check(folder))?;
            return Ok(Box::new(local));
        }
        if let Some(hosted) = self.open_hosted(text).await {
            return Ok(hosted);
        }
        if let Some(path) = remote::file_path(text) {
            self.closed.check(&path)?;
            if let Some(found) = remote::file_path(&spelled(text)) {
                self.check_where_git_looks(&found).await?;
            }
        }
        if text.starts_with("github:") {
            let public = github::Host::new(None)?;
            let refuse = || Error::UnsupportedUrl { url: text.to_owned(), reason: "it is not github:OWNER/NAME" };
            let repository = public.repository(text).ok_or_else(refuse)?;
            return open(&format!("{}/{repository}", public.web()), self.git.clone()).await;
        }
        open(text, self.git.clone()).await
    }

    /// Git opens the path of a `file:` address with and without `.git` behind it, and follows a file in place of a `.git` folder.
    async fn check_where_git_looks(&self, path: &Path) -> Result<(), Error> {
        // Without slashes at its end.
        let path: PathBuf = path.components().collect();
        let mut with_suffix = path.clone().into_os_string();
        with_suffix.push(".git");
        for path in [path, PathBuf::from(with_suffix)].into_iter().filter(|path| path.exists()) {
            self.closed.check(&path)?;
            let local = Local::open(&path, self.git.clone()).await?;
            local.folders().into_iter().try_for_each(|folder| self.closed.check(folder))?;
        }
        Ok(())
    }

    /// A repository that is hosted where this installation has an account. Never a path.
    pub async fn open_hosted(&self, text: &str) -> Option<Box<dyn Forge>> {
        // Nobody looks for the account for the sake of a folder.
        if !remote::looks_remote(text) {
            return None;
        }
        let client = self.github().await?;
        let repository = client.host().repository(text)?;
        Some(Box::new(github::GitHub::new(client, repository)))
    }
}

/// An address is never a path, whatever lies in the current folder.
fn is_path(text: &str) -> bool {
    !text.contains("://") && Path::new(text).exists()
}

/// The forge of what a person typed: a path, or a URL of a protocol that is safe to hand to git.
pub async fn open(text: &str, git: Git) -> Result<Box<dyn Forge>, Error> {
    if is_path(text) || !remote::looks_remote(text) {
        return Ok(Box::new(Local::open(Path::new(text), git).await?));
    }
    Ok(Box::new(Remote::new(text, git)?))
}

/// Refuses what git could take for an option or a command, before git sees it.
pub(crate) fn checked_base(base: &str) -> Result<&str, Error> {
    let reason = if base.is_empty() {
        "it is empty"
    } else if base.starts_with('-') {
        "it begins with a dash"
    } else if base.chars().any(char::is_control) || base.contains(char::is_whitespace) {
        "it contains white space or control characters"
    } else if base.contains("..") || base.contains(':') {
        "it is a range or a path, not one commit"
    } else {
        return Ok(base);
    };
    Err(Error::BadBase { base: base.to_owned(), reason })
}
