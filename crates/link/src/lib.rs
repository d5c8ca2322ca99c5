//! The protocol between the runner in a sandbox and the control plane, and the files that a runner is started with.
//!
//! Everything here is pure: bytes in, messages out. Whoever owns a stream feeds a [`Decoder`] and writes what the `encode`
//! methods return. The protocol is versioned; each side accepts its own version and the one before, so that a server can be
//! replaced while its sandboxes go on.

mod frame;
mod message;
mod record;
mod start;

pub use frame::{Decoder, Error, MAX_PAYLOAD, Message};
pub use message::{File, FromRunner, Limit, ProcessSpec, Report, Signal, ToRunner, WINDOW};
pub use record::{MAX_LINE, Record, SPOOL_HEADER, SpoolRecord, Stream};
pub use start::{Access, Again, Bind, Boot, Counters, Identity, Launch, Overlay, Owner, Watch};

/// The version this build speaks. Since 2 there are [`ToRunner::Hold`], [`ToRunner::Input`] and [`ProcessSpec::keep_stdin`].
pub const VERSION: u32 = 2;

/// The version to speak with a peer that speaks `theirs`.
pub fn negotiate(theirs: u32) -> Result<u32, Error> {
    if theirs == VERSION || theirs.checked_add(1) == Some(VERSION) {
        Ok(theirs)
    } else if theirs.checked_sub(1) == Some(VERSION) {
        // A newer peer accepts the version before its own.
        Ok(VERSION)
    } else {
        Err(Error::Version { theirs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_understand_each_other_and_strangers_do_not() {
        assert_eq!(negotiate(VERSION).unwrap(), VERSION);
        assert_eq!(negotiate(VERSION - 1).unwrap(), VERSION - 1);
        assert_eq!(negotiate(VERSION + 1).unwrap(), VERSION);
        assert!(negotiate(VERSION + 2).is_err());
        assert!(negotiate(u32::MAX).is_err());
    }
}
