//! Signals end the program, as they do everywhere, until it listens for them. Each has a handler from the first moment on: one
//! that is put in place later, while other threads run, would lose the signal that arrives before anyone listens.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use tokio::signal::unix::{Signal, SignalKind, signal};

const KNOWN: [Number; 3] = [Number::SIGINT, Number::SIGTERM, Number::SIGHUP];

/// Whether each of [`KNOWN`] still ends the program.
static ENDS: [AtomicBool; KNOWN.len()] = [const { AtomicBool::new(true) }; KNOWN.len()];

/// The mask of signals that were ignored when the program was started: bit n-1 is signal n.
static IGNORED: OnceLock<u64> = OnceLock::new();

/// Called while the program has one thread. The first process of a container is left alone: nothing ends it by default.
pub fn prepare() {
    let ignored = *IGNORED.get_or_init(ignored);
    if std::process::id() == 1 {
        return;
    }
    let held = KNOWN.into_iter().collect::<SigSet>().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    for (number, ends) in KNOWN.into_iter().zip(&ENDS) {
        if ignored & bit(number as i32) == 0 {
            // Without it a signal in the wrong moment is lost, no more.
            let _ = signal_hook::flag::register_conditional_default(number as i32, ends);
        }
    }
    if let Ok(before) = held {
        let _ = before.thread_set_mask();
    }
}

/// The signals of a kind from now on. They no longer end the program.
pub fn listen(kind: SignalKind) -> Option<Signal> {
    let signals = signal(kind).ok()?;
    for (number, ends) in KNOWN.into_iter().zip(&ENDS) {
        if number as i32 == kind.as_raw_value() {
            ends.store(false, Ordering::SeqCst);
        }
    }
    Some(signals)
}

/// Whether whoever started the program wants it to outlive these signals, as `nohup` and shells for jobs in the background do.
pub fn is_unwanted(kind: SignalKind) -> bool {
    IGNORED.get().is_some_and(|ignored| ignored & bit(kind.as_raw_value()) != 0)
}

fn bit(number: i32) -> u64 {
    1 << (number - 1)
}

fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
