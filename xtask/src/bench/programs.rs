//! The programs that are measured: built by cargo where they are ours, and started with an empty environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::process::Command;

pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Builds the release of something in this repository; the program that came of it.
#[expect(clippy::disallowed_methods, reason = "cargo needs the environment in which it was started")]
pub async fn build(target: &[&str]) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--message-format=json-render-diagnostics"])
        .args(target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .context("cargo cannot be started")?;
    ensure!(built.status.success(), "cargo build {} failed", target.join(" "));
    let messages = String::from_utf8(built.stdout)?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = messages.filter_map(|message| Some(message["executable"].as_str()?.into())).next_back();
    program.with_context(|| format!("cargo build {} made no program", target.join(" ")))
}

/// A program that has to find its way to the network: with the proxies, certificates and settings of who runs this.
#[expect(clippy::disallowed_methods, reason = "it installs things, and nothing of it is measured")]
pub fn installer(name: &str) -> Command {
    let mut command = Command::new(name);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A program that is told nothing but where the others are.
#[expect(clippy::disallowed_methods, reason = "the environment is cleared")]
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.env_clear().envs([("PATH", PATH), ("LANG", "C.UTF-8")]).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What it printed, if it ended well.
pub async fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.output().await.with_context(|| format!("{name} cannot be started"))?;
    if !output.status.success() {
        bail!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
