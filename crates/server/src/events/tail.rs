//! One reader for each session that someone watches.
//!
//! A subscription is of two halves that meet exactly: under one lock it learns up to which number the tail has told everyone,
//! and begins to listen. What came before it reads from the store; what comes after arrives by itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harvest_core::SessionId;
use harvest_store::{Error, Store};
use tokio::sync::broadcast;

use super::Frame;

/// How far a reader may fall behind before it has to catch up by itself.
const BUFFER: usize = 1024;
/// How often it may; then it is cut off.
const CATCH_UPS: u32 = 16;
const PAGE: usize = 500;
/// Events that a reader reads from the store at a time, and the bytes of them that it holds: a reader that does not read costs no
/// more, however large the events are. One event it always holds.
const REPLAY_PAGE: usize = 200;
const REPLAY_BYTES: usize = 64 << 10;
/// Should nobody be able to tell that a journal has grown.
const SAFETY_NET: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Tails {
    store: Arc<dyn Store>,
    open: Arc<Mutex<HashMap<SessionId, Arc<Tail>>>>,
}

#[derive(Debug)]
struct Tail {
    frames: broadcast::Sender<Frame>,
    /// Up to this number everything was told.
    told: Mutex<u64>,
}

/// A tail, what it tells from now on, and up to where it told before.
type Joined = (Arc<Tail>, broadcast::Receiver<Frame>, u64);

impl Tails {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, open: Arc::default() }
    }

    /// Everything of a session behind `after`, and whatever comes.
    pub async fn subscribe(&self, session: &SessionId, after: u64) -> Result<Subscription, Error> {
        let (tail, live, told) = match self.join(session) {
            Some(joined) => joined,
            None => {
                let (_, last) = self.store.last_event(session).await?;
                self.open(session, last)
            }
        };
        Ok(Subscription {
            store: self.store.clone(),
            session: session.clone(),
            sent: after,
            told,
            replay: VecDeque::new(),
            tail,
            live,
            catch_ups: 0,
        })
    }

    /// How many sessions are being watched.
    pub fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn join(&self, session: &SessionId) -> Option<Joined> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(session).map(|tail| {
            let (live, told) = tail.join();
            (tail.clone(), live, told)
        })
    }

    fn open(&self, session: &SessionId, last: u64) -> Joined {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = open.entry(session.clone()).or_insert_with(|| {
            let tail = Arc::new(Tail { frames: broadcast::channel(BUFFER).0, told: Mutex::new(last) });
            tokio::spawn(follow(self.store.clone(), session.clone(), tail.clone(), self.open.clone()));
            tail
        });
        let (live, told) = tail.join();
        (tail.clone(), live, told)
    }
}

impl Tail {
    fn join(&self) -> (broadcast::Receiver<Frame>, u64) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        (self.frames.subscribe(), *told)
    }

    fn tell(&self, frame: Frame) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = frame.seq;
        let _ = self.frames.send(frame);
    }
}

/// Until nobody watches any more.
async fn follow(
    store: Arc<dyn Store>,
    session: SessionId,
    tail: Arc<Tail>,
    open: Arc<Mutex<HashMap<SessionId, Arc<Tail>>>>,
) {
    let mut grown = store.watch(&session);
    loop {
        grown.mark_unchanged();
        let told = *tail.told.lock().unwrap_or_else(PoisonError::into_inner);
        match store.events(&session, told, PAGE).await {
            Ok(events) => {
                let full = events.len() == PAGE;
                events.iter().map(Frame::of).for_each(|frame| tail.tell(frame));
                if full {
                    // Those who listen get a chance to keep up.
                    tokio::task::yield_now().await;
                    continue;
                }
            }
            // Told again once the database is back: nobody has lost anything.
            Err(error) => tracing::warn!(%error, %session, "a journal cannot be read at the moment"),
        }
        {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody can join while the lock is held.
            if tail.frames.receiver_count() == 0 {
                open.remove(&session);
                return;
            }
        }
        let _ = tokio::time::timeout(SAFETY_NET, grown.changed()).await;
    }
}

/// One reader's way through a journal.
#[derive(Debug)]
pub struct Subscription {
    store: Arc<dyn Store>,
    session: SessionId,
    sent: u64,
    told: u64,
    replay: VecDeque<Frame>,
    tail: Arc<Tail>,
    live: broadcast::Receiver<Frame>,
    catch_ups: u32,
}

#[derive(Debug)]
pub enum Next {
    Frame(Frame),
    /// The reader is too slow; everything up to this number was handed to it.
    TooSlow,
    Broken(Error),
}

impl Subscription {
    /// The number of the last event that was handed out.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The next event. May be given up and asked again at any time.
    pub async fn next(&mut self) -> Next {
        loop {
            match self.missed().await {
                Ok(Some(frame)) => return Next::Frame(frame),
                Ok(None) => {}
                Err(error) => return Next::Broken(error),
            }
            match self.live.recv().await {
                // A reader that asked for what is still to come has seen these already.
                Ok(frame) if frame.seq <= self.sent => {}
                Ok(frame) => {
                    self.sent = frame.seq;
                    return Next::Frame(frame);
                }
                // Everyone else is further by now; what this one has not seen is in the store.
                Err(broadcast::error::RecvError::Lagged(_)) if self.catch_ups < CATCH_UPS => {
                    self.catch_ups += 1;
                    (self.live, self.told) = self.tail.join();
                }
                Err(broadcast::error::RecvError::Lagged(_)) => return Next::TooSlow,
                Err(broadcast::error::RecvError::Closed) => return Next::Broken(Error::Closed),
            }
        }
    }

    /// What was told before this reader listened; `None` once it has all of it.
    async fn missed(&mut self) -> Result<Option<Frame>, Error> {
        while self.sent < self.told || !self.replay.is_empty() {
            if let Some(frame) = self.replay.pop_front() {
                self.sent = frame.seq;
                return Ok(Some(frame));
            }
            let events = self.store.events(&self.session, self.sent, REPLAY_PAGE).await?;
            let mut held = 0;
            for frame in events.iter().take_while(|event| event.seq <= self.told).map(Frame::of) {
                held += frame.sse().len();
                if held > REPLAY_BYTES && !self.replay.is_empty() {
                    break;
                }
                self.replay.push_back(frame);
            }
            if self.replay.is_empty() {
                // What was told is in the store; if it is not, the session was removed.
                self.told = self.sent;
            }
        }
        Ok(None)
    }
}
