//! The server side: one accept loop per session, every connection a task of it, so that ending the session ends them
//! all and still lets the books be settled.

use std::convert::Infallible;
use std::sync::Arc;
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
use crate::meter::Meter;
use crate::model::Models;
use crate::{Error, Options, git};

/// Connections that one session may hold open; further ones wait in the socket's queue.
const MAX_CONNECTIONS: usize = 256;
const MAX_GIT_PROCESSES: usize = 8;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long [`Serving::stop`] waits for open calls to be settled.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves any number of sessions; cheap to clone.
#[derive(Debug, Clone)]
pub struct Gateway {
    models: Arc<Models>,
}

/// Who is calling, as known from the socket the call came in on.
#[derive(Debug)]
pub struct Session {
    pub id: String,
    pub meter: Arc<dyn Meter>,
    pub git: Option<git::Access>,
}

/// A request's surroundings: the session it came from and the tasks that must outlive its connection.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) session: Session,
    pub(crate) tasks: TaskTracker,
    /// Bounds the git processes that run for the session at a time.
    git_slots: Arc<Semaphore>,
}

/// Serves one session until it is stopped or dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the serving"]
pub struct Serving {
    accepting: JoinHandle<()>,
    tasks: TaskTracker,
}

impl Gateway {
    pub fn new(options: Options) -> Result<Self, Error> {
        Ok(Self { models: Arc::new(Models::new(options)?) })
    }

    /// Serves the session on its socket until the guard is dropped or stopped. Call it within a tokio runtime.
    pub fn serve(&self, listener: UnixListener, session: Session) -> Serving {
        let tasks = TaskTracker::new();
        let context =
            Arc::new(Context { session, tasks: tasks.clone(), git_slots: Arc::new(Semaphore::new(MAX_GIT_PROCESSES)) });
        Serving { accepting: tokio::spawn(accept(listener, Arc::clone(&self.models), context)), tasks }
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
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: UnixListener, models: Arc<Models>, context: Arc<Context>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let connection = serve_connection(stream, Arc::clone(&models), Arc::clone(&context));
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

async fn serve_connection(stream: UnixStream, models: Arc<Models>, context: Arc<Context>) {
    let session = context.session.id.clone();
    let service = service_fn(move |request| {
        let (models, context) = (Arc::clone(&models), Arc::clone(&context));
        async move { Ok::<_, Infallible>(route(request, &models, &context).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(session, %error, "a connection ended early");
    }
}

async fn route(request: Request<Incoming>, models: &Models, context: &Arc<Context>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let git = context.session.git.as_ref();
    if let Some((vendor, rest)) = crate::model::Vendor::of_path(&path) {
        models.handle(vendor, rest, request, context).await
    } else if let Some((access, rest)) = git.and_then(|access| Some((access, access.route(&path)?))) {
        git::handle(access, rest, request, &context.git_slots).await
    } else {
        answer::not_found(&path, git.map(|access| access.name.as_str()))
    }
}
