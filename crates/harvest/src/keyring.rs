//! Whose keys are used for whom: those of the vault, opened when they are needed, then those of this installation itself.
//!
//! What the vault holds is looked at again whenever something about it may have changed, which the store tells at once, and
//! in any case every second. So a credential that was removed or replaced is not used again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use harvest_core::{Clock, Credential, CredentialId, Identity, McpCredential, NamedBy};
use harvest_engine::Keyring;
use harvest_gateway::{Credentials, Upstream};
use harvest_store::{CredentialRecord, Store};
use harvest_vault::{ExposeSecret, Redactor, SecretString};
use tokio::sync::watch;

use crate::environment::key_variable;
use crate::keychain::Keychain;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What cannot be opened is tried again after so long: its master key may be back.
const TRY_EVERY: Duration = Duration::from_secs(60);
/// The last use of a credential is written down no more often than this.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The credentials of an installation.
#[derive(Debug)]
pub struct VaultKeyring(Arc<Vault>);

#[derive(Debug)]
struct Vault {
    keychain: Keychain,
    store: Arc<dyn Store>,
    redactor: Arc<Redactor>,
    clock: Arc<dyn Clock>,
    /// The last resort.
    own: Vec<Arc<Upstream>>,
    seen: Mutex<Seen>,
    /// Whoever looks into the store does so for all who wait.
    looking: tokio::sync::Mutex<()>,
    told: Mutex<HashMap<CredentialId, Instant>>,
}

#[derive(Debug)]
struct Seen {
    at: Option<Instant>,
    changes: watch::Receiver<u64>,
    opened: Arc<Opened>,
}

/// What could be opened, as of one look.
#[derive(Debug, Default)]
struct Opened {
    credentials: Vec<Credential>,
    /// With the seal under which it was found.
    upstreams: HashMap<CredentialId, (String, Usable)>,
    /// What could not be opened, and when that was tried.
    unusable: HashMap<CredentialId, (String, Instant)>,
}

/// What a credential is used as.
#[derive(Debug, Clone)]
enum Usable {
    /// For a model's host.
    Model(Arc<Upstream>),
    /// As it is.
    Secret(Arc<SecretString>),
}

impl Usable {
    fn model(&self) -> Option<&Arc<Upstream>> {
        match self {
            Self::Model(upstream) => Some(upstream),
            Self::Secret(_) => None,
        }
    }
}

impl VaultKeyring {
    /// `own` are the keys of this installation itself, used where the vault has none.
    pub fn new(
        keychain: Keychain,
        store: Arc<dyn Store>,
        redactor: Arc<Redactor>,
        clock: Arc<dyn Clock>,
        own: Vec<Upstream>,
    ) -> Self {
        let seen = Seen { at: None, changes: store.watch_queue(), opened: Arc::default() };
        Self(Arc::new(Vault {
            keychain,
            store,
            redactor,
            clock,
            own: own.into_iter().map(Arc::new).collect(),
            seen: Mutex::new(seen),
            looking: tokio::sync::Mutex::default(),
            told: Mutex::default(),
        }))
    }
}

impl Keyring for VaultKeyring {
    fn of(&self, identity: Identity) -> Arc<dyn Credentials> {
        Arc::new(SessionCredentials { vault: Arc::clone(&self.0), identity, chosen: Mutex::default() })
    }
}

/// One session's view of the vault.
#[derive(Debug)]
struct SessionCredentials {
    vault: Arc<Vault>,
    identity: Identity,
    chosen: Mutex<Chosen>,
}

/// What was chosen of one look at the vault.
#[derive(Debug, Default)]
struct Chosen {
    of: Arc<Opened>,
    upstreams: BTreeMap<String, Arc<[Arc<Upstream>]>>,
}

#[async_trait]
impl Credentials for SessionCredentials {
    async fn of(&self, provider: &str) -> Arc<[Arc<Upstream>]> {
        let opened = self.vault.opened().await;
        let mut chosen = lock(&self.chosen);
        if !Arc::ptr_eq(&chosen.of, &opened) {
            *chosen = Chosen { of: Arc::clone(&opened), upstreams: BTreeMap::new() };
        }
        if let Some(known) = chosen.upstreams.get(provider) {
            return Arc::clone(known);
        }
        let vault = self.identity.choose(&opened.credentials, provider).into_iter();
        let vault = vault.filter_map(|credential| opened.upstreams.get(&credential.id)?.1.model());
        let own = self.vault.own.iter().filter(|upstream| upstream.provider() == provider);
        let upstreams: Arc<[Arc<Upstream>]> = vault.chain(own).cloned().collect();
        chosen.upstreams.insert(provider.to_owned(), Arc::clone(&upstreams));
        upstreams
    }

    async fn secret(&self, provider: &str, name: &str, host: NamedBy) -> Option<SecretString> {
        let opened = self.vault.opened().await;
        let mut fitting = self.identity.choose(&opened.credentials, provider).into_iter();
        let nearest = fitting.find(|credential| credential.name == name && host.may_use(&credential.scope))?;
        let Usable::Secret(secret) = &opened.upstreams.get(&nearest.id)?.1 else { return None };
        self.vault.used(nearest.id.clone());
        Some(SecretString::from(secret.expose_secret().to_owned()))
    }

    fn used(&self, upstream: &Upstream) {
        if let Ok(id) = upstream.id().parse() {
            self.vault.used(id);
        }
    }
}

impl Vault {
    /// What is in the vault now.
    async fn opened(&self) -> Arc<Opened> {
        if let Some(opened) = self.known() {
            return opened;
        }
        let _looking = self.looking.lock().await;
        // Someone else may have looked meanwhile.
        if let Some(opened) = self.known() {
            return opened;
        }
        lock(&self.seen).changes.mark_unchanged();
        let before = Arc::clone(&lock(&self.seen).opened);
        let opened = match self.store.credentials().await {
            Ok(mut records) => {
                // Others are for people and forges.
                let is_used = |provider: &str| provider == McpCredential::PROVIDER || key_variable(provider).is_some();
                records.retain(|record| is_used(&record.credential.provider));
                self.open(&before, records).await
            }
            Err(error) => {
                tracing::error!(%error, "the vault cannot be looked into; the credentials known so far are used");
                before
            }
        };
        let mut seen = lock(&self.seen);
        seen.at = Some(Instant::now());
        seen.opened = Arc::clone(&opened);
        opened
    }

    fn known(&self) -> Option<Arc<Opened>> {
        let seen = lock(&self.seen);
        let is_fresh = seen.at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        let has_changed = seen.changes.has_changed().unwrap_or(false);
        (is_fresh && !has_changed).then(|| Arc::clone(&seen.opened))
    }

    /// Opens what is new; what is as before stays the same, with all that is known about how it fares.
    async fn open(&self, before: &Arc<Opened>, records: Vec<CredentialRecord>) -> Arc<Opened> {
        let known = |record: &CredentialRecord| {
            let (sealed, upstream) = before.upstreams.get(&record.credential.id)?;
            (*sealed == record.sealed).then(|| upstream.clone())
        };
        let given_up = |record: &CredentialRecord| {
            let tried = before.unusable.get(&record.credential.id);
            tried.filter(|(sealed, at)| *sealed == record.sealed && at.elapsed() < TRY_EVERY).cloned()
        };
        let is_new = |record: &&CredentialRecord| known(record).is_none() && given_up(record).is_none();
        let new: Vec<CredentialRecord> = records.iter().filter(is_new).cloned().collect();
        if new.is_empty() && records.len() == before.upstreams.len() + before.unusable.len() {
            return Arc::clone(before);
        }
        let unusable = |record: &CredentialRecord| match known(record) {
            Some(_) => None,
            None => Some(given_up(record).unwrap_or_else(|| (record.sealed.clone(), Instant::now()))),
        };
        let mut unusable: HashMap<_, _> =
            records.iter().filter_map(|record| Some((record.credential.id.clone(), unusable(record)?))).collect();
        let mut upstreams: HashMap<CredentialId, (String, Usable)> = records
            .iter()
            .filter_map(|record| Some((record.credential.id.clone(), (record.sealed.clone(), known(record)?))))
            .collect();
        let keychain = self.keychain.clone();
        // The master key may come from a file or a slow command.
        let opened = tokio::task::spawn_blocking(move || keychain.open(new)).await;
        let Ok((opened, reasons)) = opened else { return Arc::clone(before) };
        for reason in reasons {
            tracing::warn!(reason, "a credential cannot be used");
        }
        for one in opened {
            let Credential { id, provider, base_url, scope, .. } = &one.record.credential;
            // Known to whoever writes anything down before it can be in anything.
            if let Err(error) = self.redactor.learn([&one.secret]) {
                tracing::error!(%error, credential = id.short(), "a credential that cannot be redacted is not used");
                continue;
            }
            let usable = if provider == McpCredential::PROVIDER {
                Ok(Usable::Secret(Arc::new(SecretString::from(one.secret.expose_secret().to_owned()))))
            } else {
                let made = Upstream::new(provider, id.to_string(), base_url.as_deref(), &one.secret);
                let made = made.and_then(|upstream| upstream.named_by(NamedBy::of(scope)));
                made.map(|upstream| Usable::Model(Arc::new(upstream)))
            };
            match usable {
                Ok(usable) => {
                    unusable.remove(id);
                    upstreams.insert(id.clone(), (one.record.sealed, usable));
                }
                Err(error) => tracing::warn!(%error, credential = id.short(), "a credential cannot be used"),
            }
        }
        let credentials = records.into_iter().map(|record| record.credential);
        Arc::new(Opened {
            credentials: credentials.filter(|credential| upstreams.contains_key(&credential.id)).collect(),
            upstreams,
            unusable,
        })
    }

    /// Writes down that it was used, if that was not done a moment ago.
    fn used(&self, id: CredentialId) {
        {
            let mut told = lock(&self.told);
            if told.get(&id).is_some_and(|at| at.elapsed() < TELL_EVERY) {
                return;
            }
            told.insert(id.clone(), Instant::now());
        }
        let (store, at) = (Arc::clone(&self.store), self.clock.now());
        tokio::spawn(async move {
            if let Err(error) = store.credential_used(&id, at).await {
                tracing::warn!(%error, credential = id.short(), "the last use of a credential could not be recorded");
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use harvest_store::{NewSecret, Sqlite};
    use harvest_vault::SecretString;

    use super::*;
    use crate::installation::{SystemClock, SystemEntropy};

    struct World {
        folder: tempfile::TempDir,
        store: Arc<dyn Store>,
        redactor: Arc<Redactor>,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(Sqlite::open(&folder.path().join("harvest.db")).unwrap());
            Self { folder, store, redactor: Arc::new(Redactor::new([]).unwrap()) }
        }

        fn keychain(&self) -> Keychain {
            Keychain::Own(self.folder.path().join("master.key"))
        }

        fn keyring(&self, own: Vec<Upstream>) -> VaultKeyring {
            VaultKeyring::new(self.keychain(), self.store.clone(), self.redactor.clone(), Arc::new(SystemClock), own)
        }

        async fn add(&self, provider: &str, scope: &str, name: &str, secret: &str) -> Credential {
            let credential = Credential {
                id: CredentialId::generate(&SystemEntropy),
                provider: provider.into(),
                scope: scope.parse().unwrap(),
                name: name.into(),
                last4: String::new(),
                base_url: Some("http://models.example.com".into()),
                created_at: SystemClock.now(),
                rotated_at: None,
                last_used_at: None,
            };
            let (sealed, _sealing) = self.keychain().seal(&credential, &secret.to_owned().into()).unwrap();
            let record = CredentialRecord { credential: credential.clone(), sealed: sealed.to_string() };
            self.store.add_credential(record).await.unwrap();
            credential
        }
    }

    fn ada() -> Identity {
        Identity { user: "ada".into(), teams: vec!["fruit".into()], project: Some("shop".into()) }
    }

    fn ids(upstreams: &[Arc<Upstream>]) -> Vec<&str> {
        upstreams.iter().map(|upstream| upstream.id()).collect()
    }

    #[tokio::test]
    async fn the_vault_comes_first_and_the_installation_last() {
        let world = World::new();
        let project = world.add("anthropic", "project:shop", "default", "sk-project-canary").await;
        let team = world.add("anthropic", "team:fruit", "default", "sk-team-canary").await;
        let own = world.add("anthropic", "user:ada", "default", "sk-own-canary").await;
        let spare = world.add("anthropic", "user:ada", "spare", "sk-spare-canary").await;
        world.add("anthropic", "user:bob", "default", "sk-bob-canary").await;
        world.add("openai", "user:ada", "default", "sk-other-canary").await;
        let key = SecretString::from("sk-environment".to_owned());
        let keyring = world.keyring(vec![Upstream::new("anthropic", "environment", None, &key).unwrap()]);
        let session = keyring.of(ada());
        let expected = [&own, &spare, &team, &project].map(|one| one.id.as_str());
        assert_eq!(ids(&session.of("anthropic").await), [&expected[..], &["environment"]].concat());
        let eve = keyring.of(Identity { user: "eve".into(), ..Identity::default() });
        assert_eq!(ids(&eve.of("anthropic").await), ["environment"]);
        assert_eq!(ids(&eve.of("gemini").await), [""; 0]);
        let text = "sk-own-canary sk-team-canary sk-project-canary sk-spare-canary";
        assert!(!world.redactor.redact(text).contains("canary"), "whatever was opened is redacted");
    }

    #[tokio::test]
    async fn a_host_that_a_project_names_gets_the_projects_credential_and_nobody_elses() {
        let world = World::new();
        world.add("mcp", "user:ada", "tracker", "personal-canary").await;
        world.add("mcp", "team:fruit", "tracker", "team-canary").await;
        let session = world.keyring(Vec::new()).of(ada());
        let secret = async |host| session.secret("mcp", "tracker", host).await;
        let text = |secret: Option<SecretString>| secret.map(|secret| secret.expose_secret().to_owned());
        assert_eq!(text(secret(NamedBy::Installation).await).as_deref(), Some("personal-canary"));
        assert_eq!(text(secret(NamedBy::Project).await), None);
        world.add("mcp", "project:shop", "tracker", "project-canary").await;
        tokio::time::timeout(Duration::from_secs(10), async {
            while text(secret(NamedBy::Project).await).as_deref() != Some("project-canary") {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert_eq!(text(secret(NamedBy::Installation).await).as_deref(), Some("personal-canary"));
    }

    #[tokio::test]
    async fn what_was_removed_or_replaced_is_not_used_by_the_next_request() {
        let world = World::new();
        let first = world.add("anthropic", "user:ada", "default", "sk-first-canary").await;
        let second = world.add("anthropic", "user:ada", "spare", "sk-second-canary").await;
        let session = world.keyring(Vec::new()).of(ada());
        let before = session.of("anthropic").await;
        assert_eq!(ids(&before), [first.id.as_str(), second.id.as_str()]);
        assert!(Arc::ptr_eq(&before[0], &session.of("anthropic").await[0]), "the same as long as nothing changes");

        let (sealed, _sealing) = world.keychain().seal(&first, &"sk-rotated-canary".to_owned().into()).unwrap();
        let new = NewSecret { sealed: sealed.to_string(), last4: String::new(), at: SystemClock.now() };
        world.store.replace_credential(&first.id, new).await.unwrap();
        let rotated = session.of("anthropic").await;
        assert!(!Arc::ptr_eq(&before[0], &rotated[0]) && Arc::ptr_eq(&before[1], &rotated[1]));
        assert_eq!(world.redactor.redact("sk-rotated-canary"), "[redacted]");

        world.store.remove_credential(&first.id).await.unwrap();
        assert_eq!(ids(&session.of("anthropic").await), [second.id.as_str()]);
        world.store.remove_credential(&second.id).await.unwrap();
        assert_eq!(ids(&session.of("anthropic").await), [""; 0]);
    }

    #[tokio::test]
    async fn another_process_that_removes_one_is_noticed() {
        let world = World::new();
        let gone = world.add("anthropic", "user:ada", "default", "sk-first-canary").await;
        let session = world.keyring(Vec::new()).of(ada());
        assert_eq!(session.of("anthropic").await.len(), 1);
        let elsewhere = Sqlite::open(&world.folder.path().join("harvest.db")).unwrap();
        elsewhere.remove_credential(&gone.id).await.unwrap();
        let noticed = async {
            while !session.of("anthropic").await.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        // The bound only ends a test that would hang; nothing is said here about how soon it is noticed.
        tokio::time::timeout(20 * LOOK_EVERY, noticed).await.expect("it is noticed");
    }

    #[tokio::test]
    async fn the_last_use_is_recorded_now_and_then() {
        let world = World::new();
        let used = world.add("anthropic", "user:ada", "default", "sk-first-canary").await;
        let session = world.keyring(Vec::new()).of(ada());
        let upstream = session.of("anthropic").await[0].clone();
        for _ in 0..100 {
            session.used(&upstream);
        }
        let recorded = || async { world.store.credentials().await.unwrap().remove(0).credential.last_used_at };
        let waiting = async {
            while recorded().await.is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it is recorded");
        assert_eq!(used.last_used_at, None);
    }

    #[tokio::test]
    async fn without_its_master_key_the_vault_is_of_no_use_and_the_rest_goes_on() {
        let world = World::new();
        world.add("anthropic", "user:ada", "default", "sk-first-canary").await;
        std::fs::remove_file(world.folder.path().join("master.key")).unwrap();
        let key = SecretString::from("sk-environment".to_owned());
        let own = vec![Upstream::new("anthropic", "environment", None, &key).unwrap()];
        assert_eq!(ids(&world.keyring(own).of(ada()).of("anthropic").await), ["environment"]);
    }
}
