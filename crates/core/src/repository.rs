//! Addresses of repositories: the one spelling in which each is kept, and what makes two of them the same repository.
//!
//! [`normal`] is applied where an address comes in. It changes nothing of what git is told: protocol, user and `.git` stay.
//! [`Place`] leaves these out; settings, limits, caps and rights are looked up by it. [`Place::spellings`] are all normal
//! addresses of a place, for questions to a database, which knows addresses as texts.

use std::collections::BTreeSet;
use std::fmt;

const GITHUB: &str = "github.com";
/// GitHub's host for SSH on the port of HTTPS, for networks that let nothing else out. Addresses keep it.
const GITHUB_SSH: &str = "ssh.github.com";
const GITHUB_SSH_PORT: u16 = 443;
/// Other hosts of GitHub itself where repositories are reached.
const ALSO_GITHUB: [&str; 2] = ["www.github.com", GITHUB_SSH];

/// A repository, whichever of its addresses it was named by; shown as one of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(String);

/// An address in the one spelling in which it is kept.
pub fn normal(address: &str) -> String {
    Address::parse(address).to_string()
}

/// The `file:` URL of a path.
pub fn file_address(path: &str) -> String {
    Address::File(clean_path(path)).to_string()
}

impl Place {
    pub fn of(address: &str) -> Self {
        Self(match Address::parse(address) {
            Address::Path(path) | Address::File(path) => path,
            Address::Remote(remote) => remote.representative().to_string(),
            Address::Other(text) => text,
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// Every normal address of this place.
    pub fn spellings(&self) -> Vec<String> {
        let all = match Address::parse(&self.0) {
            Address::Path(path) => vec![Address::Path(path.clone()), Address::File(path)],
            Address::Remote(remote) => remote.alternatives().into_iter().map(Address::Remote).collect(),
            other => vec![other],
        };
        let texts: BTreeSet<String> = all.iter().map(|one| normal(&one.to_string())).collect();
        texts.into_iter().filter(|text| Self::of(text) == *self).collect()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone)]
enum Address {
    /// An absolute path of this machine.
    Path(String),
    /// A `file:` URL, as the path that it names.
    File(String),
    Remote(Remote),
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Https,
    Http,
    Git,
    Ssh,
    /// `user@host:path`, with a path that does not begin with a slash.
    Scp,
}

#[derive(Debug, Clone)]
struct Remote {
    protocol: Protocol,
    user: Option<String>,
    host: String,
    /// `None`: the protocol's own.
    port: Option<u16>,
    /// Without a slash at either end.
    path: String,
}

impl Protocol {
    fn parse(scheme: &str) -> Option<Self> {
        match scheme {
            "https" => Some(Self::Https),
            "http" => Some(Self::Http),
            "git" => Some(Self::Git),
            "ssh" => Some(Self::Ssh),
            _ => None,
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Git => "git",
            Self::Ssh | Self::Scp => "ssh",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Git => 9418,
            Self::Ssh | Self::Scp => 22,
        }
    }

    fn is_ssh(self) -> bool {
        matches!(self, Self::Ssh | Self::Scp)
    }
}

impl Address {
    fn parse(text: &str) -> Self {
        if text.starts_with('/') {
            return Self::Path(clean_path(text));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let scheme = scheme.to_ascii_lowercase();
            if scheme == "file" {
                return Self::of_file(rest).unwrap_or_else(|| Self::Other(text.to_owned()));
            }
            let protocol = Protocol::parse(&scheme);
            let remote = protocol.and_then(|protocol| Remote::of_url(protocol, rest));
            return remote.map_or_else(|| Self::Other(text.to_owned()), Self::Remote);
        }
        let remote = (!text.contains("::")).then(|| Remote::of_scp(text)).flatten();
        remote.map_or_else(|| Self::Other(text.trim_end_matches('/').to_owned()), Self::Remote)
    }

    /// Git takes no notice of a host. A path that is no text stays as it is written.
    fn of_file(rest: &str) -> Option<Self> {
        let decoded = decode(rest, |_| true)?;
        let begin = decoded.find('/')?;
        Some(Self::File(clean_path(&decoded[begin..])))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(text) | Self::Other(text) => f.write_str(text),
            Self::File(path) => write!(f, "file://{}", encode(path)),
            Self::Remote(remote) => remote.fmt(f),
        }
    }
}

impl Remote {
    fn of_url(protocol: Protocol, rest: &str) -> Option<Self> {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        let (host, port) = match host.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (host, None),
        };
        let path = resolve_dots(&decode(path, is_unreserved)?);
        Some(Self { protocol, user, host: plain_host(host)?, port, path }.settled())
    }

    /// `user@host:path`, also with `github` for the host, which is how people write repositories on GitHub.
    fn of_scp(text: &str) -> Option<Self> {
        let (authority, path) = text.split_once(':')?;
        if authority.contains('/') || path.is_empty() {
            return None;
        }
        if authority.eq_ignore_ascii_case("github") {
            let named = Self {
                protocol: Protocol::Https,
                user: None,
                host: GITHUB.to_owned(),
                port: None,
                path: path.to_owned(),
            };
            return named.repository_on_github().is_some().then(|| named.settled());
        }
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        // From the root of the file system both forms say the same.
        let protocol = if path.starts_with('/') { Protocol::Ssh } else { Protocol::Scp };
        Some(Self { protocol, user, host: plain_host(host)?, port: None, path: resolve_dots(path) }.settled())
    }

    /// Without what says nothing. On GitHub capital letters, `.git` and the way of writing an SSH address say nothing either.
    fn settled(mut self) -> Self {
        self.port = self.port.filter(|port| *port != self.protocol.port());
        if ALSO_GITHUB.contains(&self.host.as_str()) && self.port.is_none() && !self.is_on_ssh_host_of_github() {
            self.host = GITHUB.to_owned();
        }
        if let Some(path) = self.repository_on_github() {
            self.path = path;
            self.protocol = if self.protocol.is_ssh() { Protocol::Ssh } else { Protocol::Https };
        }
        self
    }

    fn is_on_ssh_host_of_github(&self) -> bool {
        self.protocol.is_ssh() && self.host == GITHUB_SSH && self.port.is_none_or(|port| port == GITHUB_SSH_PORT)
    }

    fn repository_on_github(&self) -> Option<String> {
        let is_there = (self.host == GITHUB && self.port.is_none()) || self.is_on_ssh_host_of_github();
        let is_usual = self.user.as_deref().is_none_or(|user| user == "git") && is_there;
        let path = self.path.trim_matches('/').to_ascii_lowercase();
        let path = path.strip_suffix(".git").unwrap_or(&path);
        let (owner, name) = path.split_once('/').filter(|_| is_usual)?;
        (!owner.is_empty() && !name.is_empty() && !name.contains('/')).then(|| path.to_owned())
    }

    /// The address that stands for all of its place. A port of its own, or a user who is not `git`, may lead to something else.
    fn representative(mut self) -> Self {
        if self.is_on_ssh_host_of_github() {
            (self.host, self.port) = (GITHUB.to_owned(), None);
        }
        if let Some(path) = self.path.strip_suffix(".git") {
            self.path = path.to_owned();
        }
        let is_usual_user = self.user.as_deref().is_none_or(|user| user == "git");
        self.protocol = match self.protocol {
            Protocol::Ssh | Protocol::Scp if !is_usual_user || self.port.is_some() => Protocol::Ssh,
            Protocol::Git if self.port.is_some() => Protocol::Git,
            _ => Protocol::Https,
        };
        self.user = match self.protocol {
            Protocol::Ssh => self.user.or_else(|| Some("git".to_owned())),
            _ => self.user.filter(|_| !is_usual_user),
        };
        self
    }

    /// Addresses that may have this one for their representative.
    fn alternatives(&self) -> Vec<Self> {
        let protocols = [Protocol::Https, Protocol::Http, Protocol::Git, Protocol::Ssh, Protocol::Scp];
        let users = [self.user.clone(), Some("git".to_owned()), None];
        let each = protocols.into_iter().flat_map(|protocol| users.iter().map(move |user| (protocol, user)));
        let each = each.filter(|(protocol, _)| *protocol != Protocol::Scp || self.port.is_none());
        let mut named: Vec<Self> =
            each.map(|(protocol, user)| Self { protocol, user: user.clone(), ..self.clone() }).collect();
        if self.host == GITHUB && self.port.is_none() {
            let by_ssh: Vec<Self> = named.iter().filter(|one| one.protocol == Protocol::Ssh).cloned().collect();
            for port in [None, Some(GITHUB_SSH_PORT)] {
                named.extend(by_ssh.iter().map(|one| Self { host: GITHUB_SSH.to_owned(), port, ..one.clone() }));
            }
        }
        named.into_iter().flat_map(|one| [Self { path: format!("{}.git", one.path), ..one.clone() }, one]).collect()
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, user, host, port, path } = self;
        let user = user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        if *protocol == Protocol::Scp {
            return write!(f, "{user}{host}:{path}");
        }
        write!(f, "{}://{user}{host}", protocol.scheme())?;
        if let Some(port) = port {
            write!(f, ":{port}")?;
        }
        if path.is_empty() { Ok(()) } else { write!(f, "/{path}") }
    }
}

fn plain_host(host: &str) -> Option<String> {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

/// A repository is named by the folder that its `.git` lies in.
fn clean_path(path: &str) -> String {
    let segments: Vec<&str> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    let segments = match segments.as_slice() {
        [before @ .., ".git"] => before,
        all => all,
    };
    format!("/{}", segments.join("/"))
}

/// The path of a URL without `.`, `..` and slashes too many.
fn resolve_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    kept.join("/")
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Percent-encoded bytes as themselves, those that `decodes` names; `None` where that is no text.
fn decode(text: &str, decodes: impl Fn(u8) -> bool) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let pair = (byte == b'%').then(|| Some((digit(ahead.next())?, digit(ahead.next())?))).flatten();
        match pair.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(named) if decodes(named) => {
                decoded.push(named);
                bytes = ahead;
            }
            _ => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).ok()
}

/// The path of a `file:` URL, which git decodes.
fn encode(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for letter in path.chars() {
        match letter {
            '%' => text.push_str("%25"),
            letter if letter.is_ascii() && (letter.is_ascii_control() || letter == ' ') => {
                text.push_str(&format!("%{:02X}", u32::from(letter)));
            }
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses of one repository each.
    const SAME: &[&[&str]] = &[
        &[
            "/srv/shop",
            "/srv/shop/",
            "/srv//./shop",
            "/srv/shop/.git",
            "file:///srv/shop",
            "FILE://localhost/srv/%73hop/",
        ],
        &["/srv/shop.git", "/srv/shop.git/", "file:///srv/shop.git"],
        &[
            "https://github.com/ada/shop",
            "https://GitHub.com/Ada/Shop.git/",
            "http://www.github.com:80/ada/shop",
            "git@github.com:ada/shop.git",
            "ssh://git@github.com/Ada/shop",
            "ssh://git@ssh.github.com:443/ada/shop.git",
            "ssh://ssh.github.com/Ada/shop",
            "git@ssh.github.com:ada/shop.git",
            "git://github.com/ada/shop",
            "github:Ada/shop",
        ],
        &[
            "https://git.test/ada/Shop",
            "https://GIT.test:443/ada/Shop/",
            "http://git.test/ada//Shop.git",
            "https://git.test/ada/x/../%53hop",
            "ssh://git@git.test/ada/Shop",
            "ssh://git.test:22/ada/Shop.git",
            "git@git.test:ada/Shop.git",
            "git@Git.Test:/ada/Shop",
            "git://git.test./ada/Shop",
        ],
        &["ssh://ada@git.test/ada/Shop", "ada@git.test:ada/Shop.git"],
        &["https://git.test:8443/ada/Shop", "https://git.test:8443/ada/Shop.git"],
        &["ssh://git@git.test:2222/ada/Shop", "ssh://git.test:2222/ada/Shop.git"],
        &["https://git.test/ada/shop"],
        &["https://git.test/ada/shop/more"],
        &["./shop"],
    ];

    #[test]
    fn addresses_of_one_repository_have_one_place_and_no_other_has_it() {
        for (index, same) in SAME.iter().enumerate() {
            let place = Place::of(same[0]);
            assert_eq!(Place::of(place.as_str()), place, "a place is one of its addresses");
            for address in *same {
                assert_eq!(Place::of(address), place, "{address}");
            }
            for other in SAME.iter().enumerate().filter(|(at, _)| *at != index).flat_map(|(_, same)| *same) {
                assert_ne!(Place::of(other), place, "{other}");
            }
        }
    }

    #[test]
    fn whatever_is_kept_is_among_the_spellings_of_its_place() {
        for address in SAME.iter().flat_map(|same| *same) {
            let kept = normal(address);
            assert_eq!(normal(&kept), kept);
            assert!(Place::of(address).spellings().contains(&kept), "{kept}");
            for spelling in Place::of(address).spellings() {
                assert_eq!((Place::of(&spelling), normal(&spelling)), (Place::of(address), spelling.clone()));
            }
        }
    }

    #[test]
    fn what_git_is_told_stays() {
        for (address, kept) in [
            ("/srv/shop/", "/srv/shop"),
            ("file:///srv/a%20b%2525", "file:///srv/a%20b%2525"),
            ("file:///srv/%ff", "file:///srv/%ff"),
            ("HTTPS://Git.test:443/Ada/Shop.git/", "https://git.test/Ada/Shop.git"),
            ("http://git.test/a%2Fb", "http://git.test/a%2Fb"),
            ("http://[::1]:3000/a", "http://[::1]:3000/a"),
            ("ssh://ada@git.test:22/~/shop", "ssh://ada@git.test/~/shop"),
            ("git@Git.test:shop.git/", "git@git.test:shop.git"),
            ("git@git.test:/srv/shop.git", "ssh://git@git.test/srv/shop.git"),
            ("git@github.com:Ada/Shop.git", "ssh://git@github.com/ada/shop"),
            ("https://github.com/Ada/Shop", "https://github.com/ada/shop"),
            ("ssh://git@ssh.github.com:443/Ada/Shop.git", "ssh://git@ssh.github.com:443/ada/shop"),
            ("ssh://git@ssh.github.com:2222/Ada/Shop.git", "ssh://git@ssh.github.com:2222/Ada/Shop.git"),
            ("https://www.github.com:8443/Ada/Shop", "https://www.github.com:8443/Ada/Shop"),
            ("https://github.com/Ada/Shop/tree/Main", "https://github.com/Ada/Shop/tree/Main"),
            ("ext::sh -c x", "ext::sh -c x"),
            ("https://", "https://"),
            ("shop", "shop"),
            ("", ""),
        ] {
            assert_eq!(normal(address), kept, "{address}");
        }
    }
}
