//! How soon an open stream ends once the right to it is gone: its token is revoked by another process or over another server,
//! it expires, or its project loses the repository.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use harvest_core::{Timestamp, TokenId};
use harvest_store::{Access, AccessToken, Sqlite};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Size;
use super::api::{PATIENCE, Server};
use super::place::{self, Place};
use super::postgres::Cluster;
use super::programs::{output, program};
use super::table::{Amount, Bound, Row};

const SOON: Duration = Duration::from_secs(1);
/// How long a token lives that expires under its stream.
const LIFE: Duration = Duration::from_millis(1500);
const FEED: &str = "/api/events";
const SHOP: &str = "/api/projects/shop";
const DATABASE: &str = "rights";

/// A way to follow a journal: the headers that ask for it, and the status that grants it.
#[derive(Clone, Copy)]
struct Kind {
    headers: &'static str,
    status: u16,
}

/// The connection ends with the stream.
const EVENT_STREAM: Kind = Kind { headers: "accept: text/event-stream\r\nconnection: close\r\n", status: 200 };
const WEB_SOCKET: Kind = Kind {
    headers: "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
              sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    status: 101,
};

pub async fn measure(binary: &Path, place: &Place, size: Size) -> anyhow::Result<Vec<Row>> {
    let rounds = size.pick(10, 3);
    let data = place.folder("rights")?.join("data");
    let on_disk = Site::start(binary, &data, &[]).await?;
    let session = place::claimed_session(&Sqlite::open(&data.join("harvest.db"))?).await?.session;
    let journal = format!("/api/sessions/{session}/events");
    let cluster = Cluster::start().await?;
    cluster.create(DATABASE)?;
    let url = cluster.url(DATABASE);
    let (folder, options) = (place.folder("rights")?, ["--database-url", &url]);
    let (first, second) = (folder.join("first"), folder.join("second"));
    let first = Site::start(binary, &first, &options).await?;
    let second = Site::start(binary, &second, &options).await?;
    let (mut revoked, mut sockets, mut expired) = (vec![], vec![], vec![]);
    let (mut removed, mut elsewhere) = (vec![], vec![]);
    for round in 0..rounds {
        revoked.push(on_disk.revoke(&journal, EVENT_STREAM).await?);
        sockets.push(on_disk.revoke(&journal, WEB_SOCKET).await?);
        expired.push(on_disk.expire(&place.folder(&format!("rights-{round}"))?, &journal).await?);
        removed.push(on_disk.remove_repository(&format!("/srv/shop-{round}")).await?);
        elsewhere.push(first.revoke_over(&second).await?);
    }
    let row = |name, times: Vec<Duration>| Row {
        name,
        ours: Amount::Time(times.into_iter().max().unwrap_or_default()),
        theirs: None,
        against: "",
        bound: Bound::Within(SOON),
    };
    Ok(vec![
        row("API, end of a stream after `harvest token revoke`, the longest", revoked),
        row("API, end of a WebSocket after `harvest token revoke`, the longest", sockets),
        row("API, end of a stream after its token expires, the longest", expired),
        row("API, end of a stream after its project loses a repository, the longest", removed),
        row("API, end of a stream after its token is revoked over another server, the longest", elsewhere),
    ])
}

/// A server, and an administrator of it.
struct Site<'a> {
    binary: &'a Path,
    data: &'a Path,
    options: &'a [&'a str],
    server: Server,
    admin: Token,
}

pub struct Token {
    id: String,
    pub secret: String,
}

impl<'a> Site<'a> {
    async fn start(binary: &'a Path, data: &'a Path, options: &'a [&'a str]) -> anyhow::Result<Self> {
        let server = Server::start(binary, data, options).await?;
        let admin = Token::create(binary, data, options, &["--role", "admin"]).await?;
        Ok(Self { binary, data, options, server, admin })
    }

    async fn token(&self, more: &[&str]) -> anyhow::Result<Token> {
        Token::create(self.binary, self.data, self.options, &[&["--role", "viewer"], more].concat()).await
    }

    /// By another process.
    async fn revoke(&self, path: &str, kind: Kind) -> anyhow::Result<Duration> {
        let token = self.token(&[]).await?;
        let stream = self.open(&token, path, kind).await?;
        let mut revoking = program(self.binary);
        output(revoking.arg("--data-dir").arg(self.data).args(["token", "revoke", &token.id])).await?;
        end(stream, Instant::now()).await
    }

    /// The token is made with another installation, at `elsewhere`, and moved here with another time of expiry.
    async fn expire(&self, elsewhere: &Path, path: &str) -> anyhow::Result<Duration> {
        let token = Token::create(self.binary, elsewhere, &[], &["--role", "viewer"]).await?;
        let id: TokenId = token.id.parse()?;
        let made = Sqlite::open(&elsewhere.join("harvest.db"))?.tokens_by_id(&[id]).await?;
        let made = made.into_iter().next().context("the token is not there")?;
        let (begun, now) = (Instant::now(), Timestamp::now());
        let expiring = AccessToken { expires_at: Some(now.checked_add(LIFE)?), ..made };
        Sqlite::open(&self.data.join("harvest.db"))?.add_token(expiring).await?;
        let stream = self.open(&token, path, EVENT_STREAM).await?;
        end(stream, begun + LIFE).await
    }

    async fn remove_repository(&self, repository: &str) -> anyhow::Result<Duration> {
        let shop = json!({ "name": "shop", "repositories": [repository] });
        self.send("POST", "/api/projects", &shop).await?;
        let token = self.token(&["--project", "shop"]).await?;
        let stream = self.open(&token, FEED, EVENT_STREAM).await?;
        self.send("PATCH", SHOP, &json!({ "repositories": [] })).await?;
        let took = end(stream, Instant::now()).await?;
        self.send("DELETE", SHOP, &Value::Null).await?;
        Ok(took)
    }

    /// Over this server, while another one streams.
    async fn revoke_over(&self, other: &Self) -> anyhow::Result<Duration> {
        let token = self.token(&[]).await?;
        let stream = other.open(&token, FEED, EVENT_STREAM).await?;
        self.send("DELETE", &format!("/api/tokens/{}", token.id), &Value::Null).await?;
        end(stream, Instant::now()).await
    }

    /// A stream that has begun.
    async fn open(&self, token: &Token, path: &str, kind: Kind) -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.server.address).await?;
        let head = self.head("GET", path, token);
        stream.write_all(format!("{head}{}\r\n", kind.headers).as_bytes()).await?;
        let mut greeting = [0; 2048];
        let count = stream.read(&mut greeting).await?;
        let greeting = String::from_utf8_lossy(&greeting[..count]);
        ensure!(greeting.starts_with(&format!("HTTP/1.1 {}", kind.status)), "no stream of {path}: {greeting}");
        Ok(stream)
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<()> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = self.head(method, path, &self.admin);
        let length = body.len();
        let more =
            format!("content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        let mut stream = TcpStream::connect(&self.server.address).await?;
        stream.write_all(format!("{head}{more}").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
        Ok(())
    }

    fn head(&self, method: &str, path: &str, token: &Token) -> String {
        let Self { server: Server { address, .. }, .. } = self;
        format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n", token.secret)
    }
}

impl Token {
    pub async fn create(binary: &Path, data: &Path, options: &[&str], more: &[&str]) -> anyhow::Result<Self> {
        let mut making = program(binary);
        making.arg("--data-dir").arg(data).args(["token", "create", "--json"]).args(options).args(more);
        let made: Value = serde_json::from_str(&output(&mut making).await?)?;
        let text =
            |name: &str| made[name].as_str().map(str::to_owned).with_context(|| format!("a token without {name}"));
        Ok(Self { id: text("id")?, secret: text("token")? })
    }
}

/// How long a stream lasts after `cause`.
async fn end(mut stream: TcpStream, cause: Instant) -> anyhow::Result<Duration> {
    let mut buffer = [0; 2048];
    let end = async { while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {} };
    tokio::time::timeout(PATIENCE, end).await.context("a stream lasts although its right is gone")?;
    let now = Instant::now();
    ensure!(now >= cause, "a stream ended before its right did");
    Ok(now - cause)
}
