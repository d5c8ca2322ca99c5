//! The newest work of a session, for people who look at it before the task has ended.

use harvest_core::{BranchName, SessionId, Task};
use harvest_store::Store;
use harvest_workspace::SessionRepository;

use crate::{DataFolder, Error};

/// The newest commit of a session's work that is in its repository on this machine.
#[derive(Debug)]
pub struct NewestWork {
    pub repository: SessionRepository,
    pub commit: String,
}

impl NewestWork {
    /// The result of a task that has ended; of another the last commit that left the sandbox. `None` if none did, or the
    /// repository is not on this machine.
    pub async fn find(
        data: &DataFolder,
        store: &dyn Store,
        task: &Task,
        (session, branch): (&SessionId, &BranchName),
    ) -> Result<Option<Self>, Error> {
        let Some(repository) = data.existing_repository(session) else { return Ok(None) };
        let told = if task.status.is_finished() { None } else { store.newest_work(session).await? };
        let is_here = match &told {
            Some(told) => repository.tip(told).await?.is_some(),
            None => false,
        };
        let commit = match told.filter(|_| is_here).or_else(|| task.commit.clone()) {
            Some(commit) => Some(commit),
            None => repository.newest(session, branch).await?.filter(|commit| *commit != task.base),
        };
        Ok(commit.map(|commit| Self { repository, commit }))
    }
}
