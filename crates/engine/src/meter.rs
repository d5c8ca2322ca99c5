//! The budget of a turn. Asked before every model call and told after every answer; reaching the budget stops the turn.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use harvest_core::{Cost, EventBody, Usage};
use harvest_gateway::{Call, Meter, Refused};
use tokio::sync::watch;

use crate::journal::Journal;

#[derive(Debug)]
pub(crate) struct TurnMeter {
    journal: Journal,
    budget: Cost,
    spent: Mutex<Spent>,
    exhausted: watch::Sender<bool>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
}

impl TurnMeter {
    /// `before` is what the task has spent already.
    pub(crate) fn new(journal: Journal, budget: Cost, before: Spent) -> Self {
        let exhausted = watch::channel(before.cost >= budget).0;
        Self { journal, budget, spent: Mutex::new(before), exhausted }
    }

    pub(crate) fn spent(&self) -> Spent {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        *self.exhausted.borrow()
    }

    /// Returns once the budget is reached.
    pub(crate) async fn exhausted(&self) {
        let _ = self.exhausted.subscribe().wait_for(|reached| *reached).await;
    }

    pub(crate) fn message(&self) -> String {
        format!("the budget of {} is spent ({})", self.budget, self.spent().cost)
    }
}

#[async_trait]
impl Meter for TurnMeter {
    async fn admit(&self) -> Result<(), Refused> {
        if self.is_exhausted() { Err(Refused::new(self.message())) } else { Ok(()) }
    }

    async fn settle(&self, call: Call) {
        let total = {
            let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
            spent.usage += call.usage;
            spent.cost += call.cost;
            spent.cost
        };
        let event = EventBody::Usage {
            provider: call.provider,
            model: call.model,
            usage: call.usage,
            cost_usd: call.cost,
            estimated: call.estimated,
        };
        if let Err(error) = self.journal.write(vec![event]).await {
            tracing::error!(%error, "a model call could not be recorded");
        }
        if total >= self.budget {
            self.exhausted.send_replace(true);
        }
    }
}

/// For sandboxes that have no business with a model.
#[derive(Debug)]
pub(crate) struct NoModel;

#[async_trait]
impl Meter for NoModel {
    async fn admit(&self) -> Result<(), Refused> {
        Err(Refused::new("this sandbox only runs tests; it has no model"))
    }

    async fn settle(&self, _call: Call) {}
}
