//! Where a GitHub is, and which of its repositories is meant.

use harvest_core::repository::{Place, normal};

use crate::Error;

pub(super) const PUBLIC: &str = "https://github.com";

/// GitHub itself, or one of an enterprise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// What people open, without a slash at its end.
    web: String,
    api: String,
}

impl Host {
    /// `None`: GitHub itself.
    pub fn new(url: Option<&str>) -> Result<Self, Error> {
        let given = url.unwrap_or(PUBLIC);
        let refuse = |reason| Error::UnsupportedUrl { url: given.to_owned(), reason };
        let url: reqwest::Url = given.parse().map_err(|_| refuse("it is not a URL"))?;
        let host = url.host_str().ok_or_else(|| refuse("it names no host"))?;
        if !["https", "http"].contains(&url.scheme()) || !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("it must be https://HOST"));
        }
        // A token must not go over a line that others can read.
        if url.scheme() == "http" && !["127.0.0.1", "localhost", "[::1]"].contains(&host) {
            return Err(refuse("a token would travel unencrypted"));
        }
        let web = given.trim_end_matches('/').to_ascii_lowercase();
        let web = web.strip_suffix("/api/v3").unwrap_or(&web).to_owned();
        let api = match web.as_str() {
            PUBLIC | "https://api.github.com" => {
                return Ok(Self { web: PUBLIC.to_owned(), api: "https://api.github.com".to_owned() });
            }
            web => format!("{web}/api/v3"),
        };
        if url.path() != "/" && url.path() != "/api/v3" && url.path() != "/api/v3/" {
            return Err(refuse("a GitHub server must be at the root of its host"));
        }
        Ok(Self { web, api })
    }

    pub fn web(&self) -> &str {
        &self.web
    }

    pub fn api(&self) -> &str {
        &self.api
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.api.starts_with("https:")
    }

    /// The repository that a person means: `github:owner/name`, or its address here.
    pub fn repository(&self, text: &str) -> Option<Repository> {
        let host = self.web.split_once("://").map_or("", |(_, host)| host);
        if let Some(path) = text.strip_prefix("github:") {
            return Repository::parse(path);
        }
        // Of GitHub itself, the place tells every address; another server may be reached over HTTP, which a place leaves out.
        let text = if self.web == PUBLIC { Place::of(text).into_string() } else { normal(text) };
        let prefixes = [format!("{}/", self.web), format!("ssh://git@{host}/"), format!("git@{host}:")];
        Repository::parse(prefixes.iter().find_map(|prefix| text.strip_prefix(prefix.as_str()))?)
    }

    /// The name of a repository. Of GitHub itself every spelling has the same.
    pub fn page(&self, repository: &Repository) -> String {
        normal(&format!("{}/{repository}", self.web))
    }

    /// The page of a pull request, with the capital letters that the repository is given with: links are kept as GitHub spells
    /// them.
    pub(super) fn pull_request(&self, repository: &Repository, number: u64) -> String {
        format!("{}/{repository}/pull/{number}", self.web)
    }

    pub(super) fn clone_url(&self, repository: &Repository) -> String {
        format!("{}/{repository}.git", self.web)
    }
}

/// `owner/name`, both of letters that GitHub allows: nothing else ever gets into a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repository {
    pub owner: String,
    pub name: String,
}

impl Repository {
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('/');
        let (owner, name) = text.strip_suffix(".git").unwrap_or(text).split_once('/')?;
        let fits = |part: &str| {
            let letters = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            letters && (1..=100).contains(&part.len()) && !part.starts_with('-') && part != "." && part != ".."
        };
        (fits(owner) && fits(name)).then(|| Self { owner: owner.to_owned(), name: name.to_owned() })
    }
}

impl std::fmt::Display for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn github_itself_and_one_of_an_enterprise() {
        for url in [None, Some("https://github.com/"), Some("https://api.github.com")] {
            assert_eq!(Host::new(url).unwrap().api(), "https://api.github.com");
        }
        let own = Host::new(Some("https://GHE.example.com/api/v3/")).unwrap();
        assert_eq!((own.web(), own.api()), ("https://ghe.example.com", "https://ghe.example.com/api/v3"));
        for bad in ["http://ghe.example.com", "https://user@ghe.example.com", "ftp://x", "ghe", "https://x/git"] {
            assert!(Host::new(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn repositories_by_any_of_their_names() {
        let host = Host::new(None).unwrap();
        for text in [
            "github:ada/shop",
            "https://github.com/ada/shop",
            "https://GitHub.com/ada/shop.git/",
            "git@github.com:ada/shop.git",
            "ssh://git@github.com/ada/shop",
            "http://www.github.com/Ada/Shop",
            "ssh://git@ssh.github.com:443/ada/shop.git",
        ] {
            assert_eq!(host.repository(text).map(|found| found.to_string()).as_deref(), Some("ada/shop"), "{text}");
        }
        for text in [
            "https://example.com/ada/shop",
            "github:ada",
            "github:ada/shop/more",
            "github:../shop",
            "github:ada/..",
            "github:-x/shop",
            "github:ada/sh op",
            "https://github.com/ada/shop?x",
            "https://github.com.evil.example/ada/shop",
        ] {
            assert_eq!(host.repository(text), None, "{text}");
        }
    }
}
