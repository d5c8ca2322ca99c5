//! Races: who has won, and those who wait to hear it.

use async_trait::async_trait;
use harvest_core::{TaskId, Timestamp};

use super::Lease;
use crate::Error;

#[async_trait]
pub trait Races {
    /// Who has won a race, if anyone has.
    async fn winner(&self, race: &str) -> Result<Option<TaskId>, Error>;

    /// Lets a task win, unless another has. Returns who has won: of any number of askers all get the same answer, for good.
    async fn win(&self, lease: &Lease, race: &str, task: &TaskId) -> Result<TaskId, Error>;

    /// A claimed turn that only waits for others takes no place under its caps from here on, until it leaves its owner's hands.
    async fn step_aside(&self, lease: &Lease) -> Result<(), Error>;

    /// Gives one turn back to the queue, for another worker to go on with.
    async fn let_go(&self, lease: &Lease, at: Timestamp) -> Result<(), Error>;
}
