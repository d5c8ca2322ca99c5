//! One process: started, its output spooled line by line, ended with all its children.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use harvest_link::{Boot, Limit, MAX_LINE, ProcessSpec, Signal, SpoolRecord, Stream};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use crate::acting::acting_as;
use crate::command::command;
use crate::hold;
use crate::reap::{Child, Ended};
use crate::registry::{End, Failure, Process, Registry};
use crate::spool::Spool;
use crate::supervisor::Context;
use crate::{attempt, files, tree};

/// How long output may still come after everything that could write it is dead.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long until a full disk is tried again.
const NO_ROOM: Duration = Duration::from_millis(250);

const READ: usize = 64 * 1024;

/// Starts it and sees it to its end in the background. What goes wrong is its end, too.
pub fn start(context: &Context, spec: ProcessSpec) {
    let registry = &context.registry;
    let process = Rc::new(Process::new(spec.id.clone()));
    registry.insert(process.clone());
    match spawn(context, &process, spec) {
        Ok(begun) => {
            let context = context.clone();
            tokio::task::spawn_local(async move { begun.see_through(&context, process).await });
            registry.started.notify_waiters();
        }
        Err(message) => *process.end.borrow_mut() = Some(End::Failed(Failure::other(message))),
    }
    registry.changed.notify_one();
}

pub fn signal(boot: &Boot, process: &Process, signal: Signal) {
    let Some(pid) = process.pid.get() else { return };
    if process.end.borrow().is_some() {
        return;
    }
    process.signalled.set(Some(signal));
    // Its number, and that of its group, may be another's by now.
    if process.is_reaped.get() {
        return;
    }
    let number = match signal {
        Signal::Interrupt => rustix::process::Signal::INT,
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
    };
    if boot.identity.is_some() {
        // Our own wrapper, which passes polite signals on and knows what it started.
        let _ = rustix::process::kill_process(pid, if signal == Signal::Kill { attempt::END } else { number });
        return;
    }
    // A wrapper would not pass a polite signal on, so those go to the group it started. Killing the wrapper itself ends the
    // namespace it made, and with it everything that ever ran there.
    let group = match (boot.wrap.is_empty(), signal) {
        (false, Signal::Interrupt | Signal::Terminate) => {
            tree::child_of(pid).and_then(|init| rustix::process::getpgid(Some(init)).ok()).unwrap_or(pid)
        }
        _ => pid,
    };
    let _ = rustix::process::kill_process_group(group, number);
}

/// Marks the processes of one that runs without a pid namespace.
fn mark(boot: &Boot, id: &str) -> (String, String) {
    ("HARVEST_PROCESS".to_owned(), format!("{}/{id}", boot.sandbox))
}

/// A process under way: one that was asked for, or one that is held for it.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    child: Child,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// A process that was asked for, with what it is to read.
struct Begun {
    running: Running,
    /// What it reads first, as it is written.
    first: Vec<u8>,
    keep_stdin: bool,
}

/// What a process finds as its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    Nothing,
    Open,
}

fn spawn(context: &Context, process: &Process, spec: ProcessSpec) -> Result<Begun, String> {
    let boot = &context.boot;
    if !spec.has_valid_id() {
        return Err(format!("`{}` is not a valid process id", spec.id));
    }
    if spec.argv.is_empty() {
        return Err("there is nothing to run".to_owned());
    }
    let roots = [boot.workspace.clone(), boot.home.clone()];
    {
        let _acting = acting_as(boot.identity);
        for file in &spec.files {
            files::write(&roots, file).map_err(|error| error.to_string())?;
        }
    }
    let cwd = if spec.cwd.is_empty() { boot.workspace.as_path() } else { Path::new(&spec.cwd) };
    if !cwd.is_dir() {
        return Err(format!("there is no folder {}", cwd.display()));
    }
    let spool = Spool::create(&boot.spool.join(&spec.id)).map_err(|error| format!("no spool: {error}"))?;
    *process.spool.borrow_mut() = Some(spool);
    let held = context.holds.take(&spec.id);
    let mut first = if held.is_some() { hold::order(&spec, cwd)? } else { Vec::new() };
    let running = match held {
        Some(held) => held,
        None => {
            let stdin = if spec.stdin.is_empty() && !spec.keep_stdin { Stdin::Nothing } else { Stdin::Open };
            let mut env = spec.env;
            env.extend(boot.wrap.is_empty().then(|| mark(boot, &spec.id)));
            launch(boot, &spec.argv, &env, cwd, stdin)?
        }
    };
    first.extend(spec.stdin.into_bytes());
    process.pid.set(Some(running.pid));
    if !spec.keep_stdin {
        process.input.refuse("its input was closed when it was started");
    }
    Ok(Begun { running, first, keep_stdin: spec.keep_stdin })
}

/// Starts `argv`, inside the wrapper where there is one.
pub fn launch(
    boot: &Boot,
    argv: &[String],
    env: &[(String, String)],
    cwd: &Path,
    stdin: Stdin,
) -> Result<Running, String> {
    let filter =
        boot.filter.as_deref().map(open_for_child).transpose().map_err(|error| format!("no filter: {error}"))?;
    let descriptor = filter.as_ref().map(|filter| filter.as_raw_fd().to_string()).unwrap_or_default();
    let wrap = boot.wrap.iter().map(|argument| if argument == "{filter}" { &descriptor } else { argument });
    let mut argv = wrap.chain(argv);
    let mut command = command(argv.next().ok_or("there is nothing to run")?);
    command.args(argv).envs(env.iter().map(|(name, value)| (name, value)));
    command.current_dir(cwd).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if stdin == Stdin::Nothing { Stdio::null() } else { Stdio::piped() });
    if !boot.wrap.is_empty() && boot.identity.is_none() {
        prefer_to_us(&mut command);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("it has no pid")?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("its output was not piped".to_owned());
    };
    let stdin = child.stdin.take().map(OwnedFd::from);
    let child = Child::new(pid).map_err(|error| format!("it cannot be waited for: {error}"))?;
    Ok(Running { pid, child, stdin, stdout: stdout.into(), stderr: stderr.into() })
}

/// Opens a file so that the next program started has it, too. Nothing else is started in between: there is one thread.
fn open_for_child(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY, Mode::empty())?)
}

/// Where the kernel has to choose whom to kill for lack of memory, it should not be the runner.
#[expect(unsafe_code, reason = "only the process itself can say so before it has children")]
pub fn prefer_to_us(command: &mut Command) {
    let say = || {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(c"/proc/self/oom_score_adj", flags, Mode::empty())?;
        rustix::io::write(&file, b"500")?;
        Ok(())
    };
    // SAFETY: between fork and exec there are only two system calls, with arguments that were there before.
    unsafe { command.pre_exec(say) };
}

impl Running {
    /// Whether it has not ended by itself. One that has is not waited for again.
    pub fn is_alive(&self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Begun {
    async fn see_through(self, context: &Context, process: Rc<Process>) {
        let Context { boot, registry, watch, .. } = context;
        let Self { running: Running { child, stdin, stdout, stderr, .. }, first, keep_stdin } = self;
        let feeding = stdin.map(|pipe| {
            let feed = feed(pipe, first, keep_stdin, process.clone(), registry.clone());
            tokio::task::spawn_local(feed)
        });
        let reading = [(Stream::Stdout, stdout), (Stream::Stderr, stderr)].map(|(stream, pipe)| {
            tokio::task::spawn_local(collect(boot.clone(), registry.clone(), process.clone(), stream, pipe))
        });
        let ended = child.ended().await;
        if let (true, Some(pid)) = (boot.wrap.is_empty(), process.pid.get()) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let ended = match ended {
            Ok(()) => child.wait().await,
            Err(error) => Err(error),
        };
        process.is_reaped.set(true);
        if boot.wrap.is_empty() {
            let (name, value) = mark(boot, &process.id);
            tree::kill_marked(&format!("{name}={value}")).await;
        }
        finish(&process, reading).await;
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        let duration_ms = u64::try_from(process.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let alone = registry.running().len() <= 1;
        let end = match (process.failure.borrow_mut().take(), ended) {
            (Some(failure), _) => {
                watch.settle();
                End::Failed(failure)
            }
            (None, Err(error)) => End::Failed(Failure::other(format!("it cannot be waited for: {error}"))),
            (None, Ok(ended)) => match watch.explain(died_of(boot, ended), alone) {
                // Whoever asked for its end is not told that it was something else.
                Some(failure) if process.signalled.get() != Some(Signal::Kill) => End::Failed(failure),
                _ => End::Exited { ended: unwrap(boot, &process, ended), duration_ms },
            },
        };
        process.input.refuse("it has ended");
        *process.end.borrow_mut() = Some(end);
        registry.changed.notify_one();
        registry.ended.notify_one();
    }
}

/// Waits for the ends of both streams, but not on whoever may have kept them open.
async fn finish(process: &Process, reading: [JoinHandle<()>; 2]) {
    let aborts = reading.each_ref().map(JoinHandle::abort_handle);
    let both = async {
        for reader in reading {
            let _ = reader.await;
        }
    };
    tokio::pin!(both);
    while tokio::time::timeout(LAST_WORDS, &mut both).await.is_err() {
        if !process.waits_for_room.get() {
            return aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
    }
}

/// The signal that ended it, also where a wrapper or a shell tells it by a code.
fn died_of(boot: &Boot, ended: Ended) -> Option<i32> {
    ended.signal.or_else(|| ended.code.filter(|code| !boot.wrap.is_empty() && *code > 128).map(|code| code - 128))
}

/// A wrapper tells the signal that ended its process as a shell does. Where that is the signal we sent, say so.
fn unwrap(boot: &Boot, process: &Process, ended: Ended) -> Ended {
    let sent = match process.signalled.get() {
        Some(Signal::Interrupt) => libc::SIGINT,
        Some(Signal::Terminate) => libc::SIGTERM,
        Some(Signal::Kill) => libc::SIGKILL,
        None => return ended,
    };
    if !boot.wrap.is_empty() && ended.code == Some(128 + sent) {
        Ended { code: None, signal: Some(sent), ..ended }
    } else {
        ended
    }
}

/// Writes what there is to read, as fast as it is read.
async fn feed(pipe: OwnedFd, first: Vec<u8>, keep: bool, process: Rc<Process>, registry: Rc<Registry>) {
    let input = &process.input;
    let written = async {
        let mut pipe = pipe::Sender::from_owned_fd(pipe)?;
        pipe.write_all(&first).await?;
        drop(first);
        while keep && let Some(text) = input.next().await {
            pipe.write_all(text.as_bytes()).await?;
            input.took(text.len());
            registry.changed.notify_one();
        }
        io::Result::Ok(())
    };
    // A process that does not read its input is free to do so; only whoever gives it more has to know.
    if written.await.is_err() {
        input.refuse("it has closed its input");
    }
    registry.changed.notify_one();
}

async fn collect(boot: Rc<Boot>, registry: Rc<Registry>, process: Rc<Process>, stream: Stream, pipe: OwnedFd) {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(pipe) else { return };
    let mut lines = crate::lines::Lines::new(MAX_LINE);
    let mut buffer = vec![0; READ];
    loop {
        let length = pipe.read(&mut buffer).await.unwrap_or(0);
        let mut records = Vec::new();
        let mut append = |line: &[u8], continued: bool| {
            // Cannot be too long: the splitter has the same bound.
            let _ = SpoolRecord { stream, continued, line }.append_to(&mut records);
        };
        if length == 0 {
            lines.finish(&mut append);
        } else {
            lines.push(buffer.get(..length).unwrap_or_default(), &mut append);
        }
        if !records.is_empty() {
            // Meanwhile nothing is read: a process that goes on printing waits as well. Nobody tells when there is room again.
            while store(&boot, &process, &records) == Stored::NoRoom {
                process.waits_for_room.set(true);
                tokio::time::sleep(NO_ROOM).await;
            }
            process.waits_for_room.set(false);
            registry.changed.notify_one();
        }
        if length == 0 {
            return;
        }
        // A pipe that is never empty must not keep the others waiting.
        tokio::task::yield_now().await;
    }
}

/// What became of something to be spooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Done,
    /// The disk is full, which may pass.
    NoRoom,
}

/// Spools what was read, or ends the process when it never can be.
fn store(boot: &Boot, process: &Process, records: &[u8]) -> Stored {
    if process.failure.borrow().is_some() {
        return Stored::Done;
    }
    let failure = {
        let mut spool = process.spool.borrow_mut();
        let Some(spool) = spool.as_mut() else { return Stored::Done };
        if spool.length() + records.len() as u64 > boot.max_spool_bytes {
            let message = format!("it printed more than {} bytes and was ended", boot.max_spool_bytes);
            Some(Failure::of(Limit::Output, message))
        } else {
            match spool.append(records) {
                Ok(()) => None,
                Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                    return Stored::NoRoom;
                }
                Err(error) => Some(Failure::other(format!("its output could not be kept: {error}"))),
            }
        }
    };
    if let Some(failure) = failure {
        end(boot, process, failure);
    }
    Stored::Done
}

/// Ends the process with all its children, for the first reason given.
pub fn end(boot: &Boot, process: &Process, failure: Failure) {
    signal(boot, process, Signal::Kill);
    process.failure.borrow_mut().get_or_insert(failure);
}
