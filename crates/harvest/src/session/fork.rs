//! `harvest session fork`: a new session that goes on from a moment of another one.

use harvest_core::{Code, Source};
use harvest_engine::Fork;

use super::{find, prompt::GO_ON};
use crate::ask;
use crate::cli::{Global, SessionFork};
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::task;
use crate::view::Style;

pub async fn fork(
    global: &Global,
    installation: &Installation,
    style: Style,
    asked: SessionFork,
) -> Result<Exit, Failure> {
    let SessionFork { id, at, prompt, agent, model } = asked;
    let prompt = ask::read_prompt(prompt.as_deref().unwrap_or(GO_ON))?;
    let session = find(installation, &id).await?;
    if let Some(agent) = &agent {
        ask::find_agent(&crate::agent::registry(&installation.environment)?, agent)?;
    }
    let author = installation.environment.user();
    let asked = Fork {
        session: session.clone(),
        at,
        prompt,
        author,
        agent,
        model,
        key: None,
        most: None,
        source: Source::Cli,
        token: None,
    };
    let made = installation.queueing_engine()?.fork(asked).await;
    let made = made.map_err(|error| {
        let mut failure = Failure::from(error).refusing();
        if failure.code == Code::CannotFork {
            failure.help = Some(format!("list the events: harvest task logs {} --json", session.short()));
        }
        failure
    })?;
    let _ = if global.json {
        output::json(&task::document(installation, &made.task.id).await?)
    } else {
        output::line(&format!(
            "{} task {} continues from event {at} of session {}; run it with `harvest up`",
            style.ok(),
            style.bold(made.task.id.short()),
            session.short()
        ))
    };
    Ok(Exit::Done)
}
