//! What passes through, and what does not: keys, headers, bytes.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use harvest_core::NamedBy;
use harvest_gateway::egress::{self, Network, Resolver, not_public};
use harvest_gateway::{Gateway, Options, Patience, Upstream, Upstreams};
use http_body_util::BodyExt;
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{
    self, KEY, answer, get, post, quick, serve_credentials, serve_session, serve_upstream, text, upstream,
};

const STREAM: &str = include_str!("streams/anthropic.sse");

#[tokio::test]
async fn the_placeholder_stays_and_the_real_key_goes() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let served = serve_upstream(&address);
    let mut request = post("/anthropic/v1/messages?beta=true", r#"{"model":"claude-sonnet-5", "top_p":  1e0}"#);
    let betas = "claude-code-20250219,new-way-out-2027-01-01";
    request.headers_mut().insert("anthropic-beta", betas.parse().unwrap());
    request.headers_mut().insert("x-forward-to", "https://evil.test".parse().unwrap());
    request.headers_mut().insert("cookie", "a=b".parse().unwrap());
    served.send(request).await;
    let (head, body) = asks.recv().await.unwrap();
    assert_eq!(head.uri, "/v1/messages?beta=true");
    assert_eq!(head.headers["x-api-key"], KEY);
    assert_eq!(head.headers["anthropic-beta"], "claude-code-20250219", "what is unknown is dropped, not refused");
    assert!(head.headers.get("x-forward-to").is_none());
    assert_eq!(head.headers["host"], address.strip_prefix("http://").unwrap());
    assert!(head.headers.get("authorization").is_none() && head.headers.get("cookie").is_none());
    assert_eq!(body, r#"{"model":"claude-sonnet-5", "top_p":  1e0}"#, "not a byte of the body changes");

    served.send(post("/openai/v1/chat/completions", r#"{"model":"gpt-5"}"#)).await;
    let (head, _) = asks.recv().await.unwrap();
    assert_eq!(head.headers["authorization"], format!("Bearer {KEY}"));
    assert!(!format!("{:?}", head.headers).contains("placeholder"));
}

#[tokio::test]
async fn a_host_that_repeats_the_key_does_not_show_it() {
    const SECRET: &str = "sk-repeated-0123456789";
    let (address, _asks) = upstream(|head| {
        let said = format!("{:?}", head.headers.get("x-api-key").unwrap().to_str().unwrap());
        let pieces = [format!("data: {{\"text\":{}", &said[..9]), format!("{}}}\n\n", &said[9..])];
        let pieces = stream::iter(pieces.map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece))));
        let mut response = match head.uri.path() {
            "/v1/messages" => answer("text/event-stream", axum::body::Body::from_stream(pieces)),
            _ => answer("application/json", format!("{{\"key\":{said}}}")),
        };
        response.headers_mut().insert("x-repeated", said.trim_matches('"').parse().unwrap());
        response
    })
    .await;
    let key = Upstream::new("anthropic", "a", Some(&address), &SECRET.to_owned().into()).unwrap();
    let served = serve_credentials([key], quick());
    for (path, body) in
        [("/anthropic/v1/messages", json!({ "stream": true })), ("/anthropic/v1/messages/count_tokens", json!({}))]
    {
        let response = served.post(path, &body).await;
        assert_eq!(response.headers()["x-repeated"], "[redacted]************", "{path}");
        let seen = text(response).await;
        assert!(seen.contains("[redacted]************") && !seen.contains("0123456789"), "{path}: {seen}");
    }
}

#[tokio::test]
async fn each_vendors_key_goes_where_it_belongs() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let served = serve_upstream(&address);
    let path = "/gemini/v1beta/models/gemini-2.5-pro:streamGenerateContent?key=placeholder&alt=sse";
    let mut request = post(path, r#"{"contents":[]}"#);
    request.headers_mut().insert("x-goog-api-key", "placeholder".parse().unwrap());
    request.headers_mut().insert("x-goog-fieldmask", "candidates".parse().unwrap());
    served.send(request).await;
    let (head, body) = asks.recv().await.unwrap();
    assert_eq!(head.uri, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert_eq!((&head.headers["x-goog-api-key"], &body[..]), (&KEY.parse().unwrap(), &br#"{"contents":[]}"#[..]));
    assert!(head.headers.get("x-goog-fieldmask").is_none());
    assert!(!format!("{:?}", head.headers).contains("placeholder"));

    for path in ["/ollama/api/chat", "/ollama/v1/chat/completions"] {
        served.send(post(path, r#"{"model":"qwen3"}"#)).await;
        let (head, _) = asks.recv().await.unwrap();
        assert_eq!(head.uri, path.strip_prefix("/ollama").unwrap());
        assert_eq!(head.headers["authorization"], format!("Bearer {KEY}"));
    }
    let masked = "/gemini/v1beta/models/m:generateContent?fields=candidates";
    assert_eq!(served.ask(masked, &json!({})).await.0, StatusCode::BAD_REQUEST);
    assert!(asks.try_recv().is_err(), "it did not go out");
}

#[tokio::test]
async fn an_ollama_without_a_key_gets_none() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let ollama = Upstream::new("ollama", "here", Some(&address), &String::new().into()).unwrap();
    let served = serve_credentials([ollama], quick());
    served.send(post("/ollama/api/chat", r#"{"model":"qwen3"}"#)).await;
    assert!(asks.recv().await.unwrap().0.headers.get("authorization").is_none());
}

#[tokio::test]
async fn a_stream_arrives_byte_for_byte_with_status_and_headers() {
    let (address, _asks) = upstream(|_| {
        let chunks: Vec<_> =
            STREAM.as_bytes().chunks(7).map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk))).collect();
        let mut response = answer("text/event-stream", axum::body::Body::from_stream(stream::iter(chunks)));
        *response.status_mut() = StatusCode::ACCEPTED;
        response.headers_mut().insert("request-id", "req_1".parse().unwrap());
        response
    })
    .await;
    let served = serve_upstream(&address);
    let response = served.post("/anthropic/v1/messages", &json!({ "stream": true })).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.headers()["request-id"], "req_1");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(text(response).await, STREAM);
}

#[tokio::test]
async fn the_first_byte_is_not_delayed() {
    let (chunks, source) = mpsc::unbounded_channel::<&'static str>();
    let source = Arc::new(std::sync::Mutex::new(Some(source)));
    let (address, _asks) = upstream(move |_| {
        let source = source.lock().unwrap().take().unwrap();
        let body = stream::unfold(source, |mut source| async move { Some((source.recv().await?, source)) });
        let body = body.map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
        answer("text/event-stream", axum::body::Body::from_stream(body))
    })
    .await;
    let served = serve_upstream(&address);
    chunks.send("data: {\"choices\":[]}\n").unwrap();
    let mut body = served.post("/openai/v1/chat/completions", &json!({ "stream": true })).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "data: {\"choices\":[]}\n", "it came while the upstream waits to be told the next chunk");
    chunks.send("\n").unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "\n");
    chunks.send("data: [DONE]\n\n").unwrap();
    drop(chunks);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "data: [DONE]\n\n");
}

#[tokio::test]
async fn a_chat_stream_is_asked_to_report_its_usage() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let served = serve_upstream(&address);
    served.send(post("/openai/v1/chat/completions", r#"{"stream":true}"#)).await;
    let (head, body) = asks.recv().await.unwrap();
    assert_eq!(body, r#"{"stream_options":{"include_usage":true},"stream":true}"#);
    assert_eq!(head.headers["content-length"], body.len().to_string());
    assert_eq!(head.headers["accept-encoding"], "identity");
}

/// In a compressed answer the credential that a host repeats could not be found.
#[tokio::test]
async fn answers_are_asked_for_uncompressed_and_compressed_ones_are_refused() {
    let (address, mut asks) = upstream(|head| {
        let said = head.headers.get("authorization").unwrap().to_str().unwrap().to_owned();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, said.as_bytes()).unwrap();
        let mut response = answer("application/json", packed.finish().unwrap());
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response
    })
    .await;
    let served = serve_upstream(&address);
    let mut listing = get("/openai/v1/models");
    listing.headers_mut().insert("accept-encoding", "gzip, br".parse().unwrap());
    for request in [listing, post("/openai/v1/chat/completions", r#"{"model":"gpt-5"}"#)] {
        let path = request.uri().to_string();
        let response = served.send(request).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{path}");
        assert!(response.headers().get("content-encoding").is_none(), "{path}");
        let body = text(response).await;
        assert!(body.contains("`gzip`") && body.contains("uncompressed"), "{path}: {body}");
        assert_eq!(asks.recv().await.unwrap().0.headers["accept-encoding"], "identity", "{path}");
    }
    let settled = served.books.next().await;
    let reserved = served.books.asked.lock().unwrap().last().unwrap().cost.most;
    assert_eq!(settled.cost, reserved, "the vendor charges for what nobody could read");
}

#[tokio::test]
async fn listing_models_passes_unmetered() {
    let (address, mut asks) = upstream(|_| answer("application/json", r#"{"data":[]}"#)).await;
    let served = serve_upstream(&address);
    served.books.refuse("nothing is left");
    let response = served.send(get("/openai/v1/models?limit=3")).await;
    assert_eq!((response.status(), text(response).await.as_str()), (StatusCode::OK, r#"{"data":[]}"#));
    assert_eq!(asks.recv().await.unwrap().0.uri, "/v1/models?limit=3");
    served.post("/anthropic/v1/messages/count_tokens", &json!({})).await;
    assert_eq!(asks.recv().await.unwrap().0.uri, "/v1/messages/count_tokens");
    assert_eq!(served.books.settled().await, []);
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let (address, mut asks) = upstream(|_| {
        let mut response = answer("text/plain", "");
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        response.headers_mut().insert("location", "/elsewhere".parse().unwrap());
        response
    })
    .await;
    let served = serve_upstream(&address);
    let response = served.post("/anthropic/v1/messages", &json!({})).await;
    assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
    asks.recv().await.unwrap();
    assert!(asks.try_recv().is_err());
}

/// Looks every name up as an address of the public internet first, and as this machine from then on.
#[derive(Debug, Default)]
struct ChangesItsMind(AtomicBool);

#[async_trait]
impl Resolver for ChangesItsMind {
    async fn resolve(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        let address = if self.0.swap(true, Ordering::Relaxed) { "127.0.0.1" } else { "192.0.2.1" };
        Ok(vec![address.parse().unwrap()])
    }
}

#[tokio::test]
async fn a_model_that_a_project_names_reaches_no_address_that_is_not_public() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    // A name that this machine's own resolver knows, too: without the check the key would arrive.
    let by_name = address.replace("127.0.0.1", "localhost");
    let key = "sk-project".to_owned().into();
    // Documentation's addresses stand for public ones, where nobody answers.
    let network = Network {
        resolver: Arc::new(ChangesItsMind::default()),
        check: |address| not_public(address).filter(|what| *what != "reserved for documentation"),
    };
    let patience = Patience { connect: Duration::from_millis(50), ..quick() };
    let gateway = Gateway::new(Options { network, patience, ..Options::default() }).unwrap();
    for _ in 0..2 {
        let upstream = Upstream::new("anthropic", "id", Some(&by_name), &key).unwrap();
        let upstream = upstream.named_by(NamedBy::Project).unwrap();
        let served =
            serve_session(&gateway, "session-1", Arc::new(Upstreams::new([upstream])), None, egress::Access::none());
        let (status, body) = served.ask("/anthropic/v1/messages", &json!({})).await;
        assert!(!status.is_success(), "{body}");
        assert!(asks.try_recv().is_err(), "the key went to a private address");
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_there() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let served = serve_upstream(&format!("http://{unused}"));
    let (status, body) = served.ask("/anthropic/v1/messages", &json!({})).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    insta::assert_snapshot!(body, @r#"{"error":{"message":"127.0.0.1 did not answer: Connection refused (os error 111)","type":"api_error"},"type":"error"}"#);
    assert_eq!(served.books.settled().await, [], "it reached no model");
}

#[tokio::test]
async fn stopping_cuts_what_is_open() {
    let (address, mut asks) = upstream(|_| {
        let body = stream::iter([Ok::<_, std::io::Error>(Bytes::from("data: {}\n"))]).chain(stream::pending());
        answer("text/event-stream", axum::body::Body::from_stream(body))
    })
    .await;
    let served = serve_upstream(&address);
    let response = served.post("/anthropic/v1/messages", &json!({})).await;
    asks.recv().await.unwrap();
    served.serving.stop().await;
    assert_eq!(served.books.settled().await.len(), 1, "settled by the time stop returns");
    assert!(!support::until_cut(response).await.1);
}
