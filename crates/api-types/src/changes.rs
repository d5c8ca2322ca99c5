//! The changes of a session: the list of its files, its diff, and the part of the diff that is asked for.

use harvest_core::FileChange;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The most unchanged lines around a change that can be asked for.
pub const MOST_CONTEXT: u32 = 1_000_000;

/// A file that the session changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangedFile {
    pub path: String,
    pub change: FileChange,
}

/// The changes of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diff {
    pub base: String,
    /// The commit that the diff ends at, by default the newest one saved outside the sandbox; absent if there is none.
    pub commit: Option<String>,
    /// A unified diff; bytes that are not UTF-8 are replaced.
    pub diff: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "schema", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct DiffRange {
    /// The base or a commit of the session; default: the base.
    #[cfg_attr(feature = "schema", param(pattern = "^[0-9a-f]{40,64}$"))]
    #[serde(default, deserialize_with = "hash")]
    pub from: Option<String>,
    /// A commit of the session; default: the newest.
    #[cfg_attr(feature = "schema", param(pattern = "^[0-9a-f]{40,64}$"))]
    #[serde(default, deserialize_with = "hash")]
    pub to: Option<String>,
    /// Only this file; a large `context` shows all of it.
    #[cfg_attr(feature = "schema", param(min_length = 1, max_length = 4096, pattern = "^[^\\x00]+$"))]
    #[serde(default, deserialize_with = "path")]
    pub path: Option<String>,
    /// The number of unchanged lines around each change; default: 3. Requires `path`.
    #[cfg_attr(feature = "schema", param(minimum = 0, maximum = 1000000))]
    #[serde(default, deserialize_with = "context")]
    pub context: Option<u32>,
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let fits = (1..=4096).contains(&text.len()) && !text.contains('\0');
    if fits { Ok(Some(text)) } else { Err(D::Error::custom("it is not the path of a file")) }
}

fn context<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(deserializer)? {
        lines @ ..=MOST_CONTEXT => Ok(Some(lines)),
        _ => Err(D::Error::custom("it must be at most 1000000")),
    }
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let fits = (40..=64).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if fits { Ok(Some(text)) } else { Err(D::Error::custom("it is not the full hash of a commit")) }
}
