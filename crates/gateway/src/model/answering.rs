//! What happens to a request for a model: it is checked, paid for, sent to an upstream or to the script, and metered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use harvest_core::Code;
use harvest_core::budget::Range;
use http_body_util::{BodyExt, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};

use super::dispatch::{Answered, Dispatch, Outgoing, Unanswered};
use super::metered::{self, OpenCall, SCRIPTED, Tariff};
use super::screen::{self, Offered};
use super::upstream::Clients;
use super::usage::HUNG_UP;
use super::{Endpoint, Upstream, Vendor, edit, headers};
use crate::answer::{Body, BoxError};
use crate::cassette::{Cassette, Replay};
use crate::echo;
use crate::meter::{Ask, Refused};
use crate::patience::Patience;
use crate::prices::{Prices, Terms, Unpriced};
use crate::script::{Asked, Player};
use crate::service::Context;
use crate::{Error, Options};

/// Above what either vendor accepts.
const MAX_REQUEST: usize = 64 << 20;
/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// How often a request starts over because its money turned out to be someone else's.
const MAX_REVOKED: usize = 3;

/// All models that sessions may call.
#[derive(Debug)]
pub(crate) struct Models {
    clients: Clients,
    patience: Arc<Patience>,
    script: Option<Player>,
    sample: Option<Player>,
    cassette: Option<Cassette>,
    prices: Arc<Prices>,
}

impl Models {
    pub(crate) fn new(options: Options) -> Result<Self, Error> {
        let patience = Arc::new(options.patience);
        let clients = Clients::new(Arc::clone(&patience), options.network.clone())?;
        let (script, cassette) = (options.script.map(Player::new), options.cassette);
        let sample = options.sample.map(Player::new);
        Ok(Self { clients, patience, script, sample, cassette, prices: Arc::new(options.prices) })
    }

    /// What all that is outside is called with.
    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
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
        let offered = match screen::screen(vendor, endpoint, &body, &context.session.server_tools) {
            Ok(offered) => offered,
            Err(refusal) => {
                let message = refusal.message();
                tracing::info!(
                    session = context.session.id,
                    vendor = vendor.id(),
                    message,
                    "a model request is refused"
                );
                return vendor.forbidden(&message);
            }
        };
        if endpoint.generates() {
            return self.generate(vendor, endpoint, path, &head, body, offered, context).await;
        }
        let sent = body.clone();
        let asked = Asked { vendor, endpoint, path, query: head.uri.query(), body: &sent };
        if let Some(replay) = self.cassette.as_ref().and_then(Cassette::replay) {
            return replay.answer(asked, &head.method);
        }
        if let Some(script) = &self.script {
            return self.taped(asked, &head.method, script.inform(asked));
        }
        let upstreams = context.session.credentials.of(vendor.id()).await;
        if upstreams.is_empty() {
            return vendor.no_key();
        }
        let request = Outgoing { endpoint, path, head: &head, body, model: "" };
        let answer = match self.dispatch(&upstreams, context).send(request, None).await {
            Ok(answered) => passed(vendor, answered),
            Err(unanswered) => unreachable(vendor, &unanswered),
        };
        self.taped(asked, &head.method, answer)
    }

    #[expect(clippy::too_many_arguments, reason = "a request has that many parts")]
    async fn generate(
        &self,
        vendor: Vendor,
        endpoint: Endpoint,
        path: &str,
        head: &Parts,
        body: Bytes,
        offered: Offered,
        context: &Arc<Context>,
    ) -> Response<Body> {
        let (asked, body) = match edit::prepare(endpoint, path, body) {
            Ok(prepared) => prepared,
            Err(reason) => return vendor.error(StatusCode::BAD_REQUEST, &reason),
        };
        let Offered { tools, most_uses, input } = offered;
        let terms = Terms { tier: asked.tier.clone(), tools, most_uses, input };
        let lacking = self.prices.unpriced(vendor.id(), &asked.model, &terms);
        let tariff = Tariff::Table {
            vendor: vendor.id(),
            prices: Arc::clone(&self.prices),
            request_bytes: body.len() as u64,
            terms,
        };
        let sent = body.clone();
        let requested = Asked { vendor, endpoint, path, query: head.uri.query(), body: &sent };
        if let Some(replay) = self.cassette.as_ref().and_then(Cassette::replay) {
            return again(replay, requested, &head.method, tariff, asked, context).await;
        }
        let sample = self.sample.as_ref().filter(|sample| sample.model() == asked.model);
        if let Some(script) = self.script.as_ref().or(sample) {
            return self.taped(requested, &head.method, play(script, requested, context).await);
        }
        // A request that names no model is the vendor's to refuse.
        let lacking = lacking.filter(|lacking| *lacking != Unpriced::Model || !asked.model.is_empty());
        let request = Outgoing { endpoint, path, head, body, model: &asked.model };
        let others = self.patience.fallbacks.get(&asked.model).map(Vec::as_slice).unwrap_or_default();
        for _ in 0..MAX_REVOKED {
            let upstreams = context.session.credentials.of(vendor.id()).await;
            if upstreams.is_empty() {
                return vendor.no_key();
            }
            if let Some(lacking) = &lacking {
                return vendor.forbidden(&has_no_price(vendor, &asked.model, lacking));
            }
            let mut cost = tariff.range(&asked.model, &asked);
            for other in others {
                cost.most = cost.most.max(tariff.range(other, &asked).most);
            }
            let grant = match reserve(context, vendor.id(), &asked.model, cost).await {
                Ok(grant) => grant,
                Err(refused) => return vendor.refused(&refused.message),
            };
            let (revoked, sure) = (grant.revoked.clone(), grant.sure.clone());
            let mut call = OpenCall::new(context, grant, tariff.clone(), endpoint, asked.model.clone());
            if let Some(sure) = sure {
                sure.cancelled().await;
            }
            if revoked.is_cancelled() {
                call.forget().await;
                continue;
            }
            call.goes_out();
            let dispatch = self.dispatch(&upstreams, context);
            tokio::select! {
                biased;
                // The call is settled as one that was hung up on: it may have reached a model.
                () = revoked.cancelled() => call.failed(HUNG_UP).await,
                sent = dispatch.send(request.clone(), Some(&mut call)) => {
                    let answer = self.answer(vendor, call, sent).await;
                    return self.taped(requested, &head.method, answer);
                }
            }
        }
        vendor.refused("concurrent calls have reserved the rest of this budget")
    }

    async fn answer(&self, vendor: Vendor, mut call: OpenCall, sent: Result<Answered, Unanswered>) -> Response<Body> {
        match sent {
            Ok(Answered { response, permit, upstream, model }) => {
                call.answered(response.status().as_u16(), content_type(response.headers()), model);
                if let Some(encoding) = headers::unreadable_encoding(response.headers()) {
                    call.settle().await;
                    return encoded(vendor, &encoding);
                }
                let echo = upstream.echo();
                call.carried_by(upstream, permit);
                let (mut head, body) = response.into_parts();
                if let Some(echo) = &echo {
                    echo.clean_headers(&mut head.headers);
                }
                let source = echo::clean(body.into_data_stream().map_err(BoxError::from), echo);
                let body = metered::body(source, call, Some(self.patience.idle));
                let mut passed = Response::from_parts(head, body);
                *passed.headers_mut() = headers::end_to_end(passed.headers());
                passed
            }
            Err(unanswered) => {
                call.failed(unanswered.status.as_u16()).await;
                unreachable(vendor, &unanswered)
            }
        }
    }

    fn taped(&self, asked: Asked<'_>, method: &Method, answer: Response<Body>) -> Response<Body> {
        match &self.cassette {
            Some(cassette) => cassette.tape(asked, method, answer),
            None => answer,
        }
    }

    fn dispatch<'a>(&'a self, upstreams: &'a [Arc<Upstream>], context: &'a Context) -> Dispatch<'a> {
        Dispatch { clients: &self.clients, patience: &self.patience, upstreams, context }
    }
}

async fn reserve(
    context: &Context,
    provider: &'static str,
    model: &str,
    cost: Range,
) -> Result<crate::meter::Grant, Refused> {
    context.session.meter.reserve(Ask { provider, model: model.to_owned(), cost }).await
}

/// A script says what its next answer costs, so exactly that is set aside.
async fn play(script: &Player, asked: Asked<'_>, context: &Arc<Context>) -> Response<Body> {
    let cost = script.cost_of(asked);
    let grant = match reserve(context, SCRIPTED, script.model(), Range { least: cost, most: cost }).await {
        Ok(grant) => grant,
        Err(refused) => return asked.vendor.refused(&refused.message),
    };
    let tariff = Tariff::Script(script.price());
    let mut call = OpenCall::new(context, grant, tariff, asked.endpoint, script.model().to_owned());
    call.goes_out();
    let response = script.answer(&context.session.id, asked).await;
    let model = script.model().to_owned();
    call.answered(response.status().as_u16(), content_type(response.headers()), model);
    response.map(|body| metered::body(body.into_data_stream(), call, None))
}

fn has_no_price(vendor: Vendor, model: &str, lacking: &Unpriced) -> String {
    let (vendor, code) = (vendor.id(), Code::Unpriced);
    let (what, row) = match lacking {
        Unpriced::Model => (format!("the model `{model}`"), format!("[{vendor}.models.\"{model}\"]")),
        Unpriced::Tier(tier) => (
            format!("the service tier `{tier}` of `{model}`"),
            format!("[{vendor}.models.\"{model}\".tiers.\"{tier}\"]"),
        ),
        Unpriced::Audio => {
            (format!("audio for `{model}`"), format!("audio_input_per_mtok in [{vendor}.models.\"{model}\"]"))
        }
        Unpriced::Tool(tool) => (format!("a use of `{tool}`"), format!("{tool} in [{vendor}.fees]")),
    };
    format!(
        "{what} has no price, and this session has a budget: ask for another one, or have an admin of the installation set \
         {row} in prices.toml; 0 is a price ({code})"
    )
}

/// A cassette answers, at the price that the recorded run paid.
async fn again(
    replay: &Replay,
    asked: Asked<'_>,
    method: &Method,
    tariff: Tariff,
    head: edit::Head,
    context: &Arc<Context>,
) -> Response<Body> {
    let tariff = replay.heading().script.as_ref().map_or(tariff, |script| Tariff::Script(script.price));
    let cost = tariff.range(&head.model, &head);
    let grant = match reserve(context, tariff.provider(), &head.model, cost).await {
        Ok(grant) => grant,
        Err(refused) => return asked.vendor.refused(&refused.message),
    };
    let mut call = OpenCall::new(context, grant, tariff, asked.endpoint, head.model.clone());
    let response = replay.answer(asked, method);
    call.answered(response.status().as_u16(), content_type(response.headers()), head.model);
    response.map(|body| metered::body(body.into_data_stream(), call, None))
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
        Err(_) => Err(vendor.error(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive in time")),
    }
}

/// An answer that nothing can be found in is not passed on: it may hold the credential.
fn encoded(vendor: Vendor, encoding: &str) -> Response<Body> {
    let message = format!(
        "the model's host answered with the content-encoding `{encoding}`, though it was asked for `identity`: the gateway reads \
         answers, so the host must send them uncompressed"
    );
    vendor.error(StatusCode::BAD_GATEWAY, &message)
}

fn passed(vendor: Vendor, Answered { response, permit, upstream, .. }: Answered) -> Response<Body> {
    if let Some(encoding) = headers::unreadable_encoding(response.headers()) {
        return encoded(vendor, &encoding);
    }
    let echo = upstream.echo();
    let body = |body: reqwest::Body| {
        let body = body.into_data_stream().map_err(move |error| {
            // The place among the calls under way is kept until the body is dropped.
            let _ = &permit;
            BoxError::from(error)
        });
        let frames = echo::clean(body, echo.clone()).map_ok(Frame::data);
        BodyExt::boxed_unsync(StreamBody::new(frames))
    };
    let mut passed = response.map(body);
    *passed.headers_mut() = headers::end_to_end(passed.headers());
    if let Some(echo) = &echo {
        echo.clean_headers(passed.headers_mut());
    }
    passed
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn unreachable(vendor: Vendor, unanswered: &Unanswered) -> Response<Body> {
    tracing::warn!(vendor = vendor.id(), message = unanswered.message);
    let mut response = vendor.error(unanswered.status, &unanswered.message);
    if let Some(wait) = unanswered.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
    }
    response
}
