//! What people and Harvest say to each other about work, where a repository is hosted: pull requests, comments, checks and
//! reviews. One contract, whoever hosts it.
//!
//! Whatever makes something looks first whether it is there already, so that doing it twice is the same as once.

use async_trait::async_trait;
use harvest_core::BranchName;
use secrecy::SecretString;

use crate::Error;

#[async_trait]
pub trait Hosting: Send + Sync + std::fmt::Debug {
    /// Opens the pull request of a branch, or brings the one there is up to date. It is opened as the person whose token this is,
    /// where the host lets them, else as the account.
    async fn propose(&self, proposal: &Proposal, person: Option<&SecretString>) -> Result<PullRequest, Error>;

    async fn pull_request(&self, number: u64) -> Result<PullRequest, Error>;

    /// Says `text` under an issue or a pull request, in the one comment that carries `marker`: written once, edited from then
    /// on. Where nothing has changed nothing is sent.
    async fn tell(&self, number: u64, marker: &str, text: &str) -> Result<(), Error>;

    /// An issue or pull request with what was said about it, oldest first.
    async fn thread(&self, number: u64) -> Result<Thread, Error>;

    /// The checks of a commit that failed, with the end of what they printed.
    async fn failed_checks(&self, commit: &str) -> Result<Vec<FailedCheck>, Error>;

    /// The remarks of one review.
    async fn remarks(&self, pull_request: u64, review: u64) -> Result<Vec<Remark>, Error>;

    /// Gives a review with remarks on lines, unless the one that carries its marker was given before.
    async fn review(&self, pull_request: u64, review: &Review) -> Result<(), Error>;

    /// Whether someone may write to the repository; who may not is a stranger, whatever they say.
    async fn standing(&self, login: &str) -> Result<Standing, Error>;
}

/// What a pull request is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    pub branch: BranchName,
    /// Where it is to be merged; `None`: the repository's own branch.
    pub into: Option<String>,
    pub title: String,
    pub body: String,
    /// Not meant to be merged as it is.
    pub draft: bool,
    pub labels: Vec<String>,
    /// People and, as `organisation/team`, teams. Whom the host does not accept is left out.
    pub reviewers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub number: u64,
    /// Where people look at it.
    pub url: String,
    /// The name of its branch, and the commit it is at.
    pub branch: String,
    pub head: String,
    /// The branch it goes into.
    pub into: String,
    pub state: PullRequestState,
    pub draft: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullRequestState {
    Open,
    Merged,
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub title: String,
    pub body: String,
    pub author: String,
    pub comments: Vec<Comment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    pub author: String,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    pub name: String,
    pub url: Option<String>,
    /// What it said of itself, and the end of its log.
    pub output: String,
}

/// A remark on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub path: String,
    pub line: Option<u64>,
    pub author: String,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// What tells it from others, not shown to people.
    pub marker: String,
    pub commit: String,
    pub body: String,
    pub remarks: Vec<Remark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// May write, maintain or administer.
    Writer,
    Stranger,
}
