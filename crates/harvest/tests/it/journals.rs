//! Keeps the journal of every world, so that those of two versions can be compared event by event: see
//! `scripts/compare-journals`. Whatever differs from one run to the next is replaced: ids, commits, times, folders, ports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use regex::Regex;

/// Names the folder that journals are kept in.
const FOLDER: &str = "HARVEST_TEST_JOURNALS";
/// What is different in every run, and what stands for it.
const CHANGING: [(&str, &str); 8] = [
    (r"/tmp/hv[A-Za-z0-9]{6}", "/world"),
    (r"\b[0-9a-f]{64}\b|\b[0-9a-f]{40}\b|\b[0-9a-f]{24}\b", "hash"),
    (r"\b[0-9a-hjkmnp-tv-z]{16}\b", "id"),
    (r"harvest/[a-z0-9-]+-[0-9a-hjkmnp-tv-z]{8}\b", "branch"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "time"),
    (r"(127\.0\.0\.1|localhost|\[::1\]):\d+", "address"),
    (r#""(\w*_ms|pid|offset|resets_at)":-?\d+"#, r#""$1":0"#),
    (r"\b\d+(\.\d+)? ?(ms|s|seconds|milliseconds)\b", "duration"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> =
    LazyLock::new(|| CHANGING.iter().map(|(pattern, word)| (Regex::new(pattern).unwrap(), *word)).collect());

/// Keeps the journals of a world that ends, if someone wants them.
pub fn keep(data: &Path) {
    let database = data.join("harvest.db");
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from).filter(|_| database.exists()) else { return };
    let events = read(&database).unwrap_or_default();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name()), masked(&events)).unwrap();
}

/// The name of the test, and which of its worlds this is.
fn name() -> String {
    static WORLDS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    let test = std::thread::current().name().unwrap_or("unnamed").replace("::", ".");
    let mut worlds = WORLDS.lock().unwrap();
    let number = worlds.entry(test.clone()).or_default();
    *number += 1;
    format!("{test}.{number}")
}

/// One event on each line, behind the number of its session.
fn read(database: &Path) -> rusqlite::Result<String> {
    let database = rusqlite::Connection::open(database)?;
    let mut rows = database.prepare("SELECT session, body FROM events ORDER BY session, seq")?;
    let mut text = String::new();
    for row in rows.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))? {
        let (session, body) = row?;
        let _ = writeln!(text, "{session} {body}");
    }
    Ok(text)
}

fn masked(text: &str) -> String {
    PATTERNS.iter().fold(text.to_owned(), |text, (pattern, word)| pattern.replace_all(&text, *word).into_owned())
}

#[test]
fn what_differs_between_runs_is_replaced_and_the_rest_is_kept() {
    let journal = |id: &str, commit: char, port: u16| {
        let commit = commit.to_string().repeat(40);
        format!(
            r#"1 {{"type":"x","data":{{"id":"{id}","again":"{id}","commit":"{commit}","at":"127.0.0.1:{port}","duration_ms":{port},"text":"Done."}}}}"#
        )
    };
    let first = masked(&journal("mw9wag3rvesa82m3", 'a', 4000));
    assert_eq!(first, masked(&journal("6w6bc289zt7hc7kz", 'b', 5000)));
    assert_eq!(
        first,
        r#"1 {"type":"x","data":{"id":"id","again":"id","commit":"hash","at":"address","duration_ms":0,"text":"Done."}}"#
    );
}
