//! Gets a request answered: with one credential after the other, again after a while, with another model; and says when to
//! stop trying.
//!
//! Only what the vendor has not begun to answer is asked again: a status that says so, or a connection that broke before the
//! head of an answer. Such a request may have been worked on all the same; that is why calls of models are at least once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use harvest_core::Remedy;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::fallback;
use super::lane::{Blame, Lane, Permit};
use super::metered::OpenCall;
use super::upstream::Clients;
use super::{Endpoint, Upstream, headers};
use crate::meter::Trouble;
use crate::patience::Patience;
use crate::service::Context;

/// A request on its way out.
#[derive(Debug, Clone)]
pub(super) struct Outgoing<'a> {
    pub(super) endpoint: Endpoint,
    pub(super) path: &'a str,
    pub(super) head: &'a Parts,
    pub(super) body: Bytes,
    pub(super) model: &'a str,
}

/// The head of an answer, whatever it says, and the place its call has among those under way.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) response: Response<reqwest::Body>,
    pub(super) permit: Permit,
    pub(super) upstream: Arc<Upstream>,
    /// Not always the one that was asked for.
    pub(super) model: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// The request may have reached a model.
    pub(super) was_sent: bool,
    pub(super) retry_after: Option<Duration>,
}

/// Asks the models of one vendor for one session.
#[derive(Debug)]
pub(super) struct Dispatch<'a> {
    pub(super) clients: &'a Clients,
    pub(super) patience: &'a Patience,
    pub(super) upstreams: &'a [Arc<Upstream>],
    pub(super) context: &'a Context,
}

/// What is done with credentials that rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resting {
    LeftAlone,
    Asked,
}

/// One answer that is none, and what it means.
struct Bad {
    /// The id of the upstream that gave it.
    credential: String,
    problem: String,
    blame: Blame,
    /// Worth asking again.
    again: bool,
    last: Result<Answered, Unanswered>,
}

impl Dispatch<'_> {
    /// `call` pays for it, where it costs anything.
    pub(super) async fn send(
        &self,
        request: Outgoing<'_>,
        mut call: Option<&mut OpenCall>,
    ) -> Result<Answered, Unanswered> {
        let call = &mut call;
        let (path, body) = (request.path, &request.body);
        let mut bad = match self.ask(&request, path, body, request.model, Resting::LeftAlone, call).await {
            Ok(answered) => return Ok(answered),
            Err(bad) => bad,
        };
        let others = self.patience.fallbacks.get(request.model).map(Vec::as_slice).unwrap_or_default();
        for model in others {
            if !bad.again {
                break;
            }
            let Some((path, body)) = fallback::substitute(request.endpoint, request.path, &request.body, model) else {
                break;
            };
            self.note(request.model, &bad, Remedy::FellBack);
            // What a credential was too busy for was that model.
            bad = match self.ask(&request, &path, &body, model, Resting::Asked, call).await {
                Ok(answered) => return Ok(answered),
                Err(bad) => bad,
            };
        }
        self.note(request.model, &bad, Remedy::GaveUp);
        bad.last
    }

    /// All credentials, as often as they may be tried.
    async fn ask(
        &self,
        request: &Outgoing<'_>,
        path: &str,
        body: &Bytes,
        model: &str,
        resting: Resting,
        call: &mut Option<&mut OpenCall>,
    ) -> Result<Answered, Bad> {
        let mut last: Option<Bad> = None;
        for retry in 0.. {
            let (mut asked, mut hope) = (false, false);
            for upstream in self.upstreams {
                if resting == Resting::LeftAlone && upstream.lane().rest(self.patience).is_some() {
                    continue;
                }
                if let Some(bad) = last.as_ref().filter(|_| asked) {
                    self.note(model, bad, Remedy::FailedOver);
                }
                asked = true;
                let mut bad = match self.try_one(upstream, request, path, body, model).await {
                    Ok(answered) => {
                        upstream.lane().succeeded();
                        return Ok(answered);
                    }
                    Err(bad) => bad,
                };
                if bad.was_sent() {
                    bad.again &= call.as_mut().is_none_or(|call| call.lost_one());
                }
                self.blame(upstream, model, &bad);
                hope |= bad.again;
                // Another credential helps against what is wrong with this one or with its host, and against nothing else.
                let is_final = !bad.again && bad.blame != Blame::Rejected;
                last = Some(bad);
                if is_final {
                    hope = false;
                    break;
                }
            }
            let hope = hope || !asked;
            let wait = self.wait(retry, model);
            if retry >= self.patience.retries || wait > self.patience.longest_wait || !hope {
                let last = last.unwrap_or_else(|| self.all_rest(wait));
                return Err(Bad { again: hope, ..last });
            }
            if let Some(bad) = &last {
                self.note(model, bad, Remedy::Retried);
            }
            tokio::time::sleep(wait).await;
        }
        Err(last.unwrap_or_else(|| self.all_rest(Duration::ZERO)))
    }

    async fn try_one(
        &self,
        upstream: &Arc<Upstream>,
        request: &Outgoing<'_>,
        path: &str,
        body: &Bytes,
        model: &str,
    ) -> Result<Answered, Bad> {
        let patience = self.patience;
        let entering = Lane::enter(upstream, &self.context.session.id, patience.calls_per_credential);
        let Ok(permit) = tokio::time::timeout(patience.queue, entering).await else {
            let message = "too many concurrent calls with this credential".to_owned();
            return Err(Bad::unanswered(upstream, "queue", StatusCode::SERVICE_UNAVAILABLE, message));
        };
        let client = match self.clients.to(upstream) {
            Ok(client) => client,
            Err(error) => {
                return Err(Bad::unanswered(upstream, "connect", StatusCode::BAD_GATEWAY, error.to_string()));
            }
        };
        self.context.session.credentials.used(upstream);
        let policy = &self.context.session.server_tools;
        let mut sent = headers::outgoing(&request.head.headers, policy);
        upstream.authenticate(&mut sent);
        let url = upstream.url(path, request.head.uri.query());
        let mut built = client.request(request.head.method.clone(), url).headers(sent);
        if !body.is_empty() {
            built = built.body(body.clone());
        }
        let response = match tokio::time::timeout(patience.first_byte, built.send()).await {
            Ok(Ok(response)) => Response::from(response),
            Ok(Err(error)) => return Err(Bad::of(upstream, &error)),
            Err(_) => {
                let message = format!("the model did not answer within {} s", patience.first_byte.as_secs());
                return Err(Bad::unanswered(upstream, "no_answer", StatusCode::GATEWAY_TIMEOUT, message).sent());
            }
        };
        let verdict = judge(response.status(), response.headers());
        let status = response.status();
        let answered = Answered { response, permit, upstream: Arc::clone(upstream), model: model.to_owned() };
        match verdict {
            None => Ok(answered),
            Some((blame, again)) => {
                let (credential, problem) = (upstream.id().to_owned(), status.as_str().to_owned());
                Err(Bad { credential, problem, blame, again, last: Ok(answered) })
            }
        }
    }

    /// A credential that is the only one is used whatever the vendor says of it: people want to see what that is.
    fn blame(&self, upstream: &Upstream, model: &str, bad: &Bad) {
        if bad.blame == Blame::Rejected && self.upstreams.len() == 1 {
            return;
        }
        if upstream.lane().failed(bad.blame, self.patience) {
            self.note(model, bad, Remedy::Rested);
        }
    }

    /// Until it makes sense to ask again.
    fn wait(&self, retry: u32, model: &str) -> Duration {
        let ready = self.upstreams.iter().map(|upstream| upstream.lane().resting().unwrap_or_default()).min();
        let backoff = self.patience.backoff.saturating_mul(1 << retry.min(10));
        // Spread by up to a half, so that sessions which failed together do not come back together.
        let mut hasher = DefaultHasher::new();
        (&self.context.session.id, model, retry).hash(&mut hasher);
        let spread = backoff.mul_f64((hasher.finish() % 1000) as f64 / 2000.0);
        ready.unwrap_or_default().max(backoff - spread)
    }

    fn note(&self, model: &str, bad: &Bad, remedy: Remedy) {
        let provider = self.upstreams.first().map_or("", |upstream| upstream.provider());
        let (credential, problem) = (bad.credential.clone(), bad.problem.clone());
        self.context.session.meter.note(Trouble { provider, model: model.to_owned(), credential, problem, remedy });
    }

    /// No one was asked.
    fn all_rest(&self, wait: Duration) -> Bad {
        let message =
            format!("every credential for this provider is paused after failures; try again in {} s", wait.as_secs());
        let last = Err(Unanswered {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message,
            was_sent: false,
            retry_after: Some(wait),
        });
        let credential = self.upstreams.first().map(|upstream| upstream.id().to_owned()).unwrap_or_default();
        Bad { credential, problem: "resting".to_owned(), blame: Blame::Host, again: false, last }
    }
}

/// What is wrong with an answer of this status, if anything is that can be helped; and whether to ask again.
fn judge(status: StatusCode, headers: &HeaderMap) -> Option<(Blame, bool)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let advised = match text("x-should-retry") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    let (blame, again) = match status.as_u16() {
        429 => (retry_after(headers).map_or(Blame::Host, Blame::Busy), true),
        500 | 502 | 503 | 529 => (retry_after(headers).map_or(Blame::Host, Blame::Busy), true),
        401 | 403 => (Blame::Rejected, false),
        400..=599 if advised == Some(true) => (Blame::Host, true),
        _ => return None,
    };
    Some((blame, advised.unwrap_or(again)))
}

/// In seconds, or as OpenAI says it, in milliseconds. Dates are not understood; no vendor sends them.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let millis = number("retry-after-ms").map(|millis| millis / 1000.0);
    let seconds = millis.or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

impl Bad {
    /// Not sent, and no use to try again.
    fn unanswered(upstream: &Upstream, problem: &str, status: StatusCode, message: String) -> Self {
        let last = Err(Unanswered { status, message, was_sent: false, retry_after: None });
        let (credential, problem) = (upstream.id().to_owned(), problem.to_owned());
        Self { credential, problem, blame: Blame::Host, again: false, last }
    }

    fn was_sent(&self) -> bool {
        self.last.as_ref().is_err_and(|unanswered| unanswered.was_sent)
    }

    /// It may have reached a model.
    fn sent(mut self) -> Self {
        if let Err(unanswered) = &mut self.last {
            unanswered.was_sent = true;
        }
        self
    }

    /// A connection that could not be made, or broke before the head of an answer.
    fn of(upstream: &Upstream, error: &reqwest::Error) -> Self {
        let host = error.url().and_then(|url| url.host_str()).unwrap_or("the model's host").to_owned();
        let mut reason = None;
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
        while let Some(deeper) = cause {
            reason = Some(deeper.to_string());
            cause = deeper.source();
        }
        let message =
            format!("{host} did not answer: {}", reason.as_deref().unwrap_or("the request could not be sent"));
        let status = if error.is_timeout() { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
        if error.is_builder() {
            return Self::unanswered(upstream, "connect", status, message);
        }
        let bad = if error.is_connect() {
            Self::unanswered(upstream, "connect", status, message)
        } else {
            Self::unanswered(upstream, "no_answer", status, message).sent()
        };
        Self { again: true, ..bad }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_the_vendor_says_is_done() {
        let of = |status: u16, lines: &[_]| judge(StatusCode::from_u16(status).unwrap(), &headers(lines));
        assert_eq!(of(200, &[]), None);
        assert_eq!(of(400, &[]), None);
        assert_eq!(of(404, &[("x-should-retry", "false")]), None);
        assert_eq!(of(401, &[]), Some((Blame::Rejected, false)));
        assert_eq!(of(429, &[("retry-after", "7")]), Some((Blame::Busy(Duration::from_secs(7)), true)));
        assert_eq!(of(429, &[("retry-after-ms", "1500")]), Some((Blame::Busy(Duration::from_millis(1500)), true)));
        assert_eq!(of(429, &[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]), Some((Blame::Host, true)));
        assert_eq!(of(429, &[("x-should-retry", "false")]), Some((Blame::Host, false)));
        for status in [500, 502, 503, 529] {
            assert_eq!(of(status, &[]), Some((Blame::Host, true)), "{status}");
        }
        assert_eq!(of(409, &[("x-should-retry", "true")]), Some((Blame::Host, true)));
        for odd in ["-1", "NaN", "inf", "1e400"] {
            let lines = HeaderMap::from_iter([(RETRY_AFTER, odd.parse().unwrap())]);
            assert_eq!(retry_after(&lines), None, "{odd}");
        }
    }
}
