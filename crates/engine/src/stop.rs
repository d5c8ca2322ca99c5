//! How a person stops a turn, for good or for a while: a flag that everyone can wait for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use harvest_core::{Stopping, TaskId};
use tokio::sync::watch;

/// Cheap to clone; all clones are one flag.
#[derive(Debug, Clone)]
pub struct Stop {
    flag: Arc<watch::Sender<Option<Stopping>>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { flag: Arc::new(watch::channel(None).0) }
    }
}

impl Stop {
    pub fn request(&self) {
        self.request_as(Stopping::Cancel);
    }

    /// The last word counts, but whoever was in more haste is not held up, and who is cancelled stays so.
    pub fn request_as(&self, how: Stopping) {
        let weight = |how: &Stopping| match how {
            Stopping::Interrupt { .. } => 0,
            Stopping::Lose { .. } => 1,
            Stopping::Cancel => 2,
            Stopping::Terminate => 3,
        };
        self.flag.send_if_modified(|wanted| {
            let is_more = wanted.as_ref().is_none_or(|wanted| weight(wanted) <= weight(&how) && *wanted != how);
            if is_more {
                *wanted = Some(how);
            }
            is_more
        });
    }

    pub fn is_requested(&self) -> bool {
        self.flag.borrow().is_some()
    }

    /// What is wanted, if anything is.
    pub fn how(&self) -> Option<Stopping> {
        self.flag.borrow().clone()
    }

    pub async fn requested(&self) {
        // The sender lives as long as `self`, so waiting can only end with the flag set.
        let _ = self.flag.subscribe().wait_for(Option::is_some).await;
    }

    /// The agent is not to be asked, but killed.
    pub async fn requested_at_once(&self) {
        let is_at_once = |wanted: &Option<Stopping>| wanted.as_ref().is_some_and(Stopping::is_at_once);
        let _ = self.flag.subscribe().wait_for(is_at_once).await;
    }
}

/// The flags of the tasks that this process works on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stops {
    known: Arc<Mutex<HashMap<TaskId, Stop>>>,
}

impl Stops {
    pub(crate) fn of(&self, task: &TaskId) -> Stop {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(task.clone()).or_default().clone()
    }

    pub(crate) fn insert(&self, task: &TaskId, stop: Stop) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(task.clone(), stop);
    }

    pub(crate) fn forget(&self, task: &TaskId) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    /// True when someone here works on the task.
    pub(crate) fn request(&self, task: &TaskId, how: Stopping) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(task).is_some_and(|stop| {
            stop.request_as(how);
            true
        })
    }
}
