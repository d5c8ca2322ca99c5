//! A program that insists on a terminal gets one, and what it prints there becomes lines of plain text.
//!
//! The prompt takes the place of an argument `{}`; where there is none it is typed, followed by Enter.

mod plain;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use self::plain::Plain;
use super::signals;
use crate::process;

/// Wide enough that programs do not break their lines.
const SIZE: Winsize = Winsize { ws_row: 50, ws_col: 240, ws_xpixel: 0, ws_ypixel: 0 };

pub(super) fn run(command: &[OsString], prompt: &str) -> ExitCode {
    match serve(command, prompt) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("harvest-builtin: the program could not be run on a terminal: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(command: &[OsString], prompt: &str) -> io::Result<u8> {
    let (terminal, inside) = open()?;
    let typed = !command.iter().any(|argument| argument == "{}");
    let command: Vec<OsString> =
        command.iter().map(|argument| if argument == "{}" { prompt.into() } else { argument.clone() }).collect();
    let mut child = start(&command, &inside)?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // As if someone had pressed Ctrl-C: to whoever is in the foreground, the program first of all.
    signals::listen(move || {
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::INT);
        }
    });
    // While we hold it there is no end of output.
    drop(inside);
    let mut terminal = File::from(terminal);
    if typed {
        let mut keys = terminal.try_clone()?;
        let text = format!("{}\r", prompt.trim_end());
        // A program that does not read is no reason to wait.
        std::thread::spawn(move || drop(keys.write_all(text.as_bytes())));
    }
    show(&mut terminal)?;
    exit_code(&mut child)
}

fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let inside = rustix::fs::open(name, flags, rustix::fs::Mode::empty())?;
    tcsetwinsize(&inside, SIZE)?;
    // What is typed is known already.
    let mut modes = tcgetattr(&inside)?;
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&inside, OptionalActions::Now, &modes)?;
    Ok((terminal, inside))
}

fn start(command: &[OsString], inside: &OwnedFd) -> io::Result<Child> {
    let [program, arguments @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = process::command(&program.to_string_lossy(), Path::new("."));
    command.args(arguments).env("TERM", "xterm-256color").env("COLUMNS", "240").env("LINES", "50");
    command.stdin(inside.try_clone()?).stdout(inside.try_clone()?).stderr(inside.try_clone()?);
    lead(&mut command).spawn()
}

/// The program becomes the first of a session whose terminal is its standard input.
#[expect(unsafe_code, reason = "only the process itself can do so, before it becomes the program")]
fn lead(command: &mut Command) -> &mut Command {
    let take = || {
        rustix::process::setsid()?;
        Ok(rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?)
    };
    // SAFETY: between fork and exec there are only system calls, with arguments that were there before.
    unsafe { command.pre_exec(take) }
}

/// Prints what appears on the terminal until nobody can write to it any more.
fn show(terminal: &mut File) -> io::Result<()> {
    let (mut plain, mut out) = (Plain::default(), io::stdout().lock());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        // The last one to close a terminal makes reading from it an error, which is its end of file.
        let read = match terminal.read(&mut buffer) {
            Ok(read @ 1..) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
        };
        for line in plain.feed(buffer.get(..read).unwrap_or_default()) {
            out.write_all(&line)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    let last = plain.finish();
    if !last.is_empty() {
        out.write_all(&last)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn exit_code(child: &mut Child) -> io::Result<u8> {
    let status = child.wait()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}
