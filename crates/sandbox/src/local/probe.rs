//! Finds out what this host allows, by doing it once.

use std::fs;
use std::os::unix::fs::MetadataExt;

use harvest_core::SandboxId;
use harvest_link::Launch;

use super::group::Group;
use super::{Local, layout};
use crate::layout::Layout;
use crate::{Error, Limits, Spec, Workspace, host, remove};

/// A name that no sandbox gets: ids are random.
const ID: &str = "0000000000000000";

/// None when overlays work, else why they do not. An error when no sandbox can be made at all.
pub(super) fn overlay(local: &Local) -> Result<Option<String>, Error> {
    let remembered = local.options.state.join(".probe.json");
    let host = fingerprint(local);
    // Only a good outcome is kept: after a bad one people change something and try again.
    if fs::read_to_string(&remembered).is_ok_and(|text| text == host) {
        return Ok(None);
    }
    let Err(no_overlay) = attempt(local, true)? else {
        layout::write(&remembered, host.as_bytes())?;
        return Ok(None);
    };
    match attempt(local, false)? {
        Ok(()) => Ok(Some(no_overlay)),
        Err(complaint) if is_forbidden(&complaint) => Err(host::namespaces_forbidden(&complaint)),
        Err(complaint) => Err(Error::failed(complaint)),
    }
}

/// Runs `true` in a process nested in a sandbox; the inner error is what the host says.
fn attempt(local: &Local, overlay: bool) -> Result<Result<(), String>, Error> {
    let id: SandboxId = ID.parse().map_err(|_| Error::failed("the probe has no valid id"))?;
    let root = local.options.state.join(format!(".probe.{}", std::process::id()));
    let outcome = (|| {
        let layout = Layout { state: root.join("state"), sockets: root.join("sockets") };
        let folder = root.join("folder");
        crate::folder::make_private(&folder)?;
        let workspace = if overlay { Workspace::Overlay { lower: folder } } else { Workspace::Folder { path: folder } };
        let spec = Spec { id, workspace, objects: None, limits: Limits::default() };
        let mut launch: Launch = local.lay_out(&layout, &spec, &Group::default())?;
        // In place of the runner: what the runner would start, and a write to the workspace.
        let end = launch.argv.iter().position(|argument| argument == "--").unwrap_or(launch.argv.len());
        launch.argv.truncate(end + 1);
        // The filter is where the runner would find it; a shell opens it as the runner would.
        let process = local.view().process(spec.limits.memory_bytes).into_vec();
        let opened = format!("exec 9<{}/filter; exec \"$@\"", super::view::PRIVATE);
        launch.argv.extend(["/bin/sh", "-c", &opened, "sh"].map(str::to_owned));
        launch.argv.extend(process.into_iter().map(|argument| argument.replace("{filter}", "9")));
        launch.argv.extend(["/bin/sh", "-c", "echo written > /workspace/probe"].map(str::to_owned));
        let output =
            local.launch_now(&launch).output().map_err(|error| Error::io(&local.options.binaries.runner, error))?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(Err(if complaint.is_empty() { format!("the sandbox ended with {}", output.status) } else { complaint }))
    })();
    remove::remove(&root)?;
    outcome
}

fn is_forbidden(complaint: &str) -> bool {
    ["Operation not permitted", "Permission denied", "No space left on device", "namespace", "uid map"]
        .iter()
        .any(|sign| complaint.contains(sign))
}

/// Changes when something changes that the outcome depends on.
fn fingerprint(local: &Local) -> String {
    let kernel = rustix::system::uname();
    let tool = fs::metadata(&local.tool.path).map(|data| (data.len(), data.mtime(), data.mode())).unwrap_or_default();
    let device = fs::metadata(&local.options.state).map(|data| data.dev()).unwrap_or_default();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!(
        "{} {tool:?} {device} {:?} {} {:?}",
        kernel.release().to_string_lossy(),
        local.uids,
        boot.trim(),
        local.options
    )
}
