//! All that a build said, beside the snapshots of its repository. The file grows while the build goes on and takes the place of
//! the one before when something came of it; its beginning and its end are kept however much is said in between.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Progress;

const NAME: &str = "build.log";
const UNDER_WAY: &str = "build.log.new";
/// Of the beginning, and of the end.
const MOST_BYTES: usize = 2 << 20;

#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    /// None where it cannot be written: a build is worth more than what it said.
    file: Option<File>,
    written: usize,
    end: VecDeque<String>,
    end_bytes: usize,
    left_out: u64,
}

/// What becomes of the log before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Replaced,
    /// Nothing was built, so it still says how the snapshot came about.
    Kept,
}

impl Log {
    pub(super) fn begin(folder: PathBuf) -> Self {
        let path = folder.join(UNDER_WAY);
        let file = File::create(&path).inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "the log of a build cannot be written");
        });
        Self { folder, file: file.ok(), written: 0, end: VecDeque::new(), end_bytes: 0, left_out: 0 }
    }

    pub(super) fn take(&mut self, progress: &Progress) {
        let text = match progress {
            Progress::StageStarted { stage } => format!("== {}", stage.as_str()),
            Progress::Output { text, .. } | Progress::Log { text } => text.clone(),
            Progress::TriedAgain { stage, error, tries_left } => {
                format!("== {} failed, {tries_left} attempts left: {error}", stage.as_str())
            }
            Progress::Note { message } => format!("== note: {message}"),
            Progress::StageFinished { stage, duration_ms, error: None } => {
                format!("== {} took {duration_ms} ms", stage.as_str())
            }
            Progress::StageFinished { stage, duration_ms, error: Some(error) } => {
                format!("== {} failed after {duration_ms} ms: {error}", stage.as_str())
            }
        };
        self.line(text);
    }

    fn line(&mut self, text: String) {
        if self.written + text.len() < MOST_BYTES && self.end.is_empty() {
            self.written += text.len() + 1;
            self.write(&text);
            return;
        }
        self.end_bytes += text.len() + 1;
        self.end.push_back(text);
        while self.end_bytes > MOST_BYTES
            && let Some(oldest) = self.end.pop_front()
        {
            self.end_bytes -= oldest.len() + 1;
            self.left_out += 1;
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(file) = &mut self.file
            && let Err(error) = writeln!(file, "{text}")
        {
            tracing::warn!(%error, "the log of a build cannot be written any more");
            self.file = None;
        }
    }

    pub(super) fn finish(mut self, before: Fate) {
        if self.left_out > 0 {
            let gap = format!("== {} lines are left out here", self.left_out);
            self.write(&gap);
        }
        for text in std::mem::take(&mut self.end) {
            self.write(&text);
        }
        let new = self.folder.join(UNDER_WAY);
        let done = match before {
            Fate::Replaced => std::fs::rename(&new, self.folder.join(NAME)),
            Fate::Kept => std::fs::remove_file(&new),
        };
        if let (Err(error), Some(_)) = (done, &self.file) {
            tracing::warn!(path = %new.display(), %error, "the log of a build is not where it belongs");
        }
    }
}

/// Reads a log while another process writes it.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    /// That of the build under way, also after it got its final name or none.
    file: Option<File>,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Tail {
    pub(super) fn of(folder: &Path) -> Self {
        Self { path: folder.join(UNDER_WAY), file: None, rest: Vec::new() }
    }

    /// The lines that were added since the last time.
    pub(super) fn lines(&mut self) -> Vec<String> {
        self.read();
        let there = std::fs::metadata(&self.path).ok().map(|there| (there.dev(), there.ino()));
        let known = self.file.as_ref().and_then(|file| file.metadata().ok()).map(|known| (known.dev(), known.ino()));
        if there.is_some() && there != known {
            self.file = File::open(&self.path).ok();
            self.read();
        }
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let after = self.rest.split_off(end + 1);
        let lines = std::mem::replace(&mut self.rest, after);
        String::from_utf8_lossy(&lines).lines().map(str::to_owned).collect()
    }

    fn read(&mut self) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.take(MOST_BYTES as u64).read_to_end(&mut self.rest)
        {
            tracing::debug!(%error, "the log of another build cannot be read");
        }
    }
}

/// What the build under way has said so far, or the last one from which something came.
pub(super) fn read(folder: &Path, building: bool) -> Option<String> {
    let under_way = building.then(|| std::fs::read(folder.join(UNDER_WAY)).ok()).flatten();
    let bytes = under_way.or_else(|| std::fs::read(folder.join(NAME)).ok())?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Stage;
    use super::*;

    fn output(text: &str) -> Progress {
        Progress::Output { stage: Stage::Build, text: text.to_owned() }
    }

    #[test]
    fn a_log_is_read_while_it_grows_and_stays_until_something_new_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(read(folder, false), None);
        let mut log = Log::begin(folder.to_owned());
        log.take(&Progress::StageStarted { stage: Stage::Build });
        log.take(&output("compiling"));
        assert_eq!(read(folder, true).as_deref(), Some("== build\ncompiling\n"));
        log.finish(Fate::Replaced);
        let mut nothing_new = Log::begin(folder.to_owned());
        nothing_new.take(&output("nothing to do"));
        nothing_new.finish(Fate::Kept);
        assert_eq!(read(folder, false).as_deref(), Some("== build\ncompiling\n"));
    }

    #[test]
    fn a_log_is_followed_line_by_line_to_its_end_and_into_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut tail = Tail::of(folder);
        assert_eq!(tail.lines(), Vec::<String>::new());
        let mut log = Log::begin(folder.to_owned());
        log.take(&output("one"));
        log.take(&output("two"));
        assert_eq!(tail.lines(), ["one", "two"]);
        log.take(&output("three"));
        log.finish(Fate::Kept);
        let mut next = Log::begin(folder.to_owned());
        next.take(&output("four"));
        assert_eq!(tail.lines(), ["three", "four"]);
        assert_eq!(tail.lines(), Vec::<String>::new());
    }

    #[test]
    fn of_endless_output_the_beginning_and_the_end_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut log = Log::begin(folder.to_owned());
        let long = "x".repeat(100_000);
        log.take(&output("the beginning"));
        (0..100).for_each(|_| log.take(&output(&long)));
        log.take(&output("the end"));
        log.finish(Fate::Replaced);
        let text = read(folder, false).unwrap();
        assert!(text.starts_with("the beginning\n") && text.ends_with("the end\n"));
        assert!(text.contains("lines are left out here") && text.len() < 2 * MOST_BYTES + 1_000, "{}", text.len());
    }
}
