//! Which addresses a name may lead to: those of the public internet. A name is judged by every address it has, and the
//! connection goes to one of exactly those, so a second answer of its server changes nothing.

use std::fmt::{self, Debug};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::host::HostName;

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How many of a name's addresses are tried.
const MAX_TRIED: usize = 4;

/// Looks names up.
#[async_trait]
pub trait Resolver: Send + Sync + Debug {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of this machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Says why an address may not be connected to; `None` when it may.
pub type AddressCheck = fn(IpAddr) -> Option<&'static str>;

/// How the gateway finds and judges other hosts. Tests put their own parts in; no setting does.
#[derive(Clone)]
pub struct Network {
    pub resolver: Arc<dyn Resolver>,
    pub check: AddressCheck,
}

impl Default for Network {
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver), check: not_public }
    }
}

impl Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("resolver", &self.resolver).finish_non_exhaustive()
    }
}

/// Why a host could not be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error("the name could not be looked up")]
    Unknown,
    #[error("the name resolves to {address}, which is {what}")]
    Forbidden { address: IpAddr, what: &'static str },
    #[error("it does not answer")]
    NoAnswer,
}

impl Network {
    /// All addresses of a host. One that is not public spoils them all: an attacker's name server chooses the order.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Unreachable> {
        let found = match timeout(RESOLVE_TIMEOUT, self.resolver.resolve(host)).await {
            Ok(Ok(found)) if !found.is_empty() => found,
            _ => return Err(Unreachable::Unknown),
        };
        match found.iter().find_map(|address| Some((*address, (self.check)(*address)?))) {
            Some((address, what)) => Err(Unreachable::Forbidden { address, what }),
            None => Ok(found),
        }
    }

    /// Whether a session that may reach this host would reach it; else why not.
    pub async fn reach(&self, host: &str, port: u16) -> Result<(), String> {
        let host = HostName::parse(host).map_err(|error| error.to_string())?;
        self.connect(&host, port).await.map(drop).map_err(|error| error.to_string())
    }

    pub(crate) async fn connect(&self, host: &HostName, port: u16) -> Result<TcpStream, Unreachable> {
        // The dot keeps the search domains of this machine out of it.
        let addresses = self.addresses(&format!("{host}.")).await?;
        for address in addresses.into_iter().take(MAX_TRIED) {
            if let Ok(Ok(stream)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(SocketAddr::new(address, port))).await {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
        }
        Err(Unreachable::NoAnswer)
    }
}

/// Looks up names as the proxy does. The client connects to the addresses it is given and looks up nothing itself.
#[derive(Debug, Clone)]
pub(crate) enum Names {
    /// Of which every address must be public.
    Public(Network),
    /// That an operator chose.
    Any(Network),
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let found = match names {
                Self::Public(network) => network.addresses(name.as_str()).await?,
                Self::Any(network) => {
                    network.resolver.resolve(name.as_str()).await.map_err(|_| Unreachable::Unknown)?
                }
            };
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// What kind of address it is, unless it is one of the public internet.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

/// Where a network begins, and how many bits its addresses share.
type Block = ([u8; 4], u32);

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |network: [u8; 4], bits: u32| {
        u32::from(address) >> (32 - bits) == u32::from(Ipv4Addr::from(network)) >> (32 - bits)
    };
    let kinds: [(&[Block], &'static str); 9] = [
        (&[([0, 0, 0, 0], 8)], "unspecified"),
        (&[([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16)], "private"),
        (&[([100, 64, 0, 0], 10)], "shared by a carrier"),
        (&[([127, 0, 0, 0], 8)], "loopback"),
        (&[([169, 254, 0, 0], 16)], "link-local, where machines keep their metadata"),
        (&[([192, 0, 0, 0], 24), ([192, 88, 99, 0], 24)], "reserved for protocols"),
        (&[([192, 0, 2, 0], 24), ([198, 51, 100, 0], 24), ([203, 0, 113, 0], 24)], "reserved for documentation"),
        (&[([198, 18, 0, 0], 15)], "reserved for benchmarks"),
        (&[([224, 0, 0, 0], 3)], "multicast or reserved"),
    ];
    kinds
        .into_iter()
        .find(|(networks, _)| networks.iter().any(|(from, bits)| within(*from, *bits)))
        .map(|(_, what)| what)
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(embedded) = embedded_v4(address) {
        return not_public_v4(embedded);
    }
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Some("loopback or unspecified"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfc00..=0xfdff, ..] => Some("unique-local, where machines keep their metadata"),
        [0xfec0..=0xfeff, ..] => Some("site-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("reserved for documentation"),
        [0x2001, 0x2, 0, ..] => Some("reserved for benchmarks"),
        // Teredo hides an address in another way, and nothing of this block is an ordinary host.
        [0x2001, 0..=0x1ff, ..] => Some("reserved for protocols"),
        [0x64, 0xff9b, 1, ..] => Some("a translated private address"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("not assigned"),
    }
}

/// Addresses that a translator on the way turns into IPv4: mapped, compatible, NAT64 and 6to4.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let joined = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(joined(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(joined(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(joined(high, low)),
        [0x2002, high, low, ..] => Some(joined(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_pass() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001:0:1::1",
            "2001:db8::1",
            "2001:2::1",
            "3fff::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd12:3456::1",
            "ff02::1",
            "100::1",
            "4000::1",
        ] {
            assert!(not_public(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "2001:4860:4860::8888",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
        }
    }
}
