//! `harvest task …`: looking at tasks and acting on them.

mod add;
pub mod apply;
pub mod cancel;
pub mod delete;
mod interruption;
pub mod look;
pub mod plan;
mod proposal;
pub mod warnings;

pub use add::submit;

use harvest_api_types::TaskDetail;
use harvest_core::{Stopping, TaskId};
use harvest_store::TaskQuery;

use crate::cli::{Global, Task};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::remote::{self, Remote};
use crate::view::Style;

/// What `--json` prints of a task that was changed: the object of the API.
pub async fn document(installation: &Installation, id: &TaskId) -> Result<TaskDetail, Failure> {
    Ok(harvest_server::read_task(installation.store.as_ref(), id).await?)
}

pub async fn task(global: &Global, environment: Environment, command: Task) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::task(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    let find = async |id: &str| installation.store.find_task(id, None).await.map_err(Failure::from);
    match command {
        Task::Add(options) => add::add(global, &installation, style, *options).await,
        Task::Retry { id } => add::retry(global, &installation, style, &find(&id).await?).await,
        Task::List { status, repo, convoy, limit, cursor } => {
            let asked = look::Listing::new(status, repo.as_deref(), convoy.as_deref(), limit);
            let repository = match repo {
                Some(repo) => Some(installation.forges.open(&repo).await?.name().to_owned()),
                None => None,
            };
            let query =
                TaskQuery { status, repository, convoy, cursor, limit: usize::from(limit), ..TaskQuery::default() };
            look::list(global, &installation, style, query, &asked).await
        }
        Task::Show { id } => look::show(global, &installation, style, &find(&id).await?).await,
        Task::Logs { id, follow } => look::logs(global, &installation, style, &find(&id).await?, follow).await,
        Task::Diff { id } => look::diff(global, &installation, style, &find(&id).await?).await,
        Task::Apply { id, force } => apply::apply(global, &installation, style, &find(&id).await?, force).await,
        Task::Approve { id, edit } => {
            plan::approve(global, &installation, style, &find(&id).await?, edit.as_deref()).await
        }
        Task::Reject { id, comment } => plan::reject(global, &installation, style, &find(&id).await?, comment).await,
        Task::Delete { id, force } => delete::delete(global, &installation, style, &find(&id).await?, force).await,
        Task::Cancel { id } => cancel::stop(global, &installation, style, &find(&id).await?, Stopping::Cancel).await,
        Task::Terminate { id } => {
            cancel::stop(global, &installation, style, &find(&id).await?, Stopping::Terminate).await
        }
    }
}
