//! Sends spans away, in batches, beside everything else. A collector that is away or slow costs spans and nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use harvest_outbound::{Ask, Client, Method};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::otlp;
use crate::span::Span;

/// Spans that wait; beyond that, new ones are dropped.
const QUEUE: usize = 4096;
const BATCH: usize = 512;
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries to send the same.
const AGAIN: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;
/// For what is left when the process ends.
const CLOSING: Duration = Duration::from_secs(5);

/// Cheap to clone. Without an endpoint everything is dropped, at no cost.
#[derive(Debug, Clone, Default)]
pub struct Exporter {
    queue: Option<mpsc::Sender<Span>>,
    dropped: Arc<AtomicU64>,
    sending: Arc<tokio::sync::Mutex<Option<JoinHandle<()>>>>,
    closing: Arc<Notify>,
}

impl Exporter {
    /// To a collector that takes OTLP over HTTP, say `http://127.0.0.1:4318`.
    pub fn to(endpoint: &str) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        let closing = Arc::new(Notify::new());
        let sending = tokio::spawn(send(url, waiting, closing.clone(), dropped.clone()));
        let sending = Arc::new(tokio::sync::Mutex::new(Some(sending)));
        Self { queue: Some(queue), dropped, sending, closing }
    }

    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Never waits.
    pub fn send(&self, spans: Vec<Span>) {
        let Some(queue) = &self.queue else { return };
        for span in spans {
            if queue.try_send(span).is_err() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How many could not be sent so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Sends what is left, for a little while. Nothing is taken by any clone afterwards.
    pub async fn close(self) {
        self.closing.notify_one();
        let sending = self.sending.lock().await.take();
        if let Some(sending) = sending {
            let ending = sending.abort_handle();
            if tokio::time::timeout(CLOSING, sending).await.is_err() {
                ending.abort();
            }
        }
    }
}

/// Until it is to close and everything was sent, or every sender is gone.
async fn send(url: String, mut waiting: mpsc::Receiver<Span>, closing: Arc<Notify>, dropped: Arc<AtomicU64>) {
    let client = Client::new(PATIENCE);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let count = tokio::select! {
            count = waiting.recv_many(&mut batch, BATCH) => count,
            () = closing.notified() => {
                waiting.close();
                continue;
            }
        };
        if count == 0 {
            return;
        }
        let document = otlp::document(&batch);
        let mut told = Err("nobody was asked".to_owned());
        for number in 1..=TRIES {
            told = deliver(&client, &url, &document).await;
            // When nobody fills the queue any more the process ends, and has no time for another try.
            if told.is_ok() || waiting.is_closed() || number == TRIES {
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
        if let Err(error) = told {
            dropped.fetch_add(batch.len() as u64, Ordering::Relaxed);
            tracing::warn!(error, spans = batch.len(), "spans could not be sent and are dropped");
        }
        batch.clear();
    }
}

async fn deliver(client: &Client, url: &str, document: &serde_json::Value) -> Result<(), String> {
    let answer = client.ask(Ask::new(Method::POST, url).json(document)).await.map_err(|error| error.to_string())?;
    if answer.is_success() { Ok(()) } else { Err(format!("the collector answered {}", answer.status)) }
}
