//! `harvest session …` over HTTP.

use harvest_api_types::{AskFork, AskMore, AskResume, TaskDetail};
use harvest_core::{Code, Task, Turn};
use serde_json::Value;

use super::{Journal, Remote, parse};
use crate::ask;
use crate::cli::{Asking, Global, Session};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::session::{GO_ON, show, watch};
use crate::view::{Place, Style, clean};

pub async fn session(global: &Global, style: Style, remote: &Remote, command: Session) -> Result<Exit, Failure> {
    match command {
        Session::Show { id } => {
            let detail: Value = remote.get(&format!("/api/sessions/{}", find(remote, &id).await?)).await?;
            let (session, task): (harvest_core::Session, Task) = (parse(&detail)?, parse(&detail["task"])?);
            let _ = match global.json {
                true => output::json(&detail),
                false => output::line(&show::page(style, &session, &task)),
            };
            Ok(Exit::Done)
        }
        Session::Prompt(asked) => {
            let (agent, model) = (asked.options.agent, asked.options.model);
            prompt(global, style, remote, &asked.id, &asked.prompt, agent, model, asked.options.asking).await
        }
        Session::Continue(asked) => {
            let words = asked.prompt.as_deref().unwrap_or(GO_ON);
            prompt(global, style, remote, &asked.id, words, Some(asked.agent), asked.model, asked.asking).await
        }
        Session::Resume(asked) => {
            let id = find(remote, &asked.id).await?;
            let prompt = asked.prompt.as_deref().map(ask::read_prompt).transpose()?;
            let body = AskResume { prompt: prompt.map(String::from) };
            let task: Value = remote.post(&format!("/api/sessions/{id}/resume"), &body).await?;
            let _ = if global.json {
                output::json(&task)
            } else {
                output::line(&format!("{} session {} continues", style.ok(), style.bold(&clean(&id.to_string()))))
            };
            Ok(Exit::Done)
        }
        Session::Fork(asked) => {
            let id = find(remote, &asked.id).await?;
            let prompt = ask::read_prompt(asked.prompt.as_deref().unwrap_or(GO_ON))?;
            let body = AskFork { at: asked.at, prompt: prompt.into(), agent: asked.agent, model: asked.model };
            let task: Value = remote.post(&format!("/api/sessions/{id}/fork"), &body).await?;
            let _ = if global.json {
                output::json(&task)
            } else {
                let id = clean(task["id"].as_str().unwrap_or_default());
                output::line(&format!("{} task {id} continues from event {}", style.ok(), asked.at))
            };
            Ok(Exit::Done)
        }
        Session::Restore(_) => {
            let message = "checkpoints are found in the journal, which is read where the data directory is";
            let help = "find its event, `checkpoint.created`, and use: harvest session fork ID --at SEQ";
            Err(Failure::refused(Code::BadOption, message, help))
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "what two commands have in common, as it was typed")]
async fn prompt(
    global: &Global,
    style: Style,
    remote: &Remote,
    id: &str,
    words: &str,
    agent: Option<String>,
    model: Option<String>,
    asking: Asking,
) -> Result<Exit, Failure> {
    let id = find(remote, id).await?;
    let body = AskMore { prompt: ask::read_prompt(words)?.into(), agent, model };
    let turn: Turn = remote.post_once(&format!("/api/sessions/{id}/prompts"), &body, asking.idempotency_key).await?;
    if asking.follow {
        remote.tell_idle().await;
        return watch(global, style, Journal::new(remote, &id), &turn.id, Place::Server).await;
    }
    let _ = if global.json {
        output::json(&turn)
    } else {
        let session = style.bold(turn.session_id.short());
        output::line(&format!("{} turn {} of session {session} is queued", style.ok(), turn.number))
    };
    Ok(Exit::Done)
}

/// A session by the beginning of its id, or of that of its task.
async fn find(remote: &Remote, prefix: &str) -> Result<String, Failure> {
    if let Some(id) = remote.find("/api/sessions", prefix).await? {
        return Ok(id);
    }
    let unknown = || {
        let message = format!("no session's id begins with `{}`", clean(prefix));
        Failure::refused(Code::UnknownSession, message, "see `harvest task list`; the ID of a task works too")
    };
    let task = remote.find("/api/tasks", prefix).await?.ok_or_else(unknown)?;
    let detail: TaskDetail = remote.get(&format!("/api/tasks/{task}")).await?;
    detail.sessions.first().map(|session| session.id.to_string()).ok_or_else(unknown)
}
