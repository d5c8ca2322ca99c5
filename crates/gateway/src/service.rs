//! The server side: one accept loop per session, every connection a task of it, so that ending the session ends them
//! all and still lets the books be settled.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::task::TaskTracker;

use crate::answer::{self, Body};
use crate::credentials::Credentials;
use crate::meter::Meter;
use crate::model::Models;
use crate::registry::{self, Registries};
use crate::{Error, Options, egress, git, mcp};

/// Connections that one session may hold open; further ones wait in the socket's queue.
const MAX_CONNECTIONS: usize = 256;
const MAX_GIT_PROCESSES: usize = 8;
/// Documents of registries that one session may have in memory at a time.
const MAX_DOCUMENTS: usize = 32;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long [`Serving::stop`] waits for open calls to be settled.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves any number of sessions; cheap to clone.
#[derive(Debug, Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

/// What all sessions use.
#[derive(Debug)]
struct Shared {
    models: Models,
    registries: Option<Registries>,
    network: egress::Network,
    pushes: git::PushLimits,
}

/// Who is calling, as known from the socket the call came in on.
#[derive(Debug)]
pub struct Session {
    pub id: String,
    pub meter: Arc<dyn Meter>,
    pub credentials: Arc<dyn Credentials>,
    pub git: Option<git::Access>,
    pub egress: egress::Access,
    /// What model vendors may do for it outside of the sandbox.
    pub server_tools: crate::ServerTools,
}

/// A request's surroundings: the session it came from and the tasks that must outlive its connection.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) session: Session,
    pub(crate) tasks: TaskTracker,
    pub(crate) ledger: Arc<egress::Ledger>,
    pub(crate) mcp: mcp::Access,
    /// They end with this, and [`Serving::stop`] waits for that.
    pub(crate) programs: mcp::Programs,
    /// Bounds the git processes that run for the session at a time.
    git_slots: Arc<Semaphore>,
    /// Bounds the documents that are in memory for the session.
    document_slots: Arc<Semaphore>,
}

/// Serves one session until it is stopped or dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the serving"]
pub struct Serving {
    accepting: JoinHandle<()>,
    tasks: TaskTracker,
    ledger: Arc<egress::Ledger>,
}

impl Gateway {
    pub fn new(options: Options) -> Result<Self, Error> {
        let (network, pushes) = (options.network.clone(), options.pushes);
        let registries = options.registries.clone().map(|own| Registries::new(own, &network)).transpose()?;
        Ok(Self { shared: Arc::new(Shared { models: Models::new(options)?, registries, network, pushes }) })
    }

    /// Serves the session on its socket until the guard is dropped or stopped. Call it within a tokio runtime.
    pub fn serve(&self, listener: UnixListener, session: Session) -> Serving {
        self.serve_with_tools(listener, session, mcp::Access::none())
    }

    /// The same for a session that has tools, too.
    pub fn serve_with_tools(&self, listener: UnixListener, session: Session, mcp: mcp::Access) -> Serving {
        let tasks = TaskTracker::new();
        let ledger = Arc::new(egress::Ledger::new(Arc::clone(&session.egress.recorder)));
        let context = Arc::new(Context {
            session,
            tasks: tasks.clone(),
            ledger: Arc::clone(&ledger),
            programs: mcp::Programs::of(&mcp, &tasks),
            mcp,
            git_slots: Arc::new(Semaphore::new(MAX_GIT_PROCESSES)),
            document_slots: Arc::new(Semaphore::new(MAX_DOCUMENTS)),
        });
        Serving { accepting: tokio::spawn(accept(listener, Arc::clone(&self.shared), context)), tasks, ledger }
    }

    /// Whether packages can be had through this gateway.
    pub fn has_registries(&self) -> bool {
        self.shared.registries.is_some()
    }
}

impl Serving {
    /// Cuts what is open and returns when every call has been settled (or after ten seconds, with a warning).
    pub async fn stop(self) {
        self.accepting.abort();
        self.tasks.close();
        if tokio::time::timeout(SETTLE_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!(open = self.tasks.len(), "some model calls were not settled in time");
        }
        self.ledger.close().await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: UnixListener, shared: Arc<Shared>, context: Arc<Context>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let connection = serve_connection(stream, Arc::clone(&shared), Arc::clone(&context));
                    connections.spawn(context.tasks.track_future(connection));
                }
                Err(error) => {
                    tracing::warn!(session = context.session.id, %error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: UnixStream, shared: Arc<Shared>, context: Arc<Context>) {
    let session = context.session.id.clone();
    let tunnel = Arc::new(Mutex::new(None));
    let (admitted, serving) = (Arc::clone(&tunnel), Arc::clone(&context));
    let service = service_fn(move |request| {
        let (shared, context, admitted) = (Arc::clone(&shared), Arc::clone(&serving), Arc::clone(&admitted));
        async move {
            let (answer, tunnel) = route(request, &shared, &context).await;
            *admitted.lock().unwrap_or_else(PoisonError::into_inner) = tunnel;
            Ok::<_, Infallible>(answer)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(session, %error, "a connection ended early");
    }
    // It stays the same task: counted among the session's connections, and ended with them.
    let tunnel = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(tunnel) = tunnel {
        egress::Tunnel::run(tunnel, &context.ledger).await;
    }
}

async fn route(
    request: Request<Incoming>,
    shared: &Shared,
    context: &Arc<Context>,
) -> (Response<Body>, Option<egress::Tunnel>) {
    if egress::is_for_a_proxy(&request) {
        return egress::handle(request, &shared.network, context).await;
    }
    let path = request.uri().path().to_owned();
    let git = context.session.git.as_ref();
    let registries = shared.registries.as_ref().filter(|_| context.session.egress.registries);
    let answer = if let Some((vendor, rest)) = crate::model::Vendor::of_path(&path) {
        shared.models.handle(vendor, rest, request, context).await
    } else if let Some((access, rest)) = git.and_then(|access| Some((access, access.route(&path)?))) {
        git::handle(access, rest, request, &context.git_slots, shared.pushes).await
    } else if let Some((registries, (ecosystem, rest))) =
        registries.and_then(|registries| Some((registries, registry::of_path(&path)?)))
    {
        let recorder = context.session.egress.recorder.as_ref();
        registries.handle(ecosystem, rest, &request, &context.document_slots, recorder).await
    } else if let Some(name) = mcp::of_path(&path) {
        mcp::handle(name, request, shared.models.clients(), context).await
    } else if git.is_some() && path.starts_with("/git/") {
        git::no_other_repository()
    } else {
        answer::not_found(&path, git.map(|access| access.name.as_str()), registries.is_some())
    };
    (answer, None)
}
