//! Tells whoever wants to know that a build failed: a command of the operator's, with the report on its standard input.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::Report;

const LIMIT: Duration = Duration::from_secs(30);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What went wrong with telling is for the log and the notes; it makes no build worse.
#[expect(
    clippy::disallowed_methods,
    reason = "the operator's own command, with a cleared environment and a time limit"
)]
pub(super) async fn alert(command: &str, report: &Report) -> Result<(), String> {
    let body = serde_json::to_vec(report).map_err(|error| error.to_string())?;
    let mut child = tokio::process::Command::new("/bin/sh")
        .args(["-c", command])
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let feed = child.stdin.take();
    let telling = async {
        if let Some(mut feed) = feed {
            // A command that does not read all of it may still have done its work.
            let _ = feed.write_all(&body).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(LIMIT, telling).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(status.to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it did not end within {} s", LIMIT.as_secs())),
    }
}
