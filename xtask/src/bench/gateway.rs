//! The gateway: what a request gains in length by passing through it, metered into the journal and held to a budget.
//!
//! Requests are sent at a fixed rate whether or not earlier ones have been answered, to a model on loopback that answers at
//! once: directly over TCP, and through the gateway's Unix sockets. Both use connections that are already open.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use harvest_core::{Cost, EventBody, Timestamp};
use harvest_gateway::{Call, Gateway, Meter, Options, Refused, Serving, Session, Upstream, Upstreams};
use harvest_store::{Lease, Sqlite, Step, Store};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::place::{self, Place};
use super::statistics::quantile;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const SESSIONS: usize = 8;
const CONNECTIONS: usize = 4 * SESSIONS;
const RATE: usize = 2_000;
const TICK: Duration = Duration::from_millis(1);
const REQUEST_BYTES: usize = 4_000;
const P50: Duration = Duration::from_micros(200);
const P99: Duration = Duration::from_millis(2);

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let model = start_model().await?;
    let store = place.store("gateway")?;
    let (sockets, books, serving) = serve(place, &store, model).await?;

    let mut direct = Load::new("/v1/messages");
    let mut through = Load::new("/anthropic/v1/messages");
    for number in 0..CONNECTIONS {
        let stream = TcpStream::connect(model).await?;
        stream.set_nodelay(true)?;
        direct.add(stream).await?;
        through.add(UnixStream::connect(&sockets[number % SESSIONS]).await?).await?;
    }
    // In turns, so that neither has the quieter machine. The first round only warms up.
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for round in 0..=size.pick(5, 2) {
        let requests = RATE * size.pick(2, 1);
        let (bare, passed) = (direct.run(requests).await?, through.run(requests).await?);
        if round > 0 {
            theirs.extend(bare);
            ours.extend(passed);
        }
    }
    for serving in serving {
        serving.stop().await;
    }
    let settled: usize = books.iter().map(|book| book.settled()).sum();
    ensure!(settled == through.sent, "{settled} of {} requests were settled", through.sent);

    let row = |name, share, most| Row {
        name,
        ours: Amount::Time(quantile(&ours, share)),
        theirs: Amount::Time(quantile(&theirs, share)),
        against: "the model itself",
        bound: Bound::Added(most),
    };
    let rows = vec![
        row("gateway at 2,000 requests/s, metered, p50", 0.5, P50),
        row("gateway at 2,000 requests/s, metered, p99", 0.99, P99),
    ];
    let note = format!(
        "gateway: {SESSIONS} sessions, {CONNECTIONS} connections, no streaming; client and model run on the same cores; each \
         call is in the journal before its answer ends."
    );
    Ok(Findings { rows, notes: vec![note] })
}

/// Keeps the books of a session as the engine does: in the journal, under the lease, with a budget.
#[derive(Debug)]
struct Books {
    store: Sqlite,
    lease: Lease,
    spent: Mutex<(usize, Cost)>,
    budget: Cost,
}

impl Books {
    fn settled(&self) -> usize {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

#[async_trait]
impl Meter for Books {
    async fn admit(&self) -> Result<(), Refused> {
        let (_, spent) = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent < self.budget { Ok(()) } else { Err(Refused::new("the budget is spent")) }
    }

    async fn settle(&self, call: Call) {
        let event = EventBody::Usage {
            provider: call.provider,
            model: call.model,
            usage: call.usage,
            cost_usd: call.cost,
            estimated: call.estimated,
        };
        // One that failed is missing from the sum and found at the end.
        if self.store.append(&self.lease, Step::new(Timestamp::now(), vec![event])).await.is_ok() {
            let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
            *spent = (spent.0 + 1, spent.1 + call.cost);
        }
    }
}

type Served = (Vec<PathBuf>, Vec<Arc<Books>>, Vec<Serving>);

async fn serve(place: &Place, store: &Sqlite, model: SocketAddr) -> anyhow::Result<Served> {
    let upstream = Upstream { base_url: format!("http://{model}"), key: "sk-real".to_owned().into() };
    let upstreams = Upstreams { anthropic: Some(upstream), ..Upstreams::default() };
    let gateway = Gateway::new(Options { upstreams, ..Options::default() })?;
    let folder = place.folder("sockets")?;
    let (mut sockets, mut books, mut serving) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..SESSIONS {
        let lease = place::claimed_session(store).await?;
        let id = lease.session.to_string();
        let budget = Cost::from_nanos(u64::MAX);
        let meter = Arc::new(Books { store: store.clone(), lease, spent: Mutex::default(), budget });
        let socket = folder.join(number.to_string());
        let session = Session { id, meter: Arc::<Books>::clone(&meter), git: None };
        serving.push(gateway.serve(UnixListener::bind(&socket)?, session));
        sockets.push(socket);
        books.push(meter);
    }
    Ok((sockets, books, serving))
}

/// A model on loopback that answers at once.
async fn start_model() -> anyhow::Result<SocketAddr> {
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
struct Load {
    path: &'static str,
    body: Bytes,
    idle: mpsc::UnboundedSender<Connection>,
    waiting: Arc<AsyncMutex<mpsc::UnboundedReceiver<Connection>>>,
    sent: usize,
}

impl Load {
    fn new(path: &'static str) -> Self {
        let (idle, waiting) = mpsc::unbounded_channel();
        let text = "Look at it. ".repeat(REQUEST_BYTES / 12);
        let body =
            json!({"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": [{"role": "user", "content": text}]});
        let waiting = Arc::new(AsyncMutex::new(waiting));
        Self { path, body: body.to_string().into(), idle, waiting, sent: 0 }
    }

    async fn add(
        &self,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    ) -> anyhow::Result<()> {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        self.idle.send(sender).ok().context("the load has ended")
    }

    /// How long each of so many requests took, waiting for a connection included.
    async fn run(&mut self, requests: usize) -> anyhow::Result<Vec<Duration>> {
        let mut ticks = tokio::time::interval(TICK);
        let each = RATE * TICK.as_micros() as usize / 1_000_000;
        let mut answers = Vec::with_capacity(requests);
        while answers.len() < requests {
            ticks.tick().await;
            for _ in 0..each {
                answers.push(tokio::spawn(self.request()?));
            }
        }
        self.sent += answers.len();
        let mut times = Vec::with_capacity(answers.len());
        for answer in answers {
            times.push(answer.await??);
        }
        Ok(times)
    }

    fn request(&self) -> anyhow::Result<impl Future<Output = anyhow::Result<Duration>> + use<>> {
        let request = Request::post(self.path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("x-api-key", "placeholder")
            .body(Full::new(self.body.clone()))?;
        let (idle, waiting) = (self.idle.clone(), Arc::clone(&self.waiting));
        Ok(async move {
            let began = Instant::now();
            let mut connection = waiting.lock().await.recv().await.context("the connections are gone")?;
            connection.ready().await?;
            let response = connection.send_request(request).await?;
            ensure!(response.status().is_success(), "the answer was {}", response.status());
            response.into_body().collect().await?;
            let took = began.elapsed();
            let _ = idle.send(connection);
            Ok(took)
        })
    }
}
