//! Which repositories may be named over the network, and by whom.
//!
//! A repository that is named is opened: git of the host reads its settings, or speaks to its host. So only repositories that are
//! known are accepted: those that were added, and those that a project lists. Both are made known by an admin of the whole
//! installation, who alone may name any other path or URL. Folders of Harvest's own are refused to everyone, where they are
//! opened (`harvest_forge::ClosedFolders`).

use harvest_core::{Code, may_name_hosts};

use crate::auth::Principal;
use crate::problem::Problem;
use crate::state::App;

/// The path or URL of the repository that someone names, if they may name it. Nothing looks at it before, so that nobody learns
/// what is on this machine.
pub async fn accept(app: &App, principal: &Principal, named: &str) -> Result<String, Problem> {
    let known = app.store.repositories().await?;
    let source = known.iter().find(|one| one.name == named).map_or(named, |one| &one.source);
    principal.must_see_repository(source)?;
    if may_name_hosts(principal.role_everywhere()) || known.iter().any(|one| one.source == source) {
        return Ok(source.to_owned());
    }
    let is_listed =
        app.desk.tenancy().projects.iter().any(|project| project.repositories.iter().any(|one| one == source));
    if is_listed {
        return Ok(source.to_owned());
    }
    let detail = "no repository of this name, path or address is known here";
    let help = "name one of GET /api/repositories or of a project; an admin of the installation can add others";
    Err(Problem::new(Code::NotAllowed, detail).about("repository").help(help))
}
