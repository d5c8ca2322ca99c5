//! What differs from run to run though nothing changed: ids, times, temporary paths. Two requests are the same when they
//! are equal without it. The list here is the list in `docs/cassettes.md`.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// A pattern and what stands for it. Without a replacement, a match counts only if it has digits and letters.
struct Rule {
    pattern: Regex,
    replacement: &'static str,
    mixed_only: bool,
}

const MONTH: &str = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";
const DAY: &str = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let clock = "[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?";
    let zone = "(?: ?(?:Z|[+-][0-9]{2}:?[0-9]{2}))?";
    let rules = [
        // Ids.
        ("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}".to_owned(), "<id>", false),
        ("harvest/[a-z0-9-]+-[0-9a-hjkmnp-tv-z]{8}(?-u:\\b)".to_owned(), "<branch>", false),
        ("(?-u:\\b)[0-9a-hjkmnp-tv-z]{16}(?-u:\\b)".to_owned(), "<id>", true),
        ("(?-u:\\b)[0-9a-f]{7,64}(?-u:\\b)".to_owned(), "<hash>", true),
        // Times.
        (format!("(?-u:\\b)[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{clock}{zone})?"), "<time>", false),
        (format!("{DAY},? {MONTH} +[0-9]{{1,2}}(?: {clock})?(?: [0-9]{{4}})?{zone}"), "<time>", false),
        (format!("{DAY}, [0-9]{{1,2}} {MONTH} [0-9]{{4}}(?: {clock})?{zone}"), "<time>", false),
        (format!("{MONTH} +[0-9]{{1,2}} +(?:{clock}|[0-9]{{4}})"), "<time>", false),
        ("(?-u:\\b)[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.][0-9]+)?".to_owned(), "<time>", false),
        ("(?-u:\\b)1[0-9]{9}(?:[0-9]{3})?(?-u:\\b)".to_owned(), "<time>", false),
        ("(?-u:\\b)[0-9]+(?:[.][0-9]+)?(?:ns|us|µs|ms|s)(?-u:\\b)".to_owned(), "<duration>", false),
        // Places.
        ("(127[.]0[.]0[.]1|localhost|\\[::1\\]):[0-9]{2,5}(?-u:\\b)".to_owned(), "$1:<port>", false),
        ("(/tmp|/var/tmp|/dev/shm|/run)/[A-Za-z0-9._+-]+".to_owned(), "$1/<path>", false),
    ];
    let rules = rules.into_iter().filter_map(|(pattern, replacement, mixed_only)| {
        Some(Rule { pattern: Regex::new(&pattern).ok()?, replacement, mixed_only })
    });
    rules.collect()
});

/// Takes what is volatile out of every text of a request.
pub(super) fn value(value: &mut Value) {
    match value {
        Value::String(content) => {
            if let Cow::Owned(changed) = text(content) {
                *content = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(fields) => fields.values_mut().for_each(self::value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(super) fn text(text: &str) -> Cow<'_, str> {
    let mut current = Cow::Borrowed(text);
    for rule in RULES.iter() {
        let replaced = if rule.mixed_only {
            rule.pattern.replace_all(&current, |found: &Captures<'_>| {
                let word = &found[0];
                let mixed = word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().any(|b| b.is_ascii_alphabetic());
                if mixed { rule.replacement.to_owned() } else { word.to_owned() }
            })
        } else {
            rule.pattern.replace_all(&current, rule.replacement)
        };
        if let Cow::Owned(changed) = replaced {
            current = Cow::Owned(changed);
        }
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_differs_from_run_to_run_is_taken_out() {
        for (sent, normal) in [
            ("user_f47ac10b-58cc-4372-a567-0e02b2c3d479", "user_<id>"),
            ("[harvest/add-a-greeting-0a1b2c3d 1a2b3c4] Add", "[<branch> <hash>] Add"),
            ("/data/sessions/0a1b2c3d4e5f6g7h/w", "/data/sessions/<id>/w"),
            ("commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", "commit <hash>"),
            ("Date:   Sun Nov 15 08:32:06 2026 +0000", "Date:   <time>"),
            ("Date: Sun, 15 Nov 2026 08:32:06 +0000", "Date: <time>"),
            ("today is 2026-11-15", "today is <time>"),
            ("at 2026-11-15T08:32:06.123Z.", "at <time>."),
            ("-rw-r--r-- 1 a a 12 Nov 15 08:32 x", "-rw-r--r-- 1 a a 12 <time> x"),
            ("mtime 1794731526", "mtime <time>"),
            ("3 passed in 0.12s", "3 passed in <duration>"),
            ("http://127.0.0.1:40123/x", "http://127.0.0.1:<port>/x"),
            ("/tmp/pytest-of-root/a.txt", "/tmp/<path>/a.txt"),
        ] {
            assert_eq!(text(sent), normal);
        }
    }

    #[test]
    fn what_matters_stays() {
        for kept in
            ["exit code 1", "2 passed, 1 failed", "port 8080", "deadbeef", "1234567", "v1.2.3", "line 42: x = 7", ""]
        {
            assert_eq!(text(kept), kept);
        }
        assert_eq!(RULES.len(), 13, "every pattern is a valid one");
    }

    proptest! {
        #[test]
        fn what_is_normal_stays_so(sent in "[ -~]{0,60}") {
            let once = text(&sent).into_owned();
            prop_assert_eq!(text(&once), once.as_str());
        }
    }
}
