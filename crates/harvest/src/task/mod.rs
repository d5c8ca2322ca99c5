//! `harvest task …`: looking at tasks and acting on them.

mod apply;
mod cancel;
mod look;

use crate::cli::{Global, Task};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::view::Style;

pub async fn task(global: &Global, environment: Environment, command: Task) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    let find = async |id: &str| installation.store.find_task(id).await.map_err(Failure::from);
    match command {
        Task::List { status, limit, cursor } => {
            look::list(global, &installation, style, status, usize::from(limit), cursor).await
        }
        Task::Show { id } => look::show(global, &installation, style, &find(&id).await?).await,
        Task::Logs { id } => look::logs(global, &installation, style, &find(&id).await?).await,
        Task::Diff { id } => look::diff(global, &installation, &find(&id).await?).await,
        Task::Apply { id } => apply::apply(global, &installation, style, &find(&id).await?).await,
        Task::Cancel { id } => cancel::cancel(global, &installation, style, &find(&id).await?).await,
    }
}
