//! `harvest task apply`: merges a task's branch into the current branch of its repository, or says why it cannot.

use std::path::Path;

use harvest_core::{Code, Evidence, Task, TaskId, TaskStatus, TestVerdict};
use harvest_forge::{Forge, Local};
use harvest_workspace::{Error, Git};

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

/// A branch that became part of another.
#[derive(Debug)]
pub struct Merged {
    pub branch: String,
    /// The current branch of the work tree.
    pub into: String,
    pub before: String,
    pub after: String,
}

pub async fn apply(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    force: bool,
) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    must_have_branch(&detail.task)?;
    let git = installation.environment.git();
    let local = here(&git, &detail.task).await?;
    let how_to_force = format!("harvest task apply {} --force", id.short());
    let Merged { branch, into, before, after } = merge(installation, &detail, &local, force, &how_to_force).await?;
    let _ = if global.json {
        output::json(&harvest_api_types::Merge { branch, into, before, commit: after })
    } else if before == after {
        output::line(&format!("{} {into} already has {branch}", style.ok()))
    } else {
        output::line(&format!(
            "{} {branch} is now part of {into} ({} {} {})",
            style.ok(),
            &before[..10],
            style.arrow(),
            &after[..10]
        ))
    };
    Ok(Exit::Done)
}

/// Merges the work of a task into the current branch of its own repository, which lies on this machine.
pub async fn apply_in_repository(installation: &Installation, id: &TaskId, force: bool) -> Result<Merged, Failure> {
    let detail = installation.store.task(id).await?;
    must_have_branch(&detail.task)?;
    let repository = Path::new(&detail.task.repository);
    if !repository.is_absolute() || !repository.exists() {
        let message = format!("{} is not a repository on the server's machine", detail.task.repository);
        let help = "merge the branch where the repository is hosted, or download the patch";
        return Err(Failure::refused(Code::CannotApply, message, help));
    }
    // Folders of Harvest itself are refused here, also where a link leads to them.
    installation.forges.open(&detail.task.repository).await?;
    let local = Local::open(repository, installation.environment.git()).await?;
    merge(installation, &detail, &local, force, "apply it with `force`").await
}

fn must_have_branch(task: &Task) -> Result<(), Failure> {
    if task.branch.is_some() && task.commit.is_some() {
        return Ok(());
    }
    let short = task.id.short();
    if task.status == TaskStatus::AwaitingApproval {
        let message = format!("task {short} has no branch yet: it waits for your approval");
        let help = format!("see what it proposes: harvest task show {short}; then harvest task approve {short}");
        return Err(Failure::refused(Code::NothingToApply, message, help));
    }
    if !task.status.is_finished() {
        let message = format!("task {short} has no branch yet: it is {}, and its work is not finished", task.status);
        let next = match task.status {
            TaskStatus::Interrupted => format!("harvest session resume {short} continues it"),
            _ => "its branch comes with its end".to_owned(),
        };
        let help = format!(
            "see the work so far: harvest task diff {short}; {next}; harvest task cancel {short} ends it and delivers its work"
        );
        return Err(Failure::refused(Code::NothingToApply, message, help));
    }
    if task.has_undelivered_work() {
        let why = task.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        let message = format!("task {short} has no branch: it is {} and its work was not delivered{why}", task.status);
        let help = format!(
            "the work is kept in Harvest; see it: harvest task diff {short}; try again: harvest task retry {short}"
        );
        return Err(Failure::refused(Code::NothingToApply, message, help));
    }
    let message = format!("task {short} has no branch: it is {} with no changes", task.status);
    Err(Failure::refused(Code::NothingToApply, message, format!("see what happened: harvest task logs {short}")))
}

/// Merges the work of a task into the branch that a work tree is on, or leaves the work tree as it was.
async fn merge(
    installation: &Installation,
    detail: &harvest_store::TaskDetail,
    local: &Local,
    force: bool,
    how_to_force: &str,
) -> Result<Merged, Failure> {
    let (task, git) = (&detail.task, installation.environment.git());
    let (id, short) = (&task.id, task.id.short());
    let (Some(branch), Some(commit), Some(session)) = (&task.branch, &task.commit, detail.sessions.first()) else {
        return Err(must_have_branch(task).err().unwrap_or_else(|| {
            Failure::refused(Code::NothingToApply, format!("task {short} has no session"), "see harvest task show")
        }));
    };
    let into = local.path();
    let refuse = |message: String, help: String| Failure::refused(Code::CannotApply, message, help);
    let current = git.line(into, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await.map_err(|_| {
        refuse(
            format!("{} is not on a branch", into.display()),
            format!("go to one first: git switch main, then harvest task apply {short}"),
        )
    })?;
    if git.line(into, &["rev-parse", "--is-inside-work-tree"]).await? != "true" {
        return Err(refuse(
            format!("{} has no work tree to merge in", into.display()),
            format!("merge it in a clone: git pull {} {branch}", into.display()),
        ));
    }
    if let Some(doubt) = doubt(task).filter(|_| !force) {
        return Err(refuse(
            format!("task {short} {doubt}; it is not merged into {current} unless you force it"),
            format!("look at its changes first: harvest task diff {short}; then {how_to_force}"),
        ));
    }
    local.resolve(None).await?;
    let changed = git.line(into, &["status", "--porcelain", "--untracked-files=no"]).await?;
    if !changed.is_empty() {
        let files = if changed.lines().count() == 1 { "a file has" } else { "files have" };
        return Err(refuse(
            format!("{files} uncommitted changes in {}", into.display()),
            "commit them first: git commit -a".into(),
        ));
    }
    if git.run(into, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).await.is_err() {
        let repository = installation.data.existing_repository(&session.id);
        if let Some(repository) = repository {
            local.publish(repository.path(), branch, commit, None).await?;
        }
    }
    let before = git.line(into, &["rev-parse", "HEAD"]).await?;
    // A merge that has nothing to do would still move ORIG_HEAD.
    if git.run(into, &["merge-base", "--is-ancestor", commit, "HEAD"]).await.is_ok() {
        return Ok(Merged { branch: branch.to_string(), into: current, after: before.clone(), before });
    }
    check_mergeable(&git, into, commit, branch.as_str(), &current).await?;
    harvest_store::record_now(installation.store.as_ref(), &format!("task:{id}")).await?;
    let message = format!("Merge {branch}\n\nHarvest task {id}");
    if let Err(error) = git.run(into, &["merge", "--quiet", "-m", &message, commit]).await {
        let _ = git.run(into, &["merge", "--abort"]).await;
        return Err(refuse(
            format!("git refused the merge: {error}"),
            format!("merge it yourself: git merge {branch}"),
        ));
    }
    let after = git.line(into, &["rev-parse", "HEAD"]).await?;
    Ok(Merged { branch: branch.to_string(), into: current, before, after })
}

/// The work tree around the current folder, if it is one of the task's repository.
async fn here(git: &Git, task: &Task) -> Result<Local, Failure> {
    let elsewhere = || {
        let repository = &task.repository;
        let help = match Path::new(repository).exists() {
            true => format!("go there first: cd {repository} && harvest task apply {}", task.id.short()),
            false => format!("go to a clone of it first, then harvest task apply {}", task.id.short()),
        };
        let message = format!("the task belongs to {repository}, and the current folder is not in that repository");
        Failure::refused(Code::CannotApply, message, help)
    };
    let local = Local::open(Path::new("."), git.clone()).await.map_err(|_| elsewhere())?;
    let repository = Path::new(&task.repository);
    let is_same = if repository.exists() {
        // Work trees of one repository share this folder.
        let common = async |folder: &Path| {
            let found = git.line(folder, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).await.ok()?;
            std::fs::canonicalize(found).ok()
        };
        let (this, wanted) = (common(local.path()).await, common(repository).await);
        this.is_some() && this == wanted
    } else {
        // Of a repository behind a URL any clone will do; it has the commit that the task began with.
        git.run(local.path(), &["cat-file", "-e", &format!("{}^{{commit}}", task.base)]).await.is_ok()
    };
    if is_same { Ok(local) } else { Err(elsewhere()) }
}

/// Why a person should look at the work before it is merged.
fn doubt(task: &Task) -> Option<String> {
    match (task.status, task.evidence.as_ref().map(Evidence::verdict)) {
        // A project has said that it accepts unchanged failures, or the task would have failed.
        (TaskStatus::Completed, Some(TestVerdict::Verified | TestVerdict::Unchanged)) => None,
        (TaskStatus::Completed, Some(verdict)) => Some(format!("is {}", verdict.explain())),
        (TaskStatus::Completed, None) => Some("is not verified: there was no test command".to_owned()),
        (TaskStatus::Failed, _) => Some("failed".to_owned()),
        (TaskStatus::Cancelled, _) => Some("was cancelled".to_owned()),
        (status, _) => Some(format!("is {status}")),
    }
}

/// Tries the merge in memory, so that a conflict leaves the work tree as it was.
async fn check_mergeable(git: &Git, into: &Path, commit: &str, branch: &str, current: &str) -> Result<(), Failure> {
    let tried = git.run(into, &["merge-tree", "--write-tree", "--name-only", "--no-messages", "HEAD", commit]).await;
    match tried {
        Ok(_) => Ok(()),
        // Old versions of git cannot; the merge itself is undone when it fails.
        Err(Error::Git { message, .. }) if message.contains("usage") || message.contains("unknown") => Ok(()),
        Err(Error::Git { .. }) => Err(Failure::refused(
            Code::CannotApply,
            format!("{branch} and {current} changed the same lines"),
            format!("merge it yourself and resolve the conflict: git merge {branch}"),
        )),
        Err(error) => Err(error.into()),
    }
}
