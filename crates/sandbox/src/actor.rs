//! The control plane's end of the link: one task per attached sandbox.
//!
//! It never lets one slow reader hold up the others: output that finds its queue full is dropped, the runner is told to
//! pause that process, and once there is room it sends again from where the queue ends. Only a record that begins where the
//! last one ended is ever delivered, so whatever happens to the link, a process sees each line once and in order.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use harvest_core::OutputStream;
use harvest_link::{FromRunner, ProcessSpec, Record, Report, Stream, ToRunner};
use tokio::io::unix::AsyncFd;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::connection::Connection;
use crate::{Exit, Output};

/// How much output may wait for one reader, in lines and in bytes (one more line of any length may come on top).
const QUEUE_LINES: usize = 1024;
const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// Orders kept for a runner that is dialling again; more than that is a caller who does not notice.
const MAX_PENDING: usize = 256;

/// Told the pid, or why there is none.
type Answer = oneshot::Sender<Result<u32, String>>;

#[derive(Debug)]
pub(crate) enum Command {
    Start { spec: Box<ProcessSpec>, subscription: Subscription, answer: Answer },
    Resume { subscription: Subscription },
    Send(ToRunner),
}

/// The actor's end of a queue.
#[derive(Debug)]
pub(crate) struct Subscription {
    process: String,
    delivered: u64,
    sender: mpsc::Sender<Output>,
    flow: Arc<Flow>,
}

/// The reader's end of a queue.
#[derive(Debug)]
pub(crate) struct Queue {
    receiver: mpsc::Receiver<Output>,
    flow: Arc<Flow>,
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Flow {
    bytes: AtomicUsize,
    stalled: AtomicBool,
}

pub(crate) fn subscribe(
    process: String,
    delivered: u64,
    wake: Arc<Notify>,
) -> (Subscription, Queue) {
    let (sender, receiver) = mpsc::channel(QUEUE_LINES);
    let flow = Arc::new(Flow::default());
    (
        Subscription { process, delivered, sender, flow: flow.clone() },
        Queue { receiver, flow, wake },
    )
}

impl Queue {
    pub async fn next(&mut self) -> Output {
        let Some(output) = self.receiver.recv().await else { return Output::Lost };
        if let Output::Line { line, .. } = &output {
            self.flow.bytes.fetch_sub(line.len(), Ordering::SeqCst);
        }
        if self.flow.stalled.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
        output
    }
}

impl Subscription {
    fn is_full(&self) -> bool {
        self.sender.capacity() == 0 || self.flow.bytes.load(Ordering::SeqCst) >= QUEUE_BYTES
    }

    /// Half empty: worth waking the runner for.
    fn has_room(&self) -> bool {
        self.sender.capacity() >= QUEUE_LINES / 2
            && self.flow.bytes.load(Ordering::SeqCst) <= QUEUE_BYTES / 2
    }

    fn resume(&self) -> ToRunner {
        ToRunner::Resume { process: self.process.clone(), offset: self.delivered }
    }
}

#[derive(Debug)]
struct Entry {
    subscription: Subscription,
    /// Kept until the runner says that it started, in case the order is lost with the link.
    start: Option<Start>,
}

#[derive(Debug)]
struct Start {
    spec: Box<ProcessSpec>,
    answer: Answer,
}

#[derive(Debug)]
pub(crate) struct Actor {
    pub listener: UnixListener,
    /// The only uid whose runner is listened to.
    pub peer_uid: u32,
    /// Becomes readable when the sandbox is dead.
    pub alive: AsyncFd<OwnedFd>,
    pub commands: mpsc::Receiver<Command>,
    pub wake: Arc<Notify>,
}

impl Actor {
    /// Runs until every handle is dropped or the sandbox is dead.
    pub async fn run(mut self, connection: Connection) {
        let mut connection = Some(connection);
        let mut entries = Entries::default();
        loop {
            let lost = match &mut connection {
                Some(link) => {
                    tokio::select! {
                        command = self.commands.recv() => match command {
                            Some(command) => {
                                let orders = entries.command(command);
                                link.send_all(&orders).await.is_err()
                            }
                            None => return,
                        },
                        () = self.wake.notified() => link.send_all(&entries.unstall()).await.is_err(),
                        message = link.receive() => match message {
                            Ok(message) => {
                                let orders = entries.message(message);
                                link.send_all(&orders).await.is_err()
                            }
                            Err(error) => {
                                tracing::debug!(%error, "link to the sandbox lost");
                                true
                            }
                        },
                        _ = self.alive.readable() => {
                            // What the runner said before it ended is still there to be read.
                            while let Ok(Ok(message)) = tokio::time::timeout(Duration::from_millis(200), link.receive()).await {
                                entries.message(message);
                            }
                            return;
                        }
                    }
                }
                None => {
                    tokio::select! {
                        command = self.commands.recv() => match command {
                            Some(command) => entries.postpone(command),
                            None => return,
                        },
                        accepted = Connection::accept(&self.listener, self.peer_uid) => match accepted {
                            Ok((mut link, _)) => {
                                if link.send_all(&entries.again()).await.is_ok() {
                                    connection = Some(link);
                                }
                            }
                            Err(error) => tracing::debug!(%error, "a runner could not be welcomed"),
                        },
                        _ = self.alive.readable() => return,
                    }
                    false
                }
            };
            if lost {
                connection = None;
            }
        }
    }
}

/// The processes that someone reads, and what was said while no one listened.
#[derive(Debug, Default)]
struct Entries {
    entries: HashMap<String, Entry>,
    pending: Vec<ToRunner>,
}

impl Entries {
    /// What to tell the runner for a command.
    fn command(&mut self, command: Command) -> Vec<ToRunner> {
        match command {
            Command::Start { spec, subscription, answer } => {
                let order = ToRunner::Start { process: (*spec).clone() };
                let process = subscription.process.clone();
                self.entries
                    .insert(process, Entry { subscription, start: Some(Start { spec, answer }) });
                vec![order]
            }
            Command::Resume { subscription } => {
                let order = subscription.resume();
                self.entries
                    .insert(subscription.process.clone(), Entry { subscription, start: None });
                vec![order]
            }
            Command::Send(order) => vec![order],
        }
    }

    /// The same while there is no link: starts and resumes are repeated anyway, the rest is kept.
    fn postpone(&mut self, command: Command) {
        if let Command::Send(order) = command {
            if self.pending.len() < MAX_PENDING {
                self.pending.push(order);
            }
        } else {
            self.command(command);
        }
    }

    /// What to say on a new connection.
    fn again(&mut self) -> Vec<ToRunner> {
        let mut orders = Vec::new();
        for entry in self.entries.values() {
            entry.subscription.flow.stalled.store(false, Ordering::SeqCst);
            orders.push(match &entry.start {
                Some(Start { spec, .. }) => ToRunner::Start { process: (**spec).clone() },
                None => entry.subscription.resume(),
            });
        }
        orders.append(&mut self.pending);
        orders
    }

    fn unstall(&mut self) -> Vec<ToRunner> {
        let mut orders = Vec::new();
        for Entry { subscription, .. } in self.entries.values() {
            if subscription.flow.stalled.load(Ordering::SeqCst) && subscription.has_room() {
                subscription.flow.stalled.store(false, Ordering::SeqCst);
                orders.push(subscription.resume());
            }
        }
        orders
    }

    fn message(&mut self, message: FromRunner) -> Vec<ToRunner> {
        match message {
            FromRunner::Output(record) => self.output(record),
            FromRunner::Control(Report::Hello { .. }) => Vec::new(),
            FromRunner::Control(Report::Started { process, pid }) => {
                if let Some(Start { answer, .. }) =
                    self.entries.get_mut(&process).and_then(|entry| entry.start.take())
                {
                    let _ = answer.send(Ok(pid));
                }
                Vec::new()
            }
            FromRunner::Control(Report::Failed { process, offset, message }) => {
                if let Some(Start { answer, .. }) =
                    self.entries.get_mut(&process).and_then(|entry| entry.start.take())
                {
                    let _ = answer.send(Err(message));
                    self.entries.remove(&process);
                    return Vec::new();
                }
                self.end(&process, offset, Output::Failed { message })
            }
            FromRunner::Control(Report::Exited {
                process,
                offset,
                code,
                signal,
                user_ms,
                system_ms,
                max_rss_kb,
                duration_ms,
            }) => {
                let exit = Exit {
                    code,
                    signal,
                    user: Duration::from_millis(user_ms),
                    system: Duration::from_millis(system_ms),
                    max_rss_kb,
                    duration: Duration::from_millis(duration_ms),
                };
                self.end(&process, offset, Output::Exited(exit))
            }
        }
    }

    fn output(&mut self, record: Record) -> Vec<ToRunner> {
        let Some(Entry { subscription, .. }) = self.entries.get_mut(&record.process) else {
            return Vec::new();
        };
        if subscription.sender.is_closed() {
            self.entries.remove(&record.process);
            return vec![ToRunner::Pause { process: record.process }];
        }
        // Still under way from before a pause, or sent twice.
        if record.start() != subscription.delivered
            || subscription.flow.stalled.load(Ordering::SeqCst)
        {
            return Vec::new();
        }
        if subscription.is_full() {
            return Self::stall(subscription);
        }
        let Record { offset, stream, continued, line, .. } = record;
        let stream = match stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
        };
        subscription.flow.bytes.fetch_add(line.len(), Ordering::SeqCst);
        if subscription.sender.try_send(Output::Line { stream, line, continued, offset }).is_ok() {
            subscription.delivered = offset;
        }
        Vec::new()
    }

    /// Delivers the last word on a process, unless some of its output has still to come.
    fn end(&mut self, process: &str, offset: u64, last: Output) -> Vec<ToRunner> {
        let Some(Entry { subscription, .. }) = self.entries.get_mut(process) else {
            return Vec::new();
        };
        if offset != subscription.delivered || subscription.flow.stalled.load(Ordering::SeqCst) {
            return Vec::new();
        }
        if subscription.sender.capacity() == 0 {
            return Self::stall(subscription);
        }
        let _ = subscription.sender.try_send(last);
        self.entries.remove(process);
        Vec::new()
    }

    fn stall(subscription: &Subscription) -> Vec<ToRunner> {
        subscription.flow.stalled.store(true, Ordering::SeqCst);
        // The reader may have emptied the queue just before it could see that it was stalled.
        if subscription.has_room() {
            subscription.flow.stalled.store(false, Ordering::SeqCst);
            return vec![subscription.resume()];
        }
        vec![ToRunner::Pause { process: subscription.process.clone() }]
    }
}
