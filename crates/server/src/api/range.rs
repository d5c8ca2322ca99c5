//! Which part of a session's changes is asked for.

use harvest_workspace::{MOST_CONTEXT, SessionRepository};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The base or a commit of the session; default: the base.
    #[param(pattern = "^[0-9a-f]{40,64}$")]
    #[serde(default, deserialize_with = "hash")]
    from: Option<String>,
    /// A commit of the session; default: the newest.
    #[param(pattern = "^[0-9a-f]{40,64}$")]
    #[serde(default, deserialize_with = "hash")]
    to: Option<String>,
    /// Only this file; a large `context` shows all of it.
    #[param(min_length = 1, max_length = 4096, pattern = "^[^\\x00]+$")]
    #[serde(default, deserialize_with = "path")]
    pub path: Option<String>,
    /// The number of unchanged lines around each change; default: 3. Requires `path`.
    #[param(minimum = 0, maximum = 1000000)]
    #[serde(default, deserialize_with = "context")]
    pub context: Option<u32>,
}

impl Range {
    /// Both ends. The repository reaches what others pushed as well, so only commits of this session are taken.
    pub async fn ends(
        self,
        repository: &SessionRepository,
        base: &str,
        tip: &str,
    ) -> Result<(String, String), Problem> {
        if self.context.is_some() && self.path.is_none() {
            return Err(Problem::bad("context", "it needs the `path` of a file"));
        }
        if self.from.is_none() && self.to.is_none() {
            return Ok((base.to_owned(), tip.to_owned()));
        }
        let known = repository.commits(base, tip).await?;
        let is_known = |asked: &str| asked == base || asked == tip || known.iter().any(|one| one.id == asked);
        let end = |field: &'static str, asked: Option<String>, else_: &str| match asked {
            None => Ok(else_.to_owned()),
            Some(asked) if is_known(&asked) => Ok(asked),
            Some(_) => Err(Problem::bad(field, "it is not a commit of this session")),
        };
        Ok((end("from", self.from, base)?, end("to", self.to, tip)?))
    }
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
