//! Which files a package has, where the registry keeps each, and what each must hash to, as its metadata says. A client
//! names package and file; it never says where to fetch from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Url;

use super::Ecosystem;
use super::digest::Digest;

/// Packages whose files are remembered; the rest is read from metadata again.
const MAX_PACKAGES: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) url: Url,
    pub(super) digest: Option<Digest>,
}

/// The files of one package by name.
pub(super) type Files = HashMap<String, Announced>;

#[derive(Debug, Default)]
pub(super) struct Index {
    packages: Mutex<HashMap<(Ecosystem, String), Arc<Files>>>,
}

impl Index {
    pub(super) fn find(&self, ecosystem: Ecosystem, package: &str, file: &str) -> Option<Announced> {
        let packages = self.packages.lock().unwrap_or_else(PoisonError::into_inner);
        packages.get(&(ecosystem, package.to_owned()))?.get(file).cloned()
    }

    pub(super) fn insert(&self, ecosystem: Ecosystem, package: &str, files: Arc<Files>) {
        let mut packages = self.packages.lock().unwrap_or_else(PoisonError::into_inner);
        if packages.len() >= MAX_PACKAGES {
            packages.clear();
        }
        packages.insert((ecosystem, package.to_owned()), files);
    }
}

/// What an address calls its file.
pub(super) fn file_name(url: &Url) -> Option<&str> {
    url.path_segments()?.next_back().filter(|name| !name.is_empty())
}
