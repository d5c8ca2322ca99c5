//! The only way the engine writes to a session's journal: every event passes the redactor, every write carries the lease.

use std::sync::Arc;

use harvest_core::{Clock, Event, EventBody, OwnerId, StageName, Timestamp};
use harvest_store::{AttemptUpdate, Balance, Bill, End, Lease, Reservation, Step, Store};
use harvest_vault::Redactor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::vitals::{Told, Vitals};

const PAGE: usize = 1000;

#[derive(Debug, Clone)]
pub(crate) struct Journal {
    store: Arc<dyn Store>,
    lease: Lease,
    redactor: Arc<Redactor>,
    clock: Arc<dyn Clock>,
    vitals: Arc<Vitals>,
}

impl Journal {
    pub(crate) fn new(store: Arc<dyn Store>, lease: Lease, redactor: Arc<Redactor>, clock: Arc<dyn Clock>) -> Self {
        Self { store, lease, redactor, clock, vitals: Arc::default() }
    }

    /// Counts what it writes.
    pub(crate) fn counted_by(self, vitals: &Arc<Vitals>) -> Self {
        Self { vitals: vitals.clone(), ..self }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn write(&self, events: Vec<EventBody>) -> Result<(), harvest_store::Error> {
        self.step(Step::new(self.now(), events)).await
    }

    pub(crate) async fn warn(&self, message: impl Into<String>) -> Result<(), harvest_store::Error> {
        self.write(vec![EventBody::Warning { message: message.into() }]).await
    }

    pub(crate) async fn step(&self, mut step: Step) -> Result<(), harvest_store::Error> {
        step.events = step.events.into_iter().map(|event| self.redacted(event)).collect();
        if let Some(End::Finished(outcome)) = &mut step.end
            && let Some(error) = &mut outcome.error
        {
            *error = self.redactor.redact(error).into_owned();
        }
        if let Some(AttemptUpdate::Finished { stderr_tail, .. }) = &mut step.attempt {
            *stderr_tail = self.redactor.redact(stderr_tail).into_owned();
        }
        let told = Told::by(&step);
        self.store.append(&self.lease, step).await?;
        self.vitals.wrote(&told);
        Ok(())
    }

    pub(crate) async fn reserve(&self, reservation: Reservation) -> Result<Vec<Balance>, harvest_store::Error> {
        self.vitals.reserved(&reservation);
        self.store.reserve(&self.lease, reservation).await
    }

    pub(crate) async fn balances(&self, bill: &Bill, asker: &OwnerId) -> Result<Vec<Balance>, harvest_store::Error> {
        self.store.balances(bill, asker).await
    }

    /// Calls that were under way when someone else worked on this.
    pub(crate) async fn unsettled(&self) -> Result<Vec<Reservation>, harvest_store::Error> {
        self.store.unsettled(&self.lease.task).await
    }

    /// Records what a stage came to.
    pub(crate) async fn finish_stage<T: Serialize>(
        &self,
        stage: StageName,
        result: &T,
    ) -> Result<(), harvest_store::Error> {
        let result = serde_json::to_value(result).unwrap_or_default();
        self.write(vec![EventBody::StageFinished { stage, result }]).await
    }

    /// What a stage came to in this try before, if it got that far and no stage before it was done again since.
    pub(crate) async fn stage<T: DeserializeOwned>(
        &self,
        wanted: StageName,
    ) -> Result<Option<T>, harvest_store::Error> {
        let mut found = None;
        for event in self.of_this_try().await? {
            if let EventBody::StageFinished { stage, result } = event.body {
                if stage == wanted {
                    found = Some(result);
                } else if stage < wanted {
                    found = None;
                }
            }
        }
        Ok(found.and_then(|result| serde_json::from_value(result).ok()))
    }

    /// Where the session's branch was published last.
    pub(crate) async fn last_delivered(&self) -> Result<Option<String>, harvest_store::Error> {
        let delivered = self.all().await?.into_iter().rev().find_map(|event| match event.body {
            EventBody::BranchDelivered { commit, .. } => Some(commit),
            _ => None,
        });
        Ok(delivered)
    }

    async fn of_this_try(&self) -> Result<Vec<Event>, harvest_store::Error> {
        let mut events = self.all().await?;
        // A try that failed is over; one that was cut off by a crash is taken up where it was.
        let fresh = |event: &Event| matches!(&event.body, EventBody::TaskRetried { .. });
        let start = events.iter().rposition(fresh).map_or(0, |last| last + 1);
        Ok(events.split_off(start))
    }

    async fn all(&self) -> Result<Vec<Event>, harvest_store::Error> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.seq);
            let page = self.store.events(&self.lease.session, after, PAGE).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }

    fn redacted(&self, event: EventBody) -> EventBody {
        let Ok(text) = serde_json::to_string(&event) else { return event };
        match self.redactor.redact(&text) {
            std::borrow::Cow::Borrowed(_) => event,
            std::borrow::Cow::Owned(clean) => serde_json::from_str(&clean).unwrap_or(EventBody::Warning {
                message: format!("a {} event held a secret and was left out", event.kind()),
            }),
        }
    }
}
