//! Open files of whoever started us end here.

use std::io;

/// Keeps every descriptor but the first three from all programs started from now on: what a server, or the shell around it, has
/// open is none of a sandbox's business.
#[expect(unsafe_code, reason = "rustix has no close_range")]
pub fn seal() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: only sets a flag on descriptors; none is closed while someone may still use it.
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, flags) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
