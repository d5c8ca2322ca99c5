//! Programs started on behalf of the model: their output in order, limits on time and size, and nothing left of them when
//! they run out of time.

use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::truncate::Truncated;

/// Output still in the pipe when a program ends arrives within this time; what a background process writes later is dropped.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// A [`command`] that leads a process group of its own, so that it can be ended with all it starts.
pub(crate) fn program(name: &str, workspace: &Path) -> Command {
    let mut command = command(name, workspace);
    command.process_group(0);
    command
}

/// A program in the workspace with the environment that this agent was given, which is all the sandbox has; nothing of it
/// asks questions or opens a pager.
pub(crate) fn command(name: &str, workspace: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the one place where the agent starts programs, inside the sandbox")]
    let mut command = Command::new(name);
    command.current_dir(workspace).env("TERM", "dumb").env("PAGER", "cat").env("GIT_PAGER", "cat").stdin(Stdio::null());
    command
}

#[derive(Debug)]
pub(crate) struct Finished {
    /// Standard output and standard error as they came, at most as long as asked for.
    pub(crate) output: String,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    TimedOut,
}

enum Progress {
    Output(Vec<u8>),
    EndOfOutput,
    Exited(io::Result<ExitStatus>),
}

/// Runs `command` to its end or to its time limit, when its whole process group is killed.
pub(crate) fn run(mut command: Command, timeout: Duration, max_output: usize) -> io::Result<Finished> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn()?;
    // The command holds the writing end of the pipe, which must not outlive the program.
    drop(command);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, progress) = sync_channel(16);
    forward_output(reader, sender.clone());
    wait_for(child, sender);

    let mut output = Truncated::new(max_output);
    let mut until = Instant::now() + timeout;
    let mut output_ended = false;
    let mut end = None;
    while end.is_none() || !output_ended {
        match next(&progress, until) {
            Some(Progress::Output(bytes)) => output.push(&bytes),
            Some(Progress::EndOfOutput) => output_ended = true,
            Some(Progress::Exited(status)) => {
                end = end.or(Some(End::Exited(exit_code(status?))));
                until = Instant::now() + LAST_OUTPUT;
            }
            None if end.is_some() => break,
            None => {
                if let Some(group) = group {
                    // It may have ended by itself just now.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                end = Some(End::TimedOut);
                until = Instant::now() + LAST_OUTPUT;
            }
        }
    }
    Ok(Finished { output: output.into_text(), end: end.unwrap_or(End::TimedOut) })
}

/// `None` when the time is up, also while a program writes without a pause.
fn next(progress: &Receiver<Progress>, until: Instant) -> Option<Progress> {
    let left = until.checked_duration_since(Instant::now())?;
    progress.recv_timeout(left).ok()
}

/// Goes on reading when nobody listens any more: a background process must not die of a closed pipe.
fn forward_output(mut reader: io::PipeReader, sender: SyncSender<Progress>) {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => drop(sender.send(Progress::Output(buffer[..read].to_vec()))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        drop(sender.send(Progress::EndOfOutput));
    });
}

fn wait_for(mut child: Child, sender: SyncSender<Progress>) {
    thread::spawn(move || drop(sender.send(Progress::Exited(child.wait()))));
}

/// As a shell counts it: 128 and the signal for a program that was killed.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
