//! From a spare to a turn's place: it gets a session, then a gateway.

use std::sync::Arc;
use std::time::Instant;

use harvest_core::{EventBody, SandboxPurpose};
use harvest_gateway::Meter;

use super::seed::Waits;
use super::{Key, Spare};
use crate::egress;
use crate::error::Halt;
use crate::place::{Place, millis};
use crate::turn::Turn;

impl Turn {
    /// A place that was made before, if there is one that differs in nothing.
    pub(crate) async fn claim_spare(&self, meter: Arc<dyn Meter>) -> Result<Option<Place>, Halt> {
        // A spare is made with the hosts and registries of its project, which a stranger's plan does not have.
        if !self.engine.warm.is_open() || egress::is_closed(&self.task, self.plan.is_wanted()) {
            return Ok(None);
        }
        let Some(mut seed) = self.engine.seed(&self.task, &self.mirror) else { return Ok(None) };
        // An agent that waits knows nothing of what was said before, and makes no plan.
        if self.goes_on || self.plan.is_wanted() {
            seed.waits = Waits::Process;
        }
        let key = Key::of(&self.engine, &seed, &self.snapshot);
        let Some(spare) = self.engine.warm.claim(seed, &key) else { return Ok(None) };
        let begun = Instant::now();
        let (id, age) = (spare.sandbox.id().clone(), spare.age());
        let purpose = SandboxPurpose::Execute;
        // The session's from here on: whoever gives the turn up removes it.
        self.engine.options.store.record_sandbox(self.record_of(&id, purpose)).await?;
        let serving = match self.serve(&id, purpose, meter) {
            Ok(serving) => serving,
            Err(error) => {
                tracing::warn!(%error, "a spare sandbox could not be used");
                self.clear_away(&id).await?;
                return Ok(None);
            }
        };
        let Spare { sandbox, workspace, network, files, agent, .. } = spare;
        let ready = EventBody::SandboxReady {
            sandbox_id: id,
            purpose,
            provider: sandbox.provider().to_owned(),
            workspace,
            duration_ms: millis(begun.elapsed()),
            warm: true,
            age_ms: Some(millis(age)),
        };
        self.journal.write(vec![ready]).await?;
        Ok(Some(Place::new(sandbox, serving, network, files).warm(agent)))
    }
}
