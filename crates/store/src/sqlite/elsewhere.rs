//! Wakes those who follow a journal that another process writes. Every writer rings a bell once what it wrote can be seen.

use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

use harvest_core::SessionId;
use rusqlite::Connection;
use tokio::net::unix::pipe;

use super::Shared;
use super::wake::Bell;
use crate::Error;

/// However much is written, journals are looked at no more often than this.
const PAUSE: Duration = Duration::from_millis(4);
/// Where the bell cannot be heard.
const LOOK: Duration = Duration::from_secs(1);

/// Ends with whoever owns it.
#[derive(Debug)]
pub(super) struct Elsewhere {
    told: Arc<Bell>,
    listening: OnceLock<tokio::task::JoinHandle<()>>,
}

impl Elsewhere {
    pub(super) fn new(told: Arc<Bell>) -> Self {
        Self { told, listening: OnceLock::new() }
    }

    /// From the first one who follows a journal on.
    pub(super) fn listen(&self, shared: &Arc<Shared>) {
        self.listening.get_or_init(|| tokio::spawn(follow(Arc::downgrade(shared), self.told.clone())));
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.get() {
            listening.abort();
        }
    }
}

async fn follow(shared: Weak<Shared>, told: Arc<Bell>) {
    let mut watcher: Option<pipe::Receiver> = None;
    loop {
        if watcher.is_none() {
            watcher = told.listen().ok();
        }
        // Before waiting: something may have been written before it was watched.
        let Some(shared) = shared.upgrade() else { return };
        // What cannot be read now is read after the next write; whoever follows looks by the clock as well.
        let _ = look(&shared).await;
        drop(shared);
        match &watcher {
            Some(rung) => {
                tokio::time::sleep(PAUSE).await;
                let mut buffer = [0u8; 4096];
                let ready = rung.readable().await.is_ok();
                if !ready
                    || rung.try_read(&mut buffer).is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
                {
                    watcher = None;
                }
            }
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Of all journals that someone follows, which have grown?
async fn look(shared: &Arc<Shared>) -> Result<(), Error> {
    let followed: Vec<SessionId> = {
        let mut tails = shared.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.retain(|_, tail| !tail.is_closed());
        tails.keys().cloned().collect()
    };
    if followed.is_empty() {
        return Ok(());
    }
    let own = shared.clone();
    let looking = tokio::task::spawn_blocking(move || {
        let connection = own.reader()?;
        let last: Result<Vec<_>, Error> =
            followed.into_iter().map(|session| Ok((last_of(&connection, &session)?, session))).collect();
        own.give_back(connection);
        last
    });
    let tails_of = |(last, session): (u64, SessionId)| {
        let tails = shared.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tails.get(&session) {
            tail.send_if_modified(|seq| std::mem::replace(seq, last.max(*seq)) < last);
        }
    };
    looking.await.map_err(|_| Error::Closed)??.into_iter().for_each(tails_of);
    Ok(())
}

fn last_of(db: &Connection, session: &SessionId) -> Result<u64, Error> {
    let mut statement = db.prepare_cached(
        "SELECT (SELECT coalesce(max(seq), 0) FROM events WHERE session = number) FROM sessions WHERE id = ?1",
    )?;
    let mut rows = statement.query([session.as_str()])?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?.unwrap_or(0))
}
