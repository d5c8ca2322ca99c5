//! Whether the work of two sessions would fit together: a merge in memory. It has the objects of both, and what it makes lies in
//! neither's repository, where the other's agent could ask for it.

use std::ffi::OsString;
use std::path::Path;

use crate::session_repository::merged_paths;
use crate::{Error, Git, Home, Mirror, SessionRepository};

/// The paths that a merge of the two would have to ask a person about. `scratch` is removed again.
pub async fn overlap(
    mirror: &Mirror,
    (one, first): (&SessionRepository, &str),
    (other, second): (&SessionRepository, &str),
    scratch: &Path,
) -> Result<Vec<String>, Error> {
    // What a forecast that was killed has left.
    remove(scratch).await?;
    tokio::fs::create_dir_all(scratch).await.map_err(Error::io("make", scratch))?;
    let folders = [one.path().join("objects"), other.path().join("objects"), mirror.objects()];
    let readable: Vec<OsString> = folders.iter().map(|folder| quoted(folder)).collect();
    let readable = readable.join(std::ffi::OsStr::new(":"));
    let env = [("GIT_OBJECT_DIRECTORY", scratch.as_os_str()), ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &readable)];
    let args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", first, second];
    let merged = Git::new(Home::Nobody).answer_with(mirror.path(), &args, &env).await;
    remove(scratch).await?;
    let (fits, printed) = merged?;
    Ok(if fits { Vec::new() } else { merged_paths(&printed).1 })
}

async fn remove(folder: &Path) -> Result<(), Error> {
    match tokio::fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// In a list that is separated by colons.
fn quoted(path: &Path) -> OsString {
    let plain = path.as_os_str();
    let Some(text) = plain.to_str().filter(|text| text.contains([':', '"', '\\'])) else { return plain.to_owned() };
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")).into()
}
