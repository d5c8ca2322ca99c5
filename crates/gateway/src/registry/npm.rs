//! npm's protocol: one document per package, tarballs below `/-/`.

use reqwest::Url;
use serde_json::Value;

use super::announced::{Announced, Files, file_name};
use super::digest::Digest;

/// The short form of a package's document, which installers ask for.
pub(super) const SHORT: &str = "application/vnd.npm.install-v1+json";
pub(super) const LONG: &str = "application/json";
/// Where lockfiles say that packages come from. npm itself puts the configured registry in its place.
pub(super) const CANONICAL: &str = "https://registry.npmjs.org";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Package(String),
    Version { package: String, version: String },
    Tarball { package: String, file: String },
}

pub(super) fn wanted(path: &str) -> Option<Wanted> {
    let path = path.replace("%2f", "/").replace("%2F", "/").replace("%40", "@");
    let mut segments: Vec<&str> = path.split('/').collect();
    let scoped = segments.first()?.starts_with('@');
    if segments.len() <= usize::from(scoped) {
        return None;
    }
    let rest = segments.split_off(1 + usize::from(scoped));
    let name = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!'()*+".contains(&byte);
        !text.is_empty() && !text.starts_with('.') && text.bytes().all(plain)
    };
    let named = match segments[..] {
        [scope, package] => scope.strip_prefix('@').is_some_and(name) && name(package),
        [package] => name(package) && package != "-",
        _ => false,
    };
    let package = segments.join("/");
    match rest[..] {
        _ if !named => None,
        [] => Some(Wanted::Package(package)),
        [version] if name(version) => Some(Wanted::Version { package, version: version.to_owned() }),
        ["-", file] if name(file) => Some(Wanted::Tarball { package, file: file.to_owned() }),
        _ => None,
    }
}

/// A package's path at the registry.
pub(super) fn path(package: &str) -> String {
    package.replace('/', "%2f")
}

pub(super) fn files(document: &[u8]) -> Option<Files> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let versions = document["versions"].as_object()?;
    let file = |version: &Value| {
        let dist = &version["dist"];
        let url = Url::parse(dist["tarball"].as_str()?).ok()?;
        let digest = dist["integrity"].as_str().and_then(Digest::integrity);
        let digest = digest.or_else(|| Digest::sha1(dist["shasum"].as_str()?));
        Some((file_name(&url)?.to_owned(), Announced { url: url.clone(), digest }))
    };
    Some(versions.values().filter_map(file).collect())
}

/// The document with every tarball below `root`.
pub(super) fn rewrite(document: &[u8], root: &str) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(document).ok()?;
    let package = document["name"].as_str()?.to_owned();
    let place = |version: &mut Value| {
        let Some(tarball) = version.get_mut("dist").and_then(|dist| dist.get_mut("tarball")) else { return };
        let url = tarball.as_str().and_then(|text| Url::parse(text).ok());
        if let Some(file) = url.as_ref().and_then(file_name) {
            *tarball = format!("{root}/{package}/-/{file}").into();
        }
    };
    place(&mut document);
    document
        .get_mut("versions")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|all| all.values_mut())
        .for_each(place);
    serde_json::to_vec(&document).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_clients() {
        let package = |name: &str| Some(Wanted::Package(name.to_owned()));
        assert_eq!(wanted("left-pad"), package("left-pad"));
        assert_eq!(wanted("@types%2fnode"), package("@types/node"));
        assert_eq!(wanted("@types/node"), package("@types/node"));
        let tarball =
            |package: &str, file: &str| Some(Wanted::Tarball { package: package.to_owned(), file: file.to_owned() });
        assert_eq!(wanted("left-pad/-/left-pad-1.3.0.tgz"), tarball("left-pad", "left-pad-1.3.0.tgz"));
        assert_eq!(wanted("@types/node/-/node-1.0.0.tgz"), tarball("@types/node", "node-1.0.0.tgz"));
        let version = Wanted::Version { package: "left-pad".to_owned(), version: "latest".to_owned() };
        assert_eq!(wanted("left-pad/latest"), Some(version));
        for path in ["", "-/ping", "@types", "@types/", "@/x", "a/b/c/d", "..", "a/-/..", "@a%2f..", "a/-/b/c", "a%00"]
        {
            assert_eq!(wanted(path), None, "{path}");
        }
    }

    #[test]
    fn tarballs_move_and_are_announced() {
        let mirror = "https://mirror.test/npm/a/-/a-1.0.0.tgz";
        let document = json!({ "name": "a", "versions": { "1.0.0": { "dist": {
            "tarball": mirror, "shasum": "a9993e364706816aba3e25717850c26c9cd0d89d"
        } } } });
        let document = document.to_string();
        let found = &files(document.as_bytes()).unwrap()["a-1.0.0.tgz"];
        assert_eq!(found.url.as_str(), mirror);
        assert!(matches!(found.digest, Some(Digest::Sha1(_))));
        let moved: Value =
            serde_json::from_slice(&rewrite(document.as_bytes(), "http://gateway/npm").unwrap()).unwrap();
        assert_eq!(moved["versions"]["1.0.0"]["dist"]["tarball"], "http://gateway/npm/a/-/a-1.0.0.tgz");
        assert_eq!(rewrite(b"<html>", "x"), None);
    }
}
