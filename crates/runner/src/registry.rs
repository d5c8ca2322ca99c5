//! What the runner knows about its processes, and what it still has to say about each.
//!
//! Nothing is queued for the link. What to send next follows from how far each process' spool was sent and what is known of
//! its end, so losing the connection loses nothing and a slow one costs nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use harvest_link::{FromRunner, Limit, Report, Signal, WINDOW};
use rustix::process::Pid;
use tokio::sync::Notify;

use crate::input::Input;
use crate::reap::Ended;
use crate::spool::Spool;

#[derive(Debug, Default)]
pub struct Registry {
    processes: RefCell<BTreeMap<String, Rc<Process>>>,
    /// Answers to those who asked for processes that never were.
    refused: RefCell<Vec<Report>>,
    /// There may be something to send.
    pub changed: Notify,
    /// A process was started; for those who watch what runs.
    pub started: Notify,
    /// A process has ended.
    pub ended: Notify,
    /// Everything known so far was sent.
    pub idle: Notify,
}

#[derive(Debug)]
pub struct Process {
    pub id: String,
    pub began: Instant,
    pub pid: Cell<Option<Pid>>,
    /// None when it could not even be made.
    pub spool: RefCell<Option<Spool>>,
    /// What it printed last could not be kept yet: the disk is full.
    pub waits_for_room: Cell<bool>,
    pub end: RefCell<Option<End>>,
    /// Why the runner is killing it, once it is.
    pub failure: RefCell<Option<Failure>>,
    /// The last signal that someone asked for.
    pub signalled: Cell<Option<Signal>>,
    /// Whether it has ended and was waited for.
    pub is_reaped: Cell<bool>,
    pub input: Input,
    /// How far it was sent to whoever is listening; none while no one asked.
    cursor: Cell<Option<u64>>,
    /// How far it may be sent.
    limit: Cell<u64>,
    announce: Cell<bool>,
    end_sent: Cell<bool>,
    /// What to answer to a resume that cannot be.
    refused: RefCell<Option<(u64, String)>>,
}

/// Why the runner itself ended a process.
#[derive(Debug, Clone)]
pub struct Failure {
    pub limit: Option<Limit>,
    pub message: String,
}

#[derive(Debug, Clone)]
pub enum End {
    Exited { ended: Ended, duration_ms: u64 },
    Failed(Failure),
}

impl Process {
    pub fn new(id: String) -> Self {
        Self {
            id,
            began: Instant::now(),
            pid: Cell::new(None),
            spool: RefCell::new(None),
            waits_for_room: Cell::new(false),
            end: RefCell::new(None),
            failure: RefCell::new(None),
            signalled: Cell::new(None),
            is_reaped: Cell::new(false),
            input: Input::default(),
            cursor: Cell::new(Some(0)),
            limit: Cell::new(WINDOW),
            announce: Cell::new(true),
            end_sent: Cell::new(false),
            refused: RefCell::new(None),
        }
    }

    fn length(&self) -> u64 {
        self.spool.borrow().as_ref().map_or(0, Spool::length)
    }

    /// Sends from `offset` on.
    pub fn resume(&self, offset: u64) {
        self.end_sent.set(false);
        if offset > self.length() {
            let message = format!("its output ends at {}, before {offset}", self.length());
            *self.refused.borrow_mut() = Some((offset, message));
            self.cursor.set(None);
        } else {
            self.cursor.set(Some(offset));
            self.limit.set(offset + WINDOW);
        }
    }

    pub fn announce(&self) {
        self.announce.set(true);
        self.resume(0);
    }

    pub fn open_window(&self, limit: u64) {
        self.limit.set(limit);
    }

    /// The next thing to send, encoded; none when there is nothing now.
    pub fn due(&self) -> io::Result<Option<Vec<u8>>> {
        if let Some((offset, message)) = self.refused.borrow_mut().take() {
            return report(Report::Failed { process: self.id.clone(), offset, limit: None, message });
        }
        // A process that never ran has only its failure to tell.
        if let (true, Some(pid)) = (self.announce.get(), self.pid.get()) {
            self.announce.set(false);
            return report(Report::Started {
                process: self.id.clone(),
                pid: pid.as_raw_nonzero().get().unsigned_abs(),
            });
        }
        if let Some((offset, refused)) = self.input.due() {
            return report(Report::Took { process: self.id.clone(), offset, refused });
        }
        let Some(cursor) = self.cursor.get() else { return Ok(None) };
        if let Some(spool) = self.spool.borrow().as_ref() {
            match spool.read(&self.id, cursor, self.limit.get()) {
                Ok(Some(chunk)) => {
                    self.cursor.set(Some(chunk.end));
                    return Ok(Some(chunk.frames));
                }
                Ok(None) => {}
                Err(error) => {
                    self.cursor.set(None);
                    let message = format!("its output cannot be read from {cursor}: {error}");
                    return report(Report::Failed { process: self.id.clone(), offset: cursor, limit: None, message });
                }
            }
        }
        if cursor < self.length() {
            return Ok(None);
        }
        match &*self.end.borrow() {
            Some(end) if !self.end_sent.replace(true) => report(end.report(&self.id, cursor)),
            _ => Ok(None),
        }
    }
}

impl Failure {
    /// Not for a limit.
    pub fn other(message: impl Into<String>) -> Self {
        Self { limit: None, message: message.into() }
    }

    pub fn of(limit: Limit, message: impl Into<String>) -> Self {
        Self { limit: Some(limit), message: message.into() }
    }
}

impl End {
    fn report(&self, process: &str, offset: u64) -> Report {
        let process = process.to_owned();
        match self {
            Self::Failed(Failure { limit, message }) => {
                Report::Failed { process, offset, limit: *limit, message: message.clone() }
            }
            Self::Exited { ended, duration_ms } => Report::Exited {
                process,
                offset,
                code: ended.code,
                signal: ended.signal,
                user_ms: ended.user_ms,
                system_ms: ended.system_ms,
                max_rss_kb: ended.max_rss_kb,
                duration_ms: *duration_ms,
            },
        }
    }
}

fn report(report: Report) -> io::Result<Option<Vec<u8>>> {
    FromRunner::Control(report).encode().map(Some).map_err(io::Error::other)
}

impl Registry {
    pub fn get(&self, id: &str) -> Option<Rc<Process>> {
        self.processes.borrow().get(id).cloned()
    }

    pub fn insert(&self, process: Rc<Process>) {
        self.processes.borrow_mut().insert(process.id.clone(), process);
    }

    /// Those that were started and have not ended yet, the oldest first.
    pub fn running(&self) -> Vec<Rc<Process>> {
        let mut running = self.all();
        running.retain(|process| process.pid.get().is_some() && process.end.borrow().is_none());
        running.sort_by_key(|process| process.began);
        running
    }

    pub fn all(&self) -> Vec<Rc<Process>> {
        self.processes.borrow().values().cloned().collect()
    }

    /// Says that there is no such process.
    pub fn refuse(&self, id: &str, offset: u64) {
        let mut refused = self.refused.borrow_mut();
        // No one asks for this many in earnest.
        if refused.len() < 64 {
            let message = "there is no such process in this sandbox".to_owned();
            refused.push(Report::Failed { process: id.to_owned(), offset, limit: None, message });
        }
    }

    /// The next of those answers, encoded.
    pub fn due(&self) -> io::Result<Option<Vec<u8>>> {
        match self.refused.borrow_mut().pop() {
            Some(refusal) => report(refusal),
            None => Ok(None),
        }
    }

    /// Waits until the ends of all processes were sent to someone.
    pub async fn told(&self) {
        while self.all().iter().any(|process| process.end.borrow().is_some() && !process.end_sent.get()) {
            self.idle.notified().await;
        }
    }

    /// Someone new is listening, who has asked for nothing yet.
    pub fn forget_listener(&self) {
        for process in self.processes.borrow().values() {
            process.cursor.set(None);
            process.announce.set(false);
            process.end_sent.set(false);
        }
    }
}
