//! Whether a version that is here is one that was asked for. Understands what version files and manifests of the common
//! toolchains say: `18`, `v18.17.0`, `3.11.*`, `>=18 <21`, `^8.1 || ^9`, `~=3.9`, `>=3.9,<4`.

/// `None` when the wish is not about numbers, such as `lts/*` or `stable`.
pub fn satisfies(wanted: &str, found: &str) -> Option<bool> {
    let found = numbers(found)?;
    let mut understood = false;
    for alternative in wanted.split("||") {
        match all_of(alternative, &found) {
            Some(true) => return Some(true),
            Some(false) => understood = true,
            None => {}
        }
    }
    understood.then_some(false)
}

fn all_of(wanted: &str, found: &[u64]) -> Option<bool> {
    // `>= 18` is one wish, `>=18 <21` are two.
    let mut parts: Vec<String> = Vec::new();
    for word in wanted.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
        match parts.last_mut() {
            Some(last) if last.ends_with(['>', '<', '=', '^', '~', '!']) => last.push_str(word),
            _ => parts.push(word.to_owned()),
        }
    }
    if parts.is_empty() {
        return None;
    }
    if let [low, dash, high] = parts.as_slice()
        && dash == "-"
    {
        return Some(at_least(found, &numbers(low)?) && !above(found, &numbers(high)?));
    }
    let mut fits = true;
    for part in parts {
        fits &= one(&part, found)?;
    }
    Some(fits)
}

fn one(wanted: &str, found: &[u64]) -> Option<bool> {
    const OPERATORS: &[&str] = &["===", ">=", "<=", "==", "!=", "~=", "~>", "^", "~", ">", "<", "="];
    let operator = OPERATORS.iter().find(|operator| wanted.starts_with(**operator)).copied().unwrap_or("");
    let rest = wanted[operator.len()..].trim();
    if matches!(rest, "*" | "x" | "latest" | "current" | "node") {
        return Some(true);
    }
    let version = numbers(rest)?;
    let prefix = |length: usize| {
        let length = length.max(1).min(version.len());
        found.iter().chain(std::iter::repeat(&0)).take(length).eq(version.iter().take(length))
    };
    Some(match operator {
        ">=" => at_least(found, &version),
        ">" => above(found, &version),
        "<=" => !above(found, &version),
        "<" => !at_least(found, &version),
        "!=" => !prefix(version.len()),
        // Up to the first number that is not zero.
        "^" => {
            let kept = version.iter().position(|number| *number != 0).map_or(version.len(), |first| first + 1);
            prefix(kept) && at_least(found, &version)
        }
        "~" => prefix(2) && at_least(found, &version),
        // All but the last number are fixed.
        "~=" | "~>" => prefix(version.len().saturating_sub(1)) && at_least(found, &version),
        _ => prefix(version.len()),
    })
}

fn at_least(found: &[u64], least: &[u64]) -> bool {
    let at = |numbers: &[u64], index: usize| numbers.get(index).copied().unwrap_or(0);
    let longest = found.len().max(least.len());
    (0..longest).map(|index| at(found, index)).cmp((0..longest).map(|index| at(least, index))).is_ge()
}

/// Above all versions that begin like this one.
fn above(found: &[u64], most: &[u64]) -> bool {
    let found: Vec<u64> = found.iter().copied().chain(std::iter::repeat(0)).take(most.len()).collect();
    found.as_slice() > most
}

/// The numbers of `v18.17.0-rc.1`, `3.11.*`, `go1.22` or `openjdk 17.0.2`: up to whatever is not one.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    // `lts/18` and the like are names, not numbers.
    if text[..start].contains(['/', '*']) {
        return None;
    }
    let end = text[start..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(text.len(), |end| start + end);
    let parsed: Vec<u64> = text[start..end].split('.').map_while(|number| number.parse().ok()).collect();
    (!parsed.is_empty()).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes() {
        let table: &[(&str, &str, Option<bool>)] = &[
            ("18", "v18.20.2", Some(true)),
            ("18", "v20.1.0", Some(false)),
            ("v18.17.0", "v18.17.0", Some(true)),
            ("v18.17.0", "v18.17.1", Some(false)),
            ("18.x", "18.3.0", Some(true)),
            (">=18", "20.0.0", Some(true)),
            (">= 18", "16.0.0", Some(false)),
            (">=18 <21", "21.0.0", Some(false)),
            (">=18.0.0 <21", "20.20.2", Some(true)),
            ("^18.12 || ^20.9 || >=22", "20.20.2", Some(true)),
            ("^18.12 || ^20.9 || >=22", "21.0.0", Some(false)),
            ("^20.9", "20.8.9", Some(false)),
            ("^0.2.3", "0.2.9", Some(true)),
            ("^0.2.3", "0.3.0", Some(false)),
            ("~3.1", "3.1.9", Some(true)),
            ("~3.1", "3.2.0", Some(false)),
            ("~=3.9", "3.11.7", Some(true)),
            ("~=3.9.1", "3.11.7", Some(false)),
            (">=3.9,<4", "Python 3.11.7", Some(true)),
            (">=3.12", "Python 3.11.7", Some(false)),
            ("==3.11.*", "3.11.7", Some(true)),
            ("3.11", "3.11.7", Some(true)),
            ("1.22", "go1.22.3", Some(true)),
            ("17", "openjdk 17.0.2 2022-01-18", Some(true)),
            ("temurin-21", "21.0.1", Some(true)),
            ("<=3.11", "3.11.7", Some(true)),
            (">3.11", "3.11.7", Some(false)),
            ("!=3.11.7", "3.11.7", Some(false)),
            ("18 - 20", "20.1.0", Some(true)),
            ("18 - 20", "21.0.0", Some(false)),
            ("*", "1.0", Some(true)),
            ("lts/*", "20.1.0", None),
            ("lts/hydrogen", "20.1.0", None),
            ("stable", "1.95.0", None),
            ("", "1.95.0", None),
            ("18", "not found", None),
        ];
        for (wanted, found, expected) in table {
            assert_eq!(satisfies(wanted, found), *expected, "{wanted} {found}");
        }
    }
}
