//! `harvest run --record` and `--replay`: the cassette of a run, and what becomes of a replay that goes another way.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use harvest_core::Code;
use harvest_engine::{ModelChoice, Stop};
use harvest_gateway::Script;
use harvest_gateway::cassette::{Cassette, CassetteError, Heading, Recorder, Redact, Replay};

use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;

/// An agent whose request was refused ends by itself, and says why. One that does not is stopped.
const GRACE: Duration = Duration::from_secs(5);

pub fn load(path: &Path) -> Result<Arc<Replay>, Failure> {
    Replay::load(path).map(Arc::new).map_err(|error| refused(&error))
}

/// Begins to record.
pub fn record(
    path: &Path,
    model: &ModelChoice,
    script: Option<&Script>,
    installation: &Installation,
) -> Result<Arc<Recorder>, Failure> {
    let heading = Heading::new(model.provider.as_str(), model.model.clone(), script);
    Recorder::create(path, &heading, redact(installation)).map(Arc::new).map_err(|error| refused(&error))
}

/// What takes this installation's secrets out of a text.
pub fn redact(installation: &Installation) -> Redact {
    let redactor = Arc::clone(&installation.redactor);
    Arc::new(move |text: &str| redactor.redact(text).into_owned())
}

/// Stops a run that goes on though its replay is over.
pub fn watch(cassette: Option<&Cassette>, stop: &Stop) {
    if let Some(Cassette::Replay(replay)) = cassette {
        let (replay, stop) = (Arc::clone(replay), stop.clone());
        tokio::spawn(async move {
            replay.diverged().await;
            tokio::time::sleep(GRACE).await;
            stop.request();
        });
    }
}

/// What the cassette has to say once the run is over: a replay must have been the recorded run.
pub fn closing(cassette: Option<&Cassette>, stop: &Stop) -> Result<(), Failure> {
    match cassette {
        Some(Cassette::Replay(replay)) => {
            // A person who stops a run is not to hear that it is incomplete.
            let difference = if stop.is_requested() { replay.divergence() } else { replay.difference() };
            difference.map_or(Ok(()), |reason| {
                let help = Some("run it as it was recorded, or record it again with --record".to_owned());
                Err(Failure { code: Code::Diverged, message: reason, help, exit: Exit::Failed })
            })
        }
        Some(Cassette::Record(recorder)) => {
            if let Some(reason) = recorder.failure() {
                output::complain(&format!("warning[{}]: the cassette is not complete: {reason}", Code::BadCassette));
            }
            Ok(())
        }
        None => Ok(()),
    }
}

fn refused(error: &CassetteError) -> Failure {
    let help = match error {
        CassetteError::Exists { .. } => "choose another file, or remove this one",
        CassetteError::Unreadable { .. } | CassetteError::Unwritable { .. } => "check the path and its permissions",
        _ => "the format is described in docs/cassettes.md",
    };
    Failure::refused(Code::BadCassette, error.to_string(), help)
}
