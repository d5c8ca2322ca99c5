//! `edit`: one exact piece of a file is replaced by another. A piece that is not there, or there more than once, is refused:
//! guessing would change the wrong place.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::{Definition, Outcome, cannot, object_schema, resolve};

const MAX_FILE_BYTES: u64 = 20 * 1024 * 1024;
const MAX_LINES_NAMED: usize = 10;

#[derive(Debug, Deserialize)]
pub(super) struct EditInput {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn definition() -> Definition {
    Definition {
        name: "edit".into(),
        description:
            "Replaces a piece of a text file. `old` must be in the file exactly as given, with the same spaces and \
            line breaks and without the line numbers that read shows, and only once: add lines around it to make it \
            unique, or set `replace_all`."
                .into(),
        schema: object_schema(
            &json!({
                "path": {"type": "string", "description": "The file, relative to the workspace or absolute."},
                "old": {"type": "string", "description": "The text to replace."},
                "new": {"type": "string", "description": "What to put there."},
                "replace_all": {"type": "boolean", "description": "Replace every occurrence; false unless given."},
            }),
            &["path", "old", "new"],
        ),
    }
}

pub(super) fn run(workspace: &Path, input: &EditInput) -> Outcome {
    let file = resolve(workspace, &input.path);
    let metadata = file.metadata().map_err(|error| cannot("edit", &input.path, &error))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(format!("{} is not an ordinary file of at most 20 MB.", input.path));
    }
    let bytes = fs::read(&file).map_err(|error| cannot("read", &input.path, &error))?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8 text. Change it with bash.", input.path))?;
    let (text, count) = replaced(&text, input)?;
    fs::write(&file, text).map_err(|error| cannot("write", &input.path, &error))?;
    Ok(match count {
        1 => format!("Changed {}.", input.path),
        _ => format!("Changed {} in {count} places.", input.path),
    })
}

fn replaced(text: &str, input: &EditInput) -> Result<(String, usize), String> {
    let EditInput { path, old, new, replace_all } = input;
    if old.is_empty() {
        return Err("`old` is empty. To write a whole file, use write.".to_owned());
    }
    if old == new {
        return Err("`old` and `new` are the same; nothing was changed.".to_owned());
    }
    let lines: Vec<usize> = text.match_indices(old).map(|(at, _)| 1 + text[..at].matches('\n').count()).collect();
    match lines.as_slice() {
        [] => Err(not_found(text, path, old)),
        [_] => Ok((text.replacen(old, new, 1), 1)),
        _ if *replace_all => Ok((text.replace(old, new), lines.len())),
        _ => Err(format!(
            "`old` is in {path} {} times ({}). Nothing was changed. Add lines around it to make it unique, or set \
             replace_all.",
            lines.len(),
            named(&lines)
        )),
    }
}

fn not_found(text: &str, path: &str, old: &str) -> String {
    let hint = if text.contains("\r\n") && !old.contains('\r') && old.contains('\n') {
        " The file has Windows line endings (\\r\\n)."
    } else if text.contains(old.trim()) && !old.trim().is_empty() {
        " It is there with different white space around it."
    } else {
        " Read the file again and copy the text exactly."
    };
    format!("`old` is not in {path}. Nothing was changed.{hint}")
}

fn named(lines: &[usize]) -> String {
    let shown: Vec<String> = lines.iter().take(MAX_LINES_NAMED).map(ToString::to_string).collect();
    let more = if lines.len() > MAX_LINES_NAMED { ", …" } else { "" };
    format!("lines {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, old: &str, new: &str, replace_all: bool) -> Result<(String, usize), String> {
        let input = EditInput { path: "f".to_owned(), old: old.to_owned(), new: new.to_owned(), replace_all };
        replaced(text, &input)
    }

    #[test]
    fn a_unique_piece_is_replaced() {
        assert_eq!(edit("a b c", "b", "x", false), Ok(("a x c".to_owned(), 1)));
        assert_eq!(edit("b a b", "b", "bb", true), Ok(("bb a bb".to_owned(), 2)));
        assert_eq!(edit("only", "only", "", true), Ok((String::new(), 1)));
    }

    #[test]
    fn anything_unclear_is_refused_with_a_reason() {
        let error = |text, old, new| edit(text, old, new, false).unwrap_err();
        assert_eq!(
            error("b\na\nb", "b", "x"),
            "`old` is in f 2 times (lines 1, 3). Nothing was changed. Add lines around it to make it unique, or set \
             replace_all."
        );
        assert!(error("a", "", "x").contains("empty"));
        assert!(error("a", "a", "a").contains("the same"));
        assert!(error("a\r\nb", "a\nb", "x").contains("Windows"));
        assert!(error("let x;", "\tlet x;", "x").contains("white space"));
        assert!(error("a", "zzz", "x").contains("Read the file again"));
    }
}
