//! Listens, owns the connections, and ends in good order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use harvest_core::{Clock, Entropy, Role};
use harvest_engine::{DataFolder, Engine, Stop};
use harvest_store::{Store, TokenKind};
use harvest_telemetry::Exporter;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt;

use crate::api::health::Readiness;
use crate::auth::github::{self, SignIn};
use crate::auth::{Cookie, Mint, Origins, Passes, passes};
use crate::desk::Desk;
use crate::events::{Feed, Presence, Tails};
use crate::limits::{Limiter, Pace, Peer};
use crate::metrics::Metrics;
use crate::patient::Patient;
use crate::proxies::Proxies;
use crate::state::{App, Doorman, Rules, Shared};
use crate::webhooks;
use crate::{Error, api, idempotency};

const MOST_CONNECTIONS: usize = 8_192;
const MOST_HEADERS: usize = 64;
const HEADER_BYTES: usize = 16 * 1024;
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// A client that reads nothing for so long has gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a connection that the system keeps for a client that has not read them; it doubles them for its own needs.
const SEND_BUFFER: u32 = 64 << 10;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;
/// How long requests under way may take at the end.
const DRAIN: Duration = Duration::from_secs(10);
const LINK_HOLDS: Duration = Duration::from_secs(60 * 60);
const SWEEP: Duration = Duration::from_secs(60 * 60);

/// What a server is made of.
#[derive(Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// What browsers call it when a proxy stands in front.
    pub public_url: Option<String>,
    /// Whose word is taken for where a request comes from.
    pub proxies: Proxies,
    pub store: Arc<dyn Store>,
    /// Makes tasks of what is asked; whether it also works on them is another's business.
    pub engine: Engine,
    pub data: DataFolder,
    pub desk: Arc<dyn Desk>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub pace: Pace,
    /// Where traces go.
    pub telemetry: Exporter,
    /// Signing in with GitHub; without it, only who has a token or the one-time link comes in.
    pub sign_in: Option<github::Options>,
    /// Someone has said that nobody else needs to come in, even from outside.
    pub tokens_only: bool,
    /// Set when the process is asked to end, and still finishes what is under way.
    pub draining: Stop,
}

#[derive(Debug)]
pub struct Service {
    listener: TcpListener,
    router: Router,
    app: App,
}

/// How the rest of the process speaks to the server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    app: App,
    address: SocketAddr,
}

impl Service {
    /// Listens from here on; what arrives before [`Service::run`] waits.
    pub async fn bind(options: Options) -> Result<Self, Error> {
        let sign_in = options.sign_in.map(SignIn::new).transpose()?;
        // Checked before anything listens; the port may still be chosen by the system.
        Origins::new(options.listen, options.public_url.as_deref())?;
        if !options.listen.ip().is_loopback() && sign_in.is_none() && !options.tokens_only {
            return Err(Error::NobodySignsIn { address: options.listen });
        }
        let fail = |source| Error::CannotListen { address: options.listen, source };
        let listener = listen(options.listen).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let origins = Origins::new(address, options.public_url.as_deref())?;
        let (router, document) = api::router();
        let feed = Feed::new(options.store.clone());
        let app = Arc::new(Shared {
            cookie: Cookie::new(address.port(), origins.is_tls()),
            errand: Cookie::for_an_errand(address.port(), origins.is_tls()),
            sign_in: sign_in.map(Arc::new),
            doorman: Doorman::new(options.store.clone()),
            rules: Rules::of(&document),
            tails: Tails::new(options.store.clone()),
            presence: Presence::new(feed.clone()),
            feed,
            pace: Limiter::new(options.pace),
            intake: webhooks::Intake::default(),
            proxies: options.proxies,
            metrics: Metrics::default(),
            readiness: Readiness::default(),
            telemetry: options.telemetry,
            draining: options.draining,
            passes: Passes::default(),
            closing: Stop::default(),
            places: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
            store: options.store,
            engine: options.engine,
            data: options.data,
            desk: options.desk,
            clock: options.clock,
            entropy: options.entropy,
            origins,
        });
        Ok(Self { listener, router: api::finish(router, &app, &document), app })
    }

    pub fn handle(&self) -> Result<Handle, Error> {
        let address = self.listener.local_addr();
        let address = address.map_err(|source| Error::CannotListen { address: ([0, 0, 0, 0], 0).into(), source })?;
        Ok(Handle { app: self.app.clone(), address })
    }

    /// Serves until `shutdown`, then lets requests under way end and streams say where they stopped.
    pub async fn run(self, shutdown: Stop) -> Result<(), Error> {
        let Self { listener, router, app } = self;
        let places = app.places.clone();
        let sweeping = tokio::spawn(sweep(app.clone()));
        let learner = app.clone();
        tokio::spawn(async move {
            if let Err(error) = learner.doorman.learn(learner.clock.now()).await {
                tracing::warn!(%error, "tokens cannot be listed; each is known once it has opened");
            }
        });
        let watching = tokio::spawn(passes::watch(app.clone()));
        let acting = tokio::spawn(webhooks::run(app.clone(), app.closing.clone()));
        let telling = tokio::spawn(webhooks::tell_endings(app.clone(), app.closing.clone()));
        loop {
            let place = tokio::select! {
                () = shutdown.requested() => break,
                Ok(place) = places.clone().acquire_owned() => place,
            };
            let accepted = tokio::select! {
                () = shutdown.requested() => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Of this connection alone, or of too many files: both pass.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            let (router, app) = (router.clone(), app.clone());
            tokio::spawn(async move {
                app.metrics.connections.enter();
                serve(stream, peer, router, &app, Arc::new(place)).await;
                app.metrics.connections.leave();
            });
        }
        drop(listener);
        sweeping.abort();
        watching.abort();
        telling.abort();
        app.closing.request();
        // What it was acting on is held until then, and goes to the next server.
        let _ = tokio::time::timeout(DRAIN, acting).await;
        // Whoever holds a place has not ended.
        let all = places.acquire_many(MOST_CONNECTIONS as u32);
        if tokio::time::timeout(DRAIN, all).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
        Ok(())
    }
}

impl Handle {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where people reach it.
    pub fn url(&self) -> &str {
        self.app.origins.address()
    }

    /// A link that signs in whoever opens it first, as the person who started the server.
    pub async fn link(&self) -> Result<String, Error> {
        let (store, clock, entropy) = (&self.app.store, self.app.clock.as_ref(), self.app.entropy.as_ref());
        link(store.as_ref(), clock, entropy, &self.app.desk.owner(), self.url()).await
    }
}

/// Listens with a send buffer of fixed size, which every connection has from its listener. The system would let it grow to
/// several megabytes for each reader that does not read.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Makes a link to a server at `url` that opens once.
pub async fn link(
    store: &dyn Store,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
    user: &str,
    url: &str,
) -> Result<String, Error> {
    let link = Mint {
        kind: TokenKind::Link,
        name: "link".to_owned(),
        user: user.to_owned(),
        role: Role::Admin,
        projects: None,
        life: Some(LINK_HOLDS),
    };
    let (token, code) = link.make(clock, entropy)?;
    store.add_token(token).await?;
    Ok(format!("{url}/login?code={}", code.reveal()))
}

/// One connection to its end; when the server closes, after the request under way. Its place is free once the connection and
/// what it asked for have ended.
async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, app: &App, place: Arc<OwnedSemaphorePermit>) {
    // Small answers and events go out at once.
    let _ = stream.set_nodelay(true);
    let shared = app.clone();
    let service = tower::service_fn(move |mut request: hyper::Request<Incoming>| {
        let client = shared.proxies.client(peer.ip(), request.headers());
        request.extensions_mut().insert(Peer(client));
        // In a task of its own: a client that hangs up leaves nothing half done.
        let (answer, place) = (router.clone().oneshot(request.map(Body::new)), place.clone());
        let carried_out = tokio::spawn(async move {
            let answer = answer.await;
            drop(place);
            answer
        });
        async move { carried_out.await.map(|Ok(response)| response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_headers(MOST_HEADERS)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(
            TokioIo::new(Patient::new(stream, WRITE_PATIENCE)),
            hyper_util::service::TowerToHyperService::new(service),
        )
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = app.closing.requested() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Forgets answers that nobody will ask for again, and rates that are full.
async fn sweep(app: App) {
    loop {
        let now = app.clock.now();
        if let Err(error) = app.store.forget_answers(now.checked_sub(idempotency::KEPT).unwrap_or(now)).await {
            tracing::warn!(%error, "old answers could not be forgotten");
        }
        if let Err(error) = app.store.forget_rates().await {
            tracing::warn!(%error, "old rates could not be forgotten");
        }
        webhooks::sweep(&app).await;
        tokio::time::sleep(SWEEP).await;
    }
}
