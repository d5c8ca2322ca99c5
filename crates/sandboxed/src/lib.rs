//! The static programs that run inside sandboxes, carried along so that `harvest` is one file.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// `harvest-runner`.
pub static RUNNER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/harvest-runner"));
/// `harvest-builtin`.
pub static BUILTIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/harvest-builtin"));

/// Changes with either program.
pub const DIGEST: &str = env!("HARVEST_SANDBOXED_DIGEST");

fn programs() -> [(&'static str, &'static [u8]); 2] {
    [("harvest-runner", RUNNER), ("harvest-builtin", BUILTIN)]
}

/// Makes sure that the programs lie in a folder of their own below `folder`, and says where. Does nothing when they do.
///
/// The folder is named after what is in it and appears as a whole, so that versions, and processes that do this at the same
/// time, do not get in each other's way.
pub fn write_to(folder: &Path) -> io::Result<PathBuf> {
    let place = folder.join(DIGEST);
    if is_complete(&place) {
        return Ok(place);
    }
    let temporary = folder.join(format!(".{DIGEST}.{}", std::process::id()));
    let written = write(&temporary).and_then(|()| {
        if place.exists() {
            // Cut short or tampered with. Whoever runs from it keeps the old files open.
            fs::remove_dir_all(&place)?;
        }
        fs::rename(&temporary, &place)
    });
    if written.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    match written {
        // Someone else was faster.
        Err(_) if is_complete(&place) => Ok(place),
        Err(error) => Err(error),
        Ok(()) => Ok(place),
    }
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, bytes) in programs() {
        let path = folder.join(name);
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    // Sandboxes look at it as another uid.
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

fn is_complete(folder: &Path) -> bool {
    programs()
        .iter()
        .all(|(name, bytes)| fs::read(folder.join(name)).is_ok_and(|found| found == *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_written_once_and_repaired() {
        let folder = std::env::temp_dir().join(format!("harvest-sandboxed-{}", std::process::id()));
        let place = write_to(&folder).unwrap();
        let runner = place.join("harvest-runner");
        let first = fs::metadata(&runner).unwrap().modified().unwrap();
        assert_eq!(write_to(&folder).unwrap(), place);
        assert_eq!(fs::metadata(&runner).unwrap().modified().unwrap(), first);
        fs::write(&runner, "broken").unwrap();
        write_to(&folder).unwrap();
        assert_eq!(fs::read(&runner).unwrap(), RUNNER);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
