//! The static programs that run inside sandboxes, carried along so that `harvest` is one file.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// `harvest-runner`.
pub static RUNNER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/harvest-runner"));
/// `harvest-builtin`.
pub static BUILTIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/harvest-builtin"));

/// Changes with either program.
pub const DIGEST: &str = env!("HARVEST_SANDBOXED_DIGEST");

fn programs() -> [(&'static str, &'static [u8]); 2] {
    [("harvest-builtin", BUILTIN), ("harvest-runner", RUNNER)]
}

/// Makes sure that the programs lie in a folder of their own below `folder`, and says where. Does nothing when they do.
///
/// The folder is named after what is in it and appears as a whole, so that versions do not get in each other's way. Processes
/// that do this at the same time wait for each other: none takes away what another has just made.
pub fn write_to(folder: &Path) -> io::Result<PathBuf> {
    let place = folder.join(DIGEST);
    if is_complete(&place) {
        return Ok(place);
    }
    fs::create_dir_all(folder)?;
    let turn = File::open(folder)?;
    turn.lock()?;
    if is_complete(&place) {
        return Ok(place);
    }
    let temporary = folder.join(format!(".{DIGEST}"));
    // Left by a process that was killed.
    remove(&temporary)?;
    let written = write(&temporary).and_then(|()| {
        // Cut short or tampered with. Programs that run from it keep the old files open.
        remove(&place)?;
        fs::rename(&temporary, &place)
    });
    if written.is_err() {
        let _ = remove(&temporary);
    }
    written.map(|()| place)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
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
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    settle(&folder.join("harvest-runner"))
}

/// Waits until the program can be started. A process that another thread forked while we were writing has our descriptor until
/// it becomes another program, and what is open for writing cannot be run.
#[expect(clippy::disallowed_methods, reason = "started with a cleared environment")]
fn settle(program: &Path) -> io::Result<()> {
    for _ in 0..200 {
        // Without arguments it says how it is used and ends.
        let mut command = Command::new(program);
        let quiet = command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match quiet.status() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => sleep(Duration::from_millis(5)),
            outcome => return outcome.map(drop),
        }
    }
    Err(io::ErrorKind::ExecutableFileBusy.into())
}

fn is_complete(folder: &Path) -> bool {
    programs().iter().all(|(name, bytes)| fs::read(folder.join(name)).is_ok_and(|found| found == *bytes))
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

    #[test]
    fn whoever_writes_at_the_same_time_finds_the_programs() {
        let folder = std::env::temp_dir().join(format!("harvest-sandboxed-together-{}", std::process::id()));
        for broken in [false, true, false, true] {
            if broken {
                fs::write(folder.join(DIGEST).join("harvest-builtin"), "broken").unwrap();
            } else {
                remove(&folder).unwrap();
            }
            std::thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| assert!(is_complete(&write_to(&folder).unwrap())));
                }
            });
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
