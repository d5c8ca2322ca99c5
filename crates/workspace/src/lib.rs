//! Safe git: mirrors, snapshots, private copies of a repository, and the results that come back.
//!
//! ```text
//! user's repository ──fetch──▶ mirror (bare, one per repository, never holds a session's objects)
//!                                 │ checkout
//!                                 ▼
//!                              snapshot (one per commit, read-only) ──copy on write──▶ workspace in a sandbox
//!                                                                                        │ push through the gateway
//!                              session repository (bare, one per session) ◀──────────────┘
//! ```
//! A prepared snapshot is a snapshot with what its dependencies need installed; see [`Prepared`].
//!
//! Git on the host runs only on repositories that no agent can write to, with a fixed configuration and no hooks.

mod descendants;
pub mod durable;
mod error;
mod forecast;
mod git;
mod lock;
mod lockfiles;
mod mirror;
mod prepared;
pub mod script;
mod session_repository;
mod snapshot;

pub use error::Error;
pub use forecast::overlap;
pub use git::{Git, GitFolders, Home, Private};
pub use mirror::{Mirror, Mirrors};
pub use prepared::{Building, Manifest, OWN_FOLDER, Prepared, remove_strange};
pub use session_repository::{Author, Carried, Change, Commit, MOST_CONTEXT, NewCommit, SessionRepository, mirror_of};
pub use snapshot::{Snapshot, SnapshotHold, Snapshots, materialise};
