//! `harvest evidence …`: what proves a result, signed, and checked without asking anyone.

use std::io::Read;
use std::path::Path;

use harvest_core::{Code, EventBody};
use harvest_engine::evidence_statement;
use harvest_vault::{AttestError, Attestor, verify_statement};
use serde_json::{Value, json};

use crate::cli::{Evidence, Global};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{Installation, data_path};
use crate::output;
use crate::view::{Style, clean};

/// The installation's own key, in its data directory.
pub const KEY_FILE: &str = "evidence.key";
/// The public half of a key that was left where a backup comes from.
pub const PUBLIC_FILE: &str = "evidence.pub";
const PAGE: usize = 1000;
const MOST_BYTES: u64 = 4 << 20;

pub async fn evidence(global: &Global, environment: Environment, command: Evidence) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    match command {
        Evidence::Export { id } => {
            let installation = Installation::open(global, environment).await?;
            let _ = output::json(&export(&installation, &id).await?);
            Ok(Exit::Done)
        }
        Evidence::Key => {
            let installation = Installation::open(global, environment).await?;
            let key = attestor(installation.data.path())?.public_key();
            let _ = if global.json { output::json(&json!({ "public_key": key })) } else { output::line(&key) };
            Ok(Exit::Done)
        }
        Evidence::Verify { file, key } => {
            let key = match key {
                Some(key) => key,
                None => own_key(&data_path(global, &environment)?)?,
            };
            verify(global, style, &file, &key)
        }
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
        let help = "check its owner and permissions; without it nothing can be signed as before";
        Failure::refused(Code::DataDirectory, error.to_string(), help)
    })
}

/// Nothing is made for looking.
pub fn own_key(data: &Path) -> Result<String, Failure> {
    if !data.join(KEY_FILE).exists() {
        let help = "name the key of whoever signed it: --key, as `harvest evidence key` prints it there";
        return Err(Failure::refused(Code::BadEvidence, "there is no key here to check it with", help));
    }
    Ok(attestor(data)?.public_key())
}

/// The signed evidence of a task.
pub async fn export(installation: &Installation, id: &str) -> Result<Value, Failure> {
    let found = installation.store.find_task(id).await?;
    let detail = installation.store.task(&found).await?;
    let nothing = |why: &str| {
        Failure::refused(
            Code::BadEvidence,
            format!("task {} has nothing to show: {why}", found.short()),
            "see harvest task show",
        )
    };
    let evidence = detail.task.evidence.clone().ok_or_else(|| nothing("its tests were not run"))?;
    let session = detail.sessions.first().ok_or_else(|| nothing("it has no session"))?;
    let (mut commit, mut model, mut after) = (evidence.commit.clone(), detail.task.model.clone(), 0);
    loop {
        let events = installation.store.events(&session.id, after, PAGE).await?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in &events {
            match &event.body {
                EventBody::BranchDelivered { branch, commit: delivered } if *branch == session.branch => {
                    commit.clone_from(delivered);
                }
                EventBody::AgentStarted { model: started, .. } => model.clone_from(started),
                _ => {}
            }
        }
    }
    let statement = evidence_statement(&detail.task, session, model.as_deref(), &commit, &evidence);
    Ok(attestor(installation.data.path())?.sign(&statement))
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
            let help = "do not believe it; ask whoever gave it to you for the original and for their key";
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
        let proved =
            if predicate["proves_success"] == true { "its tests passed" } else { "its tests did not prove it" };
        output::line(&format!(
            "{} genuine: {} at {}\n  {proved}: {}",
            style.ok(),
            text(&subject["name"]),
            text(&subject["digest"]["gitCommit"]),
            text(&predicate["evidence"]["command"])
        ))
    };
    Ok(Exit::Done)
}
