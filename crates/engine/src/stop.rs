//! How a person stops a turn: a flag that everyone can wait for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use harvest_core::TaskId;
use harvest_store::Haste;
use tokio::sync::watch;

/// Cheap to clone; all clones are one flag.
#[derive(Debug, Clone)]
pub struct Stop {
    flag: Arc<watch::Sender<Option<Haste>>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { flag: Arc::new(watch::channel(None).0) }
    }
}

impl Stop {
    pub fn request(&self) {
        self.request_with(Haste::Gently);
    }

    /// Whoever was in more haste is not held up.
    pub fn request_with(&self, haste: Haste) {
        self.flag.send_if_modified(|wanted| std::mem::replace(wanted, (*wanted).max(Some(haste))) < Some(haste));
    }

    pub fn is_requested(&self) -> bool {
        self.flag.borrow().is_some()
    }

    pub async fn requested(&self) {
        // The sender lives as long as `self`, so waiting can only end with the flag set.
        let _ = self.flag.subscribe().wait_for(Option::is_some).await;
    }

    /// The agent is not to be asked, but killed.
    pub async fn requested_at_once(&self) {
        let _ = self.flag.subscribe().wait_for(|wanted| *wanted == Some(Haste::AtOnce)).await;
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
    pub(crate) fn request(&self, task: &TaskId, haste: Haste) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(task).is_some_and(|stop| {
            stop.request_with(haste);
            true
        })
    }
}
