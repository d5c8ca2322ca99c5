//! Which names a ref may have: git's own rules (`git check-ref-format`) and a length.

const MAX_LENGTH: usize = 255;

/// Whether `name` is a full ref name that git accepts. Stricter than git: at most 255 bytes, at least three components,
/// none beginning with a dash, only UTF-8 without control characters.
pub(super) fn is_valid(name: &str) -> bool {
    let characters = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let component = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && !part.to_ascii_lowercase().ends_with(".lock")
            && part != "@"
    };
    name.len() <= MAX_LENGTH
        && name.starts_with("refs/")
        && name.split('/').count() >= 3
        && name.split('/').all(component)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(characters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_accepts() {
        for name in ["refs/heads/main", "refs/heads/harvest/fix-1a2b", "refs/harvest/s1/checkpoint/1", "refs/heads/é"]
        {
            assert!(is_valid(name), "{name}");
        }
    }

    #[test]
    fn hostile_names() {
        for name in [
            "",
            "HEAD",
            "refs",
            "refs/heads",
            "refs/heads/",
            "refs//heads/x",
            "/refs/heads/x",
            "refs/heads/-x",
            "-refs/heads/x",
            "refs/heads/../../config",
            "refs/heads/a..b",
            "refs/heads/.hidden",
            "refs/heads/x.lock",
            "refs/heads/x.LOCK/y",
            "refs/heads/x.",
            "refs/heads/x\ny",
            "refs/heads/x\0y",
            "refs/heads/x y",
            "refs/heads/x~1",
            "refs/heads/x^",
            "refs/heads/a:b",
            "refs/heads/x?",
            "refs/heads/*",
            "refs/heads/[x]",
            "refs/heads/x\\y",
            "refs/heads/@{u}",
            "refs/heads/@",
            "refs/heads/x\x7f",
        ] {
            assert!(!is_valid(name), "{name:?}");
        }
        assert!(!is_valid(&format!("refs/heads/{}", "x".repeat(300))));
    }
}
