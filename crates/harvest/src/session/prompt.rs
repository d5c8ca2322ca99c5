//! `harvest session prompt` and `harvest session continue`: another prompt for a session.

use harvest_core::{EventBody, Outcome, Prompt, SessionId, TaskStatus, Turn, TurnId, TurnStatus};
use harvest_engine::{FollowUp, check_name};
use harvest_store::IdempotencyKey;

use super::find;
use crate::ask;
use crate::cli::{Asking, Global, PromptOptions, SessionContinue, SessionPrompt};
use crate::failure::{Exit, Failure};
use crate::follow::{Follow, Following, tell_idle_here};
use crate::installation::Installation;
use crate::output;
use crate::task::look;
use crate::view::{Activity, Place, Style, summary};

/// What is asked of an agent that nobody asks for anything else.
pub const GO_ON: &str = "Go on with the work where it was left, and finish it.";

pub async fn prompt(
    global: &Global,
    installation: &Installation,
    style: Style,
    asked: SessionPrompt,
) -> Result<Exit, Failure> {
    let prompt = ask::read_prompt(&asked.prompt)?;
    let session = find(installation, &asked.id).await?;
    ask_for(global, installation, style, session, prompt, asked.options).await
}

pub async fn go_on(
    global: &Global,
    installation: &Installation,
    style: Style,
    asked: SessionContinue,
) -> Result<Exit, Failure> {
    let SessionContinue { id, prompt, agent, model, asking } = asked;
    let prompt = ask::read_prompt(prompt.as_deref().unwrap_or(GO_ON))?;
    let session = find(installation, &id).await?;
    let options = PromptOptions { agent: Some(agent), model, asking };
    ask_for(global, installation, style, session, prompt, options).await
}

/// Queues a prompt and says so, or watches what comes of it.
pub async fn ask_for(
    global: &Global,
    installation: &Installation,
    style: Style,
    session: SessionId,
    prompt: Prompt,
    options: PromptOptions,
) -> Result<Exit, Failure> {
    let PromptOptions { agent, model, asking: Asking { idempotency_key, follow } } = options;
    if let Some(agent) = &agent {
        ask::find_agent(&crate::agent::registry(&installation.environment)?, agent)?;
    }
    idempotency_key.as_deref().map_or(Ok(()), |key| check_name("--idempotency-key", key))?;
    let everything = format!("{session} {agent:?} {model:?} {prompt}");
    let author = installation.environment.user();
    let key = idempotency_key.map(|key| IdempotencyKey::of(key, &everything));
    let asked = FollowUp { session: session.clone(), prompt, author, agent, model, key, token: None };
    let engine = installation.queueing_engine()?;
    let turn = engine.prompt(asked).await.map_err(|error| Failure::from(error).refusing())?;
    if follow {
        tell_idle_here(installation.store.as_ref()).await?;
        return watch(global, style, Follow::new(installation.store.clone(), session), &turn.id, Place::Here).await;
    }
    let _ = if global.json { output::json(&turn) } else { output::line(&queued(style, &turn)) };
    Ok(Exit::Done)
}

fn queued(style: Style, turn: &Turn) -> String {
    let waits = if turn.status == TurnStatus::Queued { ", after earlier prompts" } else { "" };
    format!(
        "{} turn {} of session {} is queued{waits}; run it with `harvest up`",
        style.ok(),
        turn.number,
        style.bold(turn.session_id.short())
    )
}

/// Shows what happens from the moment a turn was asked for to its end.
pub async fn watch(
    global: &Global,
    style: Style,
    mut journal: impl Following,
    turn: &TurnId,
    place: Place,
) -> Result<Exit, Failure> {
    let mut activity = Activity::new(style);
    let (mut asked, mut finished) = (false, false);
    loop {
        for event in journal.next().await? {
            asked |= matches!(&event.body, EventBody::TurnQueued { turn_id, .. } if turn_id == turn);
            if !asked {
                continue;
            }
            finished |= matches!(&event.body, EventBody::TurnFinished { turn_id, .. } if turn_id == turn);
            if look::print(global, &mut activity, &event).is_err() {
                return Ok(Exit::Done);
            }
            match event.body {
                // A task that is cancelled keeps what is in line, for whoever begins it again.
                EventBody::TaskFinished(outcome) if finished || outcome.status == TaskStatus::Cancelled => {
                    return Ok(close(global, style, &outcome, place));
                }
                // It will be tried again.
                EventBody::TaskRetried { .. } => finished = false,
                _ => {}
            }
        }
    }
}

pub fn close(global: &Global, style: Style, outcome: &Outcome, place: Place) -> Exit {
    if !global.json {
        let _ = output::line(&summary(style, outcome, &[], "", place));
    }
    Exit::of(outcome)
}
