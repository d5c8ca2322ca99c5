//! Requests to the model: sent over plain HTTP to the gateway, streamed, and tried again where that can help.

use std::io::{self, BufReader, Read, Write};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::conversation::{Message, Reply};
use crate::draft::Draft;
use crate::options::Options;
use crate::output::ErrorKind;
use crate::sse::Events;
use crate::tools::Definition;
use crate::wire::{self, Broken, Request, Wire};

const MAX_TRIES: u32 = 6;
/// Whoever is told to come back later than this has run out of quota.
const MAX_WAIT: Duration = Duration::from_secs(300);
const MAX_ERROR_BYTES: u64 = 64 * 1024;
const MAX_ERROR_CHARS: usize = 1000;

pub(crate) struct Model {
    http: ureq::Agent,
    wire: &'static Wire,
    url: String,
    name: String,
    max_tokens: u32,
    system: String,
    tools: Vec<Definition>,
    retry_base: Duration,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the model refused the request: {0}")]
    Refused(String),
    #[error("the model's quota is used up: {0}")]
    Quota(String),
    #[error("the model did not answer in {MAX_TRIES} tries: {0}")]
    NoAnswer(String),
}

impl Failure {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Quota(_) => ErrorKind::ModelQuota,
            Self::Refused(_) | Self::NoAnswer(_) => ErrorKind::Model,
        }
    }
}

/// Either the model failed or nobody reads the output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Model(#[from] Failure),
    #[error(transparent)]
    Output(io::Error),
}

/// How one try ended without a reply.
enum Missed {
    Busy { quota: bool, message: String, wait: Option<Duration> },
    Final(Error),
}

/// What speaks to the gateway, which may be replaced while the agent works: no connection is kept.
pub(crate) fn client() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_idle_connections(0)
        .proxy(None)
        .timeout_connect(Some(Duration::from_secs(30)))
        .build();
    ureq::Agent::new_with_config(config)
}

impl Model {
    pub(crate) fn new(options: &Options, system: String, tools: Vec<Definition>) -> Self {
        let wire = wire::named(options.wire);
        Self {
            http: client(),
            wire,
            url: format!("{}{}", options.base_url, (wire.path)(&options.model)),
            name: options.model.clone(),
            max_tokens: options.max_tokens,
            system,
            tools,
            retry_base: options.retry_base,
        }
    }

    /// The next reply of the conversation; its text is shown through `draft` while it arrives.
    pub(crate) fn reply<W: Write>(&self, messages: &[Message], draft: &mut Draft<'_, W>) -> Result<Reply, Error> {
        let body = (self.wire.body)(&Request {
            model: &self.name,
            max_tokens: self.max_tokens,
            system: &self.system,
            tools: &self.tools,
            messages,
        })
        .to_string();
        let mut tries = 0;
        loop {
            tries += 1;
            draft.restart();
            let (quota, message, wait) = match self.once(&body, draft) {
                Ok(reply) => return Ok(reply),
                Err(Missed::Final(error)) => return Err(error),
                Err(Missed::Busy { quota, message, wait }) => (quota, message, wait.unwrap_or_default()),
            };
            if tries == MAX_TRIES || wait > MAX_WAIT {
                return Err(if quota { Failure::Quota(message) } else { Failure::NoAnswer(message) }.into());
            }
            thread::sleep(wait.max(self.retry_base * 2_u32.pow(tries - 1)));
        }
    }

    fn once<W: Write>(&self, body: &str, draft: &mut Draft<'_, W>) -> Result<Reply, Missed> {
        let mut request = self.http.post(&self.url).content_type("application/json");
        for (name, value) in self.wire.headers {
            request = request.header(*name, *value);
        }
        let response = request.send(body).map_err(|error| busy(format!("the gateway cannot be reached: {error}")))?;
        let status = response.status().as_u16();
        if status != 200 {
            let wait = retry_after(response.headers());
            return Err(not_ok(status, wait, response.into_body().into_reader()));
        }
        self.read(BufReader::new(response.into_body().into_reader()), draft)
    }

    fn read<W: Write>(&self, body: impl io::BufRead, draft: &mut Draft<'_, W>) -> Result<Reply, Missed> {
        let mut events = Events::new(body, self.wire.framing);
        let mut decoder = (self.wire.decoder)();
        // Read to the end even when the reply is complete: whoever counts its tokens shall see it delivered.
        loop {
            match events.next() {
                Ok(Some(data)) => {
                    let text = decoder.event(&data)?;
                    draft.add(&text).map_err(|error| Missed::Final(Error::Output(error)))?;
                }
                Ok(None) | Err(_) if decoder.is_complete() => break,
                Ok(None) => return Err(busy("the answer was cut off".to_owned())),
                Err(error) => return Err(busy(format!("the answer was cut off: {error}"))),
            }
        }
        Ok(decoder.into_reply())
    }
}

impl From<Broken> for Missed {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Retry(message) => busy(message),
            Broken::Quota(message) => Self::Busy { quota: true, message, wait: None },
            Broken::Refused(message) => Self::Final(Failure::Refused(message).into()),
        }
    }
}

fn busy(message: String) -> Missed {
    Missed::Busy { quota: false, message, wait: None }
}

fn not_ok(status: u16, wait: Option<Duration>, body: impl Read) -> Missed {
    let message = format!("HTTP {status}: {}", error_message(body));
    match status {
        429 => Missed::Busy { quota: true, message, wait },
        408 | 500.. => Missed::Busy { quota: false, message, wait },
        _ => Missed::Final(Failure::Refused(message).into()),
    }
}

/// Vendors say it in `error.message`, Ollama in `error`; others say it somehow.
fn error_message(body: impl Read) -> String {
    let mut bytes = Vec::new();
    // Half a message is better than none.
    let _ = body.take(MAX_ERROR_BYTES).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let message = serde_json::from_str(&text)
        .ok()
        .and_then(|value: Value| {
            let error = value.get("error")?;
            error.get("message").unwrap_or(error).as_str().map(str::to_owned)
        })
        .unwrap_or_else(|| text.trim().to_owned());
    if message.is_empty() { "no reason given".to_owned() } else { message.chars().take(MAX_ERROR_CHARS).collect() }
}

/// Seconds; the form with a date would need a clock that both sides agree on.
fn retry_after(headers: &ureq::http::HeaderMap) -> Option<Duration> {
    let seconds: f64 = headers.get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
