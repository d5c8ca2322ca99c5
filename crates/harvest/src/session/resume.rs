//! `harvest session resume`: an interrupted session goes on.

use harvest_core::Code;
use harvest_store::Error;

use super::find;
use crate::ask;
use crate::cli::{Global, SessionResume};
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::task;
use crate::view::Style;

pub async fn resume(
    global: &Global,
    installation: &Installation,
    style: Style,
    asked: SessionResume,
) -> Result<Exit, Failure> {
    let prompt = asked.prompt.as_deref().map(ask::read_prompt).transpose()?.map(ask::without_secrets).transpose()?;
    let id = find(installation, &asked.id).await?;
    let task = installation.store.session(&id).await?.task_id;
    let repository = installation.store.task(&task).await?.task.repository;
    let by = installation.settings()?.tenancy().requester(&installation.environment.user(), &repository, None);
    match installation.store.resume(&task, by, prompt, installation.clock.now()).await {
        Err(Error::IllegalMove(refused)) => {
            let message = format!("session {} is not interrupted: its task is {}", id.short(), refused.from);
            let help = "to send a follow-up: harvest session prompt; to see interrupted tasks: harvest task list --status interrupted";
            return Err(Failure::refused(Code::NotInterrupted, message, help));
        }
        resumed => resumed.map_err(|error| Failure::from(error).refusing())?,
    }
    let _ = if global.json {
        output::json(&task::document(installation, &task).await?)
    } else {
        let words = "continues; run it with `harvest up`";
        output::line(&format!("{} session {} {words}", style.ok(), style.bold(id.short())))
    };
    Ok(Exit::Done)
}
