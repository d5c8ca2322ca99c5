//! Removes what a sandbox leaves behind.

use std::path::Path;

use crate::Error;

/// Removes `path` and everything in it, whatever a sandbox left there: folders without permissions, links that lead elsewhere,
/// trees of any depth. Not being there is fine. Nothing may write to it any more.
pub fn remove(path: &Path) -> Result<(), Error> {
    harvest_beneath::remove(path).map_err(|error| Error::io(path, error))
}
