//! Requests for `http://` addresses: passed on to the host they name, over a connection of their own.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Sleep, timeout};

use super::host::HostName;
use super::ledger::Traffic;
use super::tunnel::{IDLE, TOTAL};
use crate::answer::{self, Body, BoxError, Cut};
use crate::model::HOP_BY_HOP;
use crate::service::Context as Session;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5 * 60);

pub(super) async fn forward(
    request: Request<Incoming>,
    upstream: TcpStream,
    (host, port): (&HostName, u16),
    traffic: Traffic,
    session: &Session,
) -> Response<Body> {
    let Ok((mut sender, connection)) = hyper::client::conn::http1::handshake(TokioIo::new(upstream)).await else {
        return unanswered();
    };
    // Ends when request and answer are done or dropped.
    session.tasks.spawn(async move { drop(timeout(TOTAL, connection).await) });
    let traffic = Arc::new(traffic);
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let Ok(path) = path.parse::<Uri>() else { return unanswered() };
    head.uri = path;
    strip(&mut head.headers);
    let named = if port == 80 { host.to_string() } else { format!("{host}:{port}") };
    let Ok(named) = HeaderValue::try_from(named) else { return unanswered() };
    head.headers.insert(HOST, named);
    let body = Counted::new(body, Arc::clone(&traffic), Direction::Up);
    let sent = timeout(ANSWER_TIMEOUT, sender.send_request(Request::from_parts(head, body))).await;
    let Ok(Ok(answer)) = sent else { return unanswered() };
    let (mut head, body) = answer.into_parts();
    strip(&mut head.headers);
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return unanswered();
    }
    Response::from_parts(head, Counted::new(body, traffic, Direction::Down).boxed_unsync())
}

fn unanswered() -> Response<Body> {
    answer::text(StatusCode::BAD_GATEWAY, "the host's response could not be forwarded")
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Up,
    Down,
}

/// A body that is counted, and fails when nothing comes for too long.
struct Counted {
    body: Incoming,
    traffic: Arc<Traffic>,
    direction: Direction,
    idle: Pin<Box<Sleep>>,
}

impl Counted {
    fn new(body: Incoming, traffic: Arc<Traffic>, direction: Direction) -> Self {
        Self { body, traffic, direction, idle: Box::pin(tokio::time::sleep(IDLE)) }
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                match self.direction {
                    Direction::Up => self.traffic.sent(length),
                    Direction::Down => self.traffic.received(length),
                }
                self.idle.as_mut().reset(tokio::time::Instant::now() + IDLE);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => self.idle.as_mut().poll(context).map(|()| Some(Err(Cut.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
