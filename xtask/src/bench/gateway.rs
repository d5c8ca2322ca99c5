//! The gateway: what a request gains in length by passing through it, metered and held to a budget.
//!
//! Requests are sent at a fixed rate whether or not earlier ones have been answered, to a model on loopback that answers at
//! once: directly over TCP, and through the gateway's Unix sockets. All use connections that are already open. The books are
//! kept once in memory, which shows the gateway alone, and once in the journal, as the engine does: then the end of an answer
//! waits for the store and its disk.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use harvest_core::{Cost, EventBody, Timestamp};
use harvest_gateway::{
    Ask, Call, Gateway, Grant, Meter, Options, Refused, Serving, Session, Upstream, Upstreams, egress,
};
use harvest_store::{Lease, Sqlite, Step, Store};
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
const RATE: u32 = 2_000;
const REQUEST_BYTES: usize = 4_000;
const P50: Duration = Duration::from_micros(200);
const P99: Duration = Duration::from_millis(2);

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let model = start_model().await?;
    let store = place.store("gateway")?;
    let memory = Served::new(place, "memory", None, model).await?;
    let journal = Served::new(place, "journal", Some(&store), model).await?;

    let mut direct = Load::new("/v1/messages", RATE);
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(model).await?;
        stream.set_nodelay(true)?;
        direct.add(stream).await?;
    }
    let (mut through_memory, mut through_journal) = (memory.load().await?, journal.load().await?);
    // In turns, so that none has the quieter machine. The first round only warms up.
    let (mut bare, mut in_memory, mut in_journal) = (Quantiles::default(), Quantiles::default(), Quantiles::default());
    for round in 0..=size.pick(9, 3) {
        let times = [direct.run().await?, through_memory.run().await?, through_journal.run().await?];
        if round > 0 {
            for (quantiles, times) in [&mut bare, &mut in_memory, &mut in_journal].into_iter().zip(times) {
                quantiles.add(&times);
            }
        }
    }
    memory.stop(&through_memory).await?;
    journal.stop(&through_journal).await?;

    let row = |name, ours, theirs, bound| Row {
        name,
        ours: Amount::Time(median(ours)),
        theirs: Some(Amount::Time(median(theirs))),
        against: "the same requests to the model itself",
        bound,
    };
    let rows = vec![
        row("gateway, metered, p50 of a request", &in_memory.p50, &bare.p50, Bound::Added(P50)),
        row("gateway, metered, p99 of a request", &in_memory.p99, &bare.p99, Bound::Added(P99)),
        row("gateway, metered into the journal, p50", &in_journal.p50, &bare.p50, Bound::Open),
        row("gateway, metered into the journal, p99", &in_journal.p99, &bare.p99, Bound::Open),
    ];
    let notes = vec![
        format!(
            "gateway: {RATE} requests/s in {SESSIONS} sessions over {CONNECTIONS} connections, no streaming; client and"
        ),
        "  model run on the same cores; into the journal means that each call is on disk before its answer ends"
            .to_owned(),
    ];
    Ok(Findings { rows, notes })
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

/// Keeps the books of a session, with a budget.
#[derive(Debug)]
struct Books {
    spent: Mutex<(usize, Cost)>,
    /// Where a call is written down before it counts as settled.
    journal: Option<(Sqlite, Lease)>,
}

#[async_trait]
impl Meter for Books {
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused> {
        let (number, spent) = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let call = format!("{number:016}").parse().map_err(|_| Refused::new("too many calls"))?;
        let fits = spent + ask.cost.most < place::BUDGET;
        if fits { Ok(Grant::new(call, ask.cost.most)) } else { Err(Refused::new("the budget is spent")) }
    }

    async fn release(&self, _grant: Grant) {}

    async fn settle(&self, _grant: Grant, call: Call) {
        let cost = call.cost;
        if let Some((store, lease)) = &self.journal {
            // One that failed is missing from the sum and found at the end.
            let Ok(_) = store.append(lease, Step::new(Timestamp::now(), vec![usage(call)])).await else { return };
        }
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = (spent.0 + 1, spent.1 + cost);
    }
}

fn usage(call: Call) -> EventBody {
    let Call { provider, model, usage, cost, estimated, .. } = call;
    EventBody::Usage { provider, model, usage, cost_usd: cost, estimated, call_id: None }
}

/// Sessions behind a gateway.
pub struct Served {
    sockets: Vec<PathBuf>,
    books: Vec<Arc<Books>>,
    serving: Vec<Serving>,
}

impl Served {
    pub async fn new(place: &Place, name: &str, store: Option<&Sqlite>, model: SocketAddr) -> anyhow::Result<Self> {
        let address = format!("http://{model}");
        let upstream = Upstream::new("anthropic", "bench", Some(&address), &"sk-real".to_owned().into())?;
        let credentials = Arc::new(Upstreams::new([upstream]));
        let gateway = Gateway::new(Options::default())?;
        let folder = place.folder(&format!("sockets/{name}"))?;
        let mut served = Self { sockets: Vec::new(), books: Vec::new(), serving: Vec::new() };
        for number in 0..SESSIONS {
            let journal = match store {
                Some(store) => Some((store.clone(), place::claimed_session(store).await?)),
                None => None,
            };
            let books = Arc::new(Books { spent: Mutex::default(), journal });
            let socket = folder.join(number.to_string());
            let session = Session {
                id: number.to_string(),
                meter: Arc::<Books>::clone(&books),
                credentials: Arc::<Upstreams>::clone(&credentials),
                git: None,
                egress: egress::Access::none(),
            };
            served.serving.push(gateway.serve(UnixListener::bind(&socket)?, session));
            served.sockets.push(socket);
            served.books.push(books);
        }
        Ok(served)
    }

    /// One of its sockets.
    pub fn socket(&self, number: usize) -> &Path {
        &self.sockets[number % SESSIONS]
    }

    async fn load(&self) -> anyhow::Result<Load> {
        let load = Load::new("/anthropic/v1/messages", RATE);
        for number in 0..CONNECTIONS {
            load.add(UnixStream::connect(&self.sockets[number % SESSIONS]).await?).await?;
        }
        Ok(load)
    }

    /// Ends the sessions and makes sure that every request was accounted for.
    pub async fn stop(self, load: &Load) -> anyhow::Result<()> {
        for serving in self.serving {
            serving.stop().await;
        }
        let counts = self.books.iter().map(|books| books.spent.lock().unwrap_or_else(PoisonError::into_inner).0);
        let settled: usize = counts.sum();
        ensure!(settled == load.sent, "{settled} of {} requests were settled", load.sent);
        Ok(())
    }
}

/// A model on loopback that answers at once.
pub async fn start_model() -> anyhow::Result<SocketAddr> {
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "I have looked at it. ".repeat(20)}],
        "usage": {"input_tokens": 1000, "output_tokens": 100},
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
                let due = began + Duration::from_secs(1) * number / rate;
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

#[derive(Clone)]
struct Client {
    path: &'static str,
    key: &'static str,
    body: Bytes,
    idle: mpsc::UnboundedSender<Connection>,
    waiting: Arc<AsyncMutex<mpsc::UnboundedReceiver<Connection>>>,
}

impl Client {
    fn new(path: &'static str) -> Self {
        let (idle, waiting) = mpsc::unbounded_channel();
        let text = "Look at it. ".repeat(REQUEST_BYTES / 12);
        let messages = json!([{"role": "user", "content": text}]);
        let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": messages});
        Self {
            path,
            key: "placeholder",
            body: body.to_string().into(),
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
        response.into_body().collect().await?;
        let took = began.elapsed();
        let _ = self.idle.send(connection);
        Ok(took)
    }
}
