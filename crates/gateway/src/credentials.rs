//! Whose credentials a session's requests carry.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use harvest_core::NamedBy;
use secrecy::SecretString;

use crate::model::Upstream;

/// The credentials of one session, as they are when they are asked for.
#[async_trait]
pub trait Credentials: Send + Sync + Debug {
    /// Those for a provider, in the order in which they are tried. Asked for every request, so that one which was removed or
    /// replaced is not used again.
    async fn of(&self, provider: &str) -> Arc<[Arc<Upstream>]>;

    /// The nearest of a provider's that has this name and may go to a host named by this one, as it is. Asked for every use, too.
    async fn secret(&self, _provider: &str, _name: &str, _host: NamedBy) -> Option<SecretString> {
        None
    }

    /// One of them is being used. Must not block.
    fn used(&self, _upstream: &Upstream) {}
}

/// For a session that has no business with a model.
#[derive(Debug, Clone, Copy)]
pub struct NoCredentials;

#[async_trait]
impl Credentials for NoCredentials {
    async fn of(&self, _provider: &str) -> Arc<[Arc<Upstream>]> {
        Arc::new([])
    }
}

/// A list that does not change.
#[derive(Debug, Default)]
pub struct Upstreams(BTreeMap<&'static str, Arc<[Arc<Upstream>]>>);

impl Upstreams {
    /// In each provider's order of preference.
    pub fn new(upstreams: impl IntoIterator<Item = Upstream>) -> Self {
        let mut by_provider: BTreeMap<&'static str, Vec<Arc<Upstream>>> = BTreeMap::new();
        for upstream in upstreams {
            by_provider.entry(upstream.provider()).or_default().push(Arc::new(upstream));
        }
        Self(by_provider.into_iter().map(|(provider, upstreams)| (provider, upstreams.into())).collect())
    }
}

#[async_trait]
impl Credentials for Upstreams {
    async fn of(&self, provider: &str) -> Arc<[Arc<Upstream>]> {
        self.0.get(provider).cloned().unwrap_or_default()
    }
}
