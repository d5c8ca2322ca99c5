//! The record of a change: its entry in the audit log and, for a request with an idempotency key, what the request has made.
//! Both are written in the transaction of the change itself, so that neither exists without the other.
//!
//! Every door (an API request, a command, a webhook, a schedule) opens a scope with [`recorded`] around what it does for
//! someone. The first write inside of the scope that changes something carries the record. A scope belongs to the task it was
//! opened in: what is spawned from there is work of the process, not of a person.

use std::sync::{Arc, Mutex, PoisonError};

use harvest_core::Turn;

use crate::Error;
use crate::contract::{AnswerKey, Forgotten, NewAudit, NewTask, Store, Submitted};

/// What is written beside a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// With an empty target it is the thing that the change was made to, as the store names it.
    pub audit: NewAudit,
    /// The request that asks for the change.
    pub answer: Option<AnswerKey>,
}

/// Whether the work in a scope has changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    Written,
    /// Nothing was changed, or nothing that the store keeps.
    Unused,
}

#[derive(Debug)]
enum Slot {
    Waiting(Box<Record>),
    /// A write that is under way has it.
    Taken,
    Written,
}

tokio::task_local! {
    static SCOPE: Arc<Mutex<Slot>>;
}

/// Runs `work`; its first change writes the record.
pub async fn recorded<F: Future>(record: Record, work: F) -> (F::Output, Recorded) {
    let slot = Arc::new(Mutex::new(Slot::Waiting(Box::new(record))));
    let done = SCOPE.scope(slot.clone(), work).await;
    let written = matches!(*slot.lock().unwrap_or_else(PoisonError::into_inner), Slot::Written);
    (done, if written { Recorded::Written } else { Recorded::Unused })
}

/// Says more about the change that is about to be made, where a record waits for it.
pub fn describe(edit: impl FnOnce(&mut NewAudit)) {
    let _ = SCOPE.try_with(|slot| {
        if let Slot::Waiting(record) = &mut *slot.lock().unwrap_or_else(PoisonError::into_inner) {
            edit(&mut record.audit);
        }
    });
}

/// Writes the entry of a change that the store does not keep, such as one of files, before the change is made: then no such change
/// is without its entry. Nothing happens where no record waits.
pub async fn record_now(store: &dyn Store, target: &str) -> Result<(), Error> {
    let Some(pending) = Pending::take() else { return Ok(()) };
    let Some(record) = pending.for_change(target) else { return Ok(()) };
    store.audit(record.audit).await?;
    pending.written();
    Ok(())
}

/// The record of the scope, taken by one write. It goes back when the write changes nothing.
#[derive(Debug)]
pub(crate) struct Pending {
    slot: Arc<Mutex<Slot>>,
    record: Option<Box<Record>>,
}

impl Pending {
    pub(crate) fn take() -> Option<Self> {
        let slot = SCOPE.try_with(Arc::clone).ok()?;
        let taken = {
            let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
            match std::mem::replace(&mut *held, Slot::Taken) {
                Slot::Waiting(record) => Some(record),
                other => {
                    *held = other;
                    None
                }
            }
        };
        taken.map(|record| Self { slot, record: Some(record) })
    }

    /// The record as it is written, with what the change is made to.
    pub(crate) fn for_change(&self, made: &str) -> Option<Record> {
        let mut record = self.record.as_deref()?.clone();
        if record.audit.target.is_empty() {
            made.clone_into(&mut record.audit.target);
        }
        Some(record)
    }

    pub(crate) fn written(mut self) {
        self.record = None;
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Slot::Written;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Slot::Waiting(record);
        }
    }
}

/// Whether a write that went well has changed anything.
pub(crate) trait Change {
    fn changed(&self) -> bool {
        true
    }
}

impl Change for () {}

impl Change for Vec<Submitted> {
    fn changed(&self) -> bool {
        self.iter().any(|one| !one.known)
    }
}

/// A prompt that was queued, now or before under the same key.
#[derive(Debug)]
pub(crate) struct Prompted {
    pub(crate) turn: Turn,
    pub(crate) known: bool,
}

impl Change for Prompted {
    fn changed(&self) -> bool {
        !self.known
    }
}

impl Change for bool {
    fn changed(&self) -> bool {
        *self
    }
}

impl<T> Change for Option<T> {
    fn changed(&self) -> bool {
        self.is_some()
    }
}

impl Change for Forgotten {
    fn changed(&self) -> bool {
        *self == Self::Session
    }
}

/// How the store names what a batch of tasks is: its first one.
pub(crate) fn task_made(new: &[NewTask]) -> String {
    new.first().map(|task| format!("task:{}", task.id)).unwrap_or_default()
}
