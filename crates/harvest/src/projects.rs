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
/// After a failure they are read again this often, until the settings or the database can be read.
const AGAIN: Duration = Duration::from_millis(500);

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

    /// What was taken out of a project is out of it while the settings cannot be read, too: nobody keeps a right by a typing error.
    /// What was added waits until they can.
    fn forget_removed(&self, before: &Known) {
        let now = self.now();
        let holds = |known: &Known, project: &str, repository: &String| {
            let mut projects = known.projects.iter().filter(|kept| kept.name == project);
            projects.any(|kept| kept.repositories.contains(repository))
        };
        let mut tenancy = Tenancy::clone(&self.last_tenancy());
        for project in &mut tenancy.projects {
            let is_removed = |one: &String| holds(before, &project.name, one) && !holds(&now, &project.name, one);
            project.repositories.retain(|one| !is_removed(one));
        }
        self.tenancy.send_replace(Arc::new(tenancy));
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
        let before = self.projects.known.send_replace(Arc::new(known));
        *untold = true;
        let settings = self.settings().inspect_err(|_| self.projects.forget_removed(&before))?;
        self.projects.tenancy.send_replace(Arc::new(settings.tenancy()));
        self.projects.hosts.send_replace(Arc::new(settings.hosts()));
        *untold = false;
        Ok(())
    }
}

/// Reads them again whenever someone may have changed one. A change that the engine could not be told of, because the settings
/// or the database could not be read, is told as soon as they can.
pub async fn follow(installation: &Installation) -> Infallible {
    keep_up(installation.store.watch_queue(), async || installation.projects_again().await).await
}

async fn keep_up(mut changes: watch::Receiver<u64>, read: impl AsyncFn() -> Result<(), Failure>) -> Infallible {
    let mut has_failed = false;
    loop {
        let changed = match has_failed {
            true => tokio::time::timeout(AGAIN, changes.changed()).await.unwrap_or(Ok(())),
            false => changes.changed().await,
        };
        if changed.is_err() {
            return std::future::pending().await;
        }
        let outcome = read().await;
        if let (Err(failure), false) = (&outcome, has_failed) {
            tracing::warn!(reason = failure.message, "projects cannot be read for the moment");
        }
        has_failed = outcome.is_err();
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use harvest_core::Code;

    use super::*;

    #[tokio::test]
    async fn a_change_that_could_not_be_told_is_told_without_another_one() {
        let (change, changes) = watch::channel(0);
        let (reads, told) = (Cell::new(0), Cell::new(0));
        let read = async || {
            reads.set(reads.get() + 1);
            if reads.get() < 3 {
                return Err(Failure::failed(Code::BadConfig, "`budget_usd` is no amount".to_owned()));
            }
            told.set(told.get() + 1);
            Ok(())
        };
        let keeping_up = keep_up(changes, read);
        change.send_replace(1);
        let all = async {
            while told.get() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // What was told is not told again while nothing changes.
            tokio::time::sleep(PAUSE + 2 * AGAIN).await;
        };
        tokio::select! {
            never = keeping_up => match never {},
            done = tokio::time::timeout(Duration::from_secs(60), all) => done.unwrap(),
        }
        assert_eq!((reads.get(), told.get()), (3, 1));
    }
}
