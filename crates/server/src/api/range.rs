//! Which part of a session's changes is asked for.

use harvest_api_types::{DiffRange, MOST_CONTEXT};
use harvest_workspace::SessionRepository;

use crate::problem::Problem;

// Each context that a request can ask for is one that the diff shows.
const _: () = assert!(MOST_CONTEXT <= harvest_workspace::MOST_CONTEXT);

/// Both ends. The repository reaches what others pushed as well, so only commits of this session are taken.
pub async fn ends(
    range: DiffRange,
    repository: &SessionRepository,
    base: &str,
    tip: &str,
) -> Result<(String, String), Problem> {
    if range.context.is_some() && range.path.is_none() {
        return Err(Problem::bad("context", "it needs the `path` of a file"));
    }
    if range.from.is_none() && range.to.is_none() {
        return Ok((base.to_owned(), tip.to_owned()));
    }
    let known = repository.commits(base, tip).await?;
    let is_known = |asked: &str| asked == base || asked == tip || known.iter().any(|one| one.id == asked);
    let end = |field: &'static str, asked: Option<String>, else_: &str| match asked {
        None => Ok(else_.to_owned()),
        Some(asked) if is_known(&asked) => Ok(asked),
        Some(_) => Err(Problem::bad(field, "it is not a commit of this session")),
    };
    Ok((end("from", range.from, base)?, end("to", range.to, tip)?))
}
