//! The gateway: what a request gains in length by passing through it, metered and held to a budget.
//!
//! Requests are sent at a fixed rate whether or not earlier ones have been answered, to a model on loopback: directly over TCP,
//! and through the gateway's Unix sockets. All use connections that are already open. The books are kept once in memory, with
//! a model that answers at once, which shows the gateway alone; and once as the engine keeps them, with a model that thinks
//! for a moment as every model does, while the store writes down what is set aside.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use harvest_core::Cost;
use harvest_core::TaskId;
use harvest_engine::meter::TurnMeter;
use harvest_gateway::{
    Ask, Call, Gateway, Grant, Meter, Options, Refused, Serving, Session, Upstream, Upstreams, egress,
};
use harvest_store::{Sqlite, Store};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::place::{self, Place};
use super::statistics::{median, quantile};
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const SESSIONS: usize = 8;
const CONNECTIONS: usize = 4 * SESSIONS;
/// So many are enough while the model thinks.
pub const THOUGHTFUL_CONNECTIONS: usize = 16 * SESSIONS;
/// Far less than any real model takes to its first word.
const THOUGHT: Duration = Duration::from_millis(20);
const RATE: u32 = 2_000;
const REQUEST_BYTES: usize = 4_000;
/// Multiples of it are spread evenly.
const GOLDEN: f64 = 0.618_033_988_75;
/// Of every answer.
const INPUT_TOKENS: u64 = 1_000;
pub const P50: Duration = Duration::from_micros(200);
pub const P99: Duration = Duration::from_millis(2);

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let (prompt, thoughtful) = (start_model(Duration::ZERO).await?, start_model(THOUGHT).await?);
    let store = place.store("gateway")?;
    let memory = Served::in_memory(place, "memory", prompt).await?;
    let engine = Served::by_the_engine(place, "engine", &store, thoughtful).await?;

    let mut direct = direct(prompt, CONNECTIONS).await?;
    let mut in_memory = memory.load(CONNECTIONS).await?;
    let mut thinking = self::direct(thoughtful, THOUGHTFUL_CONNECTIONS).await?;
    let mut by_the_engine = engine.load(THOUGHTFUL_CONNECTIONS).await?;
    // In turns, so that none has the quieter machine. The first round only warms up.
    let mut quantiles: [Quantiles; 4] = Default::default();
    for round in 0..=size.pick(9, 3) {
        let loads = [&mut direct, &mut in_memory, &mut thinking, &mut by_the_engine];
        for (load, quantiles) in loads.into_iter().zip(&mut quantiles) {
            let times = load.run().await?;
            if round > 0 {
                quantiles.add(&times);
            }
        }
    }
    memory.stop(&in_memory).await?;
    engine.stop(&by_the_engine).await?;

    let row = |name, ours: &[Duration], theirs: &[Duration], bound| Row {
        name,
        ours: Amount::Time(median(ours)),
        theirs: Some(Amount::Time(median(theirs))),
        against: "the same requests to the model itself",
        bound,
    };
    let [bare, memory, thought, engine] = &quantiles;
    let rows = vec![
        row("gateway alone, p50 of a request", &memory.p50, &bare.p50, Bound::Added(P50)),
        row("gateway alone, p99 of a request", &memory.p99, &bare.p99, Bound::Added(P99)),
        row("gateway and the engine's books, p50", &engine.p50, &thought.p50, Bound::Added(P50)),
        row("gateway and the engine's books, p99", &engine.p99, &thought.p99, Bound::Added(P99)),
    ];
    let notes = vec![
        format!(
            "gateway: {RATE} requests/s in {SESSIONS} sessions, no streaming; client and model run on the same cores."
        ),
        format!(
            "  With the engine's books the model thinks for {} ms, and every call is set aside and settled in SQLite",
            THOUGHT.as_millis()
        ),
    ];
    Ok(Findings { rows, notes })
}

pub async fn direct(model: SocketAddr, connections: usize) -> anyhow::Result<Load> {
    let load = Load::new("/v1/messages", RATE);
    for _ in 0..connections {
        let stream = TcpStream::connect(model).await?;
        stream.set_nodelay(true)?;
        load.add(stream).await?;
    }
    Ok(load)
}

/// Of every round, so that one which was disturbed from outside does not decide.
#[derive(Debug, Default)]
pub struct Quantiles {
    pub p50: Vec<Duration>,
    pub p99: Vec<Duration>,
}

impl Quantiles {
    pub fn add(&mut self, times: &[Duration]) {
        self.p50.push(quantile(times, 0.5));
        self.p99.push(quantile(times, 0.99));
    }
}

/// Keeps the books of a session in memory, with a budget.
#[derive(Debug, Default)]
pub struct Books(Mutex<(usize, Cost)>);

#[async_trait]
impl Meter for Books {
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused> {
        let (number, spent) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = format!("{number:016}").parse().map_err(|_| Refused::new("too many calls"))?;
        let fits = spent + ask.cost.most < place::BUDGET;
        if fits { Ok(Grant::new(call, ask.cost.most)) } else { Err(Refused::new("the budget is spent")) }
    }

    async fn release(&self, _grant: Grant) {}

    async fn settle(&self, _grant: Grant, call: Call) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = (spent.0 + 1, spent.1 + call.cost);
    }
}

/// Who keeps the books of a session.
#[derive(Debug, Clone)]
enum Keeper {
    Memory(Arc<Books>),
    Engine { meter: Arc<TurnMeter>, store: Sqlite, task: TaskId },
}

impl Keeper {
    fn meter(&self) -> Arc<dyn Meter> {
        match self {
            Self::Memory(books) => Arc::<Books>::clone(books),
            Self::Engine { meter, .. } => Arc::<TurnMeter>::clone(meter),
        }
    }

    /// How many calls were settled, once all of them are.
    async fn settled(&self) -> anyhow::Result<usize> {
        Ok(match self {
            Self::Memory(books) => books.0.lock().unwrap_or_else(PoisonError::into_inner).0,
            Self::Engine { meter, store, task } => {
                meter.close().await;
                (store.task(task).await?.task.usage.input_tokens / INPUT_TOKENS) as usize
            }
        })
    }
}

/// Sessions behind a gateway.
pub struct Served {
    sockets: Vec<PathBuf>,
    keepers: Vec<Keeper>,
    serving: Vec<Serving>,
}

impl Served {
    pub async fn in_memory(place: &Place, name: &str, model: SocketAddr) -> anyhow::Result<Self> {
        Self::new(place, name, model, (0..SESSIONS).map(|_| Keeper::Memory(Arc::default())).collect())
    }

    async fn by_the_engine(place: &Place, name: &str, store: &Sqlite, model: SocketAddr) -> anyhow::Result<Self> {
        let mut keepers = Vec::new();
        for _ in 0..SESSIONS {
            let (meter, task) = place::claimed_meter(store).await?;
            keepers.push(Keeper::Engine { meter: Arc::new(meter), store: store.clone(), task });
        }
        Self::new(place, name, model, keepers)
    }

    fn new(place: &Place, name: &str, model: SocketAddr, keepers: Vec<Keeper>) -> anyhow::Result<Self> {
        let address = format!("http://{model}");
        let upstream = Upstream::new("anthropic", "bench", Some(&address), &"sk-real".to_owned().into())?;
        let credentials = Arc::new(Upstreams::new([upstream]));
        let gateway = Gateway::new(Options::default())?;
        let folder = place.folder(&format!("sockets/{name}"))?;
        let (mut sockets, mut serving) = (Vec::new(), Vec::new());
        for (number, keeper) in keepers.iter().enumerate() {
            let socket = folder.join(number.to_string());
            let session = Session {
                id: number.to_string(),
                meter: keeper.meter(),
                credentials: Arc::<Upstreams>::clone(&credentials),
                git: None,
                egress: egress::Access::none(),
                server_tools: harvest_gateway::ServerTools::default(),
            };
            serving.push(gateway.serve(UnixListener::bind(&socket)?, session));
            sockets.push(socket);
        }
        Ok(Self { sockets, keepers, serving })
    }

    /// One of its sockets.
    pub fn socket(&self, number: usize) -> &Path {
        &self.sockets[number % SESSIONS]
    }

    pub async fn load(&self, connections: usize) -> anyhow::Result<Load> {
        let load = Load::new("/anthropic/v1/messages", RATE);
        for number in 0..connections {
            load.add(UnixStream::connect(&self.sockets[number % SESSIONS]).await?).await?;
        }
        Ok(load)
    }

    /// Ends the sessions and makes sure that every request was accounted for.
    pub async fn stop(self, load: &Load) -> anyhow::Result<()> {
        for serving in self.serving {
            serving.stop().await;
        }
        let mut settled = 0;
        for keeper in &self.keepers {
            settled += keeper.settled().await?;
        }
        ensure!(settled == load.sent, "{settled} of {} requests were settled", load.sent);
        Ok(())
    }
}

/// A model on loopback that thinks for so long.
pub async fn start_model(thought: Duration) -> anyhow::Result<SocketAddr> {
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "I have looked at it. ".repeat(20)}],
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 100},
    });
    let answer = Bytes::from(answer.to_string());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    let _ = request.into_body().collect().await;
                    if !thought.is_zero() {
                        tokio::time::sleep(thought).await;
                    }
                    let mut response = Response::new(Full::new(answer));
                    let json = hyper::header::HeaderValue::from_static("application/json");
                    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}

type Connection = SendRequest<Full<Bytes>>;

/// Sends requests at a fixed rate over a fixed set of connections.
pub struct Load {
    client: Client,
    rate: u32,
    sent: usize,
}

impl Load {
    /// So many requests a second.
    pub fn new(path: &'static str, rate: u32) -> Self {
        Self { client: Client::new(path), rate, sent: 0 }
    }

    /// Asks for streams, and takes the time to their first byte.
    pub fn streaming(mut self, rate: u32) -> Self {
        self.rate = rate;
        self.client.body = request_body(true);
        self.client.until = Until::FirstByte;
        self
    }

    /// With a key that is looked at.
    pub fn with_key(mut self, key: &'static str) -> Self {
        self.client.key = key;
        self
    }

    pub async fn add(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> anyhow::Result<()> {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        self.client.idle.send(sender).ok().context("the load has ended")
    }

    /// How long each of the requests of one second took, waiting for a connection included.
    pub async fn run(&mut self) -> anyhow::Result<Vec<Duration>> {
        let (client, rate, runtime) = (self.client.clone(), self.rate, tokio::runtime::Handle::current());
        // A thread of its own, since the timer of the runtime knows only whole milliseconds.
        let pacing = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let start = |number| {
                // Unevenly, for the model's timer knows only whole milliseconds: what is lost or won by that evens out.
                let early = (f64::from(number) * GOLDEN).fract();
                let due = began + (Duration::from_secs(1) / rate).mul_f64(f64::from(number) + early);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                runtime.spawn(client.clone().ask())
            };
            (0..rate).map(start).collect::<Vec<_>>()
        });
        let mut times = Vec::new();
        for answer in pacing.await? {
            times.push(answer.await??);
        }
        self.sent += times.len();
        Ok(times)
    }
}

/// When the time of a request is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    FirstByte,
    End,
}

#[derive(Clone)]
struct Client {
    path: &'static str,
    key: &'static str,
    body: Bytes,
    until: Until,
    idle: mpsc::UnboundedSender<Connection>,
    waiting: Arc<AsyncMutex<mpsc::UnboundedReceiver<Connection>>>,
}

impl Client {
    fn new(path: &'static str) -> Self {
        let (idle, waiting) = mpsc::unbounded_channel();
        Self {
            path,
            key: "placeholder",
            body: request_body(false),
            until: Until::End,
            idle,
            waiting: Arc::new(AsyncMutex::new(waiting)),
        }
    }

    async fn ask(self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let request = Request::post(self.path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("x-api-key", self.key)
            .body(Full::new(self.body))?;
        let mut connection = self.waiting.lock().await.recv().await.context("the connections are gone")?;
        connection.ready().await?;
        let response = connection.send_request(request).await?;
        ensure!(response.status().is_success(), "the answer was {}", response.status());
        let mut body = response.into_body();
        if self.until == Until::FirstByte {
            body.frame().await.context("the stream was empty")??;
        }
        let first = began.elapsed();
        body.collect().await?;
        let took = if self.until == Until::FirstByte { first } else { began.elapsed() };
        let _ = self.idle.send(connection);
        Ok(took)
    }
}

fn request_body(stream: bool) -> Bytes {
    let text = "Look at it. ".repeat(REQUEST_BYTES / 12);
    let messages = json!([{"role": "user", "content": text}]);
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 1, "stream": stream, "messages": messages});
    body.to_string().into()
}
