//! A session with its gateway, a client for it, a meter that tells what it was told, and an upstream on loopback.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body as UpstreamBody;
use bytes::Bytes;
use harvest_core::Cost;
use harvest_gateway::{
    Ask, Call, Credentials, Gateway, Grant, Meter, NoCredentials, Options, Patience, Prices, Refused, Script,
    ServerTools, Serving, Session, Trouble, Upstream, Upstreams, egress, git,
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

pub const KEY: &str = "sk-real-key";

/// Records what it is told; can refuse, and can be made slow.
#[derive(Debug)]
pub struct Books {
    refusal: Mutex<Option<String>>,
    /// What every request is granted, if not all it asks for; no more is given.
    pub allowance: Mutex<Option<Cost>>,
    pub asked: Mutex<Vec<Ask>>,
    /// What every request waits for before it goes out.
    pub sure: Mutex<Option<CancellationToken>>,
    /// To take the money of the last request back.
    pub revoke: Mutex<CancellationToken>,
    pub released: Mutex<usize>,
    troubles: Mutex<Vec<Trouble>>,
    pub settling: Semaphore,
    told: mpsc::UnboundedSender<Call>,
    calls: AsyncMutex<mpsc::UnboundedReceiver<Call>>,
}

impl Books {
    pub fn new() -> Arc<Self> {
        let (told, calls) = mpsc::unbounded_channel();
        let settling = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            refusal: Mutex::default(),
            allowance: Mutex::default(),
            asked: Mutex::default(),
            sure: Mutex::default(),
            revoke: Mutex::default(),
            released: Mutex::default(),
            troubles: Mutex::default(),
            settling,
            told,
            calls: AsyncMutex::new(calls),
        })
    }

    pub fn refuse(&self, message: &str) {
        *self.refusal.lock().unwrap() = Some(message.to_owned());
    }

    /// What went wrong, and what was done about it.
    pub fn troubles(&self) -> Vec<String> {
        let troubles = self.troubles.lock().unwrap();
        troubles.iter().map(|it| format!("{} {} {:?}", it.credential, it.problem, it.remedy)).collect()
    }

    /// The next call that is settled.
    pub async fn next(&self) -> Call {
        self.calls.lock().await.recv().await.unwrap()
    }

    /// What has been settled and not asked for yet.
    pub async fn settled(&self) -> Vec<Call> {
        let mut calls = self.calls.lock().await;
        std::iter::from_fn(|| calls.try_recv().ok()).collect()
    }
}

#[async_trait]
impl Meter for Books {
    async fn reserve(&self, ask: Ask) -> Result<Grant, Refused> {
        if let Some(message) = self.refusal.lock().unwrap().clone() {
            return Err(Refused { message });
        }
        let amount = self.allowance.lock().unwrap().unwrap_or(ask.cost.most);
        self.asked.lock().unwrap().push(ask);
        let mut grant = Grant::new("0000000000000001".parse().unwrap(), amount);
        grant.sure = self.sure.lock().unwrap().clone();
        *self.revoke.lock().unwrap() = grant.revoked.clone();
        Ok(grant)
    }

    fn extend(&self, grant: &mut Grant, to: Cost) -> bool {
        if self.allowance.lock().unwrap().is_some() {
            return false;
        }
        grant.amount = to;
        true
    }

    async fn settle(&self, _grant: Grant, call: Call) {
        self.settling.acquire().await.unwrap().forget();
        self.told.send(call).unwrap();
    }

    async fn release(&self, _grant: Grant) {
        *self.released.lock().unwrap() += 1;
    }

    fn note(&self, trouble: Trouble) {
        self.troubles.lock().unwrap().push(trouble);
    }
}

pub struct Served {
    pub books: Arc<Books>,
    pub socket: PathBuf,
    pub serving: Serving,
    _folder: tempfile::TempDir,
}

pub fn serve(options: Options, git: Option<git::Access>) -> Served {
    serve_with(&Gateway::new(options).unwrap(), git, egress::Access::none())
}

pub fn serve_with(gateway: &Gateway, git: Option<git::Access>, egress: egress::Access) -> Served {
    serve_session(gateway, "session-1", Arc::new(NoCredentials), git, egress)
}

pub fn serve_session(
    gateway: &Gateway,
    id: &str,
    credentials: Arc<dyn Credentials>,
    git: Option<git::Access>,
    egress: egress::Access,
) -> Served {
    serve_policy(gateway, id, credentials, git, egress, ServerTools::none())
}

/// A session that may use these features of model vendors.
pub fn serve_open(gateway: &Gateway, credentials: impl Credentials + 'static, open: &[&str]) -> Served {
    let policy = ServerTools::new(open.iter().copied()).unwrap();
    serve_policy(gateway, "session-1", Arc::new(credentials), None, egress::Access::none(), policy)
}

fn serve_policy(
    gateway: &Gateway,
    id: &str,
    credentials: Arc<dyn Credentials>,
    git: Option<git::Access>,
    egress: egress::Access,
    server_tools: ServerTools,
) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let books = Books::new();
    let meter = Arc::<Books>::clone(&books);
    let session = Session { id: id.to_owned(), meter, credentials, git, egress, server_tools };
    let listener = UnixListener::bind(&socket).unwrap();
    let serving = gateway.serve(listener, session);
    Served { books, socket, serving, _folder: folder }
}

/// A loopback port that leads to the session's socket, as a sandbox has one; its base address.
pub async fn loopback(served: &Served) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let socket = served.socket.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                let Ok(mut gateway) = UnixStream::connect(&socket).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut client, &mut gateway).await;
            });
        }
    });
    base
}

pub fn serve_script(script: &str) -> Served {
    let script = Script::parse(script).unwrap();
    serve(Options { script: Some(Arc::new(script)), ..Options::default() }, None)
}

/// Every vendor at the same address, each with one credential named after it.
pub fn serve_upstream(address: &str) -> Served {
    let providers = ["anthropic", "openai", "gemini", "ollama"];
    serve_credentials(providers.map(|provider| credential(provider, provider, address)), quick())
}

pub fn serve_credentials(upstreams: impl IntoIterator<Item = Upstream>, patience: Patience) -> Served {
    let gateway = Gateway::new(Options { prices: Prices::embedded(), patience, ..Options::default() }).unwrap();
    let credentials = Arc::new(Upstreams::new(upstreams));
    serve_session(&gateway, "session-1", credentials, None, egress::Access::none())
}

pub fn credential(provider: &str, id: &str, address: &str) -> Upstream {
    Upstream::new(provider, id, Some(address), &KEY.to_owned().into()).unwrap()
}

/// Waits for no one longer than a test likes to.
pub fn quick() -> Patience {
    Patience {
        backoff: Duration::from_millis(1),
        longest_wait: Duration::from_secs(1),
        failures: 100,
        ..Patience::default()
    }
}

impl Served {
    /// A session that is served in its own way.
    pub fn with(serve: impl FnOnce(&std::path::Path) -> Serving) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let serving = serve(&socket);
        Self { books: Books::new(), socket, serving, _folder: folder }
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = UnixStream::connect(&self.socket).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        // Ends when the response or its body is dropped.
        tokio::spawn(async move { drop(connection.await) });
        sender.send_request(request).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response<Incoming> {
        self.send(post(path, body.to_string())).await
    }

    /// Sends a request and returns status and text of the answer, which must be complete.
    pub async fn ask(&self, path: &str, body: &Value) -> (StatusCode, String) {
        let response = self.post(path, body).await;
        let status = response.status();
        (status, text(response).await)
    }
}

pub fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("host", "gateway")
        .header("authorization", "Bearer placeholder")
        .header("x-api-key", "placeholder")
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

pub fn get(path: &str) -> Request<Full<Bytes>> {
    Request::builder().uri(path).header("host", "gateway").body(Full::default()).unwrap()
}

pub async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// All of a body that came, and whether it came to its end.
pub async fn until_cut(response: Response<Incoming>) -> (String, bool) {
    let (mut body, mut seen) = (response.into_body(), Vec::new());
    loop {
        match body.frame().await {
            Some(Ok(frame)) => seen.extend_from_slice(&frame.into_data().unwrap()),
            Some(Err(_)) => return (String::from_utf8(seen).unwrap(), false),
            None => return (String::from_utf8(seen).unwrap(), true),
        }
    }
}

/// The `data` of each event.
pub fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// A server that answers each request as `answer` says, and reports what it was asked.
pub async fn upstream<F>(answer: F) -> (String, mpsc::UnboundedReceiver<(Parts, Bytes)>)
where
    F: Fn(&Parts) -> Response<UpstreamBody> + Clone + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (asked, asks) = mpsc::unbounded_channel();
    let handler = move |request: Request<UpstreamBody>| {
        let (answer, asked) = (answer.clone(), asked.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let response = answer(&head);
            let _ = asked.send((head, body));
            response
        }
    };
    let service = axum::Router::new().fallback(handler);
    tokio::spawn(async move { axum::serve(listener, service).await });
    (address, asks)
}

pub fn answer(content_type: &str, body: impl Into<UpstreamBody>) -> Response<UpstreamBody> {
    Response::builder().header("content-type", content_type).body(body.into()).unwrap()
}
