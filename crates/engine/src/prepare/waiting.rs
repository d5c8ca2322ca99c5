//! Waiting for a build that another process has begun, with what it says meanwhile.

use std::time::Duration;

use harvest_workspace::Building;
use tokio::sync::mpsc;

use super::log::Tail;
use super::{Progress, Report, State};
use crate::{Engine, Error, Stop};

/// How soon what the other process says is shown; its end is noticed at once.
const GLANCE: Duration = Duration::from_millis(500);

/// How waiting ended.
pub(super) enum Waited {
    Over(Box<Over>),
    /// The other build goes on.
    Stopped,
}

/// The other build has ended, and this process may build.
pub(super) struct Over {
    pub(super) building: Building,
    /// What the other build came to, if it recorded anything.
    pub(super) other: Option<Report>,
}

impl Engine {
    pub(super) async fn wait_for_build(
        &self,
        key: &str,
        progress: &mpsc::Sender<Progress>,
        stop: &Stop,
    ) -> Result<Waited, Error> {
        let message = "another process is building it; waiting for that build to end".to_owned();
        let _ = progress.send(Progress::Note { message }).await;
        let before = State::read(&self.prepared, key).map(|state| state.report);
        let mut tail = Tail::of(&self.options.data.prepared().join(key));
        let free = self.prepared.begin_when_free(key);
        tokio::pin!(free);
        let building = loop {
            tokio::select! {
                building = &mut free => break building?,
                () = stop.requested() => return Ok(Waited::Stopped),
                () = tokio::time::sleep(GLANCE) => show(&mut tail, progress),
            }
        };
        show(&mut tail, progress);
        let after = State::read(&self.prepared, key).map(|state| state.report);
        Ok(Waited::Over(Box::new(Over { building, other: after.filter(|after| before.as_ref() != Some(after)) })))
    }
}

/// Lines may be lost on whoever reads too slowly; nothing waits for them.
fn show(tail: &mut Tail, progress: &mpsc::Sender<Progress>) {
    tail.lines().into_iter().for_each(|text| drop(progress.try_send(Progress::Log { text })));
}
