//! `harvest task apply`: merges a task's branch into the current branch of its repository, or says why it cannot.

use std::path::Path;

use harvest_core::{Code, Evidence, Task, TaskId, TaskStatus, TestVerdict};
use harvest_forge::{Forge, Local};
use harvest_workspace::{Error, Git};
use serde_json::json;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::Style;

pub async fn apply(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &TaskId,
    force: bool,
) -> Result<Exit, Failure> {
    let detail = installation.store.task(id).await?;
    let (task, short) = (&detail.task, id.short());
    let (Some(branch), Some(commit), Some(session)) = (&task.branch, &task.commit, detail.sessions.first()) else {
        let message = format!("task {short} has no branch: it is {} with no changes", task.status);
        return Err(Failure::refused(
            Code::NothingToApply,
            message,
            format!("see what happened: harvest task logs {short}"),
        ));
    };
    let git = installation.environment.git();
    let local = here(&git, task).await?;
    let into = local.path();
    let refuse = |message: String, help: String| Failure::refused(Code::CannotApply, message, help);
    let current = git.line(into, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await.map_err(|_| {
        refuse(
            format!("{} is not on a branch", into.display()),
            format!("go to one first: git switch main, then harvest task apply {short}"),
        )
    })?;
    if let Some(doubt) = doubt(task).filter(|_| !force) {
        return Err(refuse(
            format!("task {short} {doubt}, and would be merged into {current}"),
            format!("look at it first: harvest task diff {short}; then harvest task apply {short} --force"),
        ));
    }
    local.resolve(None).await?;
    let changed = git.line(into, &["status", "--porcelain", "--untracked-files=no"]).await?;
    if !changed.is_empty() {
        let count = changed.lines().count();
        return Err(refuse(
            format!("{count} files in {} have uncommitted changes", into.display()),
            "commit them first: git commit -a".into(),
        ));
    }
    if git.run(into, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).await.is_err() {
        let repository = installation.data.existing_repository(&session.id);
        if let Some(repository) = repository {
            local.publish(repository.path(), branch, commit, None).await?;
        }
    }
    check_mergeable(&git, into, commit, branch.as_str(), &current).await?;
    let before = git.line(into, &["rev-parse", "HEAD"]).await?;
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
    let _ = if global.json {
        output::json(&json!({ "task_id": id, "branch": branch, "into": current, "before": before, "commit": after }))
    } else if before == after {
        output::line(&format!("{} {current} already has {branch}", style.ok()))
    } else {
        output::line(&format!(
            "{} {branch} is now part of {current} ({} {} {})",
            style.ok(),
            &before[..10],
            style.arrow(),
            &after[..10]
        ))
    };
    Ok(Exit::Done)
}

/// The work tree around the current folder, if it is one of the task's repository.
async fn here(git: &Git, task: &Task) -> Result<Local, Failure> {
    let elsewhere = || {
        let repository = &task.repository;
        let help = match Path::new(repository).exists() {
            true => format!("go there first: cd {repository} && harvest task apply {}", task.id.short()),
            false => format!("go to a clone of it first, then harvest task apply {}", task.id.short()),
        };
        let message = format!("the task is of {repository}, and the current folder is not in that repository");
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
