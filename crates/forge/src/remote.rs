//! A repository behind a plain URL. Work starts from it with the person's own access; the branch stays with Harvest.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use harvest_core::BranchName;
use harvest_core::repository::{Place, file_address, normal};
use harvest_workspace::{Git, Mirror};

use crate::{Base, Error, Forge, Part, Published, checked_base, fetch};

const SCHEMES: &[&str] = &["https://", "http://", "ssh://", "git://", "file://"];

/// What git says before it repeats something of the other side's, to the end of the line.
const QUOTING: &[&str] = &["remote error:", "invalid server response", "bad line length character", "redirecting to"];

#[derive(Debug)]
pub struct Remote {
    url: String,
    git: Git,
}

/// Whether a text that is no existing path was meant as an address.
pub(crate) fn looks_remote(text: &str) -> bool {
    text.contains("://") || text.contains("::") || text.split_once(':').is_some_and(|(host, _)| !host.contains('/'))
}

/// What is wrong with the host and port that an address begins with behind its protocol. A user and a password are refused with a
/// reason of their own.
fn bad_host(rest: &str) -> Option<&'static str> {
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("[]", port),
            _ => return Some("the address in its brackets is not one of IPv6"),
        },
        None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
    };
    let is_port = |port: &str| port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '.' | '_' | '~' | '%');
    if host.trim_matches('.').is_empty() {
        return Some("it names no host");
    }
    if host != "[]" && !host.chars().all(is_plain) {
        return Some("its host has characters that no host name has");
    }
    match port.strip_prefix(':') {
        Some(port) if !is_port(port) => Some("its port is not a number from 1 to 65535"),
        None if !port.is_empty() => Some("its host has characters that no host name has"),
        _ => None,
    }
}

/// The path that git takes a `file://` address for.
pub(crate) fn file_path(url: &str) -> Option<PathBuf> {
    let rest = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("file://")).and(url.get(7..))?;
    let mut path = Vec::new();
    let mut bytes = rest.as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        let digits = bytes.as_slice().get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if decoded.is_some() {
            bytes.by_ref().take(2).for_each(drop);
        }
        path.push(decoded.unwrap_or(byte));
    }
    // Git takes no notice of a host.
    if let Some(begin) = path.iter().position(|byte| *byte == b'/') {
        path.drain(..begin);
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// The one spelling in which the address of a repository is kept: [`normal`], with the links in a path of this machine followed.
pub fn spelled(address: &str) -> String {
    if address.starts_with('/') {
        let found = Path::new(address).canonicalize().ok();
        return normal(found.as_deref().and_then(Path::to_str).unwrap_or(address));
    }
    let Some(path) = file_path(address) else { return normal(address) };
    // Git, too, looks there with and without `.git`.
    let with_suffix = || {
        let mut path = path.clone().into_os_string();
        path.push(".git");
        Path::new(&path).canonicalize()
    };
    match path.canonicalize().or_else(|_| with_suffix()) {
        Ok(found) => found.to_str().map_or_else(|| normal(address), file_address),
        Err(_) => normal(address),
    }
}

impl Remote {
    pub fn new(url: &str, git: Git) -> Result<Self, Error> {
        let shown = if holds_access(url) { without_access(url) } else { url.to_owned() };
        let refuse = |reason| Err(Error::UnsupportedUrl { url: shown.clone(), reason });
        if url.starts_with('-') || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refuse("it begins with a dash or holds white space");
        }
        let lower = url.to_ascii_lowercase();
        let scp_like = !lower.contains("://")
            && !lower.contains("::")
            && lower.split_once(':').is_some_and(|(host, path)| {
                !host.is_empty() && !host.starts_with('-') && !path.is_empty() && !host.contains('/')
            });
        if !scp_like && !SCHEMES.iter().any(|scheme| lower.starts_with(scheme)) {
            return refuse("its protocol is not one of https, http, ssh, git, file");
        }
        if lower.contains("://-") || lower.contains("@-") {
            return refuse("its host begins with a dash");
        }
        if holds_access(url) {
            return Err(Error::UrlHoldsAccess { url: without_access(url) });
        }
        // Git would take the protocol for a host that is reached by SSH.
        if scp_like && (lower.starts_with("http:") || lower.starts_with("https:")) {
            return refuse("it has no // behind its protocol");
        }
        if let Some((_, rest)) = lower.split_once("://").filter(|(scheme, _)| *scheme != "file")
            && let Some(reason) = bad_host(rest)
        {
            return refuse(reason);
        }
        Ok(Self { url: spelled(url), git })
    }

    async fn tip(&self, base: Option<&str>) -> Result<Tip, Error> {
        let patterns: Vec<String> = match base {
            None => vec!["HEAD".into()],
            Some(base) => ["refs/heads/", "refs/tags/", ""].iter().map(|kind| format!("{kind}{base}")).collect(),
        };
        let mut args: Vec<&str> = vec!["ls-remote", "--quiet", "--end-of-options", &self.url];
        args.extend(patterns.iter().map(String::as_str));
        let listed = self.git.line(Path::new("/"), &args).await;
        let listed = listed.map_err(|source| Error::Fetch { name: self.url.clone(), source: for_people(source) })?;
        let refs: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once('\t')).collect();
        for pattern in &patterns {
            let peeled = format!("{pattern}^{{}}");
            for wanted in [&peeled, pattern] {
                if let Some((hash, _)) = refs.iter().find(|(_, name)| name == wanted) {
                    let branch = wanted.strip_prefix("refs/heads/").map(str::to_owned);
                    return Ok(Tip { commit: (*hash).to_owned(), branch });
                }
            }
        }
        match base {
            None => Err(Error::Empty { name: self.url.clone() }),
            Some(hash) if matches!(hash.len(), 40 | 64) && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Tip { commit: hash.to_ascii_lowercase(), branch: None })
            }
            Some(base) => Err(Error::UnknownBase { base: base.to_owned(), name: self.url.clone() }),
        }
    }
}

/// The commit that a name stands for.
struct Tip {
    commit: String,
    /// Set when the name is one of a branch.
    branch: Option<String>,
}

#[async_trait]
impl Forge for Remote {
    fn name(&self) -> &str {
        &self.url
    }

    fn identity(&self) -> Vec<u8> {
        // A folder has the same name whether its branches are written there or kept here.
        let is_file = self.url.starts_with("file:");
        let identity = if is_file { self.url.clone() } else { Place::of(&self.url).into_string() };
        identity.into_bytes()
    }

    async fn resolve(&self, base: Option<&str>) -> Result<Base, Error> {
        let Tip { commit, branch } = self.tip(base.map(checked_base).transpose()?).await?;
        let object_format = if commit.len() == 64 { "sha256" } else { "sha1" }.to_owned();
        Ok(Base { commit, object_format, author: None, branch, warnings: Vec::new() })
    }

    async fn fetch(&self, mirror: &Mirror, commit: &str) -> Result<(), harvest_workspace::Error> {
        self.fetch_part(mirror, commit, Part::default()).await
    }

    async fn fetch_part(&self, mirror: &Mirror, commit: &str, part: Part) -> Result<(), harvest_workspace::Error> {
        let fetched = fetch::fetch(&self.git, mirror, OsStr::new(&self.url), commit, part, &[]).await;
        fetched.map_err(for_people)
    }

    async fn publish(&self, _: &Path, _: &BranchName, _: &str, _: Option<&str>) -> Result<Published, Error> {
        Ok(Published::KeptHere)
    }
}

/// What git says itself, without the lines in which it passes on what the other side said.
fn without_answers(message: &str) -> String {
    let own = message.lines().filter_map(|line| {
        let text = line.trim_start();
        if text.starts_with("remote:") {
            return None;
        }
        let end = QUOTING.iter().find_map(|words| Some(text.find(words)? + words.len()));
        Some(end.map_or(line, |end| &text[..end]).trim_end_matches([':', ' ']).to_owned())
    });
    let own = own.collect::<Vec<_>>().join("\n");
    if own.trim().is_empty() { "the other side refused".to_owned() } else { own }
}

/// Whether an address says by what someone gets in, and not only where the repository is. The user of an SSH address does not:
/// keys do.
pub fn holds_access(address: &str) -> bool {
    let Some((scheme, rest)) = address.split_once("://") else {
        // `host:path`; a path may have any name.
        return address.split_once(':').is_some_and(|(host, path)| !host.contains('/') && path.contains('@'));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let by_ssh = scheme.eq_ignore_ascii_case("ssh");
    let by_file = scheme.eq_ignore_ascii_case("file");
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| !by_ssh || user.contains(':')) || (!by_file && path.contains(['?', '#']))
}

/// `https://user:secret@host/x?key=secret` → `https://host/x`.
fn without_access(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "the address".to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// Without what the other side said, whatever it is that answers there.
fn for_people(error: harvest_workspace::Error) -> harvest_workspace::Error {
    use harvest_workspace::Error as Git;
    match error {
        Git::Git { command, message } => Git::Git { command, message: without_answers(&message) },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harvest_workspace::Home;

    #[test]
    fn only_safe_protocols_reach_git() {
        let accepted =
            ["https://example.com/a.git", "ssh://git@example.com/a", "git@example.com:a/b.git", "file:///srv/a"];
        let refused = [
            "ext::sh -c x",
            "EXT::sh",
            "ext::x",
            "fd::3",
            "-oProxyCommand=x:y",
            "https://-x/y",
            "ssh://-oX/y",
            "a\nb:c",
            "ftp://x/y",
        ];
        for url in accepted {
            assert!(Remote::new(url, Git::new(Home::Nobody)).is_ok(), "{url}");
        }
        for url in refused {
            assert!(matches!(Remote::new(url, Git::new(Home::Nobody)), Err(Error::UnsupportedUrl { .. })), "{url}");
        }
    }

    #[test]
    fn an_address_that_names_no_host_is_refused_with_the_reason() {
        let refused = |url: &str| match Remote::new(url, Git::new(Home::Nobody)) {
            Err(Error::UnsupportedUrl { reason, .. }) => reason,
            other => panic!("{url}: {other:?}"),
        };
        for url in ["http://", "https:///x", "http://.", "http://:80/x", "ssh://git@/x"] {
            assert_eq!(refused(url), "it names no host", "{url}");
        }
        for url in ["http:example.com/x", "https:/example.com/x"] {
            assert_eq!(refused(url), "it has no // behind its protocol", "{url}");
        }
        for url in ["http://example.com:port/x", "https://example.com:0/x", "ssh://git@example.com:ada/shop"] {
            assert_eq!(refused(url), "its port is not a number from 1 to 65535", "{url}");
        }
        assert_eq!(refused("https://[::1/x"), "the address in its brackets is not one of IPv6");
        assert_eq!(refused("https://exa{mple/x"), "its host has characters that no host name has");
        assert_eq!(refused("https://[::1]x/y"), "its host has characters that no host name has");
        for url in
            ["https://[::1]:8443/x", "http://127.0.0.1:3000/a", "https://bücher.example/x", "git@example.com:80/x"]
        {
            assert!(Remote::new(url, Git::new(Home::Nobody)).is_ok(), "{url}");
        }
    }

    #[test]
    fn what_the_other_side_says_is_not_passed_on() {
        let said = "remote: instance-id i-0123\n  remote: secret\nfatal: unable to access 'http://h/': 403";
        assert_eq!(without_answers(said), "fatal: unable to access 'http://h/': 403");
        assert_eq!(without_answers("fatal: remote error: secret"), "fatal: remote error");
        assert_eq!(without_answers("remote: secret"), "the other side refused");
        let said = "fatal: protocol error: bad line length character: secr";
        assert_eq!(without_answers(said), "fatal: protocol error: bad line length character");
        assert_eq!(without_answers("fatal: invalid server response; got 'secret'"), "fatal: invalid server response");
    }

    #[test]
    fn the_path_of_a_file_address_is_what_git_makes_of_it() {
        for (url, path) in [
            ("file:///srv/a", "/srv/a"),
            ("FILE:///srv/%61%2Fb", "/srv/a/b"),
            ("file:///a%2", "/a%2"),
            ("file://localhost/srv/a", "/srv/a"),
            ("file://x%2Fsrv/a", "/srv/a"),
        ] {
            assert_eq!(file_path(url), Some(PathBuf::from(path)), "{url}");
        }
        assert_eq!(file_path("https://example.com/a"), None);
    }

    #[test]
    fn a_repository_has_one_name_and_one_mirror_however_its_address_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("shop.git");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, real.with_file_name("link")).unwrap();
        let remote = |url: &str| Remote::new(url, Git::new(Home::Nobody)).unwrap();
        let name = |url: &str| remote(url).name().to_owned();
        let (real, folder) = (real.display().to_string(), folder.path().display().to_string());
        for url in [format!("file://{folder}/link/"), format!("FILE://{folder}/./shop"), format!("file://{real}")] {
            assert_eq!(name(&url), format!("file://{real}"), "{url}");
        }
        assert_eq!(spelled(&format!("{folder}/link/")), real);
        assert_eq!(name("HTTPS://Git.test:443/Ada/Shop.git/"), "https://git.test/Ada/Shop.git");
        let identities = ["https://git.test/ada/shop", "git@git.test:ada/shop.git"].map(|url| remote(url).identity());
        assert_eq!(identities[0], identities[1]);
        assert_ne!(remote("https://git.test/ada/Shop").identity(), identities[0]);
    }

    #[test]
    fn addresses_that_hold_access_are_refused_and_not_repeated() {
        let accepted = [
            "/srv/a:b@c",
            "https://example.com/x@2.git",
            "ssh://git@example.com/x",
            "git@example.com:x",
            "file:///srv/a?b",
        ];
        let refused = [
            "https://ada:secret@example.com/x.git",
            "https://secret@example.com/x.git",
            "HTTPS://a@secret@example.com/x.git",
            "http://:secret@example.com",
            "https://example.com/x.git?private_token=secret",
            "https://example.com?secret",
            "https://example.com/x.git#secret",
            "ssh://git:secret@example.com/x.git",
            "git://secret@example.com/x.git",
            "ada:secret@example.com:x.git",
            "https:/ada:secret@example.com/x.git",
        ];
        for url in accepted {
            assert!(!holds_access(url), "{url}");
        }
        for url in refused {
            let error = Remote::new(url, Git::new(Home::Nobody)).unwrap_err();
            assert!(matches!(error, Error::UrlHoldsAccess { .. }), "{error:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
