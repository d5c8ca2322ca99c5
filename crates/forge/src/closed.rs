//! Folders in which no repository is ever opened.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The folders of an installation that sandboxes write to: a repository in there has settings that an agent may have written,
/// and git on the host would obey them.
#[derive(Debug, Clone, Default)]
pub struct ClosedFolders {
    closed: Vec<PathBuf>,
    open: Vec<PathBuf>,
}

impl ClosedFolders {
    pub fn new(closed: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { closed: closed.into_iter().collect(), open: Vec::new() }
    }

    /// One folder in them that Harvest itself made a repository in, and that no sandbox can write to.
    pub fn but(mut self, folder: PathBuf) -> Self {
        self.open.push(folder);
        self
    }

    /// Refuses a path that leads into one of them, by whatever links. Where nothing is, nothing is refused.
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        let Ok(found) = path.canonicalize() else { return Ok(()) };
        if self.closed.iter().any(|closed| contains(closed, &found))
            && !self.open.iter().any(|open| contains(open, &found))
        {
            return Err(Error::OwnFolder { path: path.to_owned() });
        }
        Ok(())
    }
}

/// Also where a folder has another name, as one that is mounted twice has.
fn contains(folder: &Path, found: &Path) -> bool {
    let id = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    let Some(wanted) = id(folder) else { return false };
    found.ancestors().any(|folder| id(folder) == Some(wanted))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_path_leads_into_a_closed_folder() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for folder in ["data/workspaces/s", "data/demo/orchard", "data-of-others", "links"] {
            std::fs::create_dir_all(path(folder)).unwrap();
        }
        symlink(path("data/workspaces"), path("links/into")).unwrap();
        symlink(path("data"), path("alias")).unwrap();
        let closed = ClosedFolders::new([path("alias")]).but(path("data/demo"));
        for inside in ["data", "data/workspaces/s", "links/into/s", "links/../data/workspaces", "alias/workspaces"] {
            assert!(matches!(closed.check(&path(inside)), Err(Error::OwnFolder { .. })), "{inside}");
        }
        for outside in ["data-of-others", "links", "data/demo/orchard", "not-there"] {
            closed.check(&path(outside)).unwrap();
        }
    }
}
