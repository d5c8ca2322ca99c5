//! Turns that ended in this process, told to whoever collects traces.

use std::sync::Arc;

use harvest_core::{Code, TaskId};
use harvest_engine::Notice;
use harvest_store::Store;
use harvest_telemetry::{Exporter, spans_of};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::config::{Key, Value};
use crate::failure::Failure;
use crate::installation::Installation;

/// Turns that ended and were not told yet; beyond that they are not told at all.
const WAITING: usize = 1024;
const PAGE: usize = 1000;
/// A journal with more is told as far as this.
const MOST_EVENTS: usize = 100_000;

/// As `HARVEST_OTLP_ENDPOINT` says, else the settings; else traces go nowhere.
pub fn exporter(installation: &Installation) -> Result<Exporter, Failure> {
    let named = installation.environment.text("HARVEST_OTLP_ENDPOINT");
    let Some(named) = named else {
        let setting = installation.settings()?.text(Key::TelemetryOtlp);
        return Ok(setting.map_or_else(Exporter::default, |endpoint| Exporter::to(&endpoint)));
    };
    match Key::TelemetryOtlp.definition().kind.read(&toml::Value::String(named.to_owned())) {
        Ok(Value::Text(endpoint)) => Ok(Exporter::to(&endpoint)),
        Ok(_) => Ok(Exporter::default()),
        Err(reason) => {
            let message = format!("HARVEST_OTLP_ENDPOINT: {reason}");
            Err(Failure::refused(Code::BadConfig, message, "write it like http://127.0.0.1:4318"))
        }
    }
}

/// Reads the journals of turns that ended, one after the other, beside the work.
#[derive(Debug)]
pub struct Tracer {
    ended: mpsc::Sender<TaskId>,
    reading: Option<JoinHandle<()>>,
}

impl Tracer {
    pub fn start(store: Arc<dyn Store>, exporter: Exporter) -> Self {
        let (ended, waiting) = mpsc::channel(WAITING);
        let reading = exporter.is_on().then(|| tokio::spawn(read(store, exporter, waiting)));
        Self { ended, reading }
    }

    pub fn note(&self, notice: &Notice) {
        let task = match notice {
            Notice::Finished(outcome) => &outcome.task_id,
            Notice::AwaitsApproval { task } | Notice::WillRetry { task, .. } => task,
            _ => return,
        };
        if self.reading.is_some() && self.ended.try_send(task.clone()).is_err() {
            tracing::warn!(task = task.short(), "too many turns end at once: one is not traced");
        }
    }

    /// When everything that ended was told.
    pub async fn close(self) {
        let Self { ended, reading } = self;
        drop(ended);
        if let Some(reading) = reading {
            let _ = reading.await;
        }
    }
}

async fn read(store: Arc<dyn Store>, exporter: Exporter, mut waiting: mpsc::Receiver<TaskId>) {
    while let Some(task) = waiting.recv().await {
        if let Err(error) = tell(store.as_ref(), &exporter, &task).await {
            tracing::warn!(%error, task = task.short(), "a turn cannot be traced");
        }
    }
}

async fn tell(store: &dyn Store, exporter: &Exporter, id: &TaskId) -> Result<(), harvest_store::Error> {
    let detail = store.task(id).await?;
    for session in &detail.sessions {
        let mut events = Vec::new();
        while events.len() < MOST_EVENTS {
            let after = events.last().map_or(0, |event: &harvest_core::Event| event.seq);
            let page = store.events(&session.id, after, PAGE).await?;
            let end = page.len() < PAGE;
            events.extend(page);
            if end {
                break;
            }
        }
        exporter.send(spans_of(&detail.task, &events));
    }
    Ok(())
}
