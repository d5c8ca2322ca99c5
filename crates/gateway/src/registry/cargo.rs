//! The sparse index of cargo: a file per crate, and a template for where crates are.

use reqwest::Url;
use serde_json::{Value, json};

use super::digest::Digest;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Config,
    Crate(String),
    Download { name: String, version: String, digest: Digest },
}

pub(super) fn wanted(path: &str) -> Option<Wanted> {
    let name = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !text.is_empty() && text.bytes().all(plain)
    };
    let segments: Vec<&str> = path.split('/').collect();
    match segments[..] {
        ["config.json"] => Some(Wanted::Config),
        ["dl", crate_name, version, digest] => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.+".contains(&byte);
            let digest = Digest::sha256(digest)?;
            let known =
                name(crate_name) && version.starts_with(|c: char| c.is_ascii_digit()) && version.bytes().all(plain);
            known.then(|| Wanted::Download { name: crate_name.to_owned(), version: version.to_owned(), digest })
        }
        ["1" | "2", last] | ["3", _, last] | [_, _, last] if segments.iter().all(|part| name(part)) => {
            (place(last) == path).then(|| Wanted::Crate(path.to_owned()))
        }
        _ => None,
    }
}

/// Where the index keeps a crate.
fn place(name: &str) -> String {
    match name.len() {
        1 | 2 => format!("{}/{name}", name.len()),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2.min(name.len())], name.get(2..4).unwrap_or_default()),
    }
}

/// Tells cargo to fetch crates here, and to say what it expects of each.
pub(super) fn config(root: &str) -> Vec<u8> {
    json!({ "dl": format!("{root}/dl/{{crate}}/{{version}}/{{sha256-checksum}}") }).to_string().into_bytes()
}

/// Where the registry keeps a crate, by the template in its own `config.json`.
pub(super) fn download(config: &[u8], name: &str, version: &str, digest: &Digest) -> Option<Url> {
    let config: Value = serde_json::from_slice(config).ok()?;
    let template = config["dl"].as_str()?;
    let prefix = place(name).rsplit_once('/')?.0.to_owned();
    let checksum = digest.text();
    let markers = [
        ("{crate}", name),
        ("{version}", version),
        ("{prefix}", &prefix),
        ("{lowerprefix}", &prefix.to_ascii_lowercase()),
        ("{sha256-checksum}", checksum.strip_prefix("sha256:").unwrap_or_default()),
    ];
    let marked = markers.iter().any(|(marker, _)| template.contains(marker));
    let filled = markers.iter().fold(template.to_owned(), |text, (marker, value)| text.replace(marker, value));
    let url = if marked { filled } else { format!("{}/{name}/{version}/download", filled.trim_end_matches('/')) };
    Url::parse(&url).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn paths_of_cargo() {
        for path in ["1/a", "2/ab", "3/a/abc", "se/rd/serde", "ab/cd/abcd"] {
            assert_eq!(wanted(path), Some(Wanted::Crate(path.to_owned())), "{path}");
        }
        assert_eq!(wanted("config.json"), Some(Wanted::Config));
        assert!(matches!(wanted(&format!("dl/serde/1.0.0+x/{DIGEST}")), Some(Wanted::Download { .. })));
        for path in
            ["", "serde", "se/rd/other", "3/b/abc", "se/rd/..", "../../x", "dl/serde/1.0/zz", "dl/serde/../x", "a/b"]
        {
            assert_eq!(wanted(path), None, "{path}");
        }
    }

    #[test]
    fn crates_are_where_the_registry_says() {
        let digest = Digest::sha256(DIGEST).unwrap();
        let at = |dl: &str| {
            download(json!({ "dl": dl }).to_string().as_bytes(), "Serde", "1.0.0", &digest).unwrap().to_string()
        };
        assert_eq!(at("https://static.crates.io/crates"), "https://static.crates.io/crates/Serde/1.0.0/download");
        assert_eq!(at("https://m.test/{lowerprefix}/{crate}-{version}"), "https://m.test/se/rd/Serde-1.0.0");
        assert_eq!(at("https://m.test/{sha256-checksum}"), format!("https://m.test/{DIGEST}"));
        assert!(config("http://g/registry/cargo").ends_with(b"/dl/{crate}/{version}/{sha256-checksum}\"}"));
    }
}
