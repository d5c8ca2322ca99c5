//! The snapshot a session starts from: a prepared one where there is one that helps, else a plain checkout.

use std::path::Path;

use harvest_core::FailureReason;
use harvest_workspace::{Manifest, Mirror, Snapshot, script};

use crate::error::Halt;
use crate::place::{OBJECTS_INSIDE, Place};
use crate::turn::Turn;
use crate::{Engine, Error, Failure};

const SETTLE_LIMIT: std::time::Duration = std::time::Duration::from_secs(120);
const SHOWN: usize = 10;

impl Engine {
    /// With a warning when the dependencies are not quite those of `base`.
    pub(crate) async fn snapshot_for(&self, mirror: &Mirror, base: &str) -> Result<(Snapshot, Option<String>), Error> {
        // What is installed has the workspace's path in it, which is the same in every sandbox, but not without one.
        if self.options.provider.capabilities().isolated {
            for (manifest, warning) in self.fitting(mirror, base).await? {
                // It may have been replaced in between.
                if let Some(snapshot) = self.prepared.open(mirror.key(), &manifest).await? {
                    return Ok((snapshot, warning));
                }
            }
        }
        Ok((self.snapshots.open(mirror, base, Path::new(OBJECTS_INSIDE)).await?, None))
    }

    /// Of the very commit; else with the same dependencies; else of an earlier state of the same history.
    async fn fitting(&self, mirror: &Mirror, base: &str) -> Result<Vec<(Manifest, Option<String>)>, Error> {
        let known = self.prepared.manifests(mirror.key());
        if let Some(exact) = known.iter().find(|manifest| manifest.commit == base) {
            return Ok(vec![(exact.clone(), None)]);
        }
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let fingerprint = super::needs(mirror, base).await?.fingerprint;
        let (same, other): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|manifest| manifest.fingerprint == fingerprint);
        let mut fitting: Vec<_> = same.into_iter().map(|manifest| (manifest, None)).collect();
        for manifest in other {
            if mirror.is_ancestor(&manifest.commit, base).await {
                let commit = manifest.commit.get(..SHOWN).unwrap_or(&manifest.commit);
                let warning = format!(
                    "the dependencies are from {commit}: their lockfiles or versions have changed since; \
                     `harvest repo build` installs the new ones"
                );
                fitting.push((manifest, Some(warning)));
            }
        }
        Ok(fitting)
    }
}

impl Turn {
    /// On a prepared snapshot: the home shows what was installed there, and the checkout is at the base.
    pub(crate) async fn settle(&self, place: &Place) -> Result<(), Halt> {
        if self.snapshot.manifest().is_none() {
            return Ok(());
        }
        let ran = self.run(place, "settle", &script::settle(), &[("BASE", &self.task.base)], SETTLE_LIMIT).await?;
        if ran.succeeded() {
            return Ok(());
        }
        let message = format!("the workspace could not be brought to the base: {}", ran.last_line());
        Err(Failure::new(FailureReason::Sandbox, message).into())
    }
}
