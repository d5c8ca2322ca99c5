//! What happens anywhere, in short: which task did what. Whoever wants all of it follows the session.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use harvest_api_types::Notice;
use harvest_core::{EventBody, SessionId};
use harvest_store::{Grown, Store};
use serde::Serialize;
use tokio::sync::broadcast;

use super::sse::{HEARTBEAT, closing, response};
use crate::auth::{Pass, Principal, Shows};
use crate::problem::Problem;
use crate::state::App;

const BUFFER: usize = 1024;
const PAGE: usize = 500;
/// Sessions whose last number is remembered; of others only what is new is told.
const REMEMBERED: usize = 10_000;

/// One reader of all journals for the whole process, there while someone listens.
#[derive(Debug, Clone)]
pub struct Feed {
    store: Arc<dyn Store>,
    open: Arc<Mutex<Option<broadcast::Sender<Told>>>>,
}

/// Something beside the journals: its name, and what whoever sees the repository is told.
#[derive(Debug)]
pub struct Aside {
    name: &'static str,
    repository: String,
    data: String,
}

impl Aside {
    pub fn new(name: &'static str, repository: &str, data: &impl Serialize) -> Self {
        let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".to_owned());
        Self { name, repository: repository.to_owned(), data }
    }
}

#[derive(Debug, Clone)]
enum Told {
    Notice(Arc<Notice>),
    Aside(Arc<Aside>),
    /// Something may have been missed: look for yourself.
    Missed,
}

impl Feed {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, open: Arc::default() }
    }

    /// Tells everyone who listens to this process.
    pub fn tell(&self, aside: Aside) {
        if let Some(sender) = self.open.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            let _ = sender.send(Told::Aside(Arc::new(aside)));
        }
    }

    fn subscribe(&self) -> broadcast::Receiver<Told> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = open.as_ref() {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(BUFFER);
        *open = Some(sender.clone());
        tokio::spawn(follow(self.store.clone(), self.store.watch_journals(), sender, self.open.clone()));
        receiver
    }
}

async fn follow(
    store: Arc<dyn Store>,
    mut grown: broadcast::Receiver<Grown>,
    sender: broadcast::Sender<Told>,
    open: Arc<Mutex<Option<broadcast::Sender<Told>>>>,
) {
    let mut told: HashMap<SessionId, u64> = HashMap::new();
    loop {
        let heard = grown.recv().await;
        {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            if sender.receiver_count() == 0 || matches!(heard, Err(broadcast::error::RecvError::Closed)) {
                *open = None;
                return;
            }
        }
        let Ok(Grown::Session { id, last }) = heard else {
            let _ = sender.send(Told::Missed);
            continue;
        };
        let after = told.get(&id).copied().unwrap_or(last.saturating_sub(1));
        if after >= last {
            continue;
        }
        match notices(store.as_ref(), &id, after).await {
            Ok((notices, last)) => {
                if told.len() >= REMEMBERED {
                    told.clear();
                }
                told.insert(id, last);
                for notice in notices {
                    let _ = sender.send(Told::Notice(Arc::new(notice)));
                }
            }
            Err(error) => {
                tracing::warn!(%error, session = %id, "a journal cannot be read at the moment");
                let _ = sender.send(Told::Missed);
            }
        }
    }
}

async fn notices(
    store: &dyn Store,
    session: &SessionId,
    after: u64,
) -> Result<(Vec<Notice>, u64), harvest_store::Error> {
    let events = store.events(session, after, PAGE).await?;
    let last = events.last().map_or(after, |event| event.seq);
    let shown: Vec<_> = events.iter().filter(|event| is_shown(&event.body)).collect();
    if shown.is_empty() {
        return Ok((Vec::new(), last));
    }
    let (task_id, _) = store.last_event(session).await?;
    let task = store.task(&task_id).await?.task;
    let notices = shown.into_iter().map(|event| Notice {
        at: event.at,
        task_id: task_id.clone(),
        session_id: session.clone(),
        seq: event.seq,
        kind: event.body.kind().to_owned(),
        status: task.status,
        repository: task.repository.clone(),
    });
    Ok((notices.collect(), last))
}

/// Whether a list would look different. What an agent says and does belongs to its session.
fn is_shown(body: &EventBody) -> bool {
    !matches!(
        body,
        EventBody::Message { .. }
            | EventBody::MessageDelta { .. }
            | EventBody::ToolCall { .. }
            | EventBody::ToolResult { .. }
            | EventBody::FileChanged { .. }
            | EventBody::Raw { .. }
            | EventBody::Usage { .. }
            | EventBody::Egress { .. }
    )
}

/// Follow changes of all visible tasks as server-sent events
///
/// `notice` reports a change of a task; `missed` means that a list should be read again; `presence` lists the people
/// who view a session; `comment` reports that the comments on a session have changed.
#[utoipa::path(
    get, path = "/api/events", tag = "events", operation_id = "events.all",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses(
        (status = 200, description = "A stream; the data of each `notice` is a Notice", body = String, content_type = "text/event-stream"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn all(State(app): State<App>, Extension(principal): Extension<Principal>) -> Response {
    let entered = app.metrics.streams.clone().entered();
    let pass = app.passes.open(&principal, Shows::Everything);
    let state = (app.feed.subscribe(), principal, app, (entered, pass), false);
    let bytes = stream::unfold(state, |(mut told, principal, app, (entered, mut pass), greeted)| async move {
        let bytes = match greeted {
            true => next(&mut told, &principal, &app, &mut pass).await?,
            false => Bytes::from_static(b"retry: 1000\n\n"),
        };
        Some((Ok::<_, Infallible>(bytes), (told, principal, app, (entered, pass), true)))
    });
    response(Body::from_stream(bytes))
}

/// `None` at the end.
async fn next(
    told: &mut broadcast::Receiver<Told>,
    principal: &Principal,
    app: &App,
    pass: &mut Pass,
) -> Option<Bytes> {
    const MISSED: Bytes = Bytes::from_static(b"event: missed\ndata: {}\n\n");
    // Notices that this reader may not see do not put it off.
    let heartbeat = tokio::time::sleep(HEARTBEAT);
    tokio::pin!(heartbeat);
    loop {
        let heard = tokio::select! {
            biased;
            () = closing(app) => return None,
            () = pass.ended() => return None,
            heard = told.recv() => heard,
            () = &mut heartbeat => return Some(Bytes::from_static(b": alive\n\n")),
        };
        match heard {
            Ok(Told::Notice(notice)) if principal.sees_repository(&notice.repository) => {
                let data = serde_json::to_string(&*notice).ok()?;
                return Some(format!("event: notice\ndata: {data}\n\n").into());
            }
            Ok(Told::Aside(aside)) if principal.sees_repository(&aside.repository) => {
                return Some(format!("event: {}\ndata: {}\n\n", aside.name, aside.data).into());
            }
            Ok(Told::Notice(_) | Told::Aside(_)) => {}
            Ok(Told::Missed) | Err(broadcast::error::RecvError::Lagged(_)) => return Some(MISSED),
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
