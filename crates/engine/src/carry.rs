//! The branch that work goes into moves on. A session that goes on is carried onto its new end first, in memory; where both
//! sides changed the same places, that becomes part of what the agent is asked to do. Nothing is ever thrown away: what a turn
//! began with stays a commit of the session's repository.

use harvest_core::{EventBody, Prompt, Session, Task, Turn as CoreTurn};
use harvest_forge::Forge;
use harvest_workspace::{Author, Carried, Mirror, NewCommit, SessionRepository};

use crate::error::Halt;
use crate::failpoint;
use crate::journal::Journal;

/// What a turn stands on.
pub(crate) struct Standing {
    /// With the base, and the prompt, as they are now.
    pub(crate) task: Task,
    pub(crate) start: String,
}

/// Where the base was carried to last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) commit: Option<String>,
    pub(crate) conflicts: Vec<String>,
    /// In the turn under way.
    pub(crate) now: bool,
}

/// What a turn finds when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    Anew,
    /// An agent has been at work all the time; what it stands on is as it was.
    WithItsAgent,
    /// It goes on with work that was carried, or not, when the turn first began.
    Interrupted,
}

/// Carries the work of a session that goes on, where it is hosted. The first turn begins at its base, whatever came since.
pub(crate) async fn carry(
    forge: &dyn Forge,
    mirror: &Mirror,
    repository: &SessionRepository,
    journal: &Journal,
    (mut task, session): (Task, &Session),
    start: String,
    begins: Begins,
) -> Result<Standing, Halt> {
    let moved = journal.moved().await?;
    task.base = base_of(repository, &moved, &task.base, &start).await?;
    let turn = session.turns.iter().find(|turn| turn.id == journal.lease().turn);
    let Some(turn) = turn.filter(|turn| turn.number > 1 && forge.hosting().is_some() && begins != Begins::Interrupted)
    else {
        return Ok(Standing { task, start });
    };
    let now = match moved.into_iter().find(|moved| moved.now) {
        Some(before_a_crash) => Some(before_a_crash),
        None if begins == Begins::WithItsAgent => None,
        None => look(forge, mirror, repository, journal, &task, turn, &start).await?,
    };
    let Some(now) = now else { return Ok(Standing { task, start }) };
    match now.commit {
        Some(commit) => {
            task.base = now.to;
            Ok(Standing { task, start: commit })
        }
        None => {
            task.prompt = explained(&now, &task.prompt);
            Ok(Standing { task, start })
        }
    }
}

/// The newest base that a commit of the session stands on: it was carried there, or after a conflict the agent has put it there.
pub(crate) async fn base_of(
    repository: &SessionRepository,
    moved: &[Moved],
    first: &str,
    commit: &str,
) -> Result<String, harvest_workspace::Error> {
    for moved in moved.iter().rev() {
        if repository.is_ancestor(&moved.to, commit).await? {
            return Ok(moved.to.clone());
        }
    }
    Ok(first.to_owned())
}

async fn look(
    forge: &dyn Forge,
    mirror: &Mirror,
    repository: &SessionRepository,
    journal: &Journal,
    task: &Task,
    turn: &CoreTurn,
    start: &str,
) -> Result<Option<Moved>, Halt> {
    let to = match forge.resolve(task.settings.base_branch.as_deref()).await {
        Ok(tip) => tip.commit,
        // Whoever cannot be asked now has not moved as far as anyone knows.
        Err(error) => {
            journal.warn(format!("cannot check whether the base has moved: {error}")).await?;
            return Ok(None);
        }
    };
    if to == task.base {
        return Ok(None);
    }
    mirror.ensure(&to, || forge.fetch(mirror, &to)).await?;
    // Work that began elsewhere than in this branch is left where it is, and so is work that has all of it already.
    if !mirror.is_ancestor(&task.base, &to).await || repository.is_ancestor(&to, start).await? {
        return Ok(None);
    }
    let new = NewCommit {
        content: start.to_owned(),
        parent: to.clone(),
        message: "Work in progress, on a base that has moved\n".to_owned(),
        author: Author { name: task.settings.author_name.clone(), email: task.settings.author_email.clone() },
        seconds: turn.created_at.as_second(),
    };
    let carried = repository.carry(&task.base, &new).await?;
    failpoint::reach("carry::done")?;
    let (commit, conflicts) = match carried {
        Carried::Onto(commit) => (Some(commit), Vec::new()),
        Carried::Conflicts(paths) => (None, paths),
    };
    let (from, to) = (task.base.clone(), to);
    let told = EventBody::BaseMoved {
        from: from.clone(),
        to: to.clone(),
        commit: commit.clone(),
        conflicts: conflicts.clone(),
    };
    journal.write(vec![told]).await?;
    Ok(Some(Moved { from, to, commit, conflicts, now: true }))
}

/// A conflict, as the agent is told of it, before what it was asked anyway.
fn explained(moved: &Moved, prompt: &Prompt) -> Prompt {
    const MOST: usize = 50;
    let files: Vec<String> = moved.conflicts.iter().take(MOST).map(|path| format!("- {path}")).collect();
    let text = format!(
        "The branch that your work goes into has moved on, from {from} to {to}, and both changed the same places of these \
         files:\n\n{files}\n\nBefore anything else, bring your work onto it: `git fetch origin {to}`, then `git rebase --onto \
         {to} {from}`; in each conflict keep what both sides meant. Do not drop changes of either side.\n\nThen:\n\n{prompt}",
        from = moved.from,
        to = moved.to,
        files = files.join("\n"),
    );
    Prompt::new(text).unwrap_or_else(|_| prompt.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_explained_before_what_was_asked() {
        let moved = Moved {
            from: "a1".into(),
            to: "b2".into(),
            commit: None,
            conflicts: vec!["src/x.rs".into(), "y".into()],
            now: true,
        };
        let told = explained(&moved, &Prompt::new("Go on.").unwrap());
        assert!(told.as_str().contains("- src/x.rs\n- y\n") && told.as_str().ends_with("Then:\n\nGo on."), "{told}");
        assert!(told.as_str().contains("git rebase --onto b2 a1"), "{told}");
    }
}
