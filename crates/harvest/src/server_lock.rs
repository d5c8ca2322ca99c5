//! One server for one data directory: two of them would share links, schedules and webhooks without knowing of each other. The
//! kernel releases the lock however its holder ends.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::time::{Duration, Instant};

use harvest_core::Code;
use harvest_engine::DataFolder;

use crate::failure::Failure;

const NAME: &str = "server.lock";
/// A server that was killed takes a moment to end, and a process that it was just starting has a copy of the lock until it runs its
/// own program.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);

/// Held as long as the value lives. The file stays, with the process id of its last holder.
pub async fn take(data: &DataFolder) -> Result<File, Failure> {
    let path = data.path().join(NAME);
    let refuse = |error: std::io::Error| {
        let code = if error.kind() == ErrorKind::StorageFull { Code::DiskFull } else { Code::DataDirectory };
        let help = "free some space or check permissions, or choose another place with --data-dir";
        Failure::refused(code, format!("{} cannot be written: {error}", path.display()), help)
    };
    let mut file =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(refuse)?;
    let end = Instant::now() + PATIENCE;
    while let Err(error) = file.try_lock() {
        if let std::fs::TryLockError::Error(error) = error {
            return Err(refuse(error));
        }
        if Instant::now() > end {
            let mut holder = String::new();
            let _ = file.rewind().and_then(|()| file.read_to_string(&mut holder));
            return Err(taken(data, holder.trim().parse::<u32>().ok()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    written.map(|()| file).map_err(refuse)
}

fn taken(data: &DataFolder, pid: Option<u32>) -> Failure {
    let pid = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    let message = format!("another server{pid} runs on the data directory {}", data.path().display());
    let help = "stop it first, or give this one a data directory of its own with --data-dir; `harvest up` adds a worker to \
                the same one";
    Failure::refused(Code::ServerRunning, message, help)
}
