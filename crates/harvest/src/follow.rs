//! Follows a session's journal: first what is there, then what comes, each event once and in order.

use std::sync::Arc;

use harvest_core::{Event, EventBody, SessionId};
use harvest_store::{Error, OwnerKind, Store};

use crate::failure::Failure;
use crate::output;

const PAGE: usize = 500;

#[derive(Debug)]
pub struct Follow {
    store: Arc<dyn Store>,
    session: SessionId,
    last: u64,
    grown: tokio::sync::watch::Receiver<u64>,
}

impl Follow {
    pub fn new(store: Arc<dyn Store>, session: SessionId) -> Self {
        let grown = store.watch(&session);
        Self { store, session, last: 0, grown }
    }

    /// The next events. Waits when there are none yet.
    pub async fn next(&mut self) -> Result<Vec<Event>, Error> {
        loop {
            // Marked before reading, so that what is written meanwhile wakes us up again.
            self.grown.mark_unchanged();
            let events = self.now().await?;
            if !events.is_empty() {
                return Ok(events);
            }
            self.grown.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    /// What is there already.
    pub async fn now(&mut self) -> Result<Vec<Event>, Error> {
        let events = self.store.events(&self.session, self.last, PAGE).await?;
        if let Some(event) = events.last() {
            self.last = event.seq;
        }
        Ok(events)
    }
}

/// Says at once why a follower may have to wait for long, and how to change that.
pub fn tell_idle(workers: usize, is_paused: bool) {
    if is_paused {
        output::complain("note: the queue is paused; `harvest queue resume` starts it again");
    }
    if workers == 0 {
        output::complain("note: no worker is running; start one with `harvest up`, for example in another terminal");
    }
}

/// The same for the queue of this machine.
pub async fn tell_idle_here(store: &dyn Store) -> Result<(), Error> {
    let workers = store.owners().await?.iter().filter(|owner| owner.kind == OwnerKind::Server).count();
    tell_idle(workers, store.queue_settings().await?.paused);
    Ok(())
}

/// A journal, wherever it is.
pub trait Following {
    /// The next events. Waits when there are none yet.
    async fn next(&mut self) -> Result<Vec<Event>, Failure>;
}

impl Following for Follow {
    async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        Ok(Self::next(self).await?)
    }
}

pub fn ends(event: &Event) -> bool {
    matches!(event.body, EventBody::TaskFinished(_))
}
