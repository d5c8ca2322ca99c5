//! Which engines there are on this host.

use std::path::{Path, PathBuf};

use super::engine;
use crate::{Error, Fact, State};

/// Where an engine may listen: what `DOCKER_HOST` says, then Podman's and Docker's usual places. `runtime` is the folder that
/// a person's own services keep their sockets in.
pub fn sockets(docker_host: Option<&str>, runtime: Option<&Path>) -> Vec<PathBuf> {
    let named = docker_host.and_then(|host| host.strip_prefix("unix://")).map(PathBuf::from);
    let own = runtime.map(|folder| folder.join("podman/podman.sock"));
    let [podman, docker] = ["/run/podman/podman.sock", "/var/run/docker.sock"].map(PathBuf::from);
    let mut sockets: Vec<PathBuf> = Vec::new();
    for socket in named.into_iter().chain([podman]).chain(own).chain([docker]) {
        if socket.is_absolute() && !sockets.contains(&socket) {
            sockets.push(socket);
        }
    }
    sockets
}

/// What `harvest doctor` says about container engines. None found is nothing missing: the local sandbox needs none.
pub fn engines(sockets: &[PathBuf]) -> Fact {
    let name = "container engine";
    let mut complaints = Vec::new();
    for socket in sockets.iter().filter(|socket| socket.exists()) {
        match engine::ask(socket, None) {
            Ok(about) => {
                let rootless = if about.is_rootless { ", rootless" } else { "" };
                let detail = format!("{} at {}{rootless}", about.name, socket.display());
                return Fact { name, state: State::Ok, strength: None, detail, fix: None };
            }
            Err(Error::EngineMissing { detail }) => complaints.push(detail),
            Err(error) => complaints.push(error.to_string()),
        }
    }
    if complaints.is_empty() {
        let detail = "none, so `--sandbox container` does not work here".to_owned();
        return Fact { name, state: State::Ok, strength: None, detail, fix: None };
    }
    let fix = "start it, or join the group that may use its socket".to_owned();
    Fact { name, state: State::Degraded, strength: None, detail: complaints.join("; "), fix: Some(fix) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_comes_first_and_only_sockets_count() {
        let text = |host, runtime: Option<&str>| {
            let found = sockets(host, runtime.map(Path::new));
            found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        let usual = "/run/podman/podman.sock /var/run/docker.sock";
        assert_eq!(text(None, None), usual);
        assert_eq!(text(Some("tcp://192.0.2.1:2375"), None), usual);
        assert_eq!(
            text(Some("unix:///x.sock"), Some("/run/user/7")),
            "/x.sock /run/podman/podman.sock /run/user/7/podman/podman.sock /var/run/docker.sock"
        );
        assert_eq!(text(Some("unix:///var/run/docker.sock"), None), "/var/run/docker.sock /run/podman/podman.sock");
    }

    #[test]
    fn a_socket_that_nobody_answers_at_is_told_and_none_at_all_is_fine() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("dead.sock");
        assert_eq!(engines(std::slice::from_ref(&dead)).state, State::Ok);
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let fact = engines(std::slice::from_ref(&dead));
        assert_eq!(fact.state, State::Degraded);
        assert!(fact.detail.contains("dead.sock") && fact.fix.is_some(), "{fact:?}");
    }
}
