//! Signals as every program expects to find them.
//!
//! A shell that puts a command into the background has it ignore SIGINT, `nohup` has it ignore SIGHUP, and whoever is started
//! inherits that. An agent that ignores what it is interrupted with could only be killed.

use std::io;

/// What is ignored is no longer.
#[expect(unsafe_code, reason = "rustix leaves what is done about signals to libc")]
pub fn restore() -> io::Result<()> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: no handler of ours is installed yet, and the default takes no code of ours either.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
