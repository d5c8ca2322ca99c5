//! The end of a session that nobody wants to keep: nothing of it is left.

use harvest_core::SessionId;
use harvest_store::Forgotten;

use crate::{Engine, Error};

impl Engine {
    /// Forgets a session whose task has ended: its journal and everything else in the store, then its repository with all
    /// checkpoints. What was delivered is not its own any more, and stays. Should this process die in between, whoever next
    /// clears up the data directory finds a repository that belongs to no session.
    pub async fn forget_session(&self, session: &SessionId) -> Result<Forgotten, Error> {
        let forgotten = self.options.store.forget_session(session).await?;
        if forgotten != Forgotten::Session {
            return Ok(forgotten);
        }
        let folder = self.options.data.sessions().join(session.as_str());
        let path = folder.display().to_string();
        let removing = tokio::task::spawn_blocking(move || match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        let removed = removing.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        removed.map_err(|source| Error::Io { action: "remove", path, source })?;
        Ok(forgotten)
    }
}
