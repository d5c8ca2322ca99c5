//! `harvest session restore`: back to a checkpoint, which is to fork at the event that tells of it.

use harvest_core::{Code, EventBody};

use super::{find, fork};
use crate::cli::{Global, SessionFork, SessionRestore};
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::view::Style;

const PAGE: usize = 1000;

pub async fn restore(
    global: &Global,
    installation: &Installation,
    style: Style,
    asked: SessionRestore,
) -> Result<Exit, Failure> {
    let session = find(installation, &asked.id).await?;
    let (mut after, mut known) = (0, Vec::new());
    loop {
        let events = installation.store.events(&session, after, PAGE).await?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in &events {
            if let EventBody::CheckpointCreated { number, .. } = event.body {
                known.push((number, event.seq));
            }
        }
    }
    let Some((_, at)) = known.iter().rev().find(|(number, _)| *number == asked.checkpoint) else {
        let message = format!("session {} has no checkpoint {}", session.short(), asked.checkpoint);
        let help = match (known.first(), known.last()) {
            (Some((first, _)), Some((last, _))) => format!("it has checkpoints from {first} to {last}"),
            _ => "it has none: no change lasted longer than a few seconds".to_owned(),
        };
        return Err(Failure::refused(Code::CannotFork, message, help));
    };
    let asked = SessionFork { id: session.to_string(), at: *at, prompt: asked.prompt, agent: None, model: None };
    fork::fork(global, installation, style, asked).await
}
