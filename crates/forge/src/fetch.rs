//! How objects get into a mirror: all of a history, or the part that was asked for.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use harvest_workspace::{Error, Git, Mirror};

use crate::Part;

/// A large repository over a slow line takes its time.
const FETCH_LIMIT: Duration = Duration::from_secs(3600);

/// Brings `commit` into the mirror under [`Mirror::base_ref`], with every file of it.
pub(crate) async fn fetch(
    git: &Git,
    mirror: &Mirror,
    from: &OsStr,
    commit: &str,
    part: Part,
    options: &[&str],
) -> Result<(), Error> {
    let base = Mirror::base_ref(commit);
    let depth = part.depth.map(|depth| format!("--depth={depth}"));
    let mut options: Vec<&str> = options.iter().copied().chain(depth.as_deref()).collect();
    // Git remembers that something was left out, and goes on leaving it out.
    if !part.partial && !mirror.is_partial().await {
        return fetch_into(git, mirror.path(), from, &[&format!("+{commit}:{base}")], &options).await;
    }
    options.push("--filter=blob:none");
    // Under a name, which is all that git writes down: the address may hold a password.
    let mut address = std::ffi::OsString::from("remote.origin.url=");
    address.push(from);
    let (settings, from) = ([OsStr::new("-c"), &address], OsStr::new("origin"));
    // The ref that says that all is there comes last.
    let unfinished = format!("refs/partial/{commit}");
    run(git, &settings, mirror.path(), from, &[&format!("+{commit}:{unfinished}")], &options).await?;
    let missing = mirror.missing(commit).await?;
    if !missing.is_empty() {
        let wanted: Vec<&str> = missing.iter().map(String::as_str).collect();
        options.retain(|option| !option.starts_with("--depth"));
        run(git, &settings, mirror.path(), from, &wanted, &options).await?;
    }
    mirror.settle(commit, &unfinished).await
}

/// `git fetch` that brings what is wanted and leaves nothing else behind: no FETCH_HEAD, tags, hooks, pruning or upkeep.
pub(crate) async fn fetch_into(
    git: &Git,
    into: &Path,
    from: &OsStr,
    wanted: &[&str],
    options: &[&str],
) -> Result<(), Error> {
    run(git, &[], into, from, wanted, options).await
}

async fn run(
    git: &Git,
    settings: &[&OsStr],
    into: &Path,
    from: &OsStr,
    wanted: &[&str],
    options: &[&str],
) -> Result<(), Error> {
    let fixed = [
        "-c",
        "fetch.prune=false",
        "-c",
        "fetch.pruneTags=false",
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
        "--update-shallow",
    ];
    let options = fixed.iter().chain(options).chain(&["--stdin", "--end-of-options"]).map(OsStr::new);
    let args: Vec<&OsStr> = settings.iter().copied().chain(options).chain([from]).collect();
    // By standard input, since there may be as many as there are files.
    let wanted: String = wanted.iter().map(|wanted| format!("{wanted}\n")).collect();
    git.clone().with_limit(FETCH_LIMIT).run_with(into, &args, &[], wanted.as_bytes()).await.map(drop)
}
