//! Polite signals that come when asked for, instead of ending the bridge: it has an agent to tell first.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// Calls `on_signal` in a thread of its own for every interrupt and request to terminate. Threads that are started later
/// inherit that they do not get them, so this comes first; programs are started with [`undone`].
pub(super) fn listen(mut on_signal: impl FnMut() + Send + 'static) {
    let set = polite();
    mask(libc::SIG_BLOCK, &set);
    thread::spawn(move || {
        while wait(&set) {
            on_signal();
        }
    });
}

/// The program gets signals as if nobody had listened here.
#[expect(unsafe_code, reason = "the mask is inherited, and only the process itself can change it back")]
pub(super) fn undone(command: &mut Command) -> &mut Command {
    let set = polite();
    let unblock = move || {
        mask(libc::SIG_UNBLOCK, &set);
        Ok(())
    };
    // SAFETY: between fork and exec there is one system call, with an argument that was there before.
    unsafe { command.pre_exec(unblock) }
}

#[expect(unsafe_code, reason = "rustix leaves signal sets to libc")]
fn polite() -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid set, a struct of integers, and nothing else is written.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        set
    }
}

#[expect(unsafe_code, reason = "rustix leaves signal masks to libc")]
fn mask(how: i32, set: &libc::sigset_t) {
    // SAFETY: the set is initialised and the old one is not asked for.
    unsafe {
        libc::pthread_sigmask(how, set, std::ptr::null_mut());
    }
}

/// False when there is nothing to wait for any more.
#[expect(unsafe_code, reason = "rustix leaves waiting for signals to libc")]
fn wait(set: &libc::sigset_t) -> bool {
    let mut number = 0;
    // SAFETY: the set is initialised, and the number is written to memory of ours.
    unsafe { libc::sigwait(set, &raw mut number) == 0 }
}
