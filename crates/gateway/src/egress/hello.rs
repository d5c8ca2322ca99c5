//! The first thing a TLS client says, read for the one field that is not encrypted: whom it wants to speak to.
//!
//! The parser takes what has arrived so far and either wants more, finds the name, or refuses. It accepts only what a
//! TLS server would accept, within a bound, so that nobody behind us reads another name out of the same bytes.

use super::host::{BadHost, HostName};

/// A ClientHello is a few hundred bytes; with post-quantum keys some two thousand.
pub(crate) const MAX_HELLO: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const RECORD_HEADER: usize = 5;
const MAX_RECORD: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hello {
    /// What has come so far is the beginning of one.
    Incomplete,
    For(HostName),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadHello {
    #[error("the connection does not begin with TLS")]
    NotTls,
    #[error("the TLS ClientHello is too long")]
    TooLong,
    #[error("the TLS ClientHello is malformed")]
    Malformed,
    #[error("the TLS ClientHello names no host (SNI)")]
    NoName,
    #[error("the TLS ClientHello names something that is not a host: {0}")]
    BadName(BadHost),
    #[error("the TLS ClientHello hides its host (it is encrypted)")]
    Hidden,
}

/// Reads the beginning of a connection.
pub(crate) fn read(bytes: &[u8]) -> Result<Hello, BadHello> {
    let Some(message) = handshake(bytes)? else {
        return if bytes.len() >= MAX_HELLO { Err(BadHello::TooLong) } else { Ok(Hello::Incomplete) };
    };
    client_hello(&message).map(Hello::For)
}

/// Puts the first handshake message together, which may be spread over several records.
fn handshake(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, BadHello> {
    let mut message = Vec::new();
    loop {
        if let [kind, ..] = message[..]
            && kind != CLIENT_HELLO
        {
            return Err(BadHello::NotTls);
        }
        if let [_, a, b, c, ref body @ ..] = message[..] {
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if length > MAX_HELLO {
                return Err(BadHello::TooLong);
            }
            if body.len() >= length {
                // Nothing else may come before the server has answered.
                return if body.len() == length { Ok(Some(body.to_vec())) } else { Err(BadHello::Malformed) };
            }
        }
        match *bytes {
            [] => return Ok(None),
            [kind, ..] if kind != HANDSHAKE => return Err(BadHello::NotTls),
            [_, major, ..] if major != 3 => return Err(BadHello::NotTls),
            [_, _, _, high, low, ref rest @ ..] => {
                let length = usize::from(high) << 8 | usize::from(low);
                if length == 0 || length > MAX_RECORD {
                    return Err(BadHello::Malformed);
                }
                let arrived = rest.len().min(length);
                message.extend_from_slice(&rest[..arrived]);
                bytes = if arrived < length { &[] } else { &bytes[RECORD_HEADER + length..] };
            }
            _ => return Ok(None),
        }
    }
}

fn client_hello(body: &[u8]) -> Result<HostName, BadHello> {
    let mut body = Reader(body);
    body.take(2 + 32)?;
    body.prefixed_u8()?;
    body.prefixed_u16()?;
    body.prefixed_u8()?;
    if body.0.is_empty() {
        return Err(BadHello::NoName);
    }
    let mut extensions = Reader(body.prefixed_u16()?);
    body.end()?;
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.prefixed_u16()?;
        match kind {
            ENCRYPTED_CLIENT_HELLO => return Err(BadHello::Hidden),
            // Twice would let the server choose.
            SERVER_NAME if name.is_some() => return Err(BadHello::Malformed),
            SERVER_NAME => name = Some(server_name(content)?),
            _ => {}
        }
    }
    name.ok_or(BadHello::NoName)
}

/// A list that, in all of TLS's history, has had exactly one entry of exactly one kind.
fn server_name(content: &[u8]) -> Result<HostName, BadHello> {
    let mut content = Reader(content);
    let mut list = Reader(content.prefixed_u16()?);
    content.end()?;
    if list.take(1)? != [0] {
        return Err(BadHello::Malformed);
    }
    let name = list.prefixed_u16()?;
    list.end()?;
    let name = std::str::from_utf8(name).map_err(|_| BadHello::BadName(BadHost::Character))?;
    HostName::parse(name).map_err(BadHello::BadName)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], BadHello> {
        let (front, rest) = self.0.split_at_checked(length).ok_or(BadHello::Malformed)?;
        self.0 = rest;
        Ok(front)
    }

    fn u16(&mut self) -> Result<u16, BadHello> {
        let bytes = self.take(2)?;
        Ok(u16::from(bytes[0]) << 8 | u16::from(bytes[1]))
    }

    fn prefixed_u8(&mut self) -> Result<&'a [u8], BadHello> {
        let length = usize::from(self.take(1)?[0]);
        self.take(length)
    }

    fn prefixed_u16(&mut self) -> Result<&'a [u8], BadHello> {
        let length = usize::from(self.u16()?);
        self.take(length)
    }

    fn end(&self) -> Result<(), BadHello> {
        if self.0.is_empty() { Ok(()) } else { Err(BadHello::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// What rustls really sends.
    fn real(host: &str, sni: bool) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.enable_sni = sni;
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes).unwrap();
        bytes
    }

    fn name(text: &str) -> Hello {
        Hello::For(HostName::parse(text).unwrap())
    }

    /// The same message in records of `size` bytes.
    fn in_records(bytes: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let mut record = vec![22, 3, 1];
            record.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
            record.extend_from_slice(part);
            record
        };
        bytes[RECORD_HEADER..].chunks(size).flat_map(record).collect()
    }

    /// Adds an extension to a hello in a single record.
    fn with_extension(bytes: &[u8], kind: u16, content: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let mut add = kind.to_be_bytes().to_vec();
        add.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
        add.extend_from_slice(content);
        let more = add.len();
        // Session id, cipher suites and compression stand before the length of the extensions.
        let mut at = RECORD_HEADER + 4 + 34;
        at += 1 + usize::from(bytes[at]);
        at += 2 + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        at += 1 + usize::from(bytes[at]);
        for (at, width) in [(3, 2), (RECORD_HEADER + 1, 3), (at, 2)] {
            let old = bytes[at..at + width].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let new = (old + more).to_be_bytes();
            bytes[at..at + width].copy_from_slice(&new[8 - width..]);
        }
        bytes.extend(add);
        bytes
    }

    #[test]
    fn the_name_of_a_real_client_is_found_in_any_split() {
        let bytes = real("Static.Example.com", true);
        assert_eq!(read(&bytes), Ok(name("static.example.com")));
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Ok(Hello::Incomplete), "{end}");
        }
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(read(&in_records(&bytes, size)), Ok(name("static.example.com")), "{size}");
        }
    }

    #[test]
    fn greetings_that_hide_or_double_their_name_are_refused() {
        let plain = real("example.com", true);
        assert_eq!(read(&real("example.com", false)), Err(BadHello::NoName));
        assert_eq!(read(&real("127.0.0.1", true)), Err(BadHello::NoName));
        assert_eq!(read(&with_extension(&plain, ENCRYPTED_CLIENT_HELLO, &[0; 9])), Err(BadHello::Hidden));
        let sni = |host: &str| {
            let length = u16::try_from(host.len()).unwrap();
            let mut content = (length + 3).to_be_bytes().to_vec();
            content.push(0);
            content.extend_from_slice(&length.to_be_bytes());
            content.extend_from_slice(host.as_bytes());
            content
        };
        assert_eq!(read(&with_extension(&plain, SERVER_NAME, &sni("evil.test"))), Err(BadHello::Malformed));
        let anonymous = real("example.com", false);
        assert_eq!(read(&with_extension(&anonymous, SERVER_NAME, &sni("evil.test"))), Ok(name("evil.test")));
        for host in ["127.0.0.1", "example.com.", "example.com\0.evil.test", "a@b.test", ""] {
            let read = read(&with_extension(&anonymous, SERVER_NAME, &sni(host)));
            assert!(matches!(read, Err(BadHello::BadName(_))), "{host:?} {read:?}");
        }
        let mut two = sni("example.com");
        two.extend_from_slice(&[0, 0, 1, b'x']);
        assert_eq!(read(&with_extension(&anonymous, SERVER_NAME, &two)), Err(BadHello::Malformed));
    }

    #[test]
    fn what_is_not_tls_is_refused_at_its_first_byte() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-x", b"\x80\x2e\x01\x03\x01", b"\x15\x03\x01\x00\x02"] {
            assert_eq!(read(&bytes[..1]), Err(BadHello::NotTls));
        }
        assert_eq!(read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), Err(BadHello::NotTls));
        assert_eq!(read(&[22, 3, 1, 0, 4, 1, 0xff, 0, 0]), Err(BadHello::TooLong));
        assert_eq!(read(&[22, 3, 1, 0, 0]), Err(BadHello::Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes);
        }

        #[test]
        fn no_damage_makes_it_panic_or_change_its_mind(at in 0usize..2000, byte: u8, cut in 0usize..2000) {
            let mut bytes = real("example.com", true);
            let (at, cut) = (at % bytes.len(), cut % bytes.len());
            bytes[at] = byte;
            if let (Ok(Hello::For(early)), Ok(Hello::For(late))) = (read(&bytes[..cut]), read(&bytes)) {
                prop_assert_eq!(early, late);
            }
        }

        #[test]
        fn records_may_end_anywhere(size in 1usize..700) {
            prop_assert_eq!(read(&in_records(&real("example.com", true), size)), Ok(name("example.com")));
        }
    }
}
