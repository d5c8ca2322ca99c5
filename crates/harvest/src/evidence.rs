//! `harvest evidence …`: what proves a result, signed, and checked without asking anyone.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use harvest_api_types::EvidenceKey;
use harvest_core::{Code, EventBody, Flag, Session};
use harvest_engine::{Attests, evidence_statement};
use harvest_vault::{AttestError, Attestor, parse_public_key, verify_statement};
use serde_json::{Value, json};

use crate::cli::{Evidence, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{Installation, data_path};
use crate::output;
use crate::remote::{self, Remote};
use crate::view::{Style, clean};

/// The installation's own key, in its data directory.
pub const KEY_FILE: &str = "evidence.key";
/// The public half of a key that was left where a backup comes from.
pub const PUBLIC_FILE: &str = "evidence.pub";
const PAGE: usize = 1000;
const MOST_BYTES: u64 = 4 << 20;
const MOST_KEY_BYTES: u64 = 64 << 10;

pub async fn evidence(global: &Global, environment: Environment, command: Evidence) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let remote = match &command {
        Evidence::Verify { .. } => None,
        Evidence::Export { .. } | Evidence::Key => Remote::of(global, &environment)?,
    };
    match command {
        Evidence::Export { id } if let Some(remote) = remote => {
            let _ = output::json(&remote::evidence(&remote, &id).await?);
            Ok(Exit::Done)
        }
        Evidence::Key if let Some(remote) = remote => {
            show_key(global, &remote::evidence_key(&remote).await?);
            Ok(Exit::Done)
        }
        Evidence::Export { id } => {
            let installation = Installation::open(global, environment).await?;
            let _ = output::json(&export(&installation, &id).await?);
            Ok(Exit::Done)
        }
        Evidence::Key => {
            let installation = Installation::open(global, environment).await?;
            show_key(global, &attestor(installation.data.path())?.public_key());
            Ok(Exit::Done)
        }
        Evidence::Verify { file, key } => {
            let key = match key {
                Some(key) => given_key(&key)?,
                None => own_key(&data_path(global, &environment)?)?,
            };
            verify(global, style, &file, &key)
        }
    }
}

fn show_key(global: &Global, key: &str) {
    let _ =
        if global.json { output::json(&EvidenceKey { public_key: key.to_owned() }) } else { output::line(&clean(key)) };
}

/// The key, which is made when something is signed that others will read.
#[derive(Debug)]
pub struct Key {
    data: PathBuf,
    loaded: OnceLock<Arc<Attestor>>,
}

impl Key {
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), loaded: OnceLock::new() }
    }
}

impl Attests for Key {
    fn attestor(&self) -> Option<Arc<Attestor>> {
        if let Some(loaded) = self.loaded.get() {
            return Some(loaded.clone());
        }
        let loaded = attestor(&self.data)
            .inspect_err(|failure| tracing::warn!(error = failure.message, "the evidence is not signed"))
            .ok()?;
        Some(self.loaded.get_or_init(|| Arc::new(loaded)).clone())
    }
}

/// Makes a key where there has never been one. A restored data directory whose key was not brought along gets no other
/// silently: what it signs could not be checked with the key that people know.
pub fn attestor(data: &Path) -> Result<Attestor, Failure> {
    let (key, known) = (data.join(KEY_FILE), data.join(PUBLIC_FILE));
    if let (false, Ok(public)) = (key.exists(), std::fs::read_to_string(&known)) {
        let message = format!("the key that signs evidence is missing; its public half is {}", clean(public.trim()));
        let (folder, known) = (data.display(), known.display());
        let help = format!(
            "copy {KEY_FILE} of the data directory that was backed up into {folder}; to sign with a new key instead, \
             remove {known}"
        );
        return Err(Failure::refused(Code::DataDirectory, message, help));
    }
    Attestor::load_or_create(&key).map_err(|error| {
        let help = "check its owner and permissions; without it evidence cannot be signed";
        Failure::refused(Code::DataDirectory, error.to_string(), help)
    })
}

/// Nothing is made for looking.
pub fn own_key(data: &Path) -> Result<String, Failure> {
    if !data.join(KEY_FILE).exists() {
        let help = "name the signer's public key: --key, as `harvest evidence key` prints it there";
        return Err(Failure::refused(Code::BadEvidence, "this installation has no key to check it with", help));
    }
    Ok(attestor(data)?.public_key())
}

/// A public key that a person names: the key itself, or a file with it.
fn given_key(given: &str) -> Result<String, Failure> {
    let refuse = |message: String| {
        let help = "`harvest evidence key` prints the key where the evidence was signed: 32 bytes in base64";
        Failure::refused(Code::BadEvidence, message, help)
    };
    if let Some(key) = parse_public_key(given) {
        return Ok(key);
    }
    let path = Path::new(given);
    if !path.exists() {
        return Err(refuse(format!("--key: {} is neither a public key nor a file", clean(given))));
    }
    let mut content = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MOST_KEY_BYTES).read_to_end(&mut content));
    read.map_err(|error| refuse(format!("--key: {} cannot be read: {error}", path.display())))?;
    let key = std::str::from_utf8(&content).ok().and_then(parse_public_key);
    key.ok_or_else(|| refuse(format!("--key: the file {} does not hold a public key", path.display())))
}

/// The signed evidence of a task.
pub async fn export(installation: &Installation, id: &str) -> Result<Value, Failure> {
    let found = installation.store.find_task(id, None).await?;
    let detail = installation.store.task(&found).await?;
    let nothing = |why: &str| {
        Failure::refused(
            Code::BadEvidence,
            format!("task {} has no evidence: {why}", found.short()),
            "see harvest task show",
        )
    };
    let evidence = detail.task.evidence.clone().ok_or_else(|| nothing("its tests were not run"))?;
    let session = detail.sessions.first().ok_or_else(|| nothing("it has no session"))?;
    let model = last_model(installation, session).await?.or_else(|| detail.task.model.clone());
    let (mut commit, mut is_tested, mut after) = (evidence.commit.clone(), false, 0);
    loop {
        let events = installation.store.events(&session.id, after, PAGE).await?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in &events {
            match &event.body {
                EventBody::TestsFinished(run) if run.commit == evidence.commit => is_tested = true,
                // What was delivered before these tests ran has other files: a later turn may have failed and stayed here.
                EventBody::BranchDelivered { branch, commit: delivered } if is_tested && *branch == session.branch => {
                    commit.clone_from(delivered);
                }
                _ => {}
            }
        }
    }
    let statement = evidence_statement(&detail.task, session, model.as_deref(), &commit, &evidence);
    Ok(attestor(installation.data.path())?.sign(&statement))
}

/// The model that a session's agent was last started with.
pub async fn last_model(installation: &Installation, session: &Session) -> Result<Option<String>, Failure> {
    let (mut model, mut after) = (None, 0);
    loop {
        let events = installation.store.events(&session.id, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(model) };
        after = last.seq;
        for event in &events {
            if let EventBody::AgentStarted { model: started, .. } = &event.body {
                model.clone_from(started);
            }
        }
    }
}

fn verify(global: &Global, style: Style, file: &Path, key: &str) -> Result<Exit, Failure> {
    let refuse = |message: String| {
        let help = "the file is what `harvest evidence export` printed, or the block in a pull request";
        Failure::refused(Code::BadEvidence, message, help)
    };
    let mut text = String::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    read.map_err(|error| refuse(format!("{} cannot be read: {error}", file.display())))?;
    let envelope: Value = serde_json::from_str(&text).map_err(|error| refuse(format!("it is not JSON: {error}")))?;
    let statement = match verify_statement(&envelope, key) {
        Ok(statement) => statement,
        Err(error @ (AttestError::Forged | AttestError::OtherKey { .. })) => {
            let help = "do not trust it; ask its sender for the original and for their key";
            return Err(Failure {
                help: Some(help.to_owned()),
                ..Failure::failed(Code::BadEvidence, error.to_string())
            });
        }
        Err(error) => return Err(refuse(error.to_string())),
    };
    let predicate = &statement["predicate"];
    let _ = if global.json {
        output::json(&json!({ "genuine": true, "statement": statement }))
    } else {
        let subject = &statement["subject"][0];
        let text = |value: &Value| clean(value.as_str().unwrap_or("?"));
        let (delivered, tested) = (&subject["digest"]["gitCommit"], &predicate["tested_commit"]);
        // A pull request has the tested files as one commit with a message of its own.
        let same = if tested.is_string() && tested != delivered {
            let tree = &predicate["tree"];
            format!(
                "\n  tested as {}, with the same files: both commits have the tree {}\n  check it in a clone: git rev-parse '{}^{{tree}}'",
                text(tested),
                text(tree),
                text(delivered)
            )
        } else {
            String::new()
        };
        let proved = match (&predicate["proves_success"], &predicate["evidence"]["passed"]) {
            (Value::Bool(true), Value::Null) => "its test command ended with exit code 0, without counts",
            (Value::Bool(true), _) => "its tests passed",
            _ => "its tests do not prove success",
        };
        let flags = predicate["evidence"]["flags"].as_array().into_iter().flatten();
        let flags: String = flags
            .filter_map(|flag| serde_json::from_value::<Flag>(flag.clone()).ok())
            .map(|flag| format!("\n  {}: {}", flag.as_str(), flag.explain()))
            .collect();
        output::line(&format!(
            "{} genuine: {} at {}\n  {proved}: {}{flags}{same}",
            style.ok(),
            text(&subject["name"]),
            text(&subject["digest"]["gitCommit"]),
            text(&predicate["evidence"]["command"])
        ))
    };
    Ok(Exit::Done)
}
