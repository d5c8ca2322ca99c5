//! `harvest-runner run`: keeps processes, link and gateway going until the deadline or until it is told to end.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harvest_link::{Boot, Limit, Signal};
use rustix::process::{Resource, Rlimit};

use crate::hold::Holds;
use crate::registry::{Failure, Registry};
use crate::watch::Watch;
use crate::{gateway, link, process};

/// How long processes get to be gone at the end.
const GRACE: Duration = Duration::from_secs(5);
/// How long the link gets to tell how they ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Boot { path: PathBuf, source: io::Error },
    #[error("no event loop: {0}")]
    Runtime(io::Error),
    #[error("no loopback: {0}")]
    Loopback(io::Error),
}

/// What everything in the runner shares.
#[derive(Debug, Clone)]
pub struct Context {
    pub boot: Rc<Boot>,
    pub registry: Rc<Registry>,
    pub watch: Rc<Watch>,
    pub holds: Rc<Holds>,
}

pub fn run(path: &Path) -> Result<(), Error> {
    let boot: Boot = fs::read(path)
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))
        .map_err(|source| Error::Boot { path: path.to_owned(), source })?;
    if boot.identity.is_some() {
        close(path).map_err(|source| Error::Boot { path: path.to_owned(), source })?;
    }
    // So that what is typed in the terminal of whoever started us does not end us. Fails when it is so already.
    let _ = rustix::process::setsid();
    if let Some(files) = boot.open_files {
        let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
        let files = hard.map_or(files, |hard| files.min(hard));
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    tokio::task::LocalSet::new().block_on(&runtime, supervise(Rc::new(boot)))
}

/// Closes the folder with all that is the runner's to those whom processes run as, whatever it was mounted with: some engines
/// take over the mode that a folder of this name has in the image.
fn close(boot: &Path) -> io::Result<()> {
    let folder = boot.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    let closed = fs::metadata(folder)?;
    if closed.uid() == rustix::process::geteuid().as_raw() && closed.mode() & 0o077 == 0 {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder around it is open to others"))
    }
}

async fn supervise(boot: Rc<Boot>) -> Result<(), Error> {
    let listener = gateway::bind().await.map_err(Error::Loopback)?;
    let port = listener.local_addr().map_err(Error::Loopback)?.port();
    let registry = Rc::new(Registry::default());
    let watch = Rc::new(Watch::new(boot.clone()));
    // The link goes on while everything ends at the deadline, so that whoever listens is told why.
    let context =
        Context { boot: boot.clone(), registry: registry.clone(), watch: watch.clone(), holds: Rc::default() };
    tokio::select! {
        () = link::serve(context, port) => {}
        () = gateway::serve(listener, boot.gateway.clone()) => {}
        () = watch.run(&registry) => {}
        () = deadline(&boot, &registry) => return Ok(()),
    }
    let _ = tokio::time::timeout(GRACE, end_all(&boot, &registry, None)).await;
    Ok(())
}

async fn deadline(boot: &Boot, registry: &Registry) {
    tokio::time::sleep(Duration::from_secs(boot.deadline_secs)).await;
    let message = format!("the sandbox reached the end of its time, {} s after it began", boot.deadline_secs);
    let _ = tokio::time::timeout(GRACE, end_all(boot, registry, Some(Failure::of(Limit::Wall, message)))).await;
    let _ = tokio::time::timeout(LAST_WORDS, registry.told()).await;
}

async fn end_all(boot: &Boot, registry: &Registry, why: Option<Failure>) {
    for process in registry.running() {
        match &why {
            Some(failure) => process::end(boot, &process, failure.clone()),
            None => process::signal(boot, &process, Signal::Kill),
        }
    }
    while !registry.running().is_empty() {
        registry.ended.notified().await;
    }
}
