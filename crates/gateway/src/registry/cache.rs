//! What has been fetched, on disk, shared by all sessions and by all processes on the same data directory.
//!
//! One file per thing: its content, then what is known about it (`Head`), then the length of that. A file appears under
//! its name by a rename once it is complete, so a crash leaves nothing but a temporary file, which the next one to open
//! the cache removes (it can take its lock; the living hold theirs). Names are hashes of where a thing came from and what
//! it must hash to, so no client chooses a path. The oldest in use go when there is too much.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::SystemTime;

use harvest_core::Clock;
use serde::{Deserialize, Serialize};

use super::digest::sha256_hex;

/// Raised when the format or the meaning of names changes; older files are then never found and go with time.
const VERSION: &str = "1";
const PARTS: &str = "parts";
const MAX_HEAD: u64 = 64 * 1024;
/// Unknown until the folder has been looked through.
const UNCOUNTED: u64 = u64::MAX;

/// The name of a thing in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn new(parts: &[&str]) -> Self {
        // Lengths keep the parts from running into each other.
        let joined: String = parts.iter().map(|part| format!("{}:{part},", part.len())).collect();
        Self(sha256_hex(format!("{VERSION} {joined}").as_bytes()))
    }

    /// A number in 0..`count`, the same for the same key.
    pub(super) fn slot(&self, count: usize) -> usize {
        usize::from_str_radix(&self.0[..8], 16).unwrap_or(0) % count
    }
}

/// What is known about a thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) url: String,
    pub(super) size: u64,
    pub(super) content_type: Option<String>,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// Milliseconds since 1970, when the registry last said that it is so.
    pub(super) checked_at: i64,
    /// What it was verified against, or for a document its own.
    pub(super) digest: Option<String>,
}

#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    max_bytes: u64,
    clock: Arc<dyn Clock>,
    used: AtomicU64,
    /// On its way in, in all parts together; may be as much again as the cache.
    growing: Arc<AtomicU64>,
    next: AtomicU64,
    evicting: Mutex<()>,
}

/// Content on its way into the cache. Dropped, it leaves nothing.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    file: Arc<File>,
    written: u64,
    growing: Arc<AtomicU64>,
    max_bytes: u64,
}

impl Cache {
    pub(super) fn new(folder: PathBuf, max_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        let (used, next) = (AtomicU64::new(UNCOUNTED), AtomicU64::new(0));
        Self { folder, max_bytes, clock, used, growing: Arc::default(), next, evicting: Mutex::default() }
    }

    pub(super) fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    /// A complete thing, opened; it stays readable when it is evicted meanwhile.
    pub(super) fn open(&self, key: &Key) -> Option<(Head, File)> {
        let file = File::open(self.path(key)).ok()?;
        let head = read_head(&file).ok()?;
        // Says that it is in use. A file of someone else's that cannot be touched is just evicted sooner.
        let _ = file.set_modified(SystemTime::from(self.clock.now()));
        Some((head, file))
    }

    /// A whole document. One that is damaged is taken for none.
    pub(super) fn document(&self, key: &Key) -> Option<(Head, Vec<u8>)> {
        let (head, mut file) = self.open(key)?;
        let mut content = vec![0; usize::try_from(head.size).ok()?];
        file.seek(SeekFrom::Start(0)).ok()?;
        file.read_exact(&mut content).ok()?;
        (head.digest.as_deref() == Some(sha256_hex(&content).as_str())).then_some((head, content))
    }

    pub(super) fn part(&self) -> io::Result<Part> {
        let folder = self.folder.join(PARTS);
        if self.used.load(Ordering::Relaxed) == UNCOUNTED {
            fs::create_dir_all(&folder)?;
            sweep(&folder);
            let used = self.entries().iter().map(|entry| entry.size).sum();
            let _ = self.used.compare_exchange(UNCOUNTED, used, Ordering::Relaxed, Ordering::Relaxed);
        }
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{number}", std::process::id()));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    file.try_lock().map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
                    let growing = Arc::clone(&self.growing);
                    return Ok(Part { path, file: Arc::new(file), written: 0, growing, max_bytes: self.max_bytes });
                }
                // Of another gateway in this process, or of a process in another namespace.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a finished part a thing of the cache.
    pub(super) fn keep(&self, mut part: Part, key: &Key, head: &Head) -> io::Result<()> {
        if head.size != part.written {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = serde_json::to_vec(head)?;
        part.write(&text)?;
        part.write(&(text.len() as u64).to_be_bytes())?;
        part.file.sync_data()?;
        let _ = part.file.set_modified(SystemTime::from(self.clock.now()));
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::rename(&part.path, &path)?;
        let used = self.used.fetch_add(part.written, Ordering::Relaxed) + part.written;
        if used > self.max_bytes {
            self.evict();
        }
        Ok(())
    }

    pub(super) fn keep_document(&self, key: &Key, head: &Head, content: &[u8]) -> io::Result<()> {
        let mut part = self.part()?;
        part.write(content)?;
        self.keep(part, key, &Head { digest: Some(sha256_hex(content)), ..head.clone() })
    }

    /// Forgets a thing that turned out to be wrong.
    pub(super) fn forget(&self, key: &Key) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Removes what was not used for the longest time, until a tenth is free.
    fn evict(&self) {
        let _one = match self.evicting.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // Other processes use the folder too: what is there counts, not what this one has put there.
        let mut entries = self.entries();
        entries.sort_by_key(|entry| entry.used_at);
        let mut used: u64 = entries.iter().map(|entry| entry.size).sum();
        for entry in entries {
            if used <= self.max_bytes / 10 * 9 {
                break;
            }
            if fs::remove_file(&entry.path).is_ok() {
                used -= entry.size;
            }
        }
        self.used.store(used, Ordering::Relaxed);
    }

    fn entries(&self) -> Vec<Entry> {
        let Ok(folders) = fs::read_dir(&self.folder) else { return Vec::new() };
        let folders = folders.flatten().filter(|folder| folder.file_name() != PARTS);
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flat_map(Iterator::flatten);
        let entry = |file: fs::DirEntry| {
            let found = file.metadata().ok()?;
            Some(Entry { path: file.path(), size: found.len(), used_at: found.modified().ok()? })
        };
        files.filter_map(entry).collect()
    }

    fn path(&self, key: &Key) -> PathBuf {
        let (folder, name) = key.0.split_at(2);
        self.folder.join(folder).join(name)
    }
}

struct Entry {
    path: PathBuf,
    size: u64,
    used_at: SystemTime,
}

impl Part {
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        self.written += length;
        if self.growing.fetch_add(length, Ordering::Relaxed) + length > self.max_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        (&*self.file).write_all(bytes)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.growing.fetch_sub(self.written, Ordering::Relaxed);
        // After a rename there is nothing under this name any more.
        let _ = fs::remove_file(&self.path);
    }
}

fn read_head(file: &File) -> io::Result<Head> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let length = file.metadata()?.len();
    let at = length.checked_sub(8).ok_or_else(bad)?;
    let mut number = [0; 8];
    file.read_exact_at(&mut number, at)?;
    let size = u64::from_be_bytes(number);
    let start = at.checked_sub(size).filter(|_| size <= MAX_HEAD).ok_or_else(bad)?;
    let mut text = vec![0; usize::try_from(size).map_err(|_| bad())?];
    file.read_exact_at(&mut text, start)?;
    let head: Head = serde_json::from_slice(&text)?;
    if head.size == start { Ok(head) } else { Err(bad()) }
}

/// Removes what a killed process was writing.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let abandoned = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if abandoned {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use harvest_core::Timestamp;

    use super::*;

    #[derive(Debug, Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now(&self) -> Timestamp {
            let seconds = self.0.fetch_add(1, Ordering::Relaxed);
            Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
        }
    }

    fn cache(folder: &Path, max_bytes: u64) -> Cache {
        Cache::new(folder.to_owned(), max_bytes, Arc::new(Ticking::default()))
    }

    fn head(size: usize) -> Head {
        Head {
            url: "https://host/x".to_owned(),
            size: size as u64,
            content_type: None,
            etag: None,
            last_modified: None,
            checked_at: 0,
            digest: None,
        }
    }

    fn keep(cache: &Cache, name: &str, content: &[u8]) {
        cache.keep_document(&Key::new(&[name]), &head(content.len()), content).unwrap();
    }

    fn found(cache: &Cache, name: &str) -> Option<Vec<u8>> {
        cache.document(&Key::new(&[name])).map(|(_, content)| content)
    }

    #[test]
    fn parts_of_a_key_cannot_run_into_each_other() {
        assert_ne!(Key::new(&["ab", "c"]), Key::new(&["a", "bc"]));
        assert_ne!(Key::new(&["a", ""]), Key::new(&["a"]));
    }

    #[test]
    fn what_is_kept_is_found_by_another_process_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        keep(&cache(folder.path(), 1 << 20), "a", b"one");
        let other = cache(folder.path(), 1 << 20);
        assert_eq!(found(&other, "a").unwrap(), b"one");
        keep(&other, "a", b"another");
        assert_eq!(found(&other, "a").unwrap(), b"another");
        assert_eq!(found(&other, "b"), None);
    }

    #[test]
    fn a_crash_leaves_nothing_that_stays_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let killed = cache(folder.path(), 1 << 20);
        let mut part = killed.part().unwrap();
        part.write(b"half of it").unwrap();
        let left = folder.path().join(PARTS).join("1-0");
        fs::write(&left, "left by a killed process").unwrap();
        let next = cache(folder.path(), 1 << 20);
        keep(&next, "a", b"content");
        assert!(!left.exists());
        assert!(part.path.exists(), "whoever lives keeps what it is writing");
        drop(part);
        assert_eq!(fs::read_dir(folder.path().join(PARTS)).unwrap().count(), 0);

        let path = next.path(&Key::new(&["a"]));
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert_eq!(found(&next, "a"), None, "{end}");
        }
        let mut flipped = whole.clone();
        flipped[0] ^= 1;
        fs::write(&path, flipped).unwrap();
        assert_eq!(found(&next, "a"), None);
        fs::write(&path, whole).unwrap();
        assert_eq!(found(&next, "a").unwrap(), b"content");
    }

    #[test]
    fn a_part_that_is_not_complete_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 1 << 20);
        let mut part = cache.part().unwrap();
        part.write(b"abc").unwrap();
        assert!(cache.keep(part, &Key::new(&["a"]), &head(4)).is_err());
        assert!(cache.open(&Key::new(&["a"])).is_none());
    }

    #[test]
    fn what_is_on_its_way_is_bounded_too() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 1000);
        let (mut one, mut two) = (cache.part().unwrap(), cache.part().unwrap());
        one.write(&[0; 600]).unwrap();
        assert_eq!(two.write(&[0; 600]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        drop((one, two));
        cache.part().unwrap().write(&[0; 1000]).unwrap();
        assert_eq!(cache.growing.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), 10_000);
        for name in ["a", "b", "c"] {
            keep(&cache, name, &[0; 3000]);
            assert!(found(&cache, name).is_some());
        }
        assert!(found(&cache, "a").is_some());
        keep(&cache, "d", &[0; 3000]);
        let left: Vec<&str> = ["a", "b", "c", "d"].into_iter().filter(|name| found(&cache, name).is_some()).collect();
        assert_eq!(left, ["a", "d"]);
        let used: u64 = cache.entries().iter().map(|entry| entry.size).sum();
        assert!(used <= 9_000, "{used}");
    }
}
