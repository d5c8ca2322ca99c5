//! PyPI's simple index, as HTML (PEP 503) and as JSON (PEP 691).

use reqwest::Url;
use serde_json::Value;

use super::announced::{Announced, Files, file_name};
use super::digest::Digest;

pub(super) const JSON: &str = "application/vnd.pypi.simple.v1+json";
pub(super) const HTML: &str = "text/html";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Project(String),
    File {
        project: String,
        file: String,
    },
    /// What a wheel says about itself (PEP 658).
    Metadata {
        project: String,
        file: String,
    },
}

pub(super) fn wanted(path: &str) -> Option<Wanted> {
    let name = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        (!text.is_empty() && !text.starts_with('.') && text.bytes().all(plain)).then(|| normal(text))
    };
    if let Some(project) = path.strip_prefix("simple/") {
        return name(project.strip_suffix('/').unwrap_or(project)).map(Wanted::Project);
    }
    let (project, file) = path.strip_prefix("files/")?.split_once('/')?;
    let project = name(project)?;
    if file.is_empty() || file.contains('/') {
        return None;
    }
    Some(match file.strip_suffix(".metadata") {
        Some(file) => Wanted::Metadata { project, file: file.to_owned() },
        None => Wanted::File { project, file: file.to_owned() },
    })
}

/// One spelling per project (PEP 503).
fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        let c = if matches!(c, '.' | '_') { '-' } else { c.to_ascii_lowercase() };
        if c != '-' || !normal.ends_with('-') {
            normal.push(c);
        }
    }
    normal
}

pub(super) fn is_json(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|kind| kind.contains("json"))
}

pub(super) fn files(document: &[u8], at: &Url, json: bool) -> Option<Files> {
    let mut files = Files::new();
    let mut add = |url: &str, sha256: Option<&str>| {
        let Ok(mut url) = at.join(url) else { return };
        let digest = sha256.or_else(|| url.fragment()?.strip_prefix("sha256=")).and_then(Digest::sha256);
        url.set_fragment(None);
        if let Some(name) = file_name(&url) {
            files.insert(name.to_owned(), Announced { url: url.clone(), digest });
        }
    };
    if json {
        let document: Value = serde_json::from_slice(document).ok()?;
        for file in document["files"].as_array()? {
            if let Some(url) = file["url"].as_str() {
                add(url, file["hashes"]["sha256"].as_str());
            }
        }
    } else {
        let text = std::str::from_utf8(document).ok()?;
        links(text).for_each(|link| add(&unescape(&text[link]), None));
    }
    Some(files)
}

/// The document with every file below `root`, which ends in the project's name.
pub(super) fn rewrite(document: &[u8], at: &Url, json: bool, root: &str) -> Option<Vec<u8>> {
    let moved = |url: &str| {
        let url = at.join(url).ok()?;
        let fragment = url.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
        Some(format!("{root}/{}{fragment}", file_name(&url)?))
    };
    if json {
        let mut document: Value = serde_json::from_slice(document).ok()?;
        for file in document["files"].as_array_mut()? {
            if let Some(url) = file.get_mut("url")
                && let Some(new) = url.as_str().and_then(moved)
            {
                *url = new.into();
            }
        }
        return serde_json::to_vec(&document).ok();
    }
    let text = std::str::from_utf8(document).ok()?;
    let mut page = String::with_capacity(text.len());
    let mut copied = 0;
    for link in links(text) {
        if let Some(new) = moved(&unescape(&text[link.clone()])) {
            page.push_str(&text[copied..link.start]);
            page.push_str(&new.replace('&', "&amp;").replace('"', "&quot;").replace('\'', "&#39;"));
            copied = link.end;
        }
    }
    page.push_str(&text[copied..]);
    Some(page.into_bytes())
}

/// Where the values of `href` in `<a>` tags stand.
fn links(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    let anchors = text.match_indices("<a").chain(text.match_indices("<A"));
    anchors.filter_map(move |(start, _)| {
        let tag = start + 2;
        if !text[tag..].starts_with(|c: char| c.is_ascii_whitespace()) {
            return None;
        }
        let end = tag + text[tag..].find('>')?;
        let name = tag + text[tag..end].to_ascii_lowercase().find("href")?;
        let value = text[name + 4..end].trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let begin = end - value.len() + 1;
        let length = text[begin..].find(quote)?;
        Some(begin..begin + length)
    })
}

fn unescape(text: &str) -> String {
    text.replace("&#x2B;", "+")
        .replace("&#43;", "+")
        .replace("&#39;", "'")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn paths_of_clients() {
        assert_eq!(wanted("simple/Foo._Bar/"), Some(Wanted::Project("foo-bar".to_owned())));
        assert_eq!(wanted("simple/foo"), Some(Wanted::Project("foo".to_owned())));
        let file = |file: &str| Wanted::File { project: "foo".to_owned(), file: file.to_owned() };
        assert_eq!(wanted("files/foo/foo-1.0.tar.gz"), Some(file("foo-1.0.tar.gz")));
        let metadata = Wanted::Metadata { project: "foo".to_owned(), file: "foo-1.0.whl".to_owned() };
        assert_eq!(wanted("files/foo/foo-1.0.whl.metadata"), Some(metadata));
        for path in ["", "simple/", "simple/a/b", "simple/..", "files/foo", "files/foo/", "files/../x", "files/foo/a/b"]
        {
            assert_eq!(wanted(path), None, "{path}");
        }
    }

    #[test]
    fn pages_are_rewritten_and_read() {
        let at = Url::parse("https://mirror.test/simple/foo/").unwrap();
        let page = format!(
            "<!DOCTYPE html><abbr href='no'></abbr>\n<a data-requires-python=\"&gt;=3\" href=\"../../files/foo-1.0.whl#sha256={DIGEST}\" \
             data-dist-info-metadata=\"sha256=x\">foo-1.0.whl</a><br/>\n<A HREF='https://files.test/a?b&amp;c=/foo-2.tar.gz'>x</A>"
        );
        let found = files(page.as_bytes(), &at, false).unwrap();
        assert_eq!(found["foo-1.0.whl"].url.as_str(), "https://mirror.test/files/foo-1.0.whl");
        assert_eq!(found["foo-1.0.whl"].digest, Digest::sha256(DIGEST));
        let moved = rewrite(page.as_bytes(), &at, false, "http://gateway/files/foo").unwrap();
        let moved = String::from_utf8(moved).unwrap();
        assert!(
            moved.contains(&format!("href=\"http://gateway/files/foo/foo-1.0.whl#sha256={DIGEST}\" data-dist")),
            "{moved}"
        );
        assert!(moved.starts_with("<!DOCTYPE html><abbr href='no'>"), "{moved}");
    }

    #[test]
    fn json_is_rewritten_and_read() {
        let at = Url::parse("https://pypi.org/simple/foo/").unwrap();
        let document = serde_json::json!({ "files": [
            { "filename": "foo-1.0.whl", "url": "https://files.test/p/foo-1.0.whl", "hashes": { "sha256": DIGEST } }
        ] });
        let document = document.to_string();
        assert_eq!(files(document.as_bytes(), &at, true).unwrap()["foo-1.0.whl"].digest, Digest::sha256(DIGEST));
        let moved = rewrite(document.as_bytes(), &at, true, "http://gateway/files/foo").unwrap();
        let moved: Value = serde_json::from_slice(&moved).unwrap();
        assert_eq!(moved["files"][0]["url"], "http://gateway/files/foo/foo-1.0.whl");
    }
}
