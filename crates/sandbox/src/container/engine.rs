//! Speaks to Docker or Podman over its Unix socket, in the few words that sandboxes need.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptions, KillContainerOptions, LogsOptions, RemoveContainerOptions};
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use futures_util::StreamExt;
use harvest_core::SandboxId;

use super::look::Looking;
use super::settings;
use crate::Error;

/// How long one request may take. Engines under load take seconds to start a container.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How long an engine may take to say that it is there.
const GREETING: Duration = Duration::from_secs(5);
/// How many lines of what the runner complained about go into the error.
const LOG_LINES: &str = "20";

const NOT_FOUND: u16 = 404;
const NOT_RUNNING: u16 = 409;
/// So often the engine is asked to remove one container.
const MOST_REMOVALS: u32 = 10;

#[derive(Debug)]
pub(super) struct Engine {
    client: Docker,
    looking: Looking,
}

/// What kind of engine it is, and what it can limit on this host.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub name: String,
    pub is_podman: bool,
    pub is_rootless: bool,
    pub limits_memory: bool,
    pub limits_processes: bool,
    pub limits_cpu: bool,
    version: ClientVersion,
}

impl Engine {
    /// The first engine that answers. It must have `image`, if one is named.
    pub fn find(sockets: &[PathBuf], image: Option<&str>) -> Result<(Self, About), Error> {
        let mut tried = Vec::new();
        for socket in sockets.iter().filter(|path| path.exists()) {
            match ask(socket, image) {
                Ok(about) => {
                    let client = connect(socket, PATIENCE, &about.version)?;
                    let version = client.client_version();
                    let looking = Looking { socket: socket.clone(), version };
                    return Ok((Self { client, looking }, about));
                }
                Err(Error::EngineMissing { detail }) => tried.push(detail),
                Err(error) => return Err(error),
            }
        }
        let detail = if tried.is_empty() {
            let places: Vec<_> = sockets.iter().map(|path| path.display().to_string()).collect();
            format!("there is no socket at {}", places.join(" or "))
        } else {
            tried.join("; ")
        };
        Err(Error::EngineMissing { detail })
    }

    pub async fn create(&self, id: &SandboxId, body: ContainerCreateBody) -> Result<(), Error> {
        let options = CreateContainerOptions { name: Some(name(id)), ..CreateContainerOptions::default() };
        let image = body.image.clone().unwrap_or_default();
        match self.client.create_container(Some(options), body).await.map_err(status) {
            Ok(_) => Ok(()),
            Err((Some(NOT_FOUND), _)) => Err(Error::ImageMissing { image }),
            Err((_, error)) => Err(failed("making the container")(error)),
        }
    }

    /// Returns the pid of its first process, unless that has ended already.
    pub async fn start(&self, id: &SandboxId) -> Result<Option<i32>, Error> {
        let name = name(id);
        self.client.start_container(&name, None).await.map_err(failed("starting the container"))?;
        Ok(self.looking.inspect(&name).await?.and_then(|found| found.pid()))
    }

    /// What the runner said before it ended, as the error that it is.
    pub async fn complaint(&self, id: &SandboxId) -> Error {
        let options = LogsOptions { stdout: true, stderr: true, tail: LOG_LINES.to_owned(), ..LogsOptions::default() };
        let mut lines = self.client.logs(&name(id), Some(options));
        let mut text = String::new();
        while let Some(Ok(line)) = lines.next().await {
            text.push_str(&line.to_string());
        }
        match text.trim() {
            "" => Error::failed("the runner in the container did not report, and said nothing about why"),
            text => Error::failed(text),
        }
    }

    /// Ends everything in the container and removes it. Does nothing when there is none.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), Error> {
        let name = name(id);
        // First, since some engines ask politely and wait before they remove.
        let kill = KillContainerOptions { signal: "SIGKILL".to_owned() };
        let killed = self.client.kill_container(&name, Some(kill)).await.map_err(status);
        // When it is not running, or on its way out, removing it says what is wrong, if anything is.
        if let Err((Some(NOT_FOUND), _)) = killed {
            return Ok(());
        }
        let mut tries = 1;
        loop {
            let options = RemoveContainerOptions { force: true, v: true, link: false };
            match self.client.remove_container(&name, Some(options)).await.map_err(status) {
                Ok(()) | Err((Some(NOT_FOUND), _)) => return Ok(()),
                Err((Some(NOT_RUNNING), error)) => return self.gone(&name, error).await,
                // One that ends by itself at the same moment cannot be stopped; a moment later it can be removed.
                Err((Some(_), _)) if tries < MOST_REMOVALS => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err((_, error)) => return Err(failed("removing the container")(error)),
            }
        }
    }

    /// Someone else is removing it: waits for them.
    async fn gone(&self, name: &str, conflict: bollard::errors::Error) -> Result<(), Error> {
        let waiting = async {
            while !matches!(self.looking.inspect(name).await, Ok(None)) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(GREETING, waiting).await.map_err(|_| failed("removing the container")(conflict))
    }

    pub async fn list(&self, installation: &str) -> Result<Vec<SandboxId>, Error> {
        let label = format!("{}={installation}", settings::INSTALLATION);
        let found = self.looking.list(&label).await?;
        Ok(found.iter().filter_map(|container| container.labels.get(settings::SANDBOX)?.parse().ok()).collect())
    }
}

fn name(id: &SandboxId) -> String {
    format!("harvest-{id}")
}

/// Asks an engine what it is, and whether it has `image`.
///
/// On a thread of its own: those who make providers do not wait for anything, and may or may not be in a runtime.
pub(super) fn ask(socket: &Path, image: Option<&str>) -> Result<About, Error> {
    let asking = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::failed(error.to_string()))?;
        runtime.block_on(about(socket, image))
    };
    std::thread::scope(|scope| scope.spawn(asking).join())
        .unwrap_or_else(|_| Err(Error::failed("asking the container engine ended early")))
}

async fn about(socket: &Path, image: Option<&str>) -> Result<About, Error> {
    let missing = |error: bollard::errors::Error| Error::EngineMissing {
        detail: format!("{} does not answer: {}", socket.display(), chain(&error)),
    };
    let client = connect(socket, GREETING, API_DEFAULT_VERSION)?.negotiate_version().await.map_err(missing)?;
    let (version, info) = (client.version().await.map_err(missing)?, client.info().await.map_err(missing)?);
    if let Some(image) = image {
        match client.inspect_image(image).await.map_err(status) {
            Ok(_) => {}
            Err((Some(NOT_FOUND), _)) => return Err(Error::ImageMissing { image: image.to_owned() }),
            Err((_, error)) => return Err(failed("looking for the image")(error)),
        }
    }
    let is_podman = version.components.into_iter().flatten().any(|part| part.name.starts_with("Podman"));
    let kind = if is_podman { "Podman" } else { "Docker" };
    Ok(About {
        name: format!("{kind} {}", version.version.unwrap_or_default()),
        is_podman,
        is_rootless: info.security_options.into_iter().flatten().any(|option| option.contains("rootless")),
        limits_memory: info.memory_limit.unwrap_or(false),
        limits_processes: info.pids_limit.unwrap_or(false),
        limits_cpu: info.cpu_cfs_quota.unwrap_or(false),
        version: client.client_version(),
    })
}

fn connect(socket: &Path, patience: Duration, version: &ClientVersion) -> Result<Docker, Error> {
    let missing = |detail: String| Error::EngineMissing { detail };
    let text = socket.to_str().ok_or_else(|| missing(format!("{} is not UTF-8", socket.display())))?;
    Docker::connect_with_unix(text, patience.as_secs(), version).map_err(|error| missing(chain(&error)))
}

/// The status that the engine answered with, if it answered.
fn status(error: bollard::errors::Error) -> (Option<u16>, bollard::errors::Error) {
    match &error {
        bollard::errors::Error::DockerResponseServerError { status_code, .. } => (Some(*status_code), error),
        _ => (None, error),
    }
}

fn failed(what: &'static str) -> impl Fn(bollard::errors::Error) -> Error {
    move |error| Error::failed(format!("{what}: {}", chain(&error)))
}

/// The words of the engine, or of everything that kept us from hearing them.
fn chain(error: &bollard::errors::Error) -> String {
    if let bollard::errors::Error::DockerResponseServerError { message, .. } = error {
        return message.trim().to_owned();
    }
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}
