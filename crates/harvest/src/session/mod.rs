//! `harvest session …`: sessions that go on.

mod fork;
mod prompt;
mod restore;
mod resume;
pub mod show;

pub use prompt::{GO_ON, close, watch};

use harvest_core::SessionId;
use harvest_store::Error;

use crate::cli::{Global, Session};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::remote::{self, Remote};
use crate::view::Style;

pub async fn session(global: &Global, environment: Environment, command: Session) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::session(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    match command {
        Session::Show { id } => show::show(global, &installation, style, &find(&installation, &id).await?).await,
        Session::Prompt(asked) => prompt::prompt(global, &installation, style, asked).await,
        Session::Resume(asked) => resume::resume(global, &installation, style, asked).await,
        Session::Continue(asked) => prompt::go_on(global, &installation, style, asked).await,
        Session::Fork(asked) => fork::fork(global, &installation, style, asked).await,
        Session::Restore(asked) => restore::restore(global, &installation, style, asked).await,
    }
}

/// A session by the beginning of its id, or of that of its task.
pub async fn find(installation: &Installation, id: &str) -> Result<SessionId, Failure> {
    let store = &installation.store;
    let unknown = match store.find_session(id, None).await {
        Err(unknown @ Error::UnknownSession(_)) => unknown,
        found => return Ok(found?),
    };
    let task = match store.find_task(id, None).await {
        Err(Error::UnknownTask(_)) => return Err(unknown.into()),
        found => store.task(&found?).await?,
    };
    task.sessions.into_iter().next().map(|session| session.id).ok_or_else(|| unknown.into())
}
