//! The account that a turn delivers with is the one there is by then: it may have been added, replaced or removed while the
//! turn went on.

use std::sync::Arc;

use harvest_core::EventBody;
use harvest_forge::Forge;

use super::status::asked_in;
use crate::Error;
use crate::error::Halt;
use crate::turn::Turn;

impl Turn {
    /// Where the repository is hosted, with the account as it is now.
    pub(crate) async fn forge(&self) -> Result<Arc<dyn Forge>, Error> {
        let forges = &self.engine.options.forges;
        match forges.open_hosted(&self.task.repository).await {
            Some(hosted) => Ok(hosted.into()),
            // An account that is gone is not used again.
            None if self.begun_with.hosting().is_some() => Ok(forges.open(&self.task.repository).await?.into()),
            None => Ok(Arc::clone(&self.begun_with)),
        }
    }

    /// Says why nothing is heard of the task where it was asked for.
    pub(super) async fn warn_without_account(&self) -> Result<(), Halt> {
        if asked_in(&self.task).is_none() && self.begun_with.hosting().is_none() {
            return Ok(());
        }
        let message = format!(
            "there is no GitHub account for {}: its issues and pull requests are not updated; add it: harvest credential \
             add github",
            self.task.repository
        );
        Ok(self.journal.tell_once(EventBody::Warning { message }).await?)
    }
}
