//! What happens to a request for a model: it is checked, admitted, sent to an upstream or to the script, and metered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use super::metered::{self, OpenCall, Tariff};
use super::upstream::{self, Target};
use super::{Dialect, Endpoint, Vendor, edit, headers};
use crate::answer::{Body, BoxError};
use crate::cassette::Cassette;
use crate::prices::Prices;
use crate::script::{Asked, Player};
use crate::service::Context;
use crate::{Error, Options};

/// Above what either vendor accepts.
const MAX_REQUEST: usize = 64 << 20;
/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// All models that sessions may call.
#[derive(Debug)]
pub(crate) struct Models {
    anthropic: Option<Target>,
    openai: Option<Target>,
    gemini: Option<Target>,
    ollama: Option<Target>,
    client: reqwest::Client,
    script: Option<Player>,
    cassette: Option<Cassette>,
    prices: Arc<Prices>,
}

impl Models {
    pub(crate) fn new(options: Options) -> Result<Self, Error> {
        let target = |vendor, upstream: &Option<_>| upstream.as_ref().map(|it| Target::new(vendor, it)).transpose();
        let anthropic = target(Vendor::Anthropic, &options.upstreams.anthropic)?;
        let openai = target(Vendor::OpenAi, &options.upstreams.openai)?;
        let gemini = target(Vendor::Gemini, &options.upstreams.gemini)?;
        let ollama = target(Vendor::Ollama(Dialect::Own), &options.upstreams.ollama)?;
        let client = upstream::client(anthropic.iter().chain(&openai).chain(&gemini).chain(&ollama))?;
        let (script, cassette) = (options.script.map(Player::new), options.cassette);
        Ok(Self { anthropic, openai, gemini, ollama, client, script, cassette, prices: Arc::new(options.prices) })
    }

    /// Answers a request whose path is `path` below the vendor's.
    pub(crate) async fn handle(
        &self,
        vendor: Vendor,
        path: &str,
        request: Request<Incoming>,
        context: &Arc<Context>,
    ) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let Some(endpoint) = vendor.endpoint(&head.method, path) else {
            return vendor.no_such_endpoint(&head.method, path);
        };
        if let Err(reason) = vendor.check_query(&mut head.uri) {
            return vendor.error(StatusCode::BAD_REQUEST, &reason);
        }
        let body = match read(vendor, &head.headers, body).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        if endpoint.generates() {
            return self.generate(vendor, endpoint, path, head, body, context).await;
        }
        let (uri, method, sent) = (head.uri.clone(), head.method.clone(), body.clone());
        let asked = Asked { vendor, endpoint, path, query: uri.query(), body: &sent };
        if let Some(replay) = self.cassette.as_ref().and_then(Cassette::replay) {
            return replay.answer(asked, &method);
        }
        if let Some(script) = &self.script {
            return self.taped(asked, &method, script.inform(asked));
        }
        let Some(target) = self.target(vendor) else { return vendor.no_key() };
        let answer = match self.send(target, path, head, body, false).await {
            Ok(response) => passed(response),
            Err(error) => unreachable(vendor, &error),
        };
        self.taped(asked, &method, answer)
    }

    async fn generate(
        &self,
        vendor: Vendor,
        endpoint: Endpoint,
        path: &str,
        head: Parts,
        body: Bytes,
        context: &Arc<Context>,
    ) -> Response<Body> {
        let (asked, body) = match edit::prepare(endpoint, path, body) {
            Ok(prepared) => prepared,
            Err(reason) => return vendor.error(StatusCode::BAD_REQUEST, &reason),
        };
        let target = self.target(vendor);
        let replay = self.cassette.as_ref().and_then(Cassette::replay);
        if self.script.is_none() && replay.is_none() && target.is_none() {
            return vendor.no_key();
        }
        let (uri, method, sent) = (head.uri.clone(), head.method.clone(), body.clone());
        let request = Asked { vendor, endpoint, path, query: uri.query(), body: &sent };
        if let Err(refused) = context.session.meter.admit().await {
            return vendor.refused(&refused.message);
        }
        if let Some(replay) = replay {
            let tariff = match &replay.heading().script {
                Some(script) => Tariff::Script(script.price),
                None => self.table(vendor, &body),
            };
            let mut call = OpenCall::new(context, tariff, endpoint, asked.model);
            let response = replay.answer(request, &method);
            call.answered(response.status().as_u16(), content_type(response.headers()));
            return response.map(|body| metered::body(body.into_data_stream(), call));
        }
        if let Some(script) = &self.script {
            let tariff = Tariff::Script(script.price());
            let mut call = OpenCall::new(context, tariff, endpoint, script.model().to_owned());
            let response = script.answer(&context.session.id, request).await;
            call.answered(response.status().as_u16(), content_type(response.headers()));
            let response = response.map(|body| metered::body(body.into_data_stream(), call));
            return self.taped(request, &method, response);
        }
        let Some(target) = target else { return vendor.no_key() };
        let mut call = OpenCall::new(context, self.table(vendor, &body), endpoint, asked.model);
        let answer = match self.send(target, path, head, body, true).await {
            Ok(response) => {
                call.answered(response.status().as_u16(), content_type(response.headers()));
                let (head, body) = response.into_parts();
                let source = body.into_data_stream().map_err(BoxError::from);
                let mut passed = Response::from_parts(head, metered::body(source, call));
                *passed.headers_mut() = headers::end_to_end(passed.headers());
                passed
            }
            Err(error) => {
                match status_of(&error) {
                    _ if error.is_connect() || error.is_builder() => call.forget(),
                    status => call.failed(status.as_u16()).await,
                }
                unreachable(vendor, &error)
            }
        };
        self.taped(request, &method, answer)
    }

    fn taped(&self, asked: Asked<'_>, method: &Method, answer: Response<Body>) -> Response<Body> {
        match &self.cassette {
            Some(cassette) => cassette.tape(asked, method, answer),
            None => answer,
        }
    }

    fn table(&self, vendor: Vendor, body: &Bytes) -> Tariff {
        Tariff::Table { vendor: vendor.id(), prices: Arc::clone(&self.prices), request_bytes: body.len() as u64 }
    }

    fn target(&self, vendor: Vendor) -> Option<&Target> {
        match vendor {
            Vendor::Anthropic => self.anthropic.as_ref(),
            Vendor::OpenAi => self.openai.as_ref(),
            Vendor::Gemini => self.gemini.as_ref(),
            Vendor::Ollama(_) => self.ollama.as_ref(),
        }
    }

    async fn send(
        &self,
        target: &Target,
        path: &str,
        head: Parts,
        body: Bytes,
        metered: bool,
    ) -> Result<Response<reqwest::Body>, reqwest::Error> {
        let mut sent = headers::outgoing(&head.headers, metered);
        target.authenticate(&mut sent);
        let mut request = self.client.request(head.method, target.url(path, head.uri.query())).headers(sent);
        if !body.is_empty() {
            request = request.body(body);
        }
        request.send().await.map(Response::from)
    }
}

/// The whole body: small enough to hold, needed to know what is asked for, and what lets the client library send it
/// again when a kept connection turns out to be dead.
async fn read(vendor: Vendor, headers: &HeaderMap, body: Incoming) -> Result<Bytes, Response<Body>> {
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let message = "the gateway reads requests: send the body without a content-encoding";
        return Err(vendor.error(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    match tokio::time::timeout(REQUEST_TIMEOUT, Limited::new(body, MAX_REQUEST).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the request is larger than {} MiB", MAX_REQUEST >> 20);
            Err(vendor.error(StatusCode::PAYLOAD_TOO_LARGE, &message))
        }
        Ok(Err(_)) => Err(vendor.error(StatusCode::BAD_REQUEST, "the request ended before its body was complete")),
        Err(_) => Err(vendor.error(StatusCode::REQUEST_TIMEOUT, "the request's body did not come in time")),
    }
}

fn passed(response: Response<reqwest::Body>) -> Response<Body> {
    let mut passed = response.map(|body| BodyExt::boxed_unsync(body.map_err(BoxError::from)));
    *passed.headers_mut() = headers::end_to_end(passed.headers());
    passed
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn status_of(error: &reqwest::Error) -> StatusCode {
    if error.is_timeout() { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY }
}

fn unreachable(vendor: Vendor, error: &reqwest::Error) -> Response<Body> {
    let host = error.url().and_then(|url| url.host_str()).unwrap_or("the model's host").to_owned();
    let mut reason = None;
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(deeper) = cause {
        reason = Some(deeper.to_string());
        cause = deeper.source();
    }
    let message = format!("{host} did not answer: {}", reason.as_deref().unwrap_or("the request could not be sent"));
    tracing::warn!(vendor = vendor.id(), message);
    vendor.error(status_of(error), &message)
}
