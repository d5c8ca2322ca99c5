//! A task that was queued behind others of its repository begins with their result, unless its base was named.

use harvest_core::repository::Place;
use harvest_core::{Session, Task, TaskId};

use crate::error::Halt;
use crate::journal::Journal;
use crate::{Engine, Error};

/// What a task delivered that another one waited for.
struct Before {
    id: TaskId,
    commit: String,
    is_verified: bool,
}

impl Engine {
    /// The task with the base that its work begins with. It is settled before the first attempt, and stays from then on.
    pub(crate) async fn on_results(&self, journal: &Journal, task: Task, session: &Session) -> Result<Task, Halt> {
        let has_begun = session.turns.iter().any(|turn| turn.number > 1 || !turn.attempts.is_empty());
        if !task.settings.base_of_dependencies || has_begun {
            return Ok(task);
        }
        let results = self.results(&task).await?;
        if results.is_empty() {
            return Ok(task);
        }
        if let Some(doubtful) = results.iter().find(|before| !before.is_verified) {
            let (id, base) = (doubtful.id.short(), task.base.get(..10).unwrap_or(&task.base));
            let message = format!(
                "the result of task {id} is not verified: the task starts from {base} without it; --base names another"
            );
            journal.warn(message).await?;
            return Ok(task);
        }
        let (forge, mirror) = self.mirror_of(&task).await?;
        for Before { id, commit, .. } in &results {
            if let Err(error) = mirror.ensure(commit, || forge.fetch(&mirror, commit)).await {
                let message = format!("the task starts without the result of task {}: {error}", id.short());
                journal.warn(message).await?;
                return Ok(task);
            }
        }
        // The result of a chain of tasks has those before it.
        let mut newest = None;
        for Before { commit, .. } in &results {
            let mut has_all = true;
            for Before { commit: other, .. } in &results {
                has_all &= other == commit || mirror.is_ancestor(other, commit).await;
            }
            newest = newest.or(has_all.then_some(commit));
        }
        let Some(commit) = newest else {
            let names: Vec<&str> = results.iter().map(|before| before.id.short()).collect();
            let message = format!(
                "tasks {} changed the repository in parallel: the work starts at {} without their results",
                names.join(" and "),
                task.base.get(..10).unwrap_or(&task.base)
            );
            journal.warn(message).await?;
            return Ok(task);
        };
        if !mirror.is_ancestor(&task.base, commit).await {
            let base = task.base.get(..10).unwrap_or(&task.base);
            journal
                .warn(format!("the result that the task starts from does not contain {base}, which is newer"))
                .await?;
        }
        self.options.store.set_base(journal.lease(), commit).await.map_err(Error::from)?;
        Ok(Task { base: commit.clone(), ..task })
    }

    /// What the tasks that it waited for delivered in the same repository.
    async fn results(&self, task: &Task) -> Result<Vec<Before>, Error> {
        let mut results = Vec::new();
        for id in &task.after {
            // One that was deleted since has left nothing to begin with.
            let before = match self.options.store.task(id).await {
                Ok(detail) => detail.task,
                Err(harvest_store::Error::UnknownTask(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            // Work that proves nothing is not to pass as a part of work that does.
            let is_verified = before.evidence.is_some_and(|evidence| evidence.proves_success());
            let is_here = Place::of(&before.repository) == Place::of(&task.repository);
            if let (Some(_), Some(commit), true) = (before.branch, before.commit, is_here) {
                results.push(Before { id: before.id, commit, is_verified });
            }
        }
        Ok(results)
    }
}
