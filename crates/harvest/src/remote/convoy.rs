//! `harvest convoy …` over HTTP.

use harvest_api_types::Convoy as Batch;
use harvest_core::{Clock, Code, ListedTask};
use harvest_outbound::escape;
use harvest_store::ListedPage;

use super::Remote;
use crate::cli::{Convoy, Global};
use crate::convoy::{MOST, show_list, show_tasks, unknown};
use crate::failure::{Exit, Failure};
use crate::installation::SystemClock;
use crate::view::Style;

pub async fn convoy(global: &Global, style: Style, remote: &Remote, command: Convoy) -> Result<Exit, Failure> {
    match command {
        Convoy::List => show_list(global, style, &remote.items::<Batch>("/api/convoys").await?),
        Convoy::Show { name } => {
            let found: Result<Batch, Failure> = remote.get(&format!("/api/convoys/{}", escape(&name))).await;
            let convoy = found.map_err(|failure| match failure.code {
                Code::UnknownAddress => unknown(&name),
                _ => failure,
            })?;
            let path = format!("/api/tasks?convoy={}&limit={MOST}", escape(&name));
            let items: Vec<ListedTask> = remote.items(&path).await?;
            let page = ListedPage { items, next_cursor: None };
            show_tasks(global, style, &convoy, &page, SystemClock.now());
        }
    }
    Ok(Exit::Done)
}
