//! The projects that were made over the API, as this process knows them, and what follows from them for its engine.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use harvest_engine::{Hosts, Live, Tenancy};
use harvest_store::{Member, Project, Store};
use tokio::sync::{Mutex, watch};

use crate::failure::Failure;
use crate::installation::Installation;

/// However often the queue changes, projects are not read more often than this.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub struct Directory {
    store: Arc<dyn Store>,
    known: Arc<watch::Sender<Arc<Known>>>,
    tenancy: Arc<watch::Sender<Arc<Tenancy>>>,
    hosts: Arc<watch::Sender<Arc<Hosts>>>,
    /// Whether the engine has yet to be told of what is known. Held from reading to telling: what was read first is never told
    /// last.
    untold: Arc<Mutex<bool>>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Known {
    pub projects: Vec<Project>,
    pub members: Vec<Member>,
}

impl Directory {
    pub async fn open(store: Arc<dyn Store>) -> Result<Self, Failure> {
        let known = read(store.as_ref()).await?;
        Ok(Self {
            store,
            known: Arc::new(watch::channel(Arc::new(known)).0),
            tenancy: Arc::new(watch::channel(Arc::default()).0),
            hosts: Arc::new(watch::channel(Arc::default()).0),
            untold: Arc::default(),
        })
    }

    pub fn now(&self) -> Arc<Known> {
        self.known.borrow().clone()
    }

    /// For an engine that is told of changes.
    pub fn tenancy(&self, now: Tenancy) -> Live<Tenancy> {
        self.tenancy.send_replace(Arc::new(now));
        Live::following(self.tenancy.subscribe())
    }

    /// As the engine knows it.
    pub fn last_tenancy(&self) -> Arc<Tenancy> {
        self.tenancy.borrow().clone()
    }

    /// The same for what sandboxes may reach.
    pub fn hosts(&self, now: Hosts) -> Live<Hosts> {
        self.hosts.send_replace(Arc::new(now));
        Live::following(self.hosts.subscribe())
    }
}

async fn read(store: &dyn Store) -> Result<Known, Failure> {
    Ok(Known { projects: store.projects().await?, members: store.members().await? })
}

impl Installation {
    /// Whoever changed a project, here or elsewhere, is believed from now on.
    pub async fn projects_again(&self) -> Result<(), Failure> {
        let mut untold = self.projects.untold.lock().await;
        let known = read(self.projects.store.as_ref()).await?;
        if *self.projects.now() == known && !*untold {
            return Ok(());
        }
        // Members are believed at once, even if the settings cannot be read at the moment.
        self.projects.known.send_replace(Arc::new(known));
        *untold = true;
        let settings = self.settings()?;
        self.projects.tenancy.send_replace(Arc::new(settings.tenancy()));
        self.projects.hosts.send_replace(Arc::new(settings.hosts()));
        *untold = false;
        Ok(())
    }
}

/// Reads them again whenever someone may have changed one.
pub async fn follow(installation: &Installation) -> Infallible {
    let mut changes = installation.store.watch_queue();
    loop {
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
        if let Err(failure) = installation.projects_again().await {
            tracing::warn!(reason = failure.message, "projects cannot be read for the moment");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
