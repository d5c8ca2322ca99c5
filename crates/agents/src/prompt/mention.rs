//! Which words of a text could be paths of files.

/// More than this nobody means.
const MOST: usize = 50;

/// The paths among `known` that the text mentions, in the order in which it does, each once. A path is mentioned by its whole
/// name, or by its last part when no other file has that.
pub fn mentioned<'k>(text: &str, known: &'k [String]) -> Vec<&'k str> {
    let mut found: Vec<&str> = Vec::new();
    for word in candidates(text) {
        let path = known.iter().find(|path| *path == word).or_else(|| the_only(word, known));
        if let Some(path) = path
            && !found.contains(&path.as_str())
        {
            found.push(path);
        }
        if found.len() == MOST {
            break;
        }
    }
    found
}

/// Whether the text has words that could be paths at all.
pub fn mentions_files(text: &str) -> bool {
    candidates(text).next().is_some()
}

fn candidates(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| letter.is_whitespace() || "`'\"()[]{}<>,;|*".contains(letter));
    let paths = words.map(|word| {
        // `src/lib.rs:12:5`, and the end of a sentence.
        let word = word.trim_start_matches("./");
        word.split(':').next().unwrap_or(word).trim_end_matches(['.', '!', '?'])
    });
    paths.filter(|word| word.len() >= 3 && word.contains(['.', '/']))
}

fn the_only<'k>(word: &str, known: &'k [String]) -> Option<&'k String> {
    let ends = |path: &&String| path.strip_suffix(word).is_some_and(|folder| folder.ends_with('/'));
    let mut matching = known.iter().filter(ends);
    matching.next().filter(|_| matching.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_what_people_write() {
        let known: Vec<String> = ["src/lib.rs", "src/a/mod.rs", "src/b/mod.rs", "Makefile", "docs/guide.md", ".env"]
            .map(str::to_owned)
            .into();
        let found = |text: &str| mentioned(text, &known);
        assert_eq!(found("See `src/lib.rs:12:5`, and guide.md."), ["src/lib.rs", "docs/guide.md"]);
        assert_eq!(
            found("mod.rs is many; a/mod.rs is one, ./src/lib.rs too, src/lib.rs"),
            ["src/a/mod.rs", "src/lib.rs"]
        );
        assert_eq!(found("Fix the Makefile e.g. with https://example.com/src/lib.rs"), [] as [&str; 0]);
    }
}
