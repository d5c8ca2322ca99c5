//! The vendors: their paths, which of them the gateway opens, and the shape of their errors.
//!
//! The list of endpoints is closed. A key opens far more than models (files, batches, an organisation's settings), and
//! an endpoint whose tokens are not counted would be a way around the budget.

use hyper::header::HeaderValue;
use hyper::{Method, Response, StatusCode, Uri};
use serde_json::json;

use crate::answer::{self, Body};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
    OpenAi,
    Gemini,
    Ollama(Dialect),
}

/// Ollama has an API of its own and one that is OpenAI's. They differ in paths, bodies and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Own,
    OpenAi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Lists of models, and one of them.
    Models,
    /// What Ollama knows of a model.
    ShowModel,
    CountTokens,
    Messages,
    ChatCompletions,
    Responses,
    GenerateContent,
    StreamGenerateContent,
    OllamaChat,
    OllamaGenerate,
}

impl Endpoint {
    /// Whether a model generates something, which costs money and is metered.
    pub(crate) fn generates(self) -> bool {
        !matches!(self, Self::Models | Self::ShowModel | Self::CountTokens)
    }
}

impl Vendor {
    /// The vendor that a path belongs to, and the rest of the path.
    pub(crate) fn of_path(path: &str) -> Option<(Self, &str)> {
        let (name, rest) = path.strip_prefix('/')?.split_once('/')?;
        let vendor = match name {
            "anthropic" => Self::Anthropic,
            "openai" => Self::OpenAi,
            "gemini" => Self::Gemini,
            "ollama" if rest.starts_with("v1/") => Self::Ollama(Dialect::OpenAi),
            "ollama" => Self::Ollama(Dialect::Own),
            _ => return None,
        };
        Some((vendor, rest))
    }

    /// As it is called in records and price tables.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
            Self::Ollama(_) => "ollama",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::OpenAi => "OpenAI",
            Self::Gemini => "Gemini",
            Self::Ollama(_) => "Ollama",
        }
    }

    /// The endpoint at `path`, compared byte by byte: no decoding, no normalising, so nothing can be smuggled past.
    pub(crate) fn endpoint(self, method: &Method, path: &str) -> Option<Endpoint> {
        let models = |prefix, is_name: fn(&str) -> bool| path.strip_prefix(prefix).is_some_and(is_name);
        match (self, method.as_str(), path) {
            (Self::Gemini, "GET", "v1beta/models" | "v1/models") => Some(Endpoint::Models),
            (Self::Gemini, "GET", _) if models("v1beta/models/", is_plain_name) => Some(Endpoint::Models),
            (Self::Gemini, "GET", _) if models("v1/models/", is_plain_name) => Some(Endpoint::Models),
            (Self::Gemini, "POST", _) => match model_action(path)?.1 {
                "generateContent" => Some(Endpoint::GenerateContent),
                "streamGenerateContent" => Some(Endpoint::StreamGenerateContent),
                "countTokens" => Some(Endpoint::CountTokens),
                _ => None,
            },
            (Self::Gemini, _, _) => None,
            (Self::Ollama(Dialect::Own), "GET", "api/tags") => Some(Endpoint::Models),
            (Self::Ollama(Dialect::Own), "POST", "api/show") => Some(Endpoint::ShowModel),
            (Self::Ollama(Dialect::Own), "POST", "api/chat") => Some(Endpoint::OllamaChat),
            (Self::Ollama(Dialect::Own), "POST", "api/generate") => Some(Endpoint::OllamaGenerate),
            (Self::Ollama(Dialect::Own), _, _) => None,
            (_, "GET", "v1/models") => Some(Endpoint::Models),
            (_, "GET", _) if models("v1/models/", is_tagged_name) => Some(Endpoint::Models),
            (Self::Anthropic, "POST", "v1/messages") => Some(Endpoint::Messages),
            (Self::Anthropic, "POST", "v1/messages/count_tokens") => Some(Endpoint::CountTokens),
            (Self::OpenAi | Self::Ollama(_), "POST", "v1/chat/completions") => Some(Endpoint::ChatCompletions),
            (Self::OpenAi | Self::Ollama(_), "POST", "v1/responses") => Some(Endpoint::Responses),
            _ => None,
        }
    }

    /// Takes out of the query what must not go upstream, or says why the request may not.
    ///
    /// Google reads credentials, masks of fields and other encodings from there, each of which would be a way around the
    /// gateway, so what it does not know is refused. Of the other vendors' parameters those pass that their clients send;
    /// the rest is dropped, as unknown beta headers are.
    pub(super) fn check_query(self, uri: &mut Uri) -> Result<(), String> {
        let Some(query) = uri.query() else { return Ok(()) };
        let kept = match self {
            Self::Gemini => google_query(query)?,
            Self::Anthropic | Self::OpenAi | Self::Ollama(_) => known_query(query),
        };
        let target = if kept.is_empty() { uri.path().to_owned() } else { format!("{}?{kept}", uri.path()) };
        *uri = target.parse().map_err(|_| "the request's address cannot be parsed".to_owned())?;
        Ok(())
    }

    fn endpoints(self) -> &'static str {
        match self {
            Self::Anthropic => "POST /v1/messages, POST /v1/messages/count_tokens, GET /v1/models",
            Self::OpenAi => "POST /v1/chat/completions, POST /v1/responses, GET /v1/models",
            Self::Gemini => {
                "POST /v1beta/models/{model}:generateContent, :streamGenerateContent and :countTokens, GET /v1beta/models"
            }
            Self::Ollama(_) => {
                "POST /api/chat, POST /api/generate, POST /api/show, GET /api/tags, POST /v1/chat/completions, \
                 POST /v1/responses, GET /v1/models"
            }
        }
    }

    pub(crate) fn no_such_endpoint(self, method: &Method, path: &str) -> Response<Body> {
        let path: String = path.chars().take(200).collect();
        let message = format!(
            "{method} /{path} is not allowed in this session; of {} these are allowed: {}",
            self.name(),
            self.endpoints()
        );
        self.error(StatusCode::NOT_FOUND, &message)
    }

    pub(crate) fn no_key(self) -> Response<Body> {
        let (missing, variable) = match self {
            Self::Anthropic => ("key", "ANTHROPIC_API_KEY"),
            Self::OpenAi => ("key", "OPENAI_API_KEY"),
            Self::Gemini => ("key", "GEMINI_API_KEY"),
            Self::Ollama(_) => ("host", "OLLAMA_HOST"),
        };
        let message = format!(
            "no {} {missing} is configured: set {variable} where Harvest runs, or give a model script with --model-script",
            self.name()
        );
        final_answer(self.error(StatusCode::UNAUTHORIZED, &message))
    }

    /// The session may not send this request. Clients do not retry it.
    pub(crate) fn forbidden(self, message: &str) -> Response<Body> {
        final_answer(self.error(StatusCode::BAD_REQUEST, message))
    }

    /// The session may not call a model now. Clients do not retry it.
    pub(crate) fn refused(self, message: &str) -> Response<Body> {
        final_answer(self.error(StatusCode::PAYMENT_REQUIRED, message))
    }

    /// An error that the vendor's own clients understand.
    pub(crate) fn error(self, status: StatusCode, message: &str) -> Response<Body> {
        let body = match self {
            Self::Anthropic => {
                json!({ "type": "error", "error": { "type": anthropic_kind(status), "message": message } })
            }
            Self::OpenAi | Self::Ollama(Dialect::OpenAi) => {
                let (kind, code) = openai_kind(status);
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
            Self::Gemini => {
                json!({ "error": { "code": status.as_u16(), "message": message, "status": google_status(status) } })
            }
            Self::Ollama(Dialect::Own) => json!({ "error": message }),
        };
        answer::json(status, &body)
    }
}

fn anthropic_kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// Type and code.
fn openai_kind(status: StatusCode) -> (&'static str, Option<&'static str>) {
    match status.as_u16() {
        401 => ("authentication_error", Some("invalid_api_key")),
        402 => ("insufficient_quota", Some("insufficient_quota")),
        403 => ("permission_error", None),
        404 => ("not_found_error", None),
        429 => ("rate_limit_error", Some("rate_limit_exceeded")),
        400..500 => ("invalid_request_error", None),
        _ => ("server_error", None),
    }
}

/// The names of `google.rpc.Code`. What asks for billing is a failed precondition there.
fn google_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        402 => "FAILED_PRECONDITION",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        400..=499 => "INVALID_ARGUMENT",
        501 => "UNIMPLEMENTED",
        502 | 503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}

/// Model and action of one of Gemini's paths, `v1beta/models/{model}:{action}`.
pub(super) fn model_action(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("v1beta/models/").or_else(|| path.strip_prefix("v1/models/"))?;
    rest.split_once(':').filter(|(model, _)| is_plain_name(model))
}

/// Google's query as it may go upstream, or why it may not.
fn google_query(text: &str) -> Result<String, String> {
    let mut kept = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("key", _) => {}
            ("alt", "sse" | "json") | ("pageSize" | "pageToken" | "prettyPrint", _) => kept.push(pair),
            ("alt", other) => return Err(format!("the query's `alt` is `{}`: it can be sse or json", shown(other))),
            (name, _) => {
                return Err(format!(
                    "the query's `{}` is not allowed in this session; allowed are alt, pageSize, pageToken and prettyPrint",
                    shown(name)
                ));
            }
        }
    }
    Ok(kept.join("&"))
}

/// Claude Code's mark of the beta API, and pages of lists of models.
fn known_query(text: &str) -> String {
    let is_known = |pair: &&str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "beta" => value == "true",
            "limit" | "after" | "after_id" | "before_id" => is_plain_name(value),
            _ => false,
        }
    };
    text.split('&').filter(is_known).collect::<Vec<_>>().join("&")
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

fn is_plain_name(id: &str) -> bool {
    is_tagged_name(id) && !id.contains(':')
}

/// With a tag after a colon, as Ollama and fine-tuned models have them.
fn is_tagged_name(id: &str) -> bool {
    !id.is_empty()
        && !id.starts_with('.')
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
}

/// Marks an answer of the gateway's own that kept a request from going anywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptBack;

/// Anthropic's and OpenAI's client libraries honour this header; Google's and Ollama's do not retry the statuses it is
/// used with.
fn final_answer(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    response.extensions_mut().insert(KeptBack);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_endpoints_are_open() {
        let open = |vendor: Vendor, method: Method, path| vendor.endpoint(&method, path);
        assert_eq!(open(Vendor::Anthropic, Method::POST, "v1/messages"), Some(Endpoint::Messages));
        assert_eq!(open(Vendor::OpenAi, Method::POST, "v1/chat/completions"), Some(Endpoint::ChatCompletions));
        assert_eq!(open(Vendor::OpenAi, Method::GET, "v1/models/gpt-5.1"), Some(Endpoint::Models));
        for path in [
            "v1/files",
            "v1/messages/batches",
            "v1/organizations/api_keys",
            "v1/models/../files",
            "v1/models/..",
            "v1/models/%2e%2e/files",
            "v1//models",
            "V1/models",
            "",
        ] {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                assert_eq!(open(Vendor::Anthropic, method.clone(), path), None, "{path}");
                assert_eq!(open(Vendor::OpenAi, method, path), None, "{path}");
            }
        }
        assert_eq!(open(Vendor::Anthropic, Method::DELETE, "v1/models"), None);
    }

    #[test]
    fn the_endpoints_of_gemini_and_ollama() {
        let open = |method, path: &'static str| {
            let (vendor, rest) = Vendor::of_path(path).unwrap();
            vendor.endpoint(&method, rest)
        };
        for (method, path, endpoint) in [
            (Method::GET, "/gemini/v1beta/models", Endpoint::Models),
            (Method::GET, "/gemini/v1beta/models/gemini-2.5-pro", Endpoint::Models),
            (Method::POST, "/gemini/v1beta/models/gemini-2.5-pro:generateContent", Endpoint::GenerateContent),
            (Method::POST, "/gemini/v1/models/gemini-2.5-pro:generateContent", Endpoint::GenerateContent),
            (Method::POST, "/gemini/v1beta/models/m:streamGenerateContent", Endpoint::StreamGenerateContent),
            (Method::POST, "/gemini/v1beta/models/m:countTokens", Endpoint::CountTokens),
            (Method::GET, "/ollama/api/tags", Endpoint::Models),
            (Method::POST, "/ollama/api/show", Endpoint::ShowModel),
            (Method::POST, "/ollama/api/chat", Endpoint::OllamaChat),
            (Method::POST, "/ollama/api/generate", Endpoint::OllamaGenerate),
            (Method::POST, "/ollama/v1/chat/completions", Endpoint::ChatCompletions),
            (Method::POST, "/ollama/v1/responses", Endpoint::Responses),
            (Method::GET, "/ollama/v1/models/qwen3:8b", Endpoint::Models),
        ] {
            assert_eq!(open(method, path), Some(endpoint), "{path}");
        }
        for path in [
            "/gemini/v1beta/files",
            "/gemini/v1beta/cachedContents",
            "/gemini/upload/v1beta/files",
            "/gemini/v1beta/models/m:batchGenerateContent",
            "/gemini/v1beta/models/:generateContent",
            "/gemini/v1beta/models/../files:generateContent",
            "/gemini/v1beta/models/a/b:generateContent",
            "/gemini/v1beta/models/a:b:generateContent",
            "/gemini/v1beta/models/m%3AgenerateContent",
            "/gemini/v1beta/tunedModels/m:generateContent",
            "/gemini/v1beta/models/",
            "/ollama/api/pull",
            "/ollama/api/push",
            "/ollama/api/create",
            "/ollama/api/delete",
            "/ollama/api/blobs/sha256:0",
            "/ollama/v1/embeddings",
            "/ollama/v1/messages",
        ] {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                assert_eq!(open(method, path), None, "{path}");
            }
        }
        assert_eq!(open(Method::GET, "/gemini/v1beta/models/m:generateContent"), None);
        assert_eq!(Vendor::of_path("/gemini"), None);
    }

    #[test]
    fn of_parameters_only_the_listed_ones_pass() {
        let passed = |vendor: Vendor, query: &str| {
            let mut uri: Uri = format!("/v/{query}").parse().unwrap();
            vendor.check_query(&mut uri).map(|()| uri.to_string())
        };
        for (sent, kept) in [
            ("?alt=sse", "/v/?alt=sse"),
            ("?key=placeholder&alt=sse", "/v/?alt=sse"),
            ("?key=placeholder", "/v/"),
            ("", "/v/"),
            ("?pageSize=5&pageToken=x%2F", "/v/?pageSize=5&pageToken=x%2F"),
        ] {
            assert_eq!(passed(Vendor::Gemini, sent).as_deref(), Ok(kept));
        }
        for query in ["alt=proto", "$alt=sse", "fields=x", "access_token=x", "KEY=x", "k%65y=x", "alt", "%24fields=x"] {
            assert!(passed(Vendor::Gemini, &format!("?{query}")).is_err(), "{query}");
        }
        for (sent, kept) in [
            ("?beta=true&x", "/v/?beta=true"),
            ("?beta=x", "/v/"),
            ("?api_key=x&limit=1000&after_id=claude-1", "/v/?limit=1000&after_id=claude-1"),
            ("?after=a%2Fb", "/v/"),
        ] {
            for vendor in [Vendor::Anthropic, Vendor::OpenAi, Vendor::Ollama(Dialect::Own)] {
                assert_eq!(passed(vendor, sent).as_deref(), Ok(kept));
            }
        }
    }

    #[tokio::test]
    async fn errors_have_the_shape_of_each_vendor() {
        let mut seen = Vec::new();
        for vendor in [
            Vendor::Anthropic,
            Vendor::OpenAi,
            Vendor::Gemini,
            Vendor::Ollama(Dialect::Own),
            Vendor::Ollama(Dialect::OpenAi),
        ] {
            for status in [400, 402, 429, 504] {
                let error = vendor.error(StatusCode::from_u16(status).unwrap(), "why");
                assert_eq!(error.status().as_u16(), status);
                let body = http_body_util::BodyExt::collect(error.into_body()).await.unwrap().to_bytes();
                seen.push(format!("{status} {}", String::from_utf8_lossy(&body)));
            }
        }
        insta::assert_snapshot!(seen.join("\n"));
    }
}
