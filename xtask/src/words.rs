//! Phrases that no native speaker would write, and that once were in messages: none may come back in the texts that people
//! read. Those are the string literals of the crates, the documents, and the page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::manifest::{self, Package};
use crate::tidy;

/// In lower case, with what to write instead.
const ODD: &[(&str, &str)] = &[
    ("says not who", "not authenticated"),
    ("what is to be done", "task"),
    (">begin<", "start"),
    ("\"because of\"", "reason"),
    (">because of<", "reason"),
    ("longest time", "time limit"),
    ("agents side by side", "concurrency"),
    ("held by others", "blocked"),
    (">answer<", "reply"),
    ("key is kept", "the key is added"),
    ("credential is kept", "the credential is added"),
    ("were there before", "started warm"),
    ("cannot be had", "unavailable"),
    ("is no time", "invalid duration"),
    ("came to nothing", "failed"),
    ("comes to nothing", "fails"),
    ("work off", "run"),
    ("works off", "runs"),
    ("worked off", "run"),
    ("works it off", "runs it"),
    ("goes on", "continues"),
    ("name of branch", "branch name"),
    ("name of the branch", "branch name"),
    ("in a circle", "in a cycle"),
    ("fell silent", "stopped sending data"),
    ("nobody answers there", "it does not answer"),
    ("tls greeting", "TLS ClientHello"),
    ("no randomness", "no random bytes"),
    ("place under a cap", "slot under a cap"),
    ("none: one works on it", "no race"),
    ("broke down", "failed unexpectedly"),
    ("breaks down", "fails unexpectedly"),
    ("broke off", "was cut off"),
    ("takes its arguments apart", "interprets the arguments"),
    ("lie inside each other", "are nested"),
    ("beyond reason", "too high"),
    ("nothing can be signed as before", "evidence cannot be signed"),
    ("is not understood", "cannot be parsed"),
    ("are not understood", "are not supported"),
    ("rests after failures", "is paused after failures"),
    ("not open to this session", "not allowed in this session"),
    ("would be proved", "leave it out"),
    ("more than nothing", "more than zero"),
    ("from 1 on", "of at least 1"),
    ("what is under way", "running tasks"),
    ("keep it to yourself", "restrict it"),
    ("that is over", "it is done"),
    ("asks a session for more", "sends a follow-up prompt"),
    ("a task that waits", "a waiting task"),
    ("give tasks there", "create tasks there"),
    ("does again what", "repeats the work"),
    ("of no use", "cannot be used"),
    ("is nowhere else", "exists nowhere else"),
    ("keep a sandbox apart", "isolate a sandbox"),
    ("end something", "stop some programs"),
    ("finds it the best", "chosen by"),
    ("is as before", "is unchanged"),
    ("are as they were written", "are unchanged"),
    ("not as it was written", "changed after it was written"),
    ("comes in its place", "is in its place"),
    ("a token lives", "a token is valid"),
    ("has said anything", "has a log"),
    ("what comes again", "a schedule"),
    ("see which there are", "list them"),
    ("what became of", "results of"),
    ("what came of", "result of"),
];

/// Every odd phrase, one sentence each.
pub fn faults(packages: &[Package]) -> anyhow::Result<Vec<String>> {
    let root = manifest::root();
    let mut faults = Vec::new();
    // This crate lists the phrases.
    for package in packages.iter().filter(|package| package.folder.starts_with(root.join("crates"))) {
        for file in tidy::sources(&package.folder.join("src"))? {
            faults.extend(of_file(&file, &literals(&read(&file)?)));
        }
    }
    let mut documents = vec![root.join("README.md"), root.join("CHANGELOG.md")];
    for folder in ["docs", "docs/errors"] {
        documents.extend(files(&root.join(folder), &[".md"], false)?);
    }
    for file in documents {
        faults.extend(of_file(&file, &paragraphs(&read(&file)?)));
    }
    for file in files(&root.join("web/src"), &[".ts", ".tsx"], true)? {
        let name = file.to_string_lossy();
        // Names of tests are for developers, and the types come from the descriptions in the crates.
        if !name.contains(".test.") && !name.ends_with("api/schema.ts") {
            faults.extend(of_file(&file, &without_comments(&read(&file)?)));
        }
    }
    Ok(faults)
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn files(folder: &Path, ends: &[&str], deep: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && deep {
            found.extend(files(&path, ends, deep)?);
        } else if ends.iter().any(|end| path.to_string_lossy().ends_with(end)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A text, and the line that it begins in.
type Text = (usize, String);

fn of_file(file: &Path, texts: &[Text]) -> Vec<String> {
    let shown = file.strip_prefix(manifest::root()).unwrap_or(file).display().to_string();
    let odd = |(line, text): &Text| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let found = ODD.iter().filter(|(phrase, _)| has(&text, phrase));
        found.map(|(odd, plain)| format!("{shown}:{line}: `{odd}`; write `{plain}` or the like")).collect::<Vec<_>>()
    };
    texts.iter().flat_map(odd).collect()
}

/// As whole words.
fn has(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + phrase.len()..].chars().next());
        let inner = |end: Option<char>| end.is_some_and(char::is_alphanumeric);
        !(inner(phrase.chars().next()) && is_letter(before) || inner(phrase.chars().next_back()) && is_letter(after))
    })
}

/// The string literals of a Rust file, with their quotes and without the breaks within them.
fn literals(source: &str) -> Vec<Text> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let (length, is_text) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
        } else if let Some(length) = raw_literal(rest).filter(|_| !continues_a_name(source, at)) {
            (length, true)
        } else if c == '"' {
            (quoted(rest, '"'), true)
        } else if c == '\'' {
            (character(rest), false)
        } else {
            (c.len_utf8(), false)
        };
        if is_text {
            found.push((line, rest[..length].replace("\\\n", " ")));
        }
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

fn continues_a_name(source: &str, at: usize) -> bool {
    source[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The length of `r#"…"#`, if it begins here.
fn raw_literal(rest: &str) -> Option<usize> {
    let hashes = rest.strip_prefix('r')?.chars().take_while(|c| *c == '#').count();
    let begin = 1 + hashes;
    rest[begin..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(rest[begin + 1..].find(&end).map_or(rest.len(), |found| begin + 1 + found + end.len()))
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// A character, or the mark of a lifetime.
fn character(rest: &str) -> usize {
    let mut inside = rest.chars().skip(1);
    match (inside.next(), inside.next()) {
        (Some('\\'), _) => quoted(rest, '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 1,
    }
}

/// Sentences go over several lines.
fn paragraphs(text: &str) -> Vec<Text> {
    let mut found: Vec<Text> = Vec::new();
    let mut is_open = false;
    for (number, line) in text.lines().enumerate() {
        match found.last_mut() {
            Some((_, paragraph)) if is_open && !line.trim().is_empty() => {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
            _ => found.push((number + 1, line.to_owned())),
        }
        is_open = !line.trim().is_empty();
    }
    found
}

/// The lines of a TypeScript file.
fn without_comments(text: &str) -> Vec<Text> {
    let mut found = Vec::new();
    let mut in_comment = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if !in_comment && !trimmed.starts_with("//") && !trimmed.starts_with("/*") && !trimmed.starts_with("{/*") {
            // A comment behind code; `://` is an address.
            let code = line.split(" // ").next().unwrap_or_default();
            found.push((number + 1, code.to_owned()));
        }
        in_comment = (in_comment || trimmed.starts_with("/*") || trimmed.starts_with("{/*")) && !trimmed.contains("*/");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_odd_phrase_is_in_a_text_that_people_read() {
        let faults = faults(&manifest::read_workspace().unwrap()).unwrap();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn literals_are_told_from_code_comments_and_characters() {
        let source = concat!(
            "//! \"no\"\nfn f<'a>(c: char) { '\"'; '\\''; /* \"no\" */\n",
            "say(\"it \\\n    goes on\", r#\"a \"b\"\"#); /// \"no\"\n",
            "let for_r = \"\\\"end\\\"\"; }"
        );
        let found: Vec<(usize, String)> = literals(source);
        let texts: Vec<(usize, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(texts, [(3, "\"it      goes on\""), (4, "r#\"a \"b\"\"#"), (5, "\"\\\"end\\\"\"")]);
    }

    #[test]
    fn odd_phrases_are_found_as_whole_words_over_breaks_and_in_any_case() {
        let look = |text: &str| of_file(Path::new("x.rs"), &literals(text));
        assert_eq!(look("\"the server Goes \\\n  on\""), ["x.rs:1: `goes on`; write `continues` or the like"]);
        assert_eq!(look("\"it is no timeout\"; // goes on"), [""; 0]);
        assert_eq!(of_file(Path::new("x.md"), &paragraphs("a\n\nissues wait in\na circle\n")).len(), 1);
        let page = "// goes on\n/** goes on\n * goes on */\n{/* goes on */}\n<b>Because of</b> // goes on\n";
        assert_eq!(of_file(Path::new("x.tsx"), &without_comments(page)).len(), 1);
        assert_eq!(of_file(Path::new("x.tsx"), &without_comments("<Button>Begin</Button>")).len(), 1);
    }
}
