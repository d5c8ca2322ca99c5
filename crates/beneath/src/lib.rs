//! File operations below folders that untrusted programs and commits have shaped.
//!
//! A sandbox, an install script or a commit can put a link anywhere below such a folder, and swap a folder for a link while the
//! host works there. So the host goes by descriptor: a [`Folder`] is a folder that was opened, every step below it is resolved by
//! the kernel with `openat2` (beneath the folder, no link in any part), and whatever was looked at is changed through the
//! descriptor it was looked at by, never by its name again.
//!
//! The path given to [`Folder::open`], [`give`] and [`remove`] is the one that is followed as usual: it leads to a folder in Harvest's
//! own data directory, and only its last part may be untrusted.

mod copy;
mod folder;
mod give;
mod remove;
mod walk;

pub use copy::{Blocks, copy};
pub use folder::{Folder, Kind, Node, Status};
pub use give::give;
pub use remove::remove;

#[cfg(test)]
mod tests;
