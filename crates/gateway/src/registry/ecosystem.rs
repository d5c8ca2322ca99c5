//! The registries there are, and where each keeps its packages unless an operator says otherwise.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ecosystem {
    Npm,
    Pypi,
    Cargo,
    Go,
    Maven,
    Rubygems,
    Packagist,
    Apt,
}

impl Ecosystem {
    pub const ALL: [Self; 8] =
        [Self::Npm, Self::Pypi, Self::Cargo, Self::Go, Self::Maven, Self::Rubygems, Self::Packagist, Self::Apt];

    /// As it is called in paths and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Maven => "maven",
            Self::Rubygems => "rubygems",
            Self::Packagist => "packagist",
            Self::Apt => "apt",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ecosystem| ecosystem.name() == name)
    }

    /// The public registry: for PyPI its simple index, for cargo its sparse index.
    pub const fn public(self) -> &'static str {
        match self {
            Self::Npm => "https://registry.npmjs.org",
            Self::Pypi => "https://pypi.org/simple",
            Self::Cargo => "https://index.crates.io",
            Self::Go => "https://proxy.golang.org",
            Self::Maven => "https://repo.maven.apache.org/maven2",
            Self::Rubygems => "https://rubygems.org",
            Self::Packagist => "https://repo.packagist.org",
            Self::Apt => "https://deb.debian.org",
        }
    }

    /// All hosts of the public registry, its own first.
    pub fn hosts(self) -> impl Iterator<Item = &'static str> {
        let (_, address) = self.public().split_once("://").unwrap_or_default();
        let own = address.split('/').next().unwrap_or_default();
        std::iter::once(own).chain(self.other_hosts().iter().copied().filter(move |other| *other != own))
    }

    /// Where else its metadata and redirects may lead, by HTTPS.
    pub(super) const fn other_hosts(self) -> &'static [&'static str] {
        match self {
            Self::Npm => &["registry.npmjs.org"],
            Self::Pypi => &["files.pythonhosted.org"],
            Self::Cargo => &["static.crates.io", "crates.io"],
            Self::Go => &["proxy.golang.org", "sum.golang.org"],
            Self::Maven => &["repo1.maven.org"],
            Self::Rubygems => &["index.rubygems.org"],
            Self::Packagist => &["api.github.com", "codeload.github.com"],
            Self::Apt => &["cdn-fastly.deb.debian.org"],
        }
    }
}

impl fmt::Display for Ecosystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
