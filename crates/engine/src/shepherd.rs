//! What people are told of a task before anyone works on it.

use harvest_core::Task;
use harvest_forge::Hosting;

use crate::Engine;
use crate::deliver::say;

impl Engine {
    /// Tells where a task came from that it is in the queue. Nobody hearing it changes nothing.
    pub async fn announce(&self, hosting: &dyn Hosting, task: &Task, number: u64) {
        let text = if task.settings.plan {
            // The comment is edited once there is a plan, and says then how to decide on it.
            "📝 **Queued for a plan**, which someone with write access has to approve"
        } else {
            "🕑 **Queued**"
        };
        if let Err(error) = say(hosting, number, task, text).await {
            tracing::warn!(%error, "a task could not be announced");
        }
    }
}
