//! The control plane's end of the link: one task per attached sandbox.
//!
//! The runner sends no more than a window beyond what a reader has taken, so a slow reader holds up no one else and costs no
//! memory; the rest waits in the spool. Only a record that begins where the last one ended is ever delivered, so whatever
//! happens to the link, a process sees each line once and in order.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use harvest_core::OutputStream;
use harvest_link::{FromRunner, ProcessSpec, Record, Report, Stream, ToRunner, WINDOW};
use tokio::io::unix::AsyncFd;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::connection::Connection;
use crate::{Exit, Output};

/// Orders kept for a runner that is dialling again; more than that is a caller who does not notice.
const MAX_PENDING: usize = 256;

/// Told the pid, or why there is none.
type Answer = oneshot::Sender<Result<u32, String>>;

#[derive(Debug)]
pub(crate) enum Command {
    Start { spec: Box<ProcessSpec>, subscription: Subscription, answer: Answer },
    Resume { subscription: Subscription },
    Input { input: Input, answer: Taken },
    Send(ToRunner),
}

/// Told when the process has it, or why it never will.
type Taken = oneshot::Sender<Result<(), String>>;

/// More for a process to read.
#[derive(Debug)]
pub(crate) struct Input {
    pub process: String,
    pub text: String,
    pub close: bool,
}

impl Input {
    /// At this place among all that the process is given.
    pub fn order(&self, offset: u64) -> ToRunner {
        ToRunner::Input { process: self.process.clone(), offset, text: self.text.clone(), close: self.close }
    }

    fn length(&self) -> u64 {
        self.text.len() as u64 + u64::from(self.close)
    }
}

/// The actor's end of a queue. It has no bound of its own: the window is one.
#[derive(Debug)]
pub(crate) struct Subscription {
    process: String,
    delivered: u64,
    /// How far the runner may send.
    limit: u64,
    sender: mpsc::UnboundedSender<Output>,
    taken: Arc<AtomicU64>,
}

/// The reader's end of a queue.
#[derive(Debug)]
pub(crate) struct Queue {
    receiver: mpsc::UnboundedReceiver<Output>,
    /// The offset after the last line that was read.
    taken: Arc<AtomicU64>,
    /// When the reader last asked for more.
    asked: u64,
    wake: Arc<Notify>,
}

pub(crate) fn subscribe(process: String, delivered: u64, wake: Arc<Notify>) -> (Subscription, Queue) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let taken = Arc::new(AtomicU64::new(delivered));
    let limit = delivered + WINDOW;
    let subscription = Subscription { process, delivered, limit, sender, taken: taken.clone() };
    (subscription, Queue { receiver, taken, asked: delivered, wake })
}

impl Queue {
    pub async fn next(&mut self) -> Output {
        let Some(output) = self.receiver.recv().await else { return Output::Lost };
        if let Output::Line { offset, .. } = &output {
            self.taken.store(*offset, Ordering::Release);
            if *offset >= self.asked + WINDOW / 2 {
                self.asked = *offset;
                self.wake.notify_one();
            }
        }
        output
    }
}

impl Subscription {
    fn resume(&mut self) -> ToRunner {
        self.limit = self.delivered + WINDOW;
        ToRunner::Resume { process: self.process.clone(), offset: self.delivered }
    }

    /// Moves the window on when enough was read.
    fn open_window(&mut self) -> Option<ToRunner> {
        let limit = self.taken.load(Ordering::Acquire) + WINDOW;
        if limit < self.limit + WINDOW / 4 {
            return None;
        }
        self.limit = limit;
        Some(ToRunner::Window { process: self.process.clone(), limit })
    }
}

#[derive(Debug)]
struct Entry {
    subscription: Subscription,
    /// Kept until the runner says that it started, in case the order is lost with the link.
    start: Option<Start>,
    given: Given,
}

/// What a process was given to read, as far as it does not have it yet; kept in case it is lost with the link.
#[derive(Debug, Default)]
struct Given {
    offset: u64,
    waiting: VecDeque<(u64, Input, Taken)>,
}

impl Given {
    fn give(&mut self, input: Input, answer: Taken) -> ToRunner {
        let order = input.order(self.offset);
        let begin = self.offset;
        self.offset += input.length();
        self.waiting.push_back((begin, input, answer));
        order
    }

    fn took(&mut self, offset: u64, refused: Option<String>) {
        while let Some((_, _, answer)) =
            self.waiting.pop_front_if(|(begin, input, _)| *begin + input.length() <= offset)
        {
            let _ = answer.send(Ok(()));
        }
        if let Some(why) = refused {
            for (_, _, answer) in self.waiting.drain(..) {
                let _ = answer.send(Err(why.clone()));
            }
        }
    }
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
        let mut entries = Entries::default();
        self.serve(connection, &mut entries).await;
        // First: whoever reads of the end, with the last of the entries, finds the sandbox gone.
        self.commands.close();
    }

    async fn serve(&mut self, connection: Connection, entries: &mut Entries) {
        let mut connection = Some(connection);
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
                        () = self.wake.notified() => link.send_all(&entries.open_windows()).await.is_err(),
                        message = link.receive() => match message {
                            Ok(message) => {
                                entries.message(message);
                                false
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
                self.entries.insert(
                    process,
                    Entry { subscription, start: Some(Start { spec, answer }), given: Given::default() },
                );
                vec![order]
            }
            Command::Resume { mut subscription } => {
                let order = subscription.resume();
                self.entries
                    .insert(subscription.process.clone(), Entry { subscription, start: None, given: Given::default() });
                vec![order]
            }
            // Without an entry it has ended, which whoever waits for the answer is told by there being none.
            Command::Input { input, answer } => {
                let entry = self.entries.get_mut(&input.process);
                entry.map(|entry| entry.given.give(input, answer)).into_iter().collect()
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
        for entry in self.entries.values_mut() {
            orders.push(match &entry.start {
                Some(Start { spec, .. }) => ToRunner::Start { process: (**spec).clone() },
                None => entry.subscription.resume(),
            });
            orders.extend(entry.given.waiting.iter().map(|(begin, input, _)| input.order(*begin)));
        }
        orders.append(&mut self.pending);
        orders
    }

    fn open_windows(&mut self) -> Vec<ToRunner> {
        self.entries.values_mut().filter_map(|entry| entry.subscription.open_window()).collect()
    }

    fn message(&mut self, message: FromRunner) {
        match message {
            FromRunner::Output(record) => self.output(record),
            FromRunner::Control(Report::Hello { .. }) => {}
            FromRunner::Control(Report::Started { process, pid }) => {
                if let Some(Start { answer, .. }) = self.entries.get_mut(&process).and_then(|entry| entry.start.take())
                {
                    let _ = answer.send(Ok(pid));
                }
            }
            FromRunner::Control(Report::Took { process, offset, refused }) => {
                if let Some(entry) = self.entries.get_mut(&process) {
                    entry.given.took(offset, refused);
                }
            }
            FromRunner::Control(Report::Failed { process, offset, limit, message }) => {
                if let Some(Start { answer, .. }) = self.entries.get_mut(&process).and_then(|entry| entry.start.take())
                {
                    let _ = answer.send(Err(message));
                    self.entries.remove(&process);
                    return;
                }
                self.end(&process, offset, Output::Failed { limit, message });
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
                self.end(&process, offset, Output::Exited(exit));
            }
        }
    }

    fn output(&mut self, record: Record) {
        let Some(Entry { subscription, .. }) = self.entries.get_mut(&record.process) else { return };
        // Still under way from before a resume, sent twice, or by a runner that does not keep to the window.
        if record.start() != subscription.delivered || record.start() >= subscription.limit {
            return;
        }
        let Record { process, offset, stream, continued, line } = record;
        let stream = match stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
        };
        subscription.delivered = offset;
        if subscription.sender.send(Output::Line { stream, line, continued, offset }).is_err() {
            // No one reads any more, so the window stays shut.
            self.entries.remove(&process);
        }
    }

    /// Delivers the last word on a process, unless some of its output has still to come.
    fn end(&mut self, process: &str, offset: u64, last: Output) {
        let Some(Entry { subscription, .. }) = self.entries.get(process) else { return };
        if offset == subscription.delivered {
            let _ = subscription.sender.send(last);
            self.entries.remove(process);
        }
    }
}
