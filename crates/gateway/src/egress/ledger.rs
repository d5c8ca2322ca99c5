//! What a session reached and was refused, told once per host rather than once per connection, so that no agent can
//! flood the journal: the first time at once, and the sums when the session ends.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use harvest_core::EgressVerdict;

use crate::registry::Trouble;

/// So many different hosts are told apart; all others are one.
const MAX_ROWS: usize = 100;
const OTHERS: &str = "(other hosts)";
const MAX_SHOWN: usize = 253;

/// What has been seen of one host and port. Later records of the same replace earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// As the client wrote it; `(other hosts)` when there were too many to tell apart.
    pub host: String,
    pub port: u16,
    pub verdict: EgressVerdict,
    /// Why it was refused.
    pub reason: Option<String>,
    pub connections: u64,
    /// From the sandbox to the host, and back.
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// Is told what a session reaches.
#[async_trait]
pub trait Recorder: Send + Sync + Debug {
    async fn record(&self, record: Record);

    /// A package registry could not be used; told each time that someone asks for something there.
    async fn registry_failed(&self, _trouble: Trouble) {}

    /// A package registry is not asked, since it could not be reached a moment ago, perhaps by another session.
    async fn registry_paused(&self, _trouble: Trouble) {}
}

#[derive(Debug)]
pub(crate) struct Ledger {
    rows: Mutex<HashMap<Key, Row>>,
    recorder: Arc<dyn Recorder>,
}

type Key = (String, u16, EgressVerdict);

#[derive(Debug)]
struct Row {
    record: Record,
    /// Something has changed since it was told.
    untold: bool,
}

impl Ledger {
    pub(crate) fn new(recorder: Arc<dyn Recorder>) -> Self {
        Self { rows: Mutex::default(), recorder }
    }

    pub(crate) async fn refused(&self, host: &str, port: u16, reason: String) {
        self.note(host, port, EgressVerdict::Refused, Some(reason)).await;
    }

    /// Notes an allowed connection; its bytes are counted until what is returned is dropped.
    pub(crate) async fn allowed(self: &Arc<Self>, host: &str, port: u16) -> Traffic {
        let key = self.note(host, port, EgressVerdict::Allowed, None).await;
        Traffic { ledger: Arc::clone(self), key }
    }

    async fn note(&self, host: &str, port: u16, verdict: EgressVerdict, reason: Option<String>) -> Key {
        let (key, news) = {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let mut key = (shown(host), port, verdict);
            if rows.len() >= MAX_ROWS && !rows.contains_key(&key) {
                key = (OTHERS.to_owned(), 0, verdict);
            }
            let record = Record {
                host: key.0.clone(),
                port: key.1,
                verdict,
                reason,
                connections: 0,
                sent_bytes: 0,
                received_bytes: 0,
            };
            let row = rows.entry(key.clone()).or_insert(Row { record, untold: false });
            row.record.connections += 1;
            row.untold = row.record.connections > 1;
            (key, (row.record.connections == 1).then(|| row.record.clone()))
        };
        if let Some(record) = news {
            self.recorder.record(record).await;
        }
        key
    }

    /// Tells the sums.
    pub(crate) async fn close(&self) {
        let mut untold: Vec<Record> = {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = |row: &mut Row| std::mem::take(&mut row.untold).then(|| row.record.clone());
            rows.values_mut().filter_map(changed).collect()
        };
        untold.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
        for record in untold {
            self.recorder.record(record).await;
        }
    }
}

/// Counts the bytes of one connection into the sums of its host.
#[derive(Debug)]
pub(crate) struct Traffic {
    ledger: Arc<Ledger>,
    key: Key,
}

impl Traffic {
    pub(crate) fn sent(&self, bytes: usize) {
        self.add(bytes, 0);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.add(0, bytes);
    }

    fn add(&self, sent: usize, received: usize) {
        let mut rows = self.ledger.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.get_mut(&self.key) {
            row.record.sent_bytes += sent as u64;
            row.record.received_bytes += received as u64;
            row.untold = true;
        }
    }
}

/// A client's words, safe to keep.
fn shown(host: &str) -> String {
    host.chars().take(MAX_SHOWN).flat_map(char::escape_default).take(2 * MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<Record>>);

    #[async_trait]
    impl Recorder for Told {
        async fn record(&self, record: Record) {
            self.0.lock().unwrap().push(record);
        }
    }

    #[tokio::test]
    async fn a_host_is_told_once_and_summed_up() {
        let told = Arc::new(Told::default());
        let ledger = Arc::new(Ledger::new(told.clone()));
        for _ in 0..1000 {
            ledger.refused("evil.test", 443, "not allowed".to_owned()).await;
            let traffic = ledger.allowed("good.test", 443).await;
            traffic.sent(2);
            traffic.received(3);
        }
        assert_eq!(told.0.lock().unwrap().len(), 2);
        ledger.close().await;
        ledger.close().await;
        let sums: Vec<_> = told.0.lock().unwrap().drain(2..).collect();
        let numbers: Vec<_> =
            sums.iter().map(|sum| (sum.host.as_str(), sum.connections, sum.sent_bytes, sum.received_bytes)).collect();
        assert_eq!(numbers, [("evil.test", 1000, 0, 0), ("good.test", 1000, 2000, 3000)]);
    }

    #[tokio::test]
    async fn a_flood_of_names_stays_bounded() {
        let told = Arc::new(Told::default());
        let ledger = Arc::new(Ledger::new(told.clone()));
        for number in 0..10_000 {
            ledger.refused(&format!("{number}.evil\u{1b}[31m.test"), 443, "not allowed".to_owned()).await;
        }
        ledger.close().await;
        let told = told.0.lock().unwrap();
        assert_eq!(told.len(), MAX_ROWS + 2);
        let others = told.last().map(|sum| (sum.host.as_str(), sum.connections));
        assert_eq!(others, Some((OTHERS, 9_900)));
        assert!(told.iter().all(|record| !record.host.contains('\u{1b}')));
    }
}
