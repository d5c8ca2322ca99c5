//! Proxies in front of the server, which tell whose request they pass on.

use std::net::{IpAddr, SocketAddr};
use std::sync::Once;

use axum::http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Networks whose `X-Forwarded-For` is believed. Anyone else can write what they like into it.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// The address that a request comes from. Each proxy appends the address that it was asked from, so the list is read from
    /// its end: the first address that is no proxy of ours is the client's, and what stands before it is only claimed.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let mut values: Vec<&str> =
            headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        while let Some(value) = values.pop() {
            for part in value.rsplit(',') {
                if !self.has(client) {
                    self.warn(peer);
                    return client;
                }
                let Some(before) = address(part.trim()) else { return client };
                client = before;
            }
        }
        client
    }

    fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Without the option every client of a proxy shares the rates of one address, which is worth a line in the log.
    fn warn(&self, peer: IpAddr) {
        static ONCE: Once = Once::new();
        if !self.has(peer.to_canonical()) {
            ONCE.call_once(|| {
                tracing::warn!(%peer, "requests come through a proxy that --trusted-proxy does not name: all of its clients count as one address");
            });
        }
    }
}

/// Some proxies name the port as well.
fn address(text: &str) -> Option<IpAddr> {
    let plain = text.parse().ok();
    let address = plain.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    let address = address.or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok())?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &[&str], peer: &str, forwarded: &[&str]) -> String {
        let proxies = Proxies::new(trusted.iter().map(|text| text.parse().unwrap()).collect());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_says_for_whom_it_asks() {
        let ours = ["10.0.0.0/8", "::1/128"];
        assert_eq!(client(&[], "192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client(&ours, "192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client(&ours, "10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(&ours, "::ffff:10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(&ours, "::1", &["2001:db8::1"]), "2001:db8::1");
        assert_eq!(client(&ours, "10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn what_a_client_claims_before_its_own_address_is_not_believed() {
        let ours = ["10.0.0.0/8"];
        assert_eq!(client(&ours, "10.0.0.1", &["203.0.113.9, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(&ours, "10.0.0.1", &["203.0.113.9", "198.51.100.7, 10.0.0.2"]), "198.51.100.7");
        assert_eq!(client(&ours, "10.0.0.1", &["203.0.113.9, unknown"]), "10.0.0.1");
    }

    #[test]
    fn an_address_may_come_with_a_port() {
        let ours = ["10.0.0.0/8"];
        assert_eq!(client(&ours, "10.0.0.1", &["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(client(&ours, "10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(client(&ours, "10.0.0.1", &["[2001:db8::1]"]), "2001:db8::1");
    }
}
