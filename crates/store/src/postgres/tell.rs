//! Tells other processes what was written, after it was written: a notice inside the transaction would make every commit
//! wait for the disk behind all others. What arrives while a notice is on its way goes with the next one. A process that dies
//! in between tells nothing; its turns are given back by someone else, who does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harvest_core::SessionId;
use tokio::sync::mpsc;

use super::connection::{Address, Connection};
use crate::Error;

/// Every notice wakes every process. Whoever follows a journal does not see the difference, the database does; the more when
/// many journals grow at a time.
const PAUSE: Duration = Duration::from_millis(5);
const LONG_PAUSE: Duration = Duration::from_millis(25);
const MANY: usize = 16;

/// A journal has grown.
#[derive(Debug)]
pub(super) struct News {
    pub(super) session: SessionId,
    pub(super) last: u64,
    /// The queue has changed as well.
    pub(super) wake: bool,
}

/// What has not been told yet: of each journal only how far it goes.
#[derive(Debug, Default)]
struct Untold {
    grown: HashMap<SessionId, u64>,
    wake: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Teller {
    untold: Arc<Mutex<Untold>>,
    /// Holds one: more would only say the same again.
    arrived: mpsc::Sender<()>,
}

impl Teller {
    pub(super) fn start(address: Address) -> Self {
        let (arrived, arriving) = mpsc::channel(1);
        let untold = Arc::new(Mutex::default());
        tokio::spawn(run(address, Arc::clone(&untold), arriving));
        Self { untold, arrived }
    }

    pub(super) fn tell(&self, news: News) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        let last = untold.grown.entry(news.session).or_default();
        *last = news.last.max(*last);
        untold.wake |= news.wake;
        drop(untold);
        let _ = self.arrived.try_send(());
    }
}

async fn run(address: Address, untold: Arc<Mutex<Untold>>, mut arriving: mpsc::Receiver<()>) {
    let mut connection: Option<Connection> = None;
    while arriving.recv().await.is_some() {
        let news = std::mem::take(&mut *untold.lock().unwrap_or_else(PoisonError::into_inner));
        let open = match connection.take().filter(Connection::is_clean) {
            Some(open) => Ok(open),
            None => connect(&address).await,
        };
        // While the database is away no one hears anything; all are woken once they listen again.
        if let Ok(open) = open
            && tell(&open, &news).await.is_ok()
        {
            connection = Some(open);
        }
        tokio::time::sleep(if news.grown.len() > MANY { LONG_PAUSE } else { PAUSE }).await;
    }
}

/// A notice lives no longer than the server, so none needs to be on disk before it is sent.
async fn connect(address: &Address) -> Result<Connection, Error> {
    let connection = address.connect().await?;
    connection.batch("SET synchronous_commit = off").await?;
    Ok(connection)
}

async fn tell(db: &Connection, news: &Untold) -> Result<(), Error> {
    let (sessions, seqs): (Vec<&str>, Vec<i64>) =
        news.grown.iter().map(|(session, last)| (session.as_str(), i64::try_from(*last).unwrap_or(i64::MAX))).unzip();
    let sql = "SELECT harvest_grown($1, $2), CASE WHEN $3 THEN harvest_wake() END";
    db.query(sql, &[&sessions, &seqs, &news.wake]).await.map(drop)
}
