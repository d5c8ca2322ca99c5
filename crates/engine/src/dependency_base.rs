//! A task that was queued behind others of its repository begins with their result, unless its base was named.

use harvest_core::{Session, Task, TaskId};

use crate::error::Halt;
use crate::journal::Journal;
use crate::{Engine, Error};

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
        let (forge, mirror) = self.mirror_of(&task).await?;
        for (id, commit) in &results {
            if let Err(error) = mirror.ensure(commit, || forge.fetch(&mirror, commit)).await {
                let message = format!("the work begins without the result of task {}: {error}", id.short());
                journal.warn(message).await?;
                return Ok(task);
            }
        }
        // The result of a chain of tasks has those before it.
        let mut newest = None;
        for (_, commit) in &results {
            let mut has_all = true;
            for (_, other) in &results {
                has_all &= other == commit || mirror.is_ancestor(other, commit).await;
            }
            newest = newest.or(has_all.then_some(commit));
        }
        let Some(commit) = newest else {
            let names: Vec<&str> = results.iter().map(|(id, _)| id.short()).collect();
            let message = format!(
                "tasks {} changed the repository side by side: the work begins at {} without their results",
                names.join(" and "),
                task.base.get(..10).unwrap_or(&task.base)
            );
            journal.warn(message).await?;
            return Ok(task);
        };
        if !mirror.is_ancestor(&task.base, commit).await {
            let base = task.base.get(..10).unwrap_or(&task.base);
            journal
                .warn(format!("the result that the work begins with does not have {base}, which came later"))
                .await?;
        }
        self.options.store.set_base(journal.lease(), commit).await.map_err(Error::from)?;
        Ok(Task { base: commit.clone(), ..task })
    }

    /// What the tasks that it waited for delivered in the same repository.
    async fn results(&self, task: &Task) -> Result<Vec<(TaskId, String)>, Error> {
        let mut results = Vec::new();
        for id in &task.after {
            // One that was deleted since has left nothing to begin with.
            let before = match self.options.store.task(id).await {
                Ok(detail) => detail.task,
                Err(harvest_store::Error::UnknownTask(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            if let (Some(_), Some(commit), true) = (before.branch, before.commit, before.repository == task.repository)
            {
                results.push((before.id, commit));
            }
        }
        Ok(results)
    }
}
