//! `CODEOWNERS`: who is asked to look at a change, by the paths it touches.

/// Where GitHub looks for it, the first one counts.
pub const PATHS: [&str; 3] = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"];

/// The owners of these paths, each once, without the `@`. The last rule that fits a path counts, as on GitHub; e-mail
/// addresses are left out, since nobody can be asked by one.
pub fn owners<'p>(text: &str, paths: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let rules: Vec<(&str, Vec<&str>)> = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.collect()))
        })
        .collect();
    let mut found: Vec<String> = Vec::new();
    for path in paths {
        let rule = rules.iter().rev().find(|(pattern, _)| fits(pattern, path));
        for owner in rule.into_iter().flat_map(|(_, owners)| owners) {
            if let Some(name) = owner.strip_prefix('@')
                && !found.iter().any(|known| known.eq_ignore_ascii_case(name))
            {
                found.push(name.to_owned());
            }
        }
    }
    found
}

/// Patterns as of `.gitignore`, without its negations and classes, which GitHub does not have here either.
fn fits(pattern: &str, path: &str) -> bool {
    let (inside, body) = match pattern.strip_suffix('/') {
        Some(folder) => (true, folder),
        None => (false, pattern),
    };
    let anchored = body.trim_start_matches('/').contains('/') || body.starts_with('/');
    let body = body.trim_start_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    let starts = if anchored { 0..1 } else { 0..parts.len() };
    let pattern: Vec<&str> = body.split('/').collect();
    let only_files_of_it = body.ends_with("/*") && !inside;
    starts.into_iter().any(|start| {
        let rest = &parts[start..];
        (1..=rest.len()).any(|length| {
            let (whole, folder) = (length == rest.len(), length < rest.len());
            // What names a folder fits everything below it, but `docs/*` only what is right in there.
            let covers = if inside { folder } else { whole || (folder && !only_files_of_it) };
            covers && match_parts(&pattern, &rest[..length])
        })
    })
}

fn match_parts(pattern: &[&str], parts: &[&str]) -> bool {
    match (pattern.split_first(), parts.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => (0..=parts.len()).any(|taken| match_parts(rest, &parts[taken..])),
        (Some((first, rest)), Some((part, others))) => {
            match_name(first.as_bytes(), part.as_bytes()) && match_parts(rest, others)
        }
        _ => false,
    }
}

fn match_name(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|taken| match_name(rest, &name[taken..])),
        (Some((b'?', rest)), Some((_, others))) => match_name(rest, others),
        (Some((first, rest)), Some((letter, others))) => first == letter && match_name(rest, others),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# Everyone looks at everything else.
*            @ada @fruit/growers mail@example.com
*.js         @brendan
/build/logs/ @ops
docs/*       @writer
apps/        @octocat
**/secrets   @eve   # wherever
/apps/free
";

    #[test]
    fn the_last_rule_that_fits_counts() {
        for (path, expected) in [
            ("src/main.rs", &["ada", "fruit/growers"][..]),
            ("web/deep/x.js", &["brendan"]),
            ("build/logs/a/b.txt", &["ops"]),
            ("x/build/logs/a", &["ada", "fruit/growers"]),
            ("docs/a.md", &["writer"]),
            ("docs/more/a.md", &["ada", "fruit/growers"]),
            ("deep/apps/a/b", &["octocat"]),
            ("apps", &["ada", "fruit/growers"]),
            ("a/b/secrets", &["eve"]),
            ("apps/free/x", &[]),
        ] {
            assert_eq!(owners(FILE, [path]), expected, "{path}");
        }
    }

    #[test]
    fn each_owner_once() {
        assert_eq!(owners(FILE, ["a.rs", "b.rs", "x.js"]), ["ada", "fruit/growers", "brendan"]);
        assert!(owners("", ["a"]).is_empty());
    }
}
