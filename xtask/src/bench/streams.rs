//! Streams through the gateway: when their first byte comes, and how much memory many of them take.
//!
//! The gateway is a process of its own here, so that its memory is its own. The model on loopback answers with events: the
//! first at once, then one every so often until the stream has its length.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use harvest_gateway::{Ask, Call, Gateway, Grant, Meter, Options, Refused, Session, Upstream, Upstreams, egress};
use http_body_util::{BodyExt, Collected, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::process::Child;
use tokio::sync::{Barrier, mpsc};

use super::gateway::{self, P50, P99, Quantiles, Served, THOUGHTFUL_CONNECTIONS};
use super::place::Place;
use super::programs::program;
use super::statistics::median;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const STREAMS: usize = 1_000;
/// Streams a second of which the first byte is waited for: each is a handful of events for everyone on these cores.
const RATE: u32 = 500;
/// A session may hold 256 connections.
const SESSIONS: usize = 8;
const MEMORY: u64 = 100_000_000;
/// Of each of many streams, and how often one comes.
const EVENTS: usize = 50;
const EVERY: Duration = Duration::from_millis(100);
/// The one event of a stream of which only the beginning matters comes so much later than that.
const SHORTLY: Duration = Duration::from_millis(5);

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let model = start_model().await?;
    let served = Served::in_memory(place, "first-bytes", model).await?;
    let mut direct = gateway::direct(model, THOUGHTFUL_CONNECTIONS).await?.streaming(RATE);
    let mut through = served.load(THOUGHTFUL_CONNECTIONS).await?.streaming(RATE);
    let (mut ours, mut theirs) = (Quantiles::default(), Quantiles::default());
    // In turns, so that none has the quieter machine. The first round only warms up.
    for round in 0..=size.pick(9, 3) {
        let (bare, metered) = (direct.run().await?, through.run().await?);
        if round > 0 {
            theirs.add(&bare);
            ours.add(&metered);
        }
    }
    served.stop(&through).await?;
    let gateway = Alone::start(&place.folder("streams")?, model).await?;
    let before = gateway.memory()?;
    let most = many(&gateway).await?;
    let rows = vec![
        Row {
            name: "gateway, first byte of a stream, p50",
            ours: Amount::Time(median(&ours.p50)),
            theirs: Some(Amount::Time(median(&theirs.p50))),
            against: "the same stream from the model itself",
            bound: Bound::Added(P50),
        },
        Row {
            name: "gateway, first byte of a stream, p99",
            ours: Amount::Time(median(&ours.p99)),
            theirs: Some(Amount::Time(median(&theirs.p99))),
            against: "the same stream from the model itself",
            bound: Bound::Added(P99),
        },
        Row {
            name: "gateway, memory with 1,000 streams open",
            ours: Amount::Bytes(most),
            theirs: Some(Amount::Bytes(before)),
            against: "the same process before them",
            bound: Bound::Memory(MEMORY),
        },
    ];
    let notes = vec![format!(
        "streams: first bytes at {RATE} streams/s over connections that are open already; {STREAMS} streams at once in {SESSIONS} sessions, {EVENTS} events each, \
         one every {} ms; memory is the most that was resident",
        EVERY.as_millis()
    )];
    Ok(Findings { rows, notes })
}

/// A gateway in a process of its own, ended with this.
struct Alone {
    process: Child,
    sockets: Vec<PathBuf>,
}

impl Alone {
    async fn start(folder: &Path, model: SocketAddr) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("this program cannot be found")?;
        let mut command = program(own);
        command.arg("serve-gateway").arg(folder).arg(model.to_string()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let said = process.stdout.take().context("no standard output")?;
        let mut line = String::new();
        let mut said = BufReader::new(said);
        let ready = said.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(30), ready).await.context("the gateway did not start")??;
        ensure!(line.trim() == "ready", "the gateway said {line:?}");
        Ok(Self { process, sockets: (0..SESSIONS).map(|number| folder.join(number.to_string())).collect() })
    }

    /// The most that was resident so far.
    fn memory(&self) -> anyhow::Result<u64> {
        let id = self.process.id().context("the gateway has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }
}

/// The process that [`Alone`] starts: serves until it is killed, or its parent is gone.
pub async fn serve(arguments: &[String]) -> anyhow::Result<()> {
    let [folder, model] = arguments else { anyhow::bail!("two arguments are needed: a folder and an address") };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let upstream = Upstream::new("anthropic", "bench", Some(&format!("http://{model}")), &"sk-real".to_owned().into())?;
    let credentials = Arc::new(Upstreams::new([upstream]));
    let gateway = Gateway::new(Options::default())?;
    let mut serving = Vec::new();
    for number in 0..SESSIONS {
        let session = Session {
            id: number.to_string(),
            meter: Arc::new(Open),
            credentials: Arc::<Upstreams>::clone(&credentials),
            git: None,
            egress: egress::Access::none(),
            server_tools: harvest_gateway::ServerTools::default(),
        };
        serving.push(gateway.serve(UnixListener::bind(Path::new(folder).join(number.to_string()))?, session));
    }
    println!("ready");
    std::future::pending().await
}

/// Grants whatever is asked for.
#[derive(Debug)]
struct Open;

#[async_trait]
impl Meter for Open {
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused> {
        let call = "0000000000000001".parse().map_err(|_| Refused::new("no id"))?;
        Ok(Grant::new(call, ask.cost.most))
    }

    async fn settle(&self, _grant: Grant, _call: Call) {}

    async fn release(&self, _grant: Grant) {}
}

/// Opens all streams, reads them to their end and returns the most memory that the gateway took.
async fn many(gateway: &Alone) -> anyhow::Result<u64> {
    let all_open = Arc::new(Barrier::new(STREAMS));
    let mut reading = Vec::new();
    for number in 0..STREAMS {
        let stream = UnixStream::connect(&gateway.sockets[number % SESSIONS]).await?;
        let all_open = Arc::clone(&all_open);
        reading.push(tokio::spawn(async move {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let mut body = sender.send_request(ask("/anthropic/v1/messages", EVENTS)?).await?.into_body();
            body.frame().await.context("the stream was empty")??;
            // So that there is a moment at which every one of them is open.
            all_open.wait().await;
            let rest = body.collect().await?.to_bytes();
            ensure!(rest.ends_with(b"data: {\"type\":\"message_stop\"}\n\n"), "a stream was cut");
            Ok::<_, anyhow::Error>(())
        }));
    }
    for reader in reading {
        reader.await??;
    }
    gateway.memory()
}

/// Asks for a stream of so many events.
fn ask(path: &'static str, events: usize) -> anyhow::Result<Request<Full<Bytes>>> {
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": events, "stream": true,
        "messages": [{"role": "user", "content": "Look at it. ".repeat(300)}],
    });
    let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
    Ok(request.header("x-api-key", "placeholder").body(Full::new(body.to_string().into()))?)
}

/// A model on loopback that streams.
async fn start_model() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let service = service_fn(|request: Request<Incoming>| async move {
                let asked = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
                let asked: serde_json::Value = serde_json::from_slice(&asked).unwrap_or_default();
                let (pieces, body) = mpsc::channel::<Bytes>(4);
                tokio::spawn(stream_to(pieces, asked["max_tokens"].as_u64().unwrap_or(1)));
                let frames = futures_util::stream::unfold(body, |mut body| async move {
                    Some((Ok::<_, Infallible>(Frame::data(body.recv().await?)), body))
                });
                let mut response = Response::new(StreamBody::new(frames));
                let events = hyper::header::HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(hyper::header::CONTENT_TYPE, events);
                Ok::<_, Infallible>(response)
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}

async fn stream_to(pieces: mpsc::Sender<Bytes>, events: u64) {
    let event = |kind: &str, data: serde_json::Value| Bytes::from(format!("event: {kind}\ndata: {data}\n\n"));
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let start = json!({"type": "message_start", "message": {"model": "claude-sonnet-4-5", "usage": usage}});
    let word = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I have looked at it. "}});
    let last = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 100}});
    if pieces.send(event("message_start", start)).await.is_err() {
        return;
    }
    let pause = if events == 1 { SHORTLY } else { EVERY };
    for _ in 0..events {
        tokio::time::sleep(pause).await;
        if pieces.send(event("content_block_delta", word.clone())).await.is_err() {
            return;
        }
    }
    let _ = pieces.send(event("message_delta", last)).await;
    let _ = pieces.send(event("message_stop", json!({"type": "message_stop"}))).await;
}
