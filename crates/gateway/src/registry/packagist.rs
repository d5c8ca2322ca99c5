//! Packagist, for composer: a root document, one document per package, archives at the hosts of their sources.

use reqwest::Url;
use serde_json::{Value, json};

use super::announced::{Announced, Files};
use super::digest::Digest;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Root,
    /// `vendor/name`, with `~dev` for its branches.
    Package(String),
    Archive {
        package: String,
        file: String,
    },
}

pub(super) fn wanted(path: &str) -> Option<Wanted> {
    let name = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        !text.is_empty() && !text.starts_with('.') && text.bytes().all(plain)
    };
    let segments: Vec<&str> = path.split('/').collect();
    match segments[..] {
        ["packages.json"] => Some(Wanted::Root),
        ["p2", vendor, package] if name(vendor) && name(package) => {
            package.strip_suffix(".json").map(|package| Wanted::Package(format!("{vendor}/{package}")))
        }
        ["dist", vendor, package, file] if [vendor, package, file].into_iter().all(name) => {
            Some(Wanted::Archive { package: format!("{vendor}/{package}"), file: file.to_owned() })
        }
        _ => None,
    }
}

/// The root document: packages are found here, and nothing else is offered.
pub(super) fn root(root: &str) -> Vec<u8> {
    json!({ "packages": [], "metadata-url": format!("{root}/p2/%package%.json") }).to_string().into_bytes()
}

/// What an archive is called here: the commit it was made of.
fn file(dist: &Value) -> Option<String> {
    let (reference, kind) = (dist["reference"].as_str()?, dist["type"].as_str()?);
    let is_commit = matches!(reference.len(), 40 | 64) && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_commit && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())).then(|| format!("{reference}.{kind}"))
}

pub(super) fn files(document: &[u8]) -> Option<Files> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let versions = document["packages"].as_object()?.values().filter_map(Value::as_array).flatten();
    let announced = |version: &Value| {
        let dist = &version["dist"];
        let digest = dist["shasum"].as_str().and_then(Digest::sha1);
        Some((file(dist)?, Announced { url: Url::parse(dist["url"].as_str()?).ok()?, digest }))
    };
    Some(versions.filter_map(announced).collect())
}

pub(super) fn rewrite(document: &[u8], root: &str) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(document).ok()?;
    for (package, versions) in document.get_mut("packages")?.as_object_mut()? {
        for version in versions.as_array_mut()? {
            let Some(dist) = version.get_mut("dist") else { continue };
            if let Some(file) = file(dist) {
                dist["url"] = format!("{root}/dist/{package}/{file}").into();
            }
        }
    }
    serde_json::to_vec(&document).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_named_after_their_commit() {
        let commit = "a9993e364706816aba3e25717850c26c9cd0d89d";
        let document = json!({ "packages": { "a/b": [
            { "dist": { "type": "zip", "url": "https://api.github.com/repos/a/b/zipball/x", "reference": commit, "shasum": "" } },
            { "dist": "__unset" },
        ] } });
        let document = document.to_string();
        let found = files(document.as_bytes()).unwrap();
        assert_eq!(found[&format!("{commit}.zip")].url.as_str(), "https://api.github.com/repos/a/b/zipball/x");
        let moved: Value = serde_json::from_slice(&rewrite(document.as_bytes(), "http://g/p").unwrap()).unwrap();
        assert_eq!(moved["packages"]["a/b"][0]["dist"]["url"], format!("http://g/p/dist/a/b/{commit}.zip"));
        let archive = Wanted::Archive { package: "a/b".to_owned(), file: format!("{commit}.zip") };
        assert_eq!(wanted(&format!("dist/a/b/{commit}.zip")), Some(archive));
        assert_eq!(wanted("p2/a/b~dev.json"), Some(Wanted::Package("a/b~dev".to_owned())));
        for path in ["", "p2/a/../b.json", "search.json", "dist/a/b/../c"] {
            assert_eq!(wanted(path), None, "{path}");
        }
    }
}
