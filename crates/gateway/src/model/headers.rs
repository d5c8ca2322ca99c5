//! Which headers cross the gateway. Answers keep all but those of one connection. Of a request only known ones go out: hosts of
//! models read credentials, accounts, other addresses and features of theirs from headers.

use hyper::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};

use super::ServerTools;
use super::screen::keep_known_betas;

/// Belong to one connection or are meant for a proxy (RFC 9110, 7.6.1): never part of the message.
pub(crate) const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The only encoding of an answer in which a credential and tokens are found.
pub(crate) const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Headers of requests that say what the body is, who the client is and which request this is, and nothing else.
const PASSING: [&str; 21] = [
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "content-type",
    "conversation_id",
    "http-referer",
    "idempotency-key",
    "openai-beta",
    "originator",
    "session-id",
    "session_id",
    "traceparent",
    "tracestate",
    "user-agent",
    "version",
    "x-app",
    "x-client-request-id",
    "x-goog-api-client",
    "x-request-id",
];
const PASSING_FAMILIES: [&str; 3] = ["x-stainless-", "x-codex-", "x-claude-code-"];

/// The client's headers as they may go upstream. The answer is asked for uncompressed, since it is searched for the
/// credential, and for its tokens where they are counted.
pub(super) fn outgoing(headers: &HeaderMap, policy: &ServerTools) -> HeaderMap {
    let passes = |name: &str| PASSING.contains(&name) || PASSING_FAMILIES.iter().any(|family| name.starts_with(family));
    let mut kept = HeaderMap::new();
    for (name, value) in &end_to_end(headers) {
        if passes(name.as_str()) {
            kept.append(name.clone(), value.clone());
        }
    }
    keep_known_betas(&mut kept, policy);
    kept.insert(ACCEPT_ENCODING, IDENTITY);
    kept
}

/// The encoding of an answer that comes compressed although it was asked for plain: nothing can be found in it.
pub(crate) fn unreadable_encoding(headers: &HeaderMap) -> Option<String> {
    let encodings = headers.get_all(CONTENT_ENCODING).iter();
    let mut others = encodings.filter(|encoding| !encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"));
    others.next().map(|encoding| String::from_utf8_lossy(encoding.as_bytes()).chars().take(40).collect())
}

/// The headers of a message without those of the connection it came on.
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let mut kept = headers.clone();
    for name in HOP_BY_HOP {
        kept.remove(name);
    }
    for name in named {
        kept.remove(name);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn credentials_and_connection_headers_stay_behind() {
        let sent = headers(&[
            ("authorization", "Bearer placeholder"),
            ("x-api-key", "placeholder"),
            ("cookie", "a=b"),
            ("x-goog-fieldmask", "candidates"),
            ("connection", "close, x-private"),
            ("x-private", "1"),
            ("transfer-encoding", "chunked"),
            ("host", "127.0.0.1"),
            ("accept-encoding", "gzip"),
            ("anthropic-version", "2023-06-01"),
            ("helicone-target-url", "https://evil.test"),
            ("x-stainless-lang", "js"),
        ]);
        let expected = headers(&[
            ("accept-encoding", "identity"),
            ("anthropic-version", "2023-06-01"),
            ("x-stainless-lang", "js"),
        ]);
        let none = ServerTools::none();
        assert_eq!(outgoing(&sent, &none), expected);
    }

    #[test]
    fn unknown_betas_are_dropped_and_known_ones_pass() {
        let sent = headers(&[
            ("anthropic-beta", "claude-code-20250219, mcp-client-2025-11-20,new-thing-2027-01-01"),
            ("openai-beta", "responses=experimental,assistants=v2"),
        ]);
        let beta = |policy: &ServerTools| outgoing(&sent, policy)["anthropic-beta"].to_str().unwrap().to_owned();
        assert_eq!(beta(&ServerTools::none()), "claude-code-20250219");
        assert_eq!(beta(&ServerTools::new(["mcp"]).unwrap()), "claude-code-20250219,mcp-client-2025-11-20");
        assert_eq!(outgoing(&sent, &ServerTools::none())["openai-beta"], "responses=experimental");
        let alone = headers(&[("anthropic-beta", "web-fetch-2025-09-10")]);
        assert!(outgoing(&alone, &ServerTools::none()).get("anthropic-beta").is_none());
    }
}
