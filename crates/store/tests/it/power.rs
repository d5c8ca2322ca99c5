//! The power goes, at any moment: of what was written since the last sync the disk may hold anything from the beginning on, and
//! what was acknowledged is there all the same.
//!
//! The kernel's calls are traced and played again, onto a disk that forgets.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use harvest_core::SessionId;
use harvest_store::{Sqlite, Store};

use crate::durability::under;
use crate::support::place::Place;

/// Enough for the log to be brought into the database and begun anew.
const ACKNOWLEDGED: usize = 300;
/// Of the moments after a call, one in so many is looked at.
const SAMPLE: usize = 17;

/// A file as the disk has it for certain, and what was written to it since.
#[derive(Debug, Default, Clone)]
struct File {
    synced: Vec<u8>,
    pending: Vec<Change>,
    /// How many changes are on disk for certain, of all there were.
    settled: usize,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Truncate(length) => content.resize(*length, 0),
            Self::Write { offset, bytes } => {
                content.resize(content.len().max(offset + bytes.len()), 0);
                content[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
}

impl File {
    /// All changes that there were up to now.
    fn changes(&self) -> usize {
        self.settled + self.pending.len()
    }

    /// So many of all changes are on disk.
    fn settle(&mut self, changes: usize) {
        for change in self.pending.drain(..changes.saturating_sub(self.settled)) {
            change.apply(&mut self.synced);
        }
        self.settled = self.settled.max(changes);
    }

    /// What it holds when so many of the changes since the last sync have arrived.
    fn after(&self, arrived: usize) -> Vec<u8> {
        let mut content = self.synced.clone();
        self.pending.iter().take(arrived).for_each(|change| change.apply(&mut content));
        content
    }
}

/// A call as strace tells of it: its name, the file, the text it was given and its numbers.
#[derive(Debug)]
struct Call {
    name: String,
    file: String,
    bytes: Vec<u8>,
    numbers: Vec<usize>,
    is_over: bool,
}

fn call(line: &str) -> Option<(&str, Call)> {
    let (thread, line) = line.split_once(' ')?;
    let line = line.trim_start();
    if let Some(resumed) = line.strip_prefix("<... ") {
        let name = format!("{} resumed", resumed.split(' ').next()?);
        return Some((thread, Call { name, file: String::new(), bytes: vec![], numbers: vec![], is_over: true }));
    }
    let (name, rest) = line.split_once('(')?;
    let file = rest.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(file, _)| decode(file));
    let (_, rest) = rest.split_once('>')?;
    let (bytes, rest) = match rest.split_once('"').and_then(|(_, rest)| rest.split_once('"')) {
        Some((text, rest)) => (decode(text), rest),
        None => (Vec::new(), rest),
    };
    let arguments = rest.split([')', '<']).next()?;
    let numbers = arguments.split(',').filter_map(|number| number.trim().parse().ok()).collect();
    let file = String::from_utf8(file.unwrap_or_default()).ok()?;
    Some((thread, Call { name: name.to_owned(), file, bytes, numbers, is_over: !line.contains("<unfinished") }))
}

/// What strace shows byte for byte.
fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        match rest.strip_prefix("\\x").and_then(|hex| u8::from_str_radix(hex.get(..2)?, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &rest[4..]).1,
            None => (bytes.push(next as u8), rest = &rest[next.len_utf8()..]).1,
        }
    }
    bytes
}

/// What the disk may hold is a database with everything that was acknowledged.
async fn assert_kept(files: [Vec<u8>; 2], session: &SessionId, acknowledged: usize, when: &str) {
    // Each in a place of its own: the store before may still be closing.
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in ["found.db", "found.db-wal"].into_iter().zip(files) {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let store = Sqlite::open(&folder.path().join("found.db")).unwrap_or_else(|error| panic!("{when}: {error}"));
    let events = store.events(session, 0, 100_000).await.unwrap();
    assert!(events.len() >= acknowledged, "{when}: {} of {acknowledged} are left", events.len());
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq), "{when}");
}

#[tokio::test]
async fn whenever_the_power_goes_what_was_acknowledged_is_there() {
    if !Path::new("/usr/bin/strace").exists() {
        return harvest_testing::skip("strace is not installed");
    }
    let place = Place::sqlite();
    let address = place.address();
    let database = address.strip_prefix("sqlite:").unwrap();
    let trace = format!("{database}.trace");
    let calls = "trace=write,pwrite64,ftruncate,fsync,fdatasync";
    let mut child = under(&["strace", "-f", "-y", "-qq", "-xx", "-s", "70000", "-e", calls, "-o", &trace], &address);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (mut session, mut told) = (None, 0);
    for line in lines {
        // The test harness prints its own words in front of the first line.
        if let Some((_, id)) = line.split_once("session ") {
            session = Some(id.parse::<SessionId>().unwrap());
        }
        told += usize::from(line.starts_with("written "));
        if told == ACKNOWLEDGED {
            break;
        }
    }
    // Nobody reads any more, and that ends it.
    child.wait().unwrap();
    let session = session.unwrap();
    let names = [database.to_owned(), format!("{database}-wal")];
    let mut files: HashMap<&str, File> = names.iter().map(|name| (name.as_str(), File::default())).collect();
    let mut syncing: HashMap<String, (String, usize)> = HashMap::new();
    let (mut acknowledged, mut moments, mut states, mut brought_in) = (0, 0, 0, 0);
    let text = std::fs::read_to_string(&trace).unwrap();
    for (thread, call) in text.lines().filter_map(call) {
        match (call.name.as_str(), files.get_mut(call.file.as_str())) {
            ("pwrite64", Some(file)) => {
                let [.., _, offset] = call.numbers[..] else { panic!("{call:?}") };
                file.pending.push(Change::Write { offset, bytes: call.bytes });
                brought_in += usize::from(call.file == database && acknowledged > 0);
            }
            ("ftruncate", Some(file)) => file.pending.push(Change::Truncate(call.numbers[0])),
            ("fsync" | "fdatasync", Some(file)) if call.is_over => file.settle(file.changes()),
            ("fsync" | "fdatasync", Some(file)) => {
                syncing.insert(thread.to_owned(), (call.file.clone(), file.changes()));
            }
            ("fsync resumed" | "fdatasync resumed", _) => {
                if let Some((name, changes)) = syncing.remove(thread) {
                    files.get_mut(name.as_str()).unwrap().settle(changes);
                }
            }
            ("write", None) => {
                let said = String::from_utf8_lossy(&call.bytes).into_owned();
                acknowledged = said.trim().strip_prefix("written ").map_or(acknowledged, |seq| seq.parse().unwrap());
            }
            _ => continue,
        }
        moments += 1;
        if acknowledged == 0 || moments % SAMPLE != 0 {
            continue;
        }
        let [database, log] = [&names[0], &names[1]].map(|name| &files[name.as_str()]);
        let some = |file: &File| [0, file.pending.len() / 2, file.pending.len()];
        for (of_database, of_log) in some(database).into_iter().zip(some(log)) {
            let when = format!("after call {moments}, with {of_database} and {of_log} of the changes");
            let held = [database.after(of_database), log.after(of_log)];
            assert_kept(held, &session, acknowledged, &when).await;
            states += 1;
        }
    }
    println!("{acknowledged} acknowledged, {states} states of the disk, {brought_in} pages brought into the database");
    assert!(acknowledged >= ACKNOWLEDGED && states > 100, "{acknowledged} acknowledged, {states} states");
}
