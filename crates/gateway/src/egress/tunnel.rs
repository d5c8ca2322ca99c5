//! `CONNECT`: a way to one host for one TLS connection. What flows is not read but for its first message, which has to
//! name the same host.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::hello::{self, BadHello, Hello, MAX_HELLO};
use super::host::HostName;
use super::ledger::{Ledger, Traffic};

const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection on which nothing moves for this long is ended.
pub(super) const IDLE: Duration = Duration::from_secs(5 * 60);
/// No connection lasts longer.
pub(super) const TOTAL: Duration = Duration::from_secs(2 * 60 * 60);
const BUFFER: usize = 32 * 1024;

/// An admitted `CONNECT`, connected to the pinned address; runs once the client has been told so.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: TcpStream,
    pub(super) host: HostName,
    pub(super) port: u16,
    pub(super) traffic: Traffic,
}

impl Tunnel {
    pub(crate) async fn run(self, ledger: &Ledger) {
        let Ok(client) = self.client.await else { return };
        let mut client = TokioIo::new(client);
        let greeting = match timeout(HELLO_TIMEOUT, greet(&mut client, &self.host)).await {
            Ok(Ok(greeting)) => greeting,
            Ok(Err(refusal)) => {
                if let Refusal::Greeting(_) | Refusal::OtherName(_) = refusal {
                    ledger.refused(self.host.as_str(), self.port, refusal.to_string()).await;
                }
                return;
            }
            Err(_) => {
                ledger.refused(self.host.as_str(), self.port, "no TLS ClientHello arrived in time".to_owned()).await;
                return;
            }
        };
        // Either side hanging up is the end of a connection, not an error.
        let _ = timeout(TOTAL, splice(client, self.upstream, &greeting, &self.traffic)).await;
    }
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Greeting(#[from] BadHello),
    #[error("the TLS ClientHello names {0} instead")]
    OtherName(HostName),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads the client's greeting and returns it when it is for `host`.
async fn greet(client: &mut (impl AsyncRead + Unpin), host: &HostName) -> Result<Vec<u8>, Refusal> {
    let mut greeting = Vec::with_capacity(2048);
    loop {
        match hello::read(&greeting)? {
            Hello::For(name) if name == *host => return Ok(greeting),
            Hello::For(name) => return Err(Refusal::OtherName(name)),
            Hello::Incomplete => {}
        }
        let room = (MAX_HELLO - greeting.len().min(MAX_HELLO)) as u64;
        if (&mut *client).take(room).read_buf(&mut greeting).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

async fn splice(
    client: impl AsyncRead + AsyncWrite,
    upstream: TcpStream,
    greeting: &[u8],
    traffic: &Traffic,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_upstream, mut to_upstream) = upstream.into_split();
    let pulse = Pulse::new();
    to_upstream.write_all(greeting).await?;
    traffic.sent(greeting.len());
    let up = copy(&mut from_client, &mut to_upstream, &pulse, |bytes| traffic.sent(bytes));
    let down = copy(&mut from_upstream, &mut to_client, &pulse, |bytes| traffic.received(bytes));
    tokio::select! {
        done = async { tokio::try_join!(up, down) } => done.map(drop),
        () = pulse.stopped() => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    pulse: &Pulse,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
        pulse.beat();
        count(length);
    }
}

/// When something last moved, in either direction.
struct Pulse {
    begun: Instant,
    last: AtomicU64,
}

impl Pulse {
    fn new() -> Self {
        Self { begun: Instant::now(), last: AtomicU64::new(0) }
    }

    fn beat(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    async fn stopped(&self) {
        loop {
            let due = self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed)) + IDLE;
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}
