//! What is kept of a repository follows what its forge tells of it, rather than a clock.

use harvest_forge::Forge;
use harvest_workspace::Mirror;

use super::Settings;
use crate::{Engine, Error};

/// A branch that has moved where it is hosted.
#[derive(Debug, Clone, Copy)]
pub struct Push<'p> {
    pub branch: &'p str,
    pub commit: &'p str,
    /// It is the one that work starts from.
    pub is_default: bool,
}

/// What a push led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Followed {
    /// The commit is here, for the next task.
    pub fetched: bool,
    /// Repositories whose snapshots are due.
    pub due: Vec<String>,
}

impl Engine {
    /// Brings the mirror up to date, and makes snapshots due that follow the branch. Whoever keeps them, here or elsewhere, is
    /// woken. What nobody uses here is left alone.
    pub async fn pushed(&self, forge: &dyn Forge, push: Push<'_>) -> Result<Followed, Error> {
        let mut followed = Followed::default();
        let (identity, now) = (forge.identity(), self.options.clock.now());
        let key = Mirror::key_for(&identity);
        if push.is_default
            && let Some(mirror) = self.mirrors.known(&identity)
        {
            mirror.ensure(push.commit, || forge.fetch(&mirror, push.commit)).await?;
            followed.fetched = true;
        }
        for repository in self.options.store.repositories().await? {
            let settings = Settings::of(&repository);
            let follows = settings.branch.as_deref().map_or(push.is_default, |branch| branch == push.branch);
            if settings.key == key && follows && self.options.store.repository_pushed(&repository.name, now).await? {
                followed.due.push(repository.name);
            }
        }
        Ok(followed)
    }
}
