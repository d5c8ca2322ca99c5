//! `read`: the lines of a text file, numbered, a page at a time.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::{Definition, MAX_OUTPUT, Outcome, cannot, object_schema, resolve};

const DEFAULT_LINES: u64 = 2000;
const MAX_LINE_CHARS: usize = 2000;
/// A file without line breaks must not fill the memory.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Deserialize)]
pub(super) struct ReadInput {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

pub(super) fn definition() -> Definition {
    Definition {
        name: "read".into(),
        description:
            "Reads a text file. Each line comes with its number and a tab before it; these are not part of the \
            file. Long files come in pages: the last line of the result says how to go on."
                .into(),
        schema: object_schema(
            &json!({
                "path": {"type": "string", "description": "The file, relative to the workspace or absolute."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to read; 1 unless given."},
                "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read; 2000 unless given."},
            }),
            &["path"],
        ),
    }
}

pub(super) fn run(workspace: &Path, input: &ReadInput) -> Outcome {
    let file = resolve(workspace, &input.path);
    let cannot = |error| cannot("read", &input.path, &error);
    // Opening a pipe or a device could wait for ever.
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_dir() {
        return Err(format!("{} is a folder. List it with bash: ls.", input.path));
    }
    if !metadata.is_file() {
        return Err(format!("{} is not an ordinary file.", input.path));
    }
    let mut reader = BufReader::new(File::open(&file).map_err(cannot)?);
    if reader.fill_buf().map_err(cannot)?.contains(&0) {
        return Err(format!("{} is a binary file of {} bytes.", input.path, metadata.len()));
    }
    let offset = input.offset.unwrap_or(1).max(1);
    let limit = input.limit.unwrap_or(DEFAULT_LINES).max(1);
    page(&mut reader, offset, limit).map_err(cannot)
}

fn page(reader: &mut impl BufRead, offset: u64, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    let mut number = 0;
    while let Some(line) = next_line(reader)? {
        number += 1;
        if number < offset {
            continue;
        }
        if number - offset >= limit || text.len() > MAX_OUTPUT {
            let _ = write!(text, "[more lines follow: go on with offset {number}]");
            return Ok(text);
        }
        let mut shown: String = line.chars().take(MAX_LINE_CHARS).collect();
        if shown.len() < line.len() {
            shown.push_str(" [… the rest of this line is left out …]");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{number:>6}\t{shown}");
    }
    if text.is_empty() {
        return Ok(match number {
            0 => "[the file is empty]".to_owned(),
            _ => format!("[the file has only {number} lines]"),
        });
    }
    Ok(text)
}

fn next_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = Read::take(&mut *reader, MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    Ok(Some(String::from_utf8_lossy(line).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let page = |text: &str, offset, limit| page(&mut text.as_bytes(), offset, limit).unwrap();
        assert_eq!(page("a\nb\n", 1, 10), "     1\ta\n     2\tb\n");
        assert_eq!(page("a\nb\nc", 2, 1), "     2\tb\n[more lines follow: go on with offset 3]");
        assert_eq!(page("a\nb\nc", 3, 1), "     3\tc\n");
        assert_eq!(page("a\n", 9, 1), "[the file has only 1 lines]");
        assert_eq!(page("", 1, 1), "[the file is empty]");
    }

    #[test]
    fn long_lines_and_long_files_are_bounded() {
        let text = format!("{}\n", "x".repeat(5000)).repeat(100);
        let page = page(&mut text.as_bytes(), 1, 2000).unwrap();
        assert!(page.len() < MAX_OUTPUT + 3000, "{}", page.len());
        assert!(page.contains("left out") && page.ends_with("go on with offset 16]"), "{}", &page[page.len() - 80..]);
    }
}
