//! `harvest repo …` over HTTP.

use harvest_api_types::{NewRepository, Repository};
use harvest_core::Clock;
use harvest_outbound::escape;
use serde_json::{Value, json};

use super::task::here_only;
use super::{Remote, parse};
use crate::cli::{Global, Repo, RepoAdd};
use crate::failure::{Exit, Failure};
use crate::gc::amount;
use crate::installation::SystemClock;
use crate::output;
use crate::repo::{COLUMNS, COMMIT_SHOWN, paint_of, show_added};
use crate::view::{Cell, Style, Table, age, clean};

pub async fn repo(global: &Global, style: Style, remote: &Remote, command: Repo) -> Result<Exit, Failure> {
    match command {
        Repo::Add(options) => {
            let repository: Value = remote.post("/api/repositories", &body(*options)?).await?;
            show_added(global, style, &repository, repository["name"].as_str().unwrap_or_default());
        }
        Repo::List => list(global, style, remote).await?,
        Repo::Build(options) => {
            if options.force || options.tries != crate::cli::BUILD_TRIES {
                return Err(here_only("--force or --tries"));
            }
            let path = format!("/api/repositories/{}/build", escape(&options.name));
            let repository: Value = remote.post(&path, &json!({})).await?;
            let _ = if global.json {
                output::json(&repository)
            } else {
                let name = style.bold(&clean(&options.name));
                output::line(&format!("{} a build of {name} is requested; see `harvest repo list`", style.ok()))
            };
        }
        Repo::Remove { name } => {
            remote.delete(&format!("/api/repositories/{}", escape(&name))).await?;
            let _ = if global.json {
                output::json(&json!({ "name": name, "removed": true }))
            } else {
                output::line(&format!("{} repository {} is removed", style.ok(), style.bold(&clean(&name))))
            };
        }
    }
    Ok(Exit::Done)
}

/// The API has no word for how much of a repository is fetched and how often.
fn body(options: RepoAdd) -> Result<NewRepository, Failure> {
    let RepoAdd { source, name, branch, setup, build, depth, partial, sparse, every, alert } = options;
    let unsaid = [
        ("--depth", depth.is_some()),
        ("--partial", partial),
        ("--sparse", !sparse.is_empty()),
        ("--every", every.is_some()),
        ("--alert", alert.is_some()),
    ];
    if let Some((option, _)) = unsaid.iter().find(|(_, is_given)| *is_given) {
        return Err(here_only(option));
    }
    Ok(NewRepository { source, name, branch, setup, build })
}

async fn list(global: &Global, style: Style, remote: &Remote) -> Result<(), Failure> {
    let items: Vec<Value> = remote.items("/api/repositories").await?;
    if global.json {
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return Ok(());
    }
    if items.is_empty() {
        output::complain("no repositories yet; add one: harvest repo add URL");
    }
    let now = SystemClock.now();
    let mut table = Table::new(style, COLUMNS);
    for item in &items {
        let Repository { name, source, settings, snapshot, .. } = parse(item)?;
        let (state, commit) = (clean(&snapshot.state), clean(snapshot.commit.as_deref().unwrap_or_default()));
        let branch = settings["branch"].as_str().unwrap_or("HEAD");
        table.row([
            Cell::new(clean(&name)).painted(Style::bold),
            Cell::new(state.clone()).painted(paint_of(&state)),
            commit.get(..COMMIT_SHOWN).unwrap_or(&commit).to_owned().into(),
            Cell::new(snapshot.built_at.map(|built| age(now, built)).unwrap_or_default()).right(),
            Cell::new(snapshot.bytes.map(amount).unwrap_or_default()).right(),
            clean(&source).into(),
            Cell::new(clean(branch)).painted(Style::dim),
        ]);
    }
    let _ = table.lines().iter().try_for_each(|line| output::line(line));
    Ok(())
}
