//! The vendors: their paths, which of them the gateway opens, and the shape of their errors.
//!
//! The list of endpoints is closed. A key opens far more than models (files, batches, an organisation's settings), and
//! an endpoint whose tokens are not counted would be a way around the budget.

use hyper::header::HeaderValue;
use hyper::{Method, Response, StatusCode};
use serde_json::json;

use crate::answer::{self, Body};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
    OpenAi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Models,
    CountTokens,
    Messages,
    ChatCompletions,
    Responses,
}

impl Endpoint {
    /// Whether a model generates something, which costs money and is metered.
    pub(crate) fn generates(self) -> bool {
        matches!(self, Self::Messages | Self::ChatCompletions | Self::Responses)
    }
}

impl Vendor {
    /// The vendor that a path belongs to, and the rest of the path.
    pub(crate) fn of_path(path: &str) -> Option<(Self, &str)> {
        let prefixed = |prefix| path.strip_prefix(prefix);
        None.or_else(|| prefixed("/anthropic/").map(|rest| (Self::Anthropic, rest)))
            .or_else(|| prefixed("/openai/").map(|rest| (Self::OpenAi, rest)))
    }

    /// As it is called in records and price tables.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::OpenAi => "OpenAI",
        }
    }

    /// The endpoint at `path`, compared byte by byte: no decoding, no normalising, so nothing can be smuggled past.
    pub(crate) fn endpoint(self, method: &Method, path: &str) -> Option<Endpoint> {
        let model = |id: &str| {
            !id.starts_with('.')
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
        };
        match (self, method.as_str(), path) {
            (_, "GET", "v1/models") => Some(Endpoint::Models),
            (_, "GET", path) if path.strip_prefix("v1/models/").is_some_and(model) => Some(Endpoint::Models),
            (Self::Anthropic, "POST", "v1/messages") => Some(Endpoint::Messages),
            (Self::Anthropic, "POST", "v1/messages/count_tokens") => Some(Endpoint::CountTokens),
            (Self::OpenAi, "POST", "v1/chat/completions") => Some(Endpoint::ChatCompletions),
            (Self::OpenAi, "POST", "v1/responses") => Some(Endpoint::Responses),
            _ => None,
        }
    }

    fn endpoints(self) -> &'static str {
        match self {
            Self::Anthropic => "POST /v1/messages, POST /v1/messages/count_tokens, GET /v1/models",
            Self::OpenAi => "POST /v1/chat/completions, POST /v1/responses, GET /v1/models",
        }
    }

    pub(crate) fn no_such_endpoint(self, method: &Method, path: &str) -> Response<Body> {
        let path: String = path.chars().take(200).collect();
        let message =
            format!("{method} /{path} is not open to this session; of {} there are: {}", self.name(), self.endpoints());
        self.error(StatusCode::NOT_FOUND, &message)
    }

    pub(crate) fn no_key(self) -> Response<Body> {
        let variable = match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        };
        let message = format!(
            "no {} key is configured: set {variable} where Harvest runs, or give a model script with --model-script",
            self.name()
        );
        final_answer(self.error(StatusCode::UNAUTHORIZED, &message))
    }

    /// The session may not call a model now. Clients do not retry it.
    pub(crate) fn refused(self, message: &str) -> Response<Body> {
        final_answer(self.error(StatusCode::PAYMENT_REQUIRED, message))
    }

    /// An error that the vendor's own clients understand.
    pub(crate) fn error(self, status: StatusCode, message: &str) -> Response<Body> {
        let kind = match (self, status.as_u16()) {
            (_, 401) => "authentication_error",
            (Self::Anthropic, 402) => "billing_error",
            (Self::OpenAi, 402) => "insufficient_quota",
            (_, 403) => "permission_error",
            (_, 404) => "not_found_error",
            (Self::Anthropic, 413) => "request_too_large",
            (_, 429) => "rate_limit_error",
            (_, 400..500) => "invalid_request_error",
            (Self::Anthropic, 504) => "timeout_error",
            (Self::Anthropic, 529) => "overloaded_error",
            (Self::Anthropic, _) => "api_error",
            (Self::OpenAi, _) => "server_error",
        };
        let body = match self {
            Self::Anthropic => {
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            Self::OpenAi => {
                let code = match status.as_u16() {
                    401 => Some("invalid_api_key"),
                    402 => Some("insufficient_quota"),
                    429 => Some("rate_limit_exceeded"),
                    _ => None,
                };
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
        };
        answer::json(status, &body)
    }
}

/// Both vendors' client libraries honour this header.
fn final_answer(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
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
}
