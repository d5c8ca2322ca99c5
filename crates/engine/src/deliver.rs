//! The finished branch goes where the person can see it, also when the task failed: work is kept.

use harvest_core::{BranchName, EventBody};
use harvest_forge::Published;

use crate::error::Halt;
use crate::failpoint;
use crate::turn::Turn;

impl Turn {
    /// The delivered branch; `None` when nothing ever changed. Doing it twice is the same as once.
    pub(crate) async fn deliver(&self, commit: &str) -> Result<Option<BranchName>, Halt> {
        failpoint::reach("deliver::before")?;
        if commit == self.task.base && self.task.branch.is_none() {
            return Ok(None);
        }
        self.hooks_before_delivery(commit).await?;
        let branch = &self.session.branch;
        self.repository.set_branch(branch, commit).await?;
        let previous = self.journal.last_delivered(branch).await?;
        // Who has lost the lease must not publish; who loses it right now meets the branch where it does not expect it.
        self.journal.write(Vec::new()).await?;
        let published = self.forge.publish(self.repository.path(), branch, commit, previous.as_deref()).await?;
        failpoint::reach("deliver::published")?;
        let mut events = vec![EventBody::BranchDelivered { branch: branch.clone(), commit: commit.to_owned() }];
        if published == Published::KeptHere {
            let message = format!(
                "the branch is kept by Harvest; merge it in a clone: harvest task apply {}",
                self.task.id.short()
            );
            events.push(EventBody::Warning { message });
        }
        self.journal.write(events).await?;
        Ok(Some(branch.clone()))
    }
}
