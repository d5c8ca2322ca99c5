//! Host names as the proxy understands them: one spelling per host, and nothing that two parsers could read differently.
//!
//! Names are lower-cased ASCII of letters, digits and hyphens, with at least one dot. International names come in their
//! `xn--` form, which is how clients put them on the wire. A trailing dot, an IP address in any notation, a user, an
//! escape or a control character is refused rather than cleaned up: whatever is cleaned up here might be read otherwise
//! behind us.

use std::fmt;

const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A name that can be looked up, e.g. `static.crates.io`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// Why something is no host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    #[error("the host is empty")]
    Empty,
    #[error("the host name is too long")]
    TooLong,
    #[error("the host contains an invalid character")]
    Character,
    #[error("it is an address; only names are allowed")]
    Address,
    #[error("the host ends in a dot; remove it")]
    TrailingDot,
    #[error("a part of the host is empty, too long, or begins or ends with a hyphen")]
    Label,
    #[error("the host has no dot; only complete names are allowed")]
    SingleLabel,
}

impl HostName {
    pub fn parse(text: &str) -> Result<Self, BadHost> {
        if text.is_empty() {
            return Err(BadHost::Empty);
        }
        if text.len() > MAX_NAME {
            return Err(BadHost::TooLong);
        }
        // IPv6 in brackets, bare or with a zone.
        if text.starts_with('[') || text.contains(':') {
            return Err(BadHost::Address);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        if !text.bytes().all(allowed) {
            return Err(BadHost::Character);
        }
        if text.ends_with('.') {
            return Err(BadHost::TrailingDot);
        }
        let name = text.to_ascii_lowercase();
        let fits =
            |label: &str| (1..=MAX_LABEL).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-');
        if !name.split('.').all(fits) {
            return Err(BadHost::Label);
        }
        if is_number(name.rsplit('.').next().unwrap_or_default()) {
            return Err(BadHost::Address);
        }
        if !name.contains('.') {
            return Err(BadHost::SingleLabel);
        }
        Ok(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Resolvers take a name whose last part is a number for an IPv4 address: decimal, octal or hexadecimal, in one to four
/// parts. No top-level domain is one.
fn is_number(label: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits(label) || label.strip_prefix("0x").is_some_and(hex)
}

/// `host:port` as it stands in a CONNECT request or an absolute URI; without a port, `default` is meant.
pub(crate) fn authority(text: &str, default: Option<u16>) -> Result<(HostName, u16), BadHost> {
    if text.starts_with('[') {
        return Err(BadHost::Address);
    }
    match text.split_once(':') {
        None => {
            let host = HostName::parse(text)?;
            default.map(|port| (host, port)).ok_or(BadHost::Character)
        }
        Some((host, port)) if port.contains(':') => {
            Err(if host.contains('@') { BadHost::Character } else { BadHost::Address })
        }
        Some((host, port)) => {
            let host = HostName::parse(host)?;
            let plain = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|number| plain && *number != 0);
            number.map(|number| (host, number)).ok_or(BadHost::Character)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_have_one_spelling() {
        for (text, name) in [
            ("example.com", "example.com"),
            ("EXAMPLE.Com", "example.com"),
            ("XN--Bcher-Kva.example", "xn--bcher-kva.example"),
            ("1password.com", "1password.com"),
            ("a.b-c.d0", "a.b-c.d0"),
        ] {
            assert_eq!(HostName::parse(text).unwrap().as_str(), name);
        }
    }

    #[test]
    fn tricks_are_refused() {
        use BadHost::{Address, Character, Empty, Label, SingleLabel, TooLong, TrailingDot};
        let long = format!("{}.com", "a.".repeat(130));
        for (text, why) in [
            ("", Empty),
            (long.as_str(), TooLong),
            ("example.com.", TrailingDot),
            ("example.com..", TrailingDot),
            (".", TrailingDot),
            (".example.com", Label),
            ("a..example.com", Label),
            ("-a.example.com", Label),
            ("a-.example.com", Label),
            ("localhost", SingleLabel),
            ("example.com\0.evil.test", Character),
            ("example.com\r\nx", Character),
            ("example.com\t", Character),
            (" example.com", Character),
            ("user@example.com", Character),
            ("user%40example.com", Character),
            ("example%2ecom", Character),
            ("example.com/", Character),
            ("example.com\\evil.test", Character),
            ("example.com#evil.test", Character),
            ("ex_ample.com", Character),
            ("bücher.example", Character),
            ("ｅxample.com", Character),
            ("example。com", Character),
            ("127.0.0.1", Address),
            ("127.1", Address),
            ("2130706433", Address),
            ("0177.0.0.1", Address),
            ("0x7f.0.0.1", Address),
            ("0x7f000001", Address),
            ("127.0.0.0x1", Address),
            ("0x", Address),
            ("169.254.169.254", Address),
            ("example.1", Address),
            ("::1", Address),
            ("[::1]", Address),
            ("[::ffff:127.0.0.1]", Address),
            ("fe80::1%eth0", Address),
            ("[fe80::1%25eth0]", Address),
            ("::ffff:7f00:1", Address),
        ] {
            assert_eq!(HostName::parse(text), Err(why), "{text:?}");
        }
    }

    #[test]
    fn authorities() {
        let good = |text, default| authority(text, default).map(|(host, port)| format!("{host} {port}")).ok();
        assert_eq!(good("Example.com:443", None).as_deref(), Some("example.com 443"));
        assert_eq!(good("example.com", Some(80)).as_deref(), Some("example.com 80"));
        for text in [
            "example.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:+443",
            "example.com: 443",
            "example.com:443:443",
            "user@example.com:443",
            "user:pass@example.com:443",
            "example.com.:443",
            "[::1]:443",
            "127.0.0.1:443",
            ":443",
        ] {
            assert!(authority(text, None).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_parses_is_plain(text in ".{0,40}") {
            if let Ok(name) = HostName::parse(&text) {
                let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
                prop_assert!(name.as_str().bytes().all(plain));
                prop_assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
                prop_assert_eq!(HostName::parse(name.as_str()), Ok(name.clone()));
            }
        }

        #[test]
        fn no_number_is_a_name(parts in prop::collection::vec(0u32.., 1..5), radix in 0u8..3) {
            let part = |number: &u32| match radix {
                0 => number.to_string(),
                1 => format!("0{number:o}"),
                _ => format!("0x{number:x}"),
            };
            let text = parts.iter().map(part).collect::<Vec<_>>().join(".");
            prop_assert_eq!(HostName::parse(&text), Err(BadHost::Address));
        }
    }
}
