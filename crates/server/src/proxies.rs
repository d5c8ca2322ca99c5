//! Proxies in front of the server, which tell whose request they pass on.

use std::net::{IpAddr, SocketAddr};
use std::sync::Once;

use axum::http::{HeaderMap, HeaderValue};
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
    /// its end: the first address that is no proxy of ours is the client's, and what stands before it is only claimed. The
    /// list may hold any bytes; a part that is no address ends it, and the address that was read last counts.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let mut values: Vec<&[u8]> = headers.get_all(FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
        while let Some(value) = values.pop() {
            for part in value.rsplit(|byte| *byte == b',') {
                if !self.has(client) {
                    self.warn(peer);
                    return client;
                }
                let part = std::str::from_utf8(part).ok();
                let Some(before) = part.and_then(|part| address(part.trim())) else { return client };
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
        client_of(trusted, peer, &forwarded.iter().map(|value| value.as_bytes()).collect::<Vec<_>>())
    }

    fn client_of(trusted: &[&str], peer: &str, forwarded: &[&[u8]]) -> String {
        let proxies = Proxies::new(trusted.iter().map(|text| text.parse().unwrap()).collect());
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_bytes(value).unwrap());
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
    fn a_list_that_is_not_ascii_is_believed_no_further_than_what_can_be_read() {
        let ours = ["10.0.0.0/8"];
        let of = |forwarded: &[&[u8]]| client_of(&ours, "10.0.0.1", forwarded);
        assert_eq!(of(&["\u{e9}".as_bytes()]), "10.0.0.1");
        assert_eq!(of(&[b"\xff\xfe"]), "10.0.0.1");
        // The proxy appended the address that it was asked from to the client's own bytes.
        assert_eq!(of(&[b"\xff, 198.51.100.7"]), "198.51.100.7");
        // Nothing before bytes that no proxy of ours writes is believed.
        assert_eq!(of(&[b"203.0.113.9", b"\xff"]), "10.0.0.1");
        assert_eq!(of(&[b"203.0.113.9, \xff, 10.0.0.2"]), "10.0.0.2");
    }

    #[test]
    fn an_address_may_come_with_a_port() {
        let ours = ["10.0.0.0/8"];
        assert_eq!(client(&ours, "10.0.0.1", &["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(client(&ours, "10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(client(&ours, "10.0.0.1", &["[2001:db8::1]"]), "2001:db8::1");
    }
}
