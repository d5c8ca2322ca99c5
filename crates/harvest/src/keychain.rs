//! The vault of this installation: where its master key is, and the credentials it opens.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harvest_core::{Code, Credential};
use harvest_engine::failpoint;
use harvest_store::{CredentialRecord, Store};
use harvest_vault::{Ring, RingError, Sealed, SecretString};

use crate::environment::Environment;
use crate::failure::Failure;

const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
const MAX_ANSWER: u64 = 64 * 1024;

/// The installation's own master key, in its data directory.
pub const KEY_FILE: &str = "master.key";

/// Where the master key comes from.
#[derive(Debug, Clone)]
pub enum Keychain {
    /// A file of ours, made when it is first needed.
    Own(PathBuf),
    /// A file that someone else provides, say a mounted secret.
    Given(PathBuf),
    /// What a command prints, say of a key management service.
    Command(String),
}

/// A credential and its secret.
#[derive(Debug)]
pub struct Opened {
    pub record: CredentialRecord,
    pub secret: SecretString,
}

/// What became of a change of the master key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rotated {
    pub resealed: usize,
}

impl Keychain {
    pub fn of(environment: &Environment, data: &Path) -> Self {
        if let Some(command) = environment.text("HARVEST_MASTER_KEY_COMMAND") {
            return Self::Command(command.to_owned());
        }
        match environment.text("HARVEST_MASTER_KEY_FILE") {
            Some(path) => Self::Given(PathBuf::from(path)),
            None => Self::Own(data.join(KEY_FILE)),
        }
    }

    /// The keys there are. Nothing is made.
    pub fn ring(&self) -> Result<Ring, Failure> {
        match self {
            Self::Own(path) | Self::Given(path) => Ring::load(path).map_err(|error| self.refuse(&error)),
            Self::Command(command) => {
                let answer = ask(command).map_err(|reason| self.refuse(&RingError::Malformed(reason)))?;
                Ring::parse(&answer).map_err(|error| self.refuse(&error))
            }
        }
    }

    fn refuse(&self, error: &RingError) -> Failure {
        let help = match self {
            Self::Own(_) => {
                "put the master key of these credentials there, or remove the credentials and add them again"
            }
            Self::Given(_) => "check the file that HARVEST_MASTER_KEY_FILE names",
            Self::Command(_) => "run the command of HARVEST_MASTER_KEY_COMMAND by hand to see what it prints",
        };
        Failure::refused(Code::MasterKey, format!("the master key cannot be used: {error}"), help)
    }

    /// Seals a secret for its record, with the key that is current now. Keep the guard until it is in the database: no key
    /// is retired meanwhile.
    pub fn seal(&self, credential: &Credential, secret: &SecretString) -> Result<(Sealed, Sealing), Failure> {
        let sealing = self.lock(File::lock_shared)?;
        let ring = match self {
            Self::Own(path) => Ring::load_or_create(path).map_err(|error| self.refuse(&error))?,
            Self::Given(_) | Self::Command(_) => self.ring()?,
        };
        let sealed = ring
            .seal(&credential.record(), secret)
            .map_err(|error| Failure::failed(Code::Internal, format!("the secret cannot be sealed: {error}")))?;
        Ok((sealed, sealing))
    }

    /// Opens what can be opened, and says what cannot.
    pub async fn open_all(&self, store: &dyn Store) -> Result<(Vec<Opened>, Vec<String>), Failure> {
        Ok(self.open(store.credentials().await?))
    }

    /// The same of some of them. Blocks on the master key.
    pub fn open(&self, records: Vec<CredentialRecord>) -> (Vec<Opened>, Vec<String>) {
        let (mut opened, mut failed) = (Vec::new(), Vec::new());
        if records.is_empty() {
            return (opened, failed);
        }
        let ring = match self.ring() {
            Ok(ring) => ring,
            Err(failure) => return (opened, vec![failure.with_help()]),
        };
        for record in records {
            match open(&ring, &record) {
                Ok(secret) => opened.push(Opened { record, secret }),
                Err(reason) => failed.push(reason),
            }
        }
        (opened, failed)
    }

    /// Seals everything with the current key. A key of ours is made anew first, unless an earlier change was cut off: then
    /// that one is finished. At every moment each credential can be opened with a key that is in the file.
    pub async fn rotate(&self, store: &dyn Store) -> Result<Rotated, Failure> {
        let mut rotated = Rotated::default();
        let held = self.lock(File::lock)?;
        let mut ring = match self {
            Self::Own(path) => Ring::load_or_create(path).map_err(|error| self.refuse(&error))?,
            Self::Given(_) | Self::Command(_) => self.ring()?,
        };
        if let Self::Own(path) = self
            && !ring.has_old()
        {
            ring.rotate(path).map_err(|error| self.refuse(&error))?;
        }
        failpoint::reach("rotate::key_made")?;
        for record in store.credentials().await? {
            let sealed: Sealed = record.sealed.parse().map_err(|error| unreadable(&record.credential, &error))?;
            if sealed.key() == ring.current_id() {
                continue;
            }
            let secret = open(&ring, &record).map_err(|reason| Failure::failed(Code::MasterKey, reason))?;
            let anew = ring
                .seal(&record.credential.record(), &secret)
                .map_err(|error| Failure::failed(Code::Internal, format!("a secret cannot be sealed: {error}")))?;
            rotated.resealed +=
                usize::from(store.reseal_credential(&record.credential.id, &record.sealed, &anew.to_string()).await?);
            failpoint::reach("rotate::resealed")?;
        }
        failpoint::reach("rotate::before_retire")?;
        if let Self::Own(path) = self {
            ring.retire_old(path).map_err(|error| self.refuse(&error))?;
        }
        drop(held);
        Ok(rotated)
    }

    /// Keeps sealing and changing the master key apart, where the key is ours to change.
    fn lock(&self, lock: fn(&File) -> std::io::Result<()>) -> Result<Sealing, Failure> {
        let Self::Own(path) = self else { return Ok(Sealing(None)) };
        let beside = path.with_extension("lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&beside);
        opened.and_then(|file| lock(&file).map(|()| Sealing(Some(file)))).map_err(|error| {
            let message = format!("{} cannot be locked: {error}", beside.display());
            Failure::refused(Code::MasterKey, message, "check the permissions of the data directory")
        })
    }
}

/// No key is retired while this is held.
#[derive(Debug)]
#[must_use = "the seal must be stored before this is dropped"]
pub struct Sealing(#[expect(dead_code, reason = "held for its lock")] Option<File>);

fn open(ring: &Ring, record: &CredentialRecord) -> Result<SecretString, String> {
    let sealed: Result<Sealed, _> = record.sealed.parse();
    sealed
        .and_then(|sealed| ring.open(&record.credential.record(), &sealed))
        .map_err(|error| unreadable(&record.credential, &error).message)
}

fn unreadable(credential: &Credential, error: &dyn std::fmt::Display) -> Failure {
    let Credential { id, provider, scope, .. } = credential;
    Failure::failed(
        Code::MasterKey,
        format!("the credential {} for {provider} of {scope} cannot be used: {error}", id.short()),
    )
}

/// What a command prints, with nothing of this process in its environment.
#[expect(clippy::disallowed_methods, reason = "the operator's own command, with an environment of its own")]
fn ask(command: &str) -> Result<String, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env_clear()
        .envs([("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("LANG", "C.UTF-8")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the command cannot be started: {error}"))?;
    let out = child.stdout.take();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        out.map(|out| out.take(MAX_ANSWER).read_to_string(&mut text)).transpose().map(|_| text)
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the command took longer than {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(LOOK),
        }
    };
    if !status.success() {
        return Err(format!("the command failed ({status})"));
    }
    let text = reading.join().map_err(|_| "the command's answer was lost".to_owned())?;
    text.map_err(|error| format!("the command's answer cannot be read: {error}"))
}
