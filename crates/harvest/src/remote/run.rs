//! `harvest run` over HTTP: the server works on the task, and this terminal shows it.

use harvest_api_types::TaskDetail;
use harvest_core::{Code, EventBody};
use harvest_engine::Stop;
use serde_json::{Value, json};

use super::task::{here_only, submit};
use super::{Journal, Remote, parse};
use crate::cli::{Global, QueueOptions, Run, SandboxKind};
use crate::failure::{Exit, Failure, code_of};
use crate::follow::Following;
use crate::output;
use crate::run::{awaiting, interrupted, stop_on_signals};
use crate::session::close;
use crate::task::look;
use crate::view::{Activity, Place, Style, clean};

pub async fn run(global: &Global, style: Style, remote: &Remote, options: Run) -> Result<Exit, Failure> {
    refuse_what_the_server_decides(&options)?;
    let answer = submit(remote, options.ask, QueueOptions::default(), None).await?;
    let detail: TaskDetail = parse(&answer)?;
    let (id, short) = (detail.task.id.to_string(), detail.task.id.short().to_owned());
    let session = detail.sessions.first().map(|session| session.id.to_string()).ok_or_else(|| {
        Failure::failed(Code::ServerUnreachable, format!("the server made task {short} without a session"))
    })?;
    let stop = Stop::default();
    stop_on_signals(&stop);
    let mut journal = Journal::new(remote, &session);
    let mut activity = Activity::new(style);
    let mut asked = false;
    loop {
        let events = tokio::select! {
            biased;
            events = journal.next() => events?,
            () = stop.requested(), if !asked => {
                asked = true;
                remote.post::<Value>(&format!("/api/tasks/{id}/cancel"), &json!({})).await?;
                continue;
            }
        };
        for event in &events {
            if look::print(global, &mut activity, event).is_err() {
                return Ok(Exit::Done);
            }
            let waits = match &event.body {
                EventBody::TaskFinished(outcome) => {
                    if let (true, Some(code)) = (global.json, code_of(outcome)) {
                        let why = outcome.error.as_deref().unwrap_or_default();
                        output::complain(&format!("error[{code}]: {}", clean(why)));
                    }
                    return Ok(close(global, style, outcome, Place::Server));
                }
                EventBody::SessionInterrupted { .. } => Some(interrupted(style, &short)),
                EventBody::PlanProposed { .. } | EventBody::DeliveryProposed { .. } => Some(awaiting(style, &short)),
                _ => None,
            };
            if let Some(words) = waits {
                if !global.json {
                    let _ = output::line(&words);
                }
                return Ok(Exit::Stopped);
            }
        }
    }
}

fn refuse_what_the_server_decides(options: &Run) -> Result<(), Failure> {
    let given = [
        ("--model-script", options.model_script.is_some()),
        ("--record", options.record.is_some()),
        ("--replay", options.replay.is_some()),
        ("--sandbox", options.sandbox != SandboxKind::Local),
    ];
    if options.race.race.is_some() {
        let message = "a race is not shown live, and HARVEST_URL names a server";
        let help = "queue it with `harvest task add … --race …`, and look at it with `harvest race show`";
        return Err(Failure::refused(Code::BadOption, message, help));
    }
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(here_only(option)),
        None => Ok(()),
    }
}
