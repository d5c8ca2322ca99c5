//! Which repositories may be named over the network, and by whom.
//!
//! A repository that is named is opened: git of the host reads its settings, or speaks to its host. So only repositories that are
//! known are accepted: those that were added, and those that a project lists. Both are made known by an admin of the whole
//! installation, who alone may name any other path or URL. Folders of Harvest's own are refused to everyone, where they are
//! opened (`harvest_forge::ClosedFolders`).

use harvest_core::repository::{Place, normal};
use harvest_core::{Code, may_name_hosts};
use harvest_forge::spelled;
use harvest_store::Repository;

use crate::auth::Principal;
use crate::problem::Problem;
use crate::state::App;

/// The path or URL of the repository that someone names, if they may name it. A known repository may be named by any spelling of
/// its address, and is reached by the one that it is known by. Beside where the links of a path lead nothing is looked at
/// before, and what is not known is refused in the same words whether or not it is there.
pub async fn accept(app: &App, principal: &Principal, named: &str) -> Result<String, Problem> {
    let known = app.store.repositories().await?;
    let may_name_others = may_name_hosts(principal.role_everywhere());
    if let Some(known) = known.iter().find(|one| one.name == named) {
        principal.must_see_repository(&known.source)?;
        return Ok(known.source.clone());
    }
    let address = address_of(app, named).await;
    principal.must_see_repository(&address)?;
    if may_name_others {
        return Ok(address);
    }
    if let Some(found) = find_at(&known, &address) {
        return Ok(found.source.clone());
    }
    let place = Place::of(&address);
    let tenancy = app.desk.tenancy();
    let mut listed = tenancy.projects.iter().flat_map(|project| &project.repositories);
    if let Some(listed) = listed.find(|listed| Place::of(listed) == place) {
        return Ok(listed.clone());
    }
    let detail = "no repository of this name, path or address is known here";
    let help = "name one of GET /api/repositories or of a project; an admin of the installation can add others";
    Err(Problem::new(Code::NotAllowed, detail).about("repository").help(help))
}

/// What is named in the one spelling, as a repository of the GitHub with an account here where it is one.
pub async fn address_of(app: &App, named: &str) -> String {
    // A folder is never one on GitHub.
    let account = if named.starts_with('/') { None } else { app.engine.forges().github().await };
    let page = account.and_then(|client| Some(client.host().page(&client.host().repository(named)?)));
    page.unwrap_or_else(|| spelled(named))
}

/// The repository that a filter names, which only chooses among what someone sees: nothing on this machine is looked at.
pub fn named_in_filter(known: &[Repository], named: &str) -> String {
    let found = known.iter().find(|one| one.name == named).or_else(|| find_at(known, named));
    found.map_or_else(|| normal(named), |one| one.source.clone())
}

/// The known repository with this address, else one with another spelling of it.
fn find_at<'a>(known: &'a [Repository], address: &str) -> Option<&'a Repository> {
    let place = Place::of(address);
    let same = known.iter().find(|one| one.source == address);
    same.or_else(|| known.iter().find(|one| Place::of(&one.source) == place))
}
