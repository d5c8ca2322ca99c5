//! The proxy as a hostile client sees it. Names lead to loopback here, which an injected check allows; nothing else does.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use harvest_core::EgressVerdict;
use harvest_gateway::egress::{Access, Network, Policy, Record, Recorder, Resolver, not_public};
use harvest_gateway::{Gateway, Options};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;

use crate::support::{Served, serve_with};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Answers in turn, the last one for ever, and counts how often it was asked.
#[derive(Debug, Default)]
struct Names {
    answers: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Resolver for Names {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.strip_suffix('.').expect("names are looked up as they are, without search domains");
        let mut asked = self.asked.lock().unwrap();
        let before = asked.iter().filter(|name| *name == host).count();
        asked.push(host.to_owned());
        let answers = self.answers.get(host).ok_or(io::ErrorKind::NotFound)?;
        Ok(answers[before.min(answers.len() - 1)].clone())
    }
}

#[derive(Debug)]
struct Told(mpsc::UnboundedSender<Record>);

#[async_trait]
impl Recorder for Told {
    async fn record(&self, record: Record) {
        self.0.send(record).unwrap();
    }
}

struct Proxy {
    served: Served,
    names: Arc<Names>,
    told: mpsc::UnboundedReceiver<Record>,
}

fn loopback_or_public(address: IpAddr) -> Option<&'static str> {
    if address == LOOPBACK { None } else { not_public(address) }
}

fn proxy(allow: &[&str], names: &[(&'static str, &[&[&str]])]) -> Proxy {
    let parse = |answers: &&[&[&str]]| {
        answers.iter().map(|all| all.iter().map(|address| address.parse().unwrap()).collect()).collect()
    };
    let answers = names.iter().map(|(name, answers)| (*name, parse(answers))).collect();
    let names = Arc::new(Names { answers, asked: Mutex::default() });
    let network = Network { resolver: names.clone(), check: loopback_or_public };
    let gateway = Gateway::new(Options { network, ..Options::default() }).unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    let policy = Policy::parse(allow.iter().copied()).unwrap();
    let served = serve_with(&gateway, None, Access { policy, registries: true, recorder: Arc::new(Told(tell)) });
    Proxy { served, names, told }
}

impl Proxy {
    /// Sends raw bytes and returns the connection and the head of the answer.
    async fn send(&self, bytes: &[u8]) -> (UnixStream, String) {
        let mut stream = UnixStream::connect(&self.served.socket).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        (stream, String::from_utf8(head).unwrap())
    }

    async fn status(&self, bytes: &[u8]) -> u16 {
        let head = self.send(bytes).await.1;
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    async fn connect(&self, authority: &str) -> (UnixStream, String) {
        self.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n").as_bytes()).await
    }

    async fn refusal(&mut self) -> String {
        let record = self.told.recv().await.unwrap();
        assert_eq!(record.verdict, EgressVerdict::Refused, "{record:?}");
        format!("{}:{} {}", record.host, record.port, record.reason.unwrap())
    }
}

/// A server that takes one connection, and the port it is at.
async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// What rustls says first.
fn hello(host: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    rest
}

#[tokio::test]
async fn nothing_is_allowed_by_default() {
    let mut proxy = proxy(&[], &[("example.com", &[&["127.0.0.1"]])]);
    let (mut stream, head) = proxy.connect("example.com:443").await;
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    stream.shutdown().await.unwrap();
    let said = String::from_utf8(rest(&mut stream).await).unwrap();
    insta::assert_snapshot!(said);
    assert_eq!(proxy.refusal().await, "example.com:443 it is not on the list of allowed hosts");
    let plain = b"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n";
    assert_eq!(proxy.status(plain).await, 403);
    assert_eq!(proxy.names.asked.lock().unwrap().len(), 0, "a refused name is not even looked up: no DNS tunnel");
}

#[tokio::test]
async fn tricks_with_the_host_lead_nowhere() {
    let proxy = proxy(&["example.com", "*.example.com", "example.com:8443"], &[]);
    let tricks: &[&[u8]] = &[
        b"example.com\0.evil.test:443",
        b"example.com%00.evil.test:443",
        b"example.com.:443",
        b"evil.test:443",
        b"notexample.com:443",
        b"example.com.evil.test:443",
        b"user@example.com:443",
        b"example.com@evil.test:443",
        b"example.com:443@evil.test:443",
        b"example.com:80:443",
        b"example.com:22",
        b"example.com:0",
        b"example.com:99999",
        b"example.com",
        b".example.com:443",
        b"*.example.com:443",
        b"a..example.com:443",
        b"ex%61mple.com:443",
        b"b\xc3\xbccher.example.com:443",
        b"example\xe3\x80\x82com:443",
        b"127.0.0.1:443",
        b"127.1:443",
        b"2130706433:443",
        b"0x7f000001:443",
        b"0177.0.0.1:443",
        b"0x7f.1:443",
        b"0:443",
        b"169.254.169.254:80",
        b"2852039166:80",
        b"[::1]:443",
        b"[::ffff:127.0.0.1]:443",
        b"[::ffff:7f00:1]:443",
        b"[fe80::1%25lo]:443",
        b"[fd00:ec2::254]:80",
        b"localhost:443",
        b"/example.com:443",
        b"http://example.com:443",
    ];
    for trick in tricks {
        let connect = [b"CONNECT ", *trick, b" HTTP/1.1\r\nHost: example.com:443\r\n\r\n"].concat();
        let plain = [b"GET http://", *trick, b"/ HTTP/1.1\r\nHost: ", *trick, b"\r\n\r\n"].concat();
        for request in [connect, plain] {
            let status = proxy.status(&request).await;
            // Port 80 of an allowed name is allowed, so this one is looked up, in vain.
            if request.starts_with(b"GET http://example.com/") {
                continue;
            }
            assert!(matches!(status, 400 | 403 | 404), "{status} for {}", String::from_utf8_lossy(&request));
        }
    }
    let asked = proxy.names.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|name| name == "example.com"), "{asked:?}");
    // The name itself, in any case, gets as far as the look-up.
    for name in ["EXAMPLE.com:443", "a.Example.COM:443", "xn--bcher-kva.example.com:443"] {
        assert!(proxy.connect(name).await.1.starts_with("HTTP/1.1 502 "), "{name}");
    }
}

#[tokio::test]
async fn names_with_any_private_address_are_refused() {
    let (listener, port) = listen().await;
    let rule = format!("*.example.com:{port}");
    let mut proxy = proxy(
        &[&rule],
        &[
            ("mixed.example.com", &[&["127.0.0.1", "10.0.0.1"]]),
            ("metadata.example.com", &[&["169.254.169.254"]]),
            ("metadata6.example.com", &[&["fd00:ec2::254"]]),
            ("loopback6.example.com", &[&["::1"]]),
            ("mapped.example.com", &[&["::ffff:10.0.0.1"]]),
            ("nat64.example.com", &[&["64:ff9b::a9fe:a9fe"]]),
            ("sixtofour.example.com", &[&["2002:a00:1::1"]]),
            ("carrier.example.com", &[&["100.64.0.1"]]),
            ("zero.example.com", &[&["0.0.0.0"]]),
        ],
    );
    for name in ["mixed", "metadata", "metadata6", "loopback6", "mapped", "nat64", "sixtofour", "carrier", "zero"] {
        let host = format!("{name}.example.com:{port}");
        assert!(proxy.connect(&host).await.1.starts_with("HTTP/1.1 403 "), "{host}");
        assert!(proxy.refusal().await.contains("the name resolves to "), "{host}");
        let plain = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(proxy.status(plain.as_bytes()).await, 403, "{host}");
    }
    let nobody = tokio::time::timeout(std::time::Duration::ZERO, listener.accept()).await;
    assert!(nobody.is_err(), "nothing may have connected");
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_judged_by_what_is_connected_to() {
    let (listener, port) = listen().await;
    let rule = format!("rebind.example.com:{port}");
    let proxy = proxy(&[&rule], &[("rebind.example.com", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let (_first, head) = proxy.connect(&rule).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    // The connection went where the first answer led, without a second look-up.
    assert_eq!(proxy.names.asked.lock().unwrap().len(), 1);
    listener.accept().await.unwrap();
    assert!(proxy.connect(&rule).await.1.starts_with("HTTP/1.1 403 "));
    assert_eq!(proxy.names.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_counts_them() {
    let (listener, port) = listen().await;
    let rule = format!("good.example.com:{port}");
    let mut proxy = proxy(&[&rule], &[("good.example.com", &[&["127.0.0.1"]])]);
    let (mut client, head) = proxy.connect(&rule).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let hello = hello("good.example.com");
    // In pieces, as a network would.
    for piece in hello.chunks(100) {
        client.write_all(piece).await.unwrap();
        client.flush().await.unwrap();
    }
    let (mut server, _) = listener.accept().await.unwrap();
    let mut got = vec![0; hello.len()];
    server.read_exact(&mut got).await.unwrap();
    assert_eq!(got, hello);
    server.write_all(b"answer").await.unwrap();
    let mut answer = [0; 6];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"answer");
    client.write_all(b"more").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, b"more");
    drop(server);
    assert_eq!(rest(&mut client).await, b"");
    proxy.served.serving.stop().await;
    let first = proxy.told.recv().await.unwrap();
    assert_eq!((first.verdict, first.connections, first.sent_bytes), (EgressVerdict::Allowed, 1, 0));
    let sum = proxy.told.recv().await.unwrap();
    assert_eq!((sum.sent_bytes, sum.received_bytes), (hello.len() as u64 + 4, 6));
    assert_eq!((sum.host.as_str(), sum.port, sum.reason), ("good.example.com", port, None));
}

#[tokio::test]
async fn a_greeting_for_another_host_goes_nowhere() {
    let (listener, port) = listen().await;
    let rule = format!("good.example.com:{port}");
    let mut proxy = proxy(&[&rule], &[("good.example.com", &[&["127.0.0.1"]])]);
    let fronted = hello("evil.test");
    let greetings: [(&[u8], &str); 4] = [
        (&fronted, "the TLS ClientHello names evil.test instead"),
        (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "the connection does not begin with TLS"),
        (&hello("127.0.0.1"), "the TLS ClientHello names no host (SNI)"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the connection does not begin with TLS"),
    ];
    for (number, (greeting, reason)) in greetings.into_iter().enumerate() {
        let (mut client, head) = proxy.connect(&rule).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        client.write_all(greeting).await.unwrap();
        client.shutdown().await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        assert_eq!(rest(&mut server).await, b"", "not a byte got out");
        assert_eq!(rest(&mut client).await, b"", "cut without an answer");
        if number == 0 {
            assert_eq!(proxy.told.recv().await.unwrap().verdict, EgressVerdict::Allowed);
            assert_eq!(proxy.refusal().await, format!("{rule} {reason}"));
        }
    }
}

#[tokio::test]
async fn the_end_of_a_session_ends_its_tunnels() {
    let (listener, port) = listen().await;
    let rule = format!("good.example.com:{port}");
    let proxy = proxy(&[&rule], &[("good.example.com", &[&["127.0.0.1"]])]);
    let (mut client, _) = proxy.connect(&rule).await;
    client.write_all(&hello("good.example.com")).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    server.read_u8().await.unwrap();
    proxy.served.serving.stop().await;
    rest(&mut server).await;
    assert_eq!(rest(&mut client).await, b"");
}

#[tokio::test]
async fn plain_http_is_passed_on_to_the_host_it_names() {
    let (listener, port) = listen().await;
    let host = format!("good.example.com:{port}");
    let proxy = proxy(&[&host], &[("good.example.com", &[&["127.0.0.1"]])]);
    let answering = tokio::spawn(async move {
        let (mut server, _): (TcpStream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(server.read_u8().await.unwrap());
        }
        let mut body = [0; 4];
        server.read_exact(&mut body).await.unwrap();
        server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: x\r\nX-Own: y\r\n\r\nhi").await.unwrap();
        (String::from_utf8(head).unwrap(), body)
    });
    let request = format!(
        "POST http://GOOD.example.com:{port}/a?b=c HTTP/1.1\r\nHost: good.example.com:{port}\r\nContent-Length: 4\r\n\
         Proxy-Authorization: Basic x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\nbody"
    );
    let (mut client, head) = proxy.send(request.as_bytes()).await;
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("x-own: y") && !head.contains("keep-alive"), "{head}");
    assert_eq!(rest(&mut client).await, b"hi");
    let (seen, body) = answering.await.unwrap();
    assert_eq!(&body, b"body");
    assert!(seen.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{seen}");
    let seen = seen.to_ascii_lowercase();
    assert!(seen.contains(&format!("host: {host}\r\n")) && seen.contains("x-end: 2"), "{seen}");
    assert!(!seen.contains("proxy-auth") && !seen.contains("x-hop"), "{seen}");
}

#[tokio::test]
async fn a_host_header_that_differs_is_refused() {
    let proxy = proxy(&["good.example.com"], &[("good.example.com", &[&["127.0.0.1"]])]);
    for headers in
        ["Host: evil.test", "Host: good.example.com\r\nHost: evil.test", "Host: good.example.com:81", "X-None: x"]
    {
        let request = format!("GET http://good.example.com/ HTTP/1.1\r\n{headers}\r\n\r\n");
        assert!(matches!(proxy.status(request.as_bytes()).await, 400 | 403), "{headers}");
    }
    for scheme in ["https", "ftp", "file"] {
        let request = format!("GET {scheme}://good.example.com/ HTTP/1.1\r\nHost: good.example.com\r\n\r\n");
        assert_eq!(proxy.status(request.as_bytes()).await, 403, "{scheme}");
    }
    assert_eq!(proxy.names.asked.lock().unwrap().len(), 0);
}
