//! The account on GitHub as it is now: people add, replace and remove it while workers and servers run.
//!
//! As for other credentials, the vault is looked at again whenever something about it may have changed, which the store tells
//! at once, and in any case after a second; and only when someone needs the account.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use harvest_core::{Clock, CredentialId};
use harvest_forge::Accounts;
use harvest_forge::github::Client;
use harvest_store::{CredentialRecord, Store};
use harvest_vault::{Redactor, SecretString};
use tokio::sync::watch;

use crate::github;
use crate::keychain::{Keychain, Opened};
use crate::output;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What cannot be opened is tried again after so long: its master key may be back.
const TRY_EVERY: Duration = Duration::from_secs(60);

/// The account of whoever runs this, as the vault has it.
#[derive(Debug)]
pub struct VaultAccount {
    store: Arc<dyn Store>,
    keychain: Keychain,
    redactor: Arc<Redactor>,
    clock: Arc<dyn Clock>,
    user: String,
    seen: Mutex<Seen>,
    /// Whoever looks into the store does so for all who wait.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Seen {
    at: Option<Instant>,
    /// From the first look on.
    changes: Option<watch::Receiver<u64>>,
    found: Found,
}

/// What one look found. Whoever it made a client for keeps it, with its tokens, until a seal is another.
#[derive(Debug, Clone, Default)]
struct Found {
    sealed: Vec<(CredentialId, String)>,
    client: Option<Arc<Client>>,
    tried: Option<Instant>,
}

impl VaultAccount {
    pub fn new(
        store: Arc<dyn Store>,
        keychain: Keychain,
        redactor: Arc<Redactor>,
        clock: Arc<dyn Clock>,
        user: String,
    ) -> Self {
        Self { store, keychain, redactor, clock, user, seen: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// Begins with what was opened already, and redacted.
    pub fn begin(&self, opened: &[Opened]) {
        let ours = opened.iter().map(|opened| &opened.record).filter(|record| self.is_ours(record));
        let sealed = seals(ours);
        if !sealed.is_empty() {
            let client = github::account(opened, &self.user, &self.clock);
            self.seen().found = Found { sealed, client, tried: Some(Instant::now()) };
        }
    }

    fn is_ours(&self, record: &CredentialRecord) -> bool {
        github::is_account_of(&record.credential, &self.user)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> Option<Found> {
        let seen = self.seen();
        let is_fresh = seen.at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        let has_changed = seen.changes.as_ref().is_none_or(|changes| changes.has_changed().unwrap_or(false));
        (is_fresh && !has_changed).then(|| seen.found.clone())
    }

    async fn look(&self, before: Found) -> Found {
        let mut records = match self.store.credentials().await {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(%error, "the vault cannot be looked into; the account known so far is used");
                return before;
            }
        };
        records.retain(|record| self.is_ours(record));
        let sealed = seals(records.iter());
        let is_tried = before.client.is_some() || before.tried.is_some_and(|at| at.elapsed() < TRY_EVERY);
        if sealed == before.sealed && is_tried {
            return before;
        }
        let (keychain, redactor) = (self.keychain.clone(), self.redactor.clone());
        // The master key may come from a file or a slow command.
        let opening = tokio::task::spawn_blocking(move || {
            let (opened, reasons) = keychain.open(records);
            let secrets: Vec<SecretString> = opened.iter().flat_map(github::secrets).collect();
            // Known to whoever writes anything down before it can be in anything.
            redactor.learn(&secrets).map(|()| (opened, reasons)).map_err(|error| error.to_string())
        });
        let found = |client| Found { sealed: sealed.clone(), client, tried: Some(Instant::now()) };
        match opening.await.map_err(|error| error.to_string()).and_then(|opened| opened) {
            Ok((opened, reasons)) => {
                if sealed != before.sealed {
                    for reason in reasons {
                        output::complain(&format!("warning[{}]: {reason}", harvest_core::Code::MasterKey));
                    }
                }
                found(github::account(&opened, &self.user, &self.clock))
            }
            Err(error) => {
                tracing::error!(error, "an account that cannot be opened and redacted is not used");
                found(None)
            }
        }
    }
}

#[async_trait]
impl Accounts for VaultAccount {
    async fn github(&self) -> Option<Arc<Client>> {
        if let Some(known) = self.known() {
            return known.client;
        }
        let _looking = self.looking.lock().await;
        // Someone else may have looked meanwhile.
        if let Some(known) = self.known() {
            return known.client;
        }
        let before = {
            let mut seen = self.seen();
            seen.changes.get_or_insert_with(|| self.store.watch_queue()).mark_unchanged();
            seen.found.clone()
        };
        let found = self.look(before).await;
        let mut seen = self.seen();
        seen.at = Some(Instant::now());
        seen.found = found.clone();
        found.client
    }
}

fn seals<'r>(records: impl Iterator<Item = &'r CredentialRecord>) -> Vec<(CredentialId, String)> {
    records.map(|record| (record.credential.id.clone(), record.sealed.clone())).collect()
}
