//! Copies of the launcher that do one thing and end.

use std::io;

use rustix::process::Pid;

/// None in the copy.
#[expect(unsafe_code, reason = "a process that is not to run another program needs fork")]
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the launcher has one thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

#[expect(unsafe_code, reason = "the copy must end without running what the original does at its end")]
pub fn exit(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}
