//! One connection that listens. Journals that grew and work that arrived are told to whoever waits here, whichever process
//! wrote them. While it is away nothing is lost but time: once it is back, everyone is woken to look for themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use harvest_core::SessionId;
use tokio::sync::{broadcast, watch};
use tokio_postgres::AsyncMessage;

use super::connection::Address;
use crate::contract::Grown;

/// Who hears of journals less often than this many grow looks for itself.
const GROWN: usize = 1024;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Listener {
    heard: Arc<Heard>,
    listening: tokio::task::JoinHandle<()>,
}

/// Who waits for what.
#[derive(Debug)]
struct Heard {
    queue: watch::Sender<u64>,
    tails: Mutex<HashMap<SessionId, watch::Sender<u64>>>,
    grown: broadcast::Sender<Grown>,
}

impl Listener {
    pub(super) fn start(address: Address) -> Self {
        let heard =
            Arc::new(Heard { queue: watch::channel(0).0, tails: Mutex::default(), grown: broadcast::channel(GROWN).0 });
        let listening = tokio::spawn(run(address, heard.clone()));
        Self { heard, listening }
    }

    pub(super) fn watch(&self, session: &SessionId) -> watch::Receiver<u64> {
        let mut tails = self.heard.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.entry(session.clone()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    pub(super) fn watch_journals(&self) -> broadcast::Receiver<Grown> {
        self.heard.grown.subscribe()
    }

    pub(super) fn watch_queue(&self) -> watch::Receiver<u64> {
        self.heard.queue.subscribe()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Heard {
    fn notice(&self, channel: &str, payload: &str) {
        if channel == "harvest_queue" {
            self.queue.send_modify(|count| *count += 1);
            return;
        }
        let mut words = payload.split(' ');
        while let (Some(session), Some(seq)) = (words.next(), words.next()) {
            if let (Ok(session), Ok(seq)) = (session.parse(), seq.parse()) {
                self.grown(&session, seq);
            }
        }
    }

    fn grown(&self, session: &SessionId, last: u64) {
        let _ = self.grown.send(Grown::Session { id: session.clone(), last });
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tails.get(session) {
            if tail.is_closed() {
                tails.remove(session);
            } else {
                tail.send_if_modified(|seq| std::mem::replace(seq, last.max(*seq)) < last);
            }
        }
    }

    fn wake_everyone(&self) {
        let _ = self.grown.send(Grown::Any);
        self.queue.send_modify(|count| *count += 1);
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.retain(|_, tail| !tail.is_closed());
        tails.values().for_each(|tail| tail.send_modify(|_| {}));
    }
}

async fn run(address: Address, heard: Arc<Heard>) {
    let mut pause = Duration::from_millis(50);
    loop {
        if listen(&address, &heard).await.is_some() {
            pause = Duration::from_millis(50);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Until the connection is lost; `None` when there was none.
async fn listen(address: &Address, heard: &Heard) -> Option<()> {
    let (client, mut messages) = address.dial().await.ok()?;
    let mut subscribed = std::pin::pin!(client.batch_execute("LISTEN harvest_queue; LISTEN harvest_events"));
    loop {
        tokio::select! {
            done = &mut subscribed => {
                done.ok()?;
                break;
            }
            message = messages.next() => hear(heard, message)?,
        }
    }
    heard.wake_everyone();
    loop {
        if hear(heard, messages.next().await).is_none() {
            return Some(());
        }
    }
}

fn hear(heard: &Heard, message: Option<Result<AsyncMessage, tokio_postgres::Error>>) -> Option<()> {
    match message? {
        Ok(AsyncMessage::Notification(notice)) => heard.notice(notice.channel(), notice.payload()),
        Ok(_) => {}
        Err(_) => return None,
    }
    Some(())
}
