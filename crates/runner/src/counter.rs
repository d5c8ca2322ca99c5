//! How often the kernel kept a limit itself, as a control group tells.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[derive(Debug)]
pub struct Counter {
    file: File,
    /// What stands before the number.
    word: &'static str,
    seen: Cell<u64>,
}

impl Counter {
    pub fn open(path: &Path, word: &'static str) -> Option<Self> {
        let counter = Self { file: File::open(path).ok()?, word, seen: Cell::new(0) };
        counter.seen.set(counter.read());
        Some(counter)
    }

    /// Whether it has counted on since the last time this was asked.
    pub fn take(&self) -> bool {
        let now = self.read();
        now > self.seen.replace(now)
    }

    fn read(&self) -> u64 {
        let mut buffer = [0; 512];
        let length = self.file.read_at(&mut buffer, 0).unwrap_or(0);
        let text = std::str::from_utf8(buffer.get(..length).unwrap_or_default()).unwrap_or_default();
        let number = |line: &str| line.strip_prefix(self.word)?.strip_prefix(' ')?.trim().parse().ok();
        text.lines().find_map(number).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_line_counts_and_only_what_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.events");
        std::fs::write(&path, "oom 7\noom_kill 1\noom_kill_group 9\n").unwrap();
        let counter = Counter::open(&path, "oom_kill").unwrap();
        assert!(!counter.take());
        std::fs::write(&path, "oom 8\noom_kill 2\noom_kill_group 9\n").unwrap();
        assert!(counter.take());
        assert!(!counter.take());
    }
}
