//! Smart HTTP: the requests a git client makes, and the answers it expects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use harvest_core::Code;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::inflate::Decoder;
use super::pack::Pack;
use super::process::{Input, Running};
use super::push::{self, Push, Refusal};
use super::{Access, PushLimits, pkt};
use crate::answer::{self, Body};

/// How much more of a push that is too large is received and forgotten, so that its client reads why.
const SLACK: u64 = 16 << 20;
/// How many of the slots a push takes: git may need the memory of several fetches for it.
const PUSH_SLOTS: u32 = 4;
/// What a push leaves free on the host's disk.
const RESERVE: u64 = 256 << 20;
/// What a fetch may ask.
const MAX_FETCH_REQUEST: u64 = 64 << 20;
/// How long the list of refs of a push may take to come.
const COMMANDS_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a refused push may go on sending its pack before the connection is cut.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    fn named(name: &str) -> Option<Self> {
        match name {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    /// Without `git-`.
    fn command(self) -> &'static str {
        match self {
            Self::UploadPack => "upload-pack",
            Self::ReceivePack => "receive-pack",
        }
    }

    fn content_type(self, part: &str) -> String {
        format!("application/x-git-{}-{part}", self.command())
    }
}

/// Answers a request for `rest` below the repository. `slots` bounds the processes that run at a time.
pub(crate) async fn handle(
    access: &Access,
    rest: &str,
    request: Request<Incoming>,
    slots: &Arc<Semaphore>,
    limits: PushLimits,
) -> Response<Body> {
    let asked = match (request.method(), rest) {
        (&Method::GET, "info/refs") => {
            let parameters = request.uri().query().unwrap_or_default().split('&');
            parameters.filter_map(|pair| pair.strip_prefix("service=")).find_map(Service::named)
        }
        (_, lfs) if lfs == "info/lfs" || lfs.starts_with("info/lfs/") => return no_large_files(),
        (&Method::POST, name) => Service::named(name),
        _ => {
            return answer::text(StatusCode::NOT_FOUND, "a git repository has no such path");
        }
    };
    let Some(service) = asked else {
        return answer::text(StatusCode::FORBIDDEN, "only git's smart HTTP protocol is supported here");
    };
    if service == Service::ReceivePack && !access.writable {
        return answer::text(StatusCode::FORBIDDEN, "this session may not push");
    }
    let is_push = service == Service::ReceivePack && request.method() == Method::POST;
    let Ok(slot) = Arc::clone(slots).acquire_many_owned(if is_push { PUSH_SLOTS } else { 1 }).await else {
        return answer::text(StatusCode::SERVICE_UNAVAILABLE, "the session has ended");
    };
    let protocol = protocol(service, request.headers());
    let answered = match (request.method(), service) {
        (&Method::GET, _) => advertise(access, service, protocol, slot).await,
        (_, Service::UploadPack) => upload(access, protocol, request, slot).await,
        (_, Service::ReceivePack) => receive(access, request, slot, limits).await,
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

/// For a repository that is not the session's: a submodule beside it, most of the time.
pub(crate) fn no_other_repository() -> Response<Body> {
    let message = format!("{}: a session has one repository, and its submodules are not served", Code::Submodules);
    answer::text(StatusCode::NOT_FOUND, message)
}

/// In the words of Git LFS, so that its client shows them.
fn no_large_files() -> Response<Body> {
    let message = format!("{}: the gateway does not serve files stored in Git LFS", Code::LargeFiles);
    let mut refusal = answer::json(StatusCode::NOT_IMPLEMENTED, &serde_json::json!({ "message": message }));
    refusal.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/vnd.git-lfs+json"));
    refusal
}

/// An answer, or the answer that a refusal is.
type Answer = Result<Response<Body>, Refused>;
type Refused = Box<Response<Body>>;

fn refused(status: StatusCode, message: impl Into<String>) -> Refused {
    Box::new(answer::text(status, message))
}

async fn advertise(access: &Access, service: Service, protocol: Option<&str>, slot: OwnedSemaphorePermit) -> Answer {
    let mut before = Vec::new();
    // Version 2 begins with its own announcement.
    if protocol != Some("version=2") {
        pkt::write(&mut before, format!("# service=git-{}\n", service.command()).as_bytes());
        pkt::flush(&mut before);
    }
    let args = [service.command(), "--stateless-rpc", "--advertise-refs"];
    let body = run(access, &args, protocol, Input::default(), slot, before).await?;
    Ok(uncached(service, "advertisement", body))
}

async fn upload(
    access: &Access,
    protocol: Option<&str>,
    request: Request<Incoming>,
    slot: OwnedSemaphorePermit,
) -> Answer {
    let service = Service::UploadPack;
    let (decoder, body) = open(service, request)?;
    let input = Input { rest: Some((decoder, body)), limit: MAX_FETCH_REQUEST, ..Input::default() };
    let body = run(access, &[service.command(), "--stateless-rpc"], protocol, input, slot, Vec::new()).await?;
    Ok(uncached(service, "result", body))
}

async fn receive(
    access: &Access,
    request: Request<Incoming>,
    slot: OwnedSemaphorePermit,
    limits: PushLimits,
) -> Answer {
    let service = Service::ReceivePack;
    let (mut decoder, mut body) = open(service, request)?;
    let read = read_commands(&mut decoder, &mut body);
    let (push, rest) = match tokio::time::timeout(COMMANDS_TIMEOUT, read).await {
        Ok(Ok(read)) => read,
        Ok(Err(reason)) => {
            return Err(refused(StatusCode::BAD_REQUEST, format!("the push cannot be parsed: {reason}")));
        }
        Err(_) => {
            return Err(refused(StatusCode::REQUEST_TIMEOUT, "the push did not send its commands in time"));
        }
    };
    if push.is_empty() {
        return Ok(uncached(service, "result", answer::full(Bytes::new())));
    }
    if let Err(refusal) = push.judge(access) {
        drain(body, limits.pack_bytes).await;
        return match refusal {
            Refusal::Report(report) => Ok(uncached(service, "result", answer::full(report))),
            Refusal::Text(text) => Err(refused(StatusCode::FORBIDDEN, text)),
        };
    }
    let pack = Pack::new(limits, push.hash_bytes(), room(access));
    let input = Input {
        start: push.encode().into(),
        first: rest.into(),
        rest: Some((decoder, body)),
        limit: limits.pack_bytes.saturating_mul(2).saturating_add(SLACK),
        push: Some((push, pack)),
    };
    // The gateway refuses a larger one before git does.
    let size = format!("receive.maxInputSize={}", limits.pack_bytes);
    let args = ["-c", &size, service.command(), "--stateless-rpc"];
    let body = run(access, &args, None, input, slot, Vec::new()).await?;
    Ok(uncached(service, "result", body))
}

/// The commands of a push and the beginning of its pack.
async fn read_commands(decoder: &mut Decoder, body: &mut Incoming) -> Result<(Push, Vec<u8>), String> {
    let mut reader = push::Reader::default();
    while let Some(frame) = body.frame().await {
        let Ok(mut chunk) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
        let mut found = None;
        while !chunk.is_empty() {
            let plain = decoder.step(&mut chunk).map_err(|error| error.to_string())?;
            match &mut found {
                // The rest of this chunk belongs to the pack; a chunk is short enough to be held.
                Some((_, rest)) => Vec::extend_from_slice(rest, &plain),
                None => found = reader.feed(&plain).map_err(|malformed| malformed.to_string())?,
            }
            if found.as_ref().is_some_and(|(_, rest)| rest.len() > MAX_HELD) {
                return Err("its compression ratio is too high".to_owned());
            }
        }
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Err("it ended too early".to_owned())
}

/// What one chunk of a compressed body may grow to while the commands are looked for.
const MAX_HELD: usize = 16 << 20;

fn open(service: Service, request: Request<Incoming>) -> Result<(Decoder, Incoming), Refused> {
    let refuse = |message| refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    let header = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if header(CONTENT_TYPE) != Some(service.content_type("request").as_str()) {
        return Err(refuse("the content type is not that of a git request"));
    }
    let decoder = Decoder::new(header(CONTENT_ENCODING)).ok_or_else(|| refuse("send the body plain or with gzip"))?;
    Ok((decoder, request.into_body()))
}

async fn run(
    access: &Access,
    command: &[&str],
    protocol: Option<&str>,
    input: Input,
    slot: OwnedSemaphorePermit,
    before: Vec<u8>,
) -> Result<Body, Refused> {
    let failed = || refused(StatusCode::INTERNAL_SERVER_ERROR, "git failed on the session's repository");
    let Some(directory) = access.directory.to_str() else { return Err(failed()) };
    let mut args = vec!["-c", "core.hooksPath=/dev/null", "-c", "receive.autogc=false", "-c", "gc.auto=0"];
    args.extend(command);
    args.push(directory);
    let running = Running::start(access, &args, protocol, input, slot).map_err(|error| {
        tracing::error!(%error, "git could not be started");
        failed()
    })?;
    running.answer(before.into()).await.ok_or_else(failed)
}

/// What the objects of a push may take of the host's disk.
fn room(access: &Access) -> u64 {
    let stat = rustix::fs::statvfs(&access.directory);
    stat.map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize).saturating_sub(RESERVE))
}

/// Receives and forgets, so that the client is done sending when the answer comes and does read it.
async fn drain(mut body: Incoming, most: u64) {
    let all = async {
        let mut received = 0;
        while let Some(Ok(frame)) = body.frame().await {
            received += frame.data_ref().map_or(0, |data| data.len() as u64);
            if received > most {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, all).await;
}

/// What the client says of the protocol's version, if it is one that there is. There is no version 2 of pushing.
fn protocol(service: Service, headers: &HeaderMap) -> Option<&'static str> {
    let asked = headers.get("git-protocol")?.to_str().ok()?;
    let known = ["version=2", "version=1", "version=0"];
    let version = known.into_iter().find(|version| asked.split(':').any(|part| part == *version))?;
    (service == Service::UploadPack || version != "version=2").then_some(version)
}

fn uncached(service: Service, part: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    if let Ok(content_type) = HeaderValue::try_from(service.content_type(part)) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    response
}
