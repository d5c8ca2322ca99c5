//! Support that the tests of several crates share. No crate depends on it outside of its tests.
//!
//! The test harness knows no test that skips itself while it runs: one that returns early counts as passed. [`skip`]
//! writes the test and the reason to the file that `scripts/test` names, and the count at the end takes it from there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The variable with the path of the file that collects skipped tests.
pub const SKIPPED: &str = "HARVEST_TEST_SKIPPED";

/// Reports that the calling test cannot run here. The caller returns right after it.
pub fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Standard error of the process, not of the test, so that the line appears although the test passes.
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {reason}");
    let Some(path) = std::env::var_os(SKIPPED) else { return };
    // One write of one line: tests of several threads and processes append to the same file.
    let program = std::env::current_exe().unwrap_or_default();
    let line = format!("{}\t{test}\t{}\n", program.display(), reason.replace(['\n', '\t'], " "));
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// A folder with something that is installed once and kept. One test of one process fills it; all others wait meanwhile.
#[derive(Debug)]
pub struct Filling {
    folder: PathBuf,
    /// Unlocked when it is closed, after a crash too.
    _lock: File,
}

impl Filling {
    /// `None` when the folder is complete.
    pub fn of(folder: &Path) -> io::Result<Option<Self>> {
        let complete = folder.join("complete");
        if complete.exists() {
            return Ok(None);
        }
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        Ok((!complete.exists()).then(|| Self { folder: folder.to_owned(), _lock: lock }))
    }

    /// Nobody fills it again.
    pub fn complete(self) -> io::Result<()> {
        fs::write(self.folder.join("complete"), "")
    }
}
