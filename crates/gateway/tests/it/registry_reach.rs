//! How registries are reached: addresses, proxies, certificates, and the troubles that are recorded.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use harvest_gateway::egress::{Access, Network, Record, Recorder, Resolver};
use harvest_gateway::registry::{self, Ecosystem, Trouble};
use harvest_gateway::{Gateway, Options};
use hyper::{Method, StatusCode};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::registry::{Fake, Hand, TARBALL, get, lead_to, publish};
use crate::support::serve_with;

#[derive(Debug)]
struct Private;

#[async_trait::async_trait]
impl Resolver for Private {
    async fn resolve(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
}

#[derive(Debug, Default)]
struct Troubles(Mutex<Vec<Trouble>>);

#[async_trait::async_trait]
impl Recorder for Troubles {
    async fn record(&self, _record: Record) {}

    async fn registry_failed(&self, trouble: Trouble) {
        self.0.lock().unwrap().push(trouble);
    }
}

/// Asks for an npm package, and returns what is answered and what is recorded.
async fn ask_npm(registries: registry::Options, network: Network) -> (StatusCode, String, Vec<Trouble>) {
    ask(registries, network, "/registry/npm/a").await
}

async fn ask(registries: registry::Options, network: Network, path: &str) -> (StatusCode, String, Vec<Trouble>) {
    let gateway = Gateway::new(Options { registries: Some(registries), network, ..Options::default() }).unwrap();
    let troubles = Arc::new(Troubles::default());
    let served = serve_with(&gateway, None, Access { recorder: troubles.clone(), ..Access::none() });
    let (status, said) = get(&served, path).await;
    let troubles = std::mem::take(&mut *troubles.0.lock().unwrap());
    (status, String::from_utf8_lossy(&said).trim_end().to_owned(), troubles)
}

fn npm_at(folder: &Path, mirror: Option<&str>) -> registry::Options {
    registry::Options {
        folder: folder.to_owned(),
        max_bytes: 1 << 30,
        mirrors: mirror.map(|url| (Ecosystem::Npm, url.to_owned())).into_iter().collect(),
        file_hosts: Vec::new(),
        proxy: None,
        ca_file: None,
        clock: Arc::new(Hand::default()),
    }
}

#[tokio::test]
async fn a_public_registry_must_have_a_public_address_and_says_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let network = Network { resolver: Arc::new(Private), ..Network::default() };
    let (status, said, troubles) = ask_npm(npm_at(folder.path(), None), network).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert_eq!(said, "npm: registry.npmjs.org does not resolve to a public address here");
    assert_eq!(
        troubles.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "npm: registry.npmjs.org resolves to 127.0.0.1, which is loopback; if it is a mirror of your own, name it under \
          [registries] in harvest.toml"
        ],
        "the operator is told more than the sandbox"
    );
    assert!(troubles[0].is_lasting);
}

#[tokio::test]
async fn files_of_a_mirror_come_from_a_host_inside_that_is_named_and_from_no_other() {
    let (folder, index, files) = (tempfile::tempdir().unwrap(), Fake::start().await, Fake::start().await);
    lead_to(&index, "a", &format!("{}/a-1.0.0.tgz", files.address), b"x");
    files.page("/a-1.0.0.tgz", "x");
    let alone = npm_at(folder.path(), Some(&index.address));
    let (status, said, troubles) = ask(alone.clone(), Network::default(), TARBALL).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert_eq!(said, "npm: the registry leads to a host that is not one of its own");
    assert_eq!(
        troubles.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "npm: the mirror leads to 127.0.0.1, which is not one of its hosts; if it serves the mirror's files, add it to \
          `file_hosts` under [registries] in harvest.toml"
        ]
    );
    assert!(files.asked().is_empty());
    let with_files = registry::Options { file_hosts: vec![files.address.clone()], ..alone };
    let (status, said, troubles) = ask(with_files, Network::default(), TARBALL).await;
    assert_eq!((status, said.as_str(), troubles), (StatusCode::OK, "x", vec![]));
}

#[tokio::test]
async fn the_hosts_of_files_are_tried_too() {
    let (folder, mirror) = (tempfile::tempdir().unwrap(), Fake::start().await);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (answers, gone) = (mirror.address.clone(), format!("http://{silent}"));
    let network = Network { resolver: Arc::new(Private), ..Network::default() };
    let mut options = registry::Options { file_hosts: vec![answers, gone], ..npm_at(folder.path(), None) };
    options.mirrors = Ecosystem::ALL.map(|ecosystem| (ecosystem, mirror.address.clone())).into();
    options.mirrors.insert(Ecosystem::Pypi, "https://pypi.org/simple".to_owned());
    let reached = registry::reach(&options, &network).await.unwrap();
    let of = |ecosystem| {
        let of = reached.iter().filter(move |reach| reach.ecosystem == ecosystem && reach.is_own);
        of.map(|reach| (reach.host.as_str(), reach.trouble.as_deref())).collect::<Vec<_>>()
    };
    let local = "127.0.0.1";
    assert_eq!(of(Some(Ecosystem::Npm)), [(local, None)]);
    assert_eq!(of(None), [(local, None), (local, Some("127.0.0.1 cannot be reached: it does not answer"))]);
    // The address inside is connected to, where nothing answers; it is not refused.
    let pypi = of(Some(Ecosystem::Pypi));
    assert_eq!(pypi.iter().map(|(host, _)| *host).collect::<Vec<_>>(), ["pypi.org", "files.pythonhosted.org"]);
    assert!(pypi.iter().all(|(_, trouble)| trouble.is_some_and(|why| why.contains("cannot be reached"))), "{pypi:?}");
    options.mirrors.remove(&Ecosystem::Pypi);
    let reached = registry::reach(&options, &network).await.unwrap();
    let files = reached.iter().find(|reach| reach.host == "files.pythonhosted.org").unwrap();
    let trouble = files.trouble.as_deref().unwrap();
    assert!(trouble.ends_with("add it to `file_hosts` under [registries] in harvest.toml"), "{trouble}");
}

#[tokio::test]
async fn a_registry_that_cannot_be_reached_is_recorded_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (mirror, reason) in [
        (format!("http://{silent}"), "127.0.0.1 cannot be reached: it does not answer"),
        ("http://mirror.invalid".to_owned(), "mirror.invalid cannot be reached: its name cannot be looked up"),
    ] {
        let (status, said, troubles) = ask_npm(npm_at(folder.path(), Some(&mirror)), Network::default()).await;
        assert_eq!((status, said), (StatusCode::BAD_GATEWAY, format!("npm: {reason}")));
        let wanted = Trouble { ecosystem: Ecosystem::Npm, reason: reason.to_owned(), is_lasting: false };
        assert_eq!(troubles, [wanted]);
    }
    // A package that is not there is no trouble of the registry.
    let fake = Fake::start().await;
    let (status, _, troubles) = ask_npm(npm_at(folder.path(), Some(&fake.address)), Network::default()).await;
    assert_eq!((status, troubles), (StatusCode::NOT_FOUND, vec![]));
}

#[tokio::test]
async fn public_registries_are_reached_by_the_proxy_that_is_named_and_mirrors_directly() {
    let (folder, proxy, mirror) = (tempfile::tempdir().unwrap(), Fake::start().await, Fake::start().await);
    let by_proxy = |options| registry::Options { proxy: Some(proxy.address.clone()), ..options };
    let (status, ..) = ask_npm(by_proxy(npm_at(folder.path(), None)), Network::default()).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    let asked = proxy.asked();
    assert_eq!((&asked[0].method, asked[0].uri.to_string().as_str()), (&Method::CONNECT, "registry.npmjs.org:443"));

    publish(&mirror, "a", b"x", b"x");
    let (status, said, _) = ask_npm(by_proxy(npm_at(folder.path(), Some(&mirror.address))), Network::default()).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert!(proxy.asked().is_empty());
}

#[tokio::test]
async fn what_may_pass_is_recorded_when_it_is_found_and_not_while_nobody_tries() {
    let folder = tempfile::tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let registries = npm_at(folder.path(), Some(&format!("http://{silent}")));
    let gateway = Gateway::new(Options { registries: Some(registries), ..Options::default() }).unwrap();
    let troubles = Arc::new(Troubles::default());
    let served = serve_with(&gateway, None, Access { recorder: troubles.clone(), ..Access::none() });
    for said in ["it does not answer", "it will be retried soon"] {
        let (status, text) = get(&served, "/registry/npm/a").await;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(status == StatusCode::BAD_GATEWAY && text.trim_end().ends_with(said), "{text}");
    }
    assert_eq!(troubles.0.lock().unwrap().len(), 1);
}

/// A server of `/a` with a certificate of an authority that no machine knows. Prints its port.
const ENCRYPTED: &str = "
import http.server, ssl, subprocess, sys
def sign(name, *more):
    new = ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
    made = [*new, '-keyout', name + '.key', '-out', name + '.pem', '-subj', '/CN=' + name, *more]
    subprocess.run(made, check=True, capture_output=True)
sign('ca')
sign('server', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-addext', 'subjectAltName=IP:127.0.0.1',
    '-addext', 'basicConstraints=critical,CA:FALSE')
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{\"name\":\"a\",\"versions\":{}}'
        self.send_response(200)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Answer)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('server.pem', 'server.key')
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
";

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a server that speaks TLS with a certificate of its own")]
async fn a_certificate_of_ones_own_is_trusted_only_where_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = tokio::process::Command::new("python3")
        .args(["-c", ENCRYPTED])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).await.unwrap();
    let mirror = format!("https://127.0.0.1:{}", port.trim());

    let (status, said, troubles) = ask_npm(npm_at(folder.path(), Some(&mirror)), Network::default()).await;
    let reason = "npm: 127.0.0.1 cannot be reached: its certificate is not trusted by this machine";
    assert_eq!((status, said.as_str()), (StatusCode::BAD_GATEWAY, reason));
    assert!(troubles[0].is_lasting);

    let trusting = |file: &str| registry::Options {
        ca_file: Some(folder.path().join(file)),
        ..npm_at(folder.path(), Some(&mirror))
    };
    let (status, said, _) = ask_npm(trusting("ca.pem"), Network::default()).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    for file in ["missing.pem", "ca.key"] {
        let options = Options { registries: Some(trusting(file)), ..Options::default() };
        let error = Gateway::new(options).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains("cannot be used"), "{error}");
    }
}
