//! Tells other processes what was written, after it was written: a notice inside the transaction would make every commit
//! wait for the disk behind all others. What arrives while a notice is on its way goes with the next one. A process that dies
//! in between tells nothing; its turns are given back by someone else, who does.

use std::collections::HashMap;
use std::time::Duration;

use harvest_core::SessionId;
use tokio::sync::mpsc;

use super::connection::{Address, Connection};
use crate::Error;

const MOST: usize = 10_000;
/// Every notice wakes every process. Whoever follows a journal does not see the difference, the database does.
const PAUSE: Duration = Duration::from_millis(5);

/// A journal has grown.
#[derive(Debug)]
pub(super) struct News {
    pub(super) session: SessionId,
    pub(super) last: u64,
    /// The queue has changed as well.
    pub(super) wake: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Teller {
    news: mpsc::UnboundedSender<News>,
}

impl Teller {
    pub(super) fn start(address: Address) -> Self {
        let (news, arriving) = mpsc::unbounded_channel();
        tokio::spawn(run(address, arriving));
        Self { news }
    }

    pub(super) fn tell(&self, news: News) {
        // It ends with the store itself; then no one listens here either.
        let _ = self.news.send(news);
    }
}

async fn run(address: Address, mut arriving: mpsc::UnboundedReceiver<News>) {
    let mut news = Vec::new();
    let mut connection: Option<Connection> = None;
    while arriving.recv_many(&mut news, MOST).await > 0 {
        let open = match connection.take().filter(Connection::is_clean) {
            Some(open) => Ok(open),
            None => address.connect().await,
        };
        // While the database is away no one hears anything; all are woken once they listen again.
        if let Ok(open) = open
            && tell(&open, &news).await.is_ok()
        {
            connection = Some(open);
        }
        news.clear();
        tokio::time::sleep(PAUSE).await;
    }
}

async fn tell(db: &Connection, news: &[News]) -> Result<(), Error> {
    let mut grown: HashMap<&str, i64> = HashMap::new();
    for one in news {
        let last = grown.entry(one.session.as_str()).or_default();
        *last = (*last).max(i64::try_from(one.last).unwrap_or(i64::MAX));
    }
    let (sessions, seqs): (Vec<&str>, Vec<i64>) = grown.into_iter().unzip();
    let sql = "SELECT harvest_grown($1, $2), CASE WHEN $3 THEN harvest_wake() END";
    let wake = news.iter().any(|one| one.wake);
    db.query(sql, &[&sessions, &seqs, &wake]).await.map(drop)
}
