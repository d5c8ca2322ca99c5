//! A database of its own for each test, in either store, opened as often as the test likes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harvest_store::{Error, Postgres, Sqlite, Store};

use super::cluster::Cluster;

#[derive(Debug)]
pub enum Place {
    Sqlite { folder: tempfile::TempDir },
    Postgres { url: String },
}

impl Place {
    pub fn sqlite() -> Self {
        Self::Sqlite { folder: tempfile::tempdir().unwrap() }
    }

    /// Where syncing costs nothing, for tests that write a lot and never look back.
    pub fn sqlite_in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::Sqlite { folder: folder.unwrap() }
    }

    /// `None` when the person asked to do without PostgreSQL.
    pub async fn postgres() -> Option<Self> {
        // The first one waits for the cluster; the others wait for the first one.
        let cluster = tokio::task::spawn_blocking(Cluster::shared).await.unwrap()?;
        Some(Self::in_cluster(cluster).await)
    }

    pub async fn in_cluster(cluster: &Cluster) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
        sql(&cluster.url("postgres"), &format!("CREATE DATABASE {name}")).await;
        Self::Postgres { url: cluster.url(&name) }
    }

    /// The same database each time, as another process would open it.
    pub async fn open(&self) -> Arc<dyn Store> {
        self.try_open().await.unwrap()
    }

    pub async fn try_open(&self) -> Result<Arc<dyn Store>, Error> {
        open(&self.address()).await
    }

    /// What [`open`] takes, for other processes.
    pub fn address(&self) -> String {
        match self {
            Self::Sqlite { .. } => format!("sqlite:{}", self.file().display()),
            Self::Postgres { url } => format!("postgres:{url}"),
        }
    }

    /// Changes the database behind the store's back.
    pub async fn sql(&self, statements: &str) {
        match self {
            Self::Sqlite { .. } => rusqlite::Connection::open(self.file()).unwrap().execute_batch(statements).unwrap(),
            Self::Postgres { url } => sql(url, statements).await,
        }
    }

    /// The same, for what the database should refuse.
    pub async fn try_sql(&self, statements: &str) -> Result<(), String> {
        match self {
            Self::Sqlite { .. } => {
                let database = rusqlite::Connection::open(self.file()).unwrap();
                database.execute_batch(statements).map_err(|error| error.to_string())
            }
            Self::Postgres { url } => {
                let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                let driving = tokio::spawn(driver);
                let done = client.batch_execute(statements).await.map_err(|error| error.to_string());
                driving.abort();
                done
            }
        }
    }

    /// Opened after everything in it was thrown away: cheaper than another database.
    pub async fn emptied(&self) -> Arc<dyn Store> {
        self.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
        self.open().await
    }

    pub fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite { .. })
    }

    fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite { folder } => folder.path().join("harvest.db"),
            Self::Postgres { .. } => PathBuf::new(),
        }
    }
}

pub async fn open(address: &str) -> Result<Arc<dyn Store>, Error> {
    match address.split_once(':') {
        Some(("sqlite", path)) => Ok(Arc::new(Sqlite::open(Path::new(path))?)),
        Some(("postgres", url)) => Ok(Arc::new(Postgres::connect(url).await?)),
        _ => panic!("no store at {address}"),
    }
}

async fn sql(url: &str, statements: &str) {
    let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(driver);
    client.batch_execute(statements).await.unwrap();
    drop(client);
    driving.await.unwrap().unwrap();
}
