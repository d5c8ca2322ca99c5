//! Which headers cross the gateway: all but those that belong to one connection and those that carry a credential.

use hyper::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};

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

/// Where clients put what they believe to be a key, and what could act for another account.
const CREDENTIALS: [&str; 8] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-goog-user-project",
    "cookie",
    "openai-organization",
    "openai-project",
];

/// Google's ways to ask for something else than the path says, and for answers that tell no usage or not in plain.
const DETOURS: [&str; 3] = ["x-http-method-override", "x-goog-fieldmask", "x-goog-encode-response-if-executable"];

/// The client's headers as they may go upstream.
pub(super) fn outgoing(headers: &HeaderMap, metered: bool) -> HeaderMap {
    let mut kept = end_to_end(headers);
    for name in CREDENTIALS.into_iter().chain(DETOURS) {
        kept.remove(name);
    }
    kept.remove(HOST);
    kept.remove(CONTENT_LENGTH);
    kept.remove("expect");
    if metered {
        kept.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    kept
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
            ("anthropic-beta", "new-thing"),
        ]);
        let expected = headers(&[("accept-encoding", "identity"), ("anthropic-beta", "new-thing")]);
        assert_eq!(outgoing(&sent, true), expected);
        assert_eq!(outgoing(&sent, false).get(ACCEPT_ENCODING), Some(&HeaderValue::from_static("gzip")));
    }
}
