//! Registries whose paths say all there is to know: Go's module proxy, Maven, RubyGems and apt. Nothing in their metadata
//! has to be rewritten, since their clients make addresses of the one they were given.

use super::Ecosystem;
use super::digest::Digest;

/// How a path is to be treated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Changes now and then.
    Document,
    /// Never changes, and its client verifies it.
    Permanent,
    /// Never changes, and must have this digest.
    Digest(Digest),
    /// Never changes; a file beside it holds its SHA-1.
    Sibling,
    /// A gem; its digest stands in the index of its name.
    Gem,
}

pub(super) fn kind(ecosystem: Ecosystem, path: &str) -> Kind {
    match ecosystem {
        Ecosystem::Go => go(path),
        Ecosystem::Maven => maven(path),
        Ecosystem::Rubygems if path.starts_with("gems/") && path.ends_with(".gem") => Kind::Gem,
        Ecosystem::Apt => apt(path),
        _ => Kind::Document,
    }
}

/// `module/@v/v1.2.3.zip`; the tiles of the checksum database never change either. Branches and lists do.
fn go(path: &str) -> Kind {
    let version = path.rsplit_once("/@v/").map(|(_, file)| file);
    let is_version = |file: &str| {
        let numbered = file.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        numbered && [".zip", ".mod", ".info"].iter().any(|end| file.ends_with(end)) && file.matches('.').count() >= 3
    };
    let tile = path
        .strip_prefix("sumdb/")
        .and_then(|rest| rest.split_once('/'))
        .is_some_and(|(_, rest)| rest.starts_with("tile/"));
    if tile || version.is_some_and(is_version) { Kind::Permanent } else { Kind::Document }
}

fn maven(path: &str) -> Kind {
    let file = path.rsplit('/').next().unwrap_or_default();
    let changes = path.contains("-SNAPSHOT") || file.starts_with("maven-metadata") || !file.contains('.');
    let about = [".sha1", ".sha256", ".sha512", ".md5", ".asc", ".html", "/"].iter().any(|end| path.ends_with(end));
    if changes || about { Kind::Document } else { Kind::Sibling }
}

fn apt(path: &str) -> Kind {
    if let Some((_, hash)) = path.rsplit_once("/by-hash/SHA256/") {
        return Digest::sha256(hash).map_or(Kind::Document, Kind::Digest);
    }
    let file = path.rsplit('/').next().unwrap_or_default();
    let package = [".deb", ".udeb", ".dsc"].iter().any(|end| file.ends_with(end)) || file.contains(".tar.");
    if package && path.contains("/pool/") { Kind::Permanent } else { Kind::Document }
}

/// The names that a gem's file can belong to, the longest first: `a-b-1.0-x86_64-linux.gem` may be of `a-b`.
pub(super) fn gem_names(path: &str) -> Vec<(String, String)> {
    let file = path.strip_prefix("gems/").and_then(|file| file.strip_suffix(".gem")).unwrap_or_default();
    let splits = file.match_indices('-').map(|(at, _)| (&file[..at], &file[at + 1..]));
    let versions =
        splits.filter(|(name, version)| !name.is_empty() && version.starts_with(|c: char| c.is_ascii_digit()));
    let mut names: Vec<_> = versions.map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
    names.reverse();
    names
}

/// The digest of a version in the compact index: `1.0-x86 dep:>= 1|checksum:…,ruby:>= 2`.
pub(super) fn gem_digest(info: &str, version: &str) -> Option<Digest> {
    let line = info.lines().find(|line| line.split(' ').next() == Some(version))?;
    let checksum = line.split(['|', ',', ' ']).find_map(|part| part.strip_prefix("checksum:"))?;
    Digest::sha256(checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_kept_for_ever() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let by_hash = format!("debian/dists/x/by-hash/SHA256/{digest}");
        for (ecosystem, path, expected) in [
            (Ecosystem::Go, "golang.org/x/text/@v/v0.3.0.zip", Kind::Permanent),
            (Ecosystem::Go, "golang.org/x/text/@v/v0.3.0.info", Kind::Permanent),
            (Ecosystem::Go, "golang.org/x/text/@v/list", Kind::Document),
            (Ecosystem::Go, "golang.org/x/text/@v/master.info", Kind::Document),
            (Ecosystem::Go, "golang.org/x/text/@v/v1.info", Kind::Document),
            (Ecosystem::Go, "golang.org/x/text/@latest", Kind::Document),
            (Ecosystem::Go, "sumdb/sum.golang.org/tile/8/0/x001/234", Kind::Permanent),
            (Ecosystem::Go, "sumdb/sum.golang.org/latest", Kind::Document),
            (Ecosystem::Maven, "junit/junit/4.13/junit-4.13.jar", Kind::Sibling),
            (Ecosystem::Maven, "junit/junit/4.13/junit-4.13.pom.sha1", Kind::Document),
            (Ecosystem::Maven, "junit/junit/maven-metadata.xml", Kind::Document),
            (Ecosystem::Maven, "a/b/1-SNAPSHOT/b-1-SNAPSHOT.jar", Kind::Document),
            (Ecosystem::Rubygems, "gems/rake-13.0.0.gem", Kind::Gem),
            (Ecosystem::Rubygems, "info/rake", Kind::Document),
            (Ecosystem::Apt, "debian/pool/main/h/hello/hello_2.10_amd64.deb", Kind::Permanent),
            (Ecosystem::Apt, "debian/dists/bookworm/InRelease", Kind::Document),
            (Ecosystem::Apt, by_hash.as_str(), Kind::Digest(Digest::sha256(digest).unwrap())),
        ] {
            assert_eq!(kind(ecosystem, path), expected, "{path}");
        }
    }

    #[test]
    fn gems_are_found_in_their_index() {
        let names = gem_names("gems/a-b-1.0-x86_64-linux.gem");
        assert_eq!(names, [("a-b".to_owned(), "1.0-x86_64-linux".to_owned())]);
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let info = format!("---\n1.0 x:>= 1|checksum:00\n1.0-x86_64-linux |checksum:{digest},ruby:>= 2.0\n");
        assert_eq!(gem_digest(&info, "1.0-x86_64-linux"), Digest::sha256(digest));
        assert_eq!(gem_digest(&info, "2.0"), None);
    }
}
