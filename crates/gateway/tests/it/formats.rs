//! Gemini's and Ollama's formats on their way through: every byte as it came, the end after the books, the rest at once.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use harvest_core::{Cost, Usage};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::sync::mpsc;

use crate::support::{Served, answer, serve_upstream, text, until_cut, upstream};

const GENERATE: &str = "/gemini/v1beta/models/gemini-2.5-flash:generateContent";
const STREAM: &str = "/gemini/v1beta/models/gemini-2.5-flash:streamGenerateContent";
const STREAM_EVENTS: &str = "/gemini/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse";

const FIRST: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Grüße, "}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":1000,"totalTokenCount":1000},"modelVersion":"gemini-2.5-flash","responseId":"r"}"#;
const LAST: &str = r#"{"candidates":[{"content":{"parts":[{"text":"Welt"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1000,"cachedContentTokenCount":400,"candidatesTokenCount":80,"thoughtsTokenCount":20,"totalTokenCount":1100},"modelVersion":"gemini-2.5-flash","responseId":"r"}"#;
const GEMINI_USAGE: Usage = Usage {
    input_tokens: 600,
    output_tokens: 100,
    cache_read_tokens: 400,
    cache_write_tokens: 0,
    reasoning_tokens: 20,
};

const WORD: &str = r#"{"model":"qwen3:8b","created_at":"2026-11-01T00:00:00Z","message":{"role":"assistant","content":"Hi"},"done":false}"#;
const DONE: &str = r#"{"model":"qwen3:8b","created_at":"2026-11-01T00:00:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":26,"eval_count":12}"#;
const OLLAMA_USAGE: Usage =
    Usage { input_tokens: 26, output_tokens: 12, cache_read_tokens: 0, cache_write_tokens: 0, reasoning_tokens: 0 };

fn events() -> String {
    format!("data: {FIRST}\r\n\r\ndata: {LAST}\r\n\r\n")
}

fn array() -> String {
    format!("[{FIRST}\n,\r\n{LAST}\n]\n")
}

/// Every way of asking, with what the vendor answers: path, content type, body.
fn ways() -> [(&'static str, &'static str, String); 6] {
    [
        (GENERATE, "application/json; charset=UTF-8", LAST.to_owned()),
        (STREAM, "application/json; charset=UTF-8", array()),
        (STREAM_EVENTS, "text/event-stream", events()),
        ("/ollama/api/chat", "application/x-ndjson", format!("{WORD}\n{DONE}\n")),
        ("/ollama/api/chat", "application/json; charset=utf-8", DONE.to_owned()),
        (
            "/ollama/api/generate",
            "application/x-ndjson",
            DONE.replace(r#""message":{"role":"assistant","content":""}"#, r#""response":"""#) + "\n",
        ),
    ]
}

/// A session whose vendors all answer with these pieces, each of which arrives by itself.
async fn served(content_type: &'static str, pieces: Vec<Bytes>) -> Served {
    let (address, _asks) = upstream(move |_| {
        let pieces = stream::iter(pieces.clone()).then(|piece| async {
            tokio::task::yield_now().await;
            Ok::<_, std::io::Error>(piece)
        });
        answer(content_type, axum::body::Body::from_stream(pieces))
    })
    .await;
    serve_upstream(&address)
}

#[tokio::test]
async fn every_format_passes_byte_for_byte_and_is_counted_once() {
    for (path, content_type, body) in ways() {
        for size in [1, 7, 100_000] {
            let pieces = body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
            let served = served(content_type, pieces).await;
            let response = served.post(path, &json!({ "model": "qwen3:8b" })).await;
            assert_eq!(response.headers()["content-type"], content_type);
            assert_eq!(text(response).await, body, "{path} in pieces of {size}");
            let settled = served.books.next().await;
            let (provider, model, usage, cost) = if path.starts_with("/gemini") {
                // (600 × 0.3 + 400 × 0.03 + 100 × 2.5) / 10⁶
                ("gemini", "gemini-2.5-flash", GEMINI_USAGE, 0.000_442)
            } else {
                ("ollama", "qwen3:8b", OLLAMA_USAGE, 0.0)
            };
            assert_eq!((settled.provider.as_str(), settled.model.as_str()), (provider, model));
            assert_eq!((settled.usage, settled.cost), (usage, Cost::from_dollars(cost).unwrap()), "{path}");
            assert!(!settled.estimated, "{path} in pieces of {size}");
            served.serving.stop().await;
            assert_eq!(served.books.settled().await, [], "once");
        }
    }
}

#[tokio::test]
async fn the_end_waits_for_the_books_and_nothing_else_does() {
    for (path, content_type, body) in ways() {
        let served = served(content_type, vec![Bytes::from(body.clone())]).await;
        let permits = served.books.settling.available_permits();
        served.books.settling.forget_permits(permits);
        let mut answer = served.post(path, &json!({})).await.into_body();
        // What makes a client go on: the end of an array or a document, the last event, the last line.
        let end = match path {
            STREAM => "]\n".to_owned(),
            STREAM_EVENTS => format!("data: {LAST}\r\n\r\n"),
            "/ollama/api/chat" if content_type.contains("ndjson") => format!("{DONE}\n"),
            "/ollama/api/generate" => body.clone(),
            _ => "}".to_owned(),
        };
        let before = body.strip_suffix(&end).unwrap();
        let mut seen = Vec::new();
        while seen.len() < before.len() {
            seen.extend_from_slice(&answer.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert_eq!(String::from_utf8(seen).unwrap(), before, "{path}: all but the end came though nothing is settled");
        assert_eq!(served.books.settled().await, []);
        served.books.settling.add_permits(1);
        let last = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(served.books.settled().await.len(), 1, "{path}: settled before the end came");
        assert_eq!(last, end);
    }
}

#[tokio::test]
async fn what_seemed_the_last_event_is_passed_when_another_follows() {
    let other = FIRST.replace(r#""promptTokenCount":1000"#, r#""promptTokenCount":1000,"candidatesTokenCount":150"#);
    let pieces = [
        format!("data: {LAST}\r\n"),
        "\r\n".to_owned(),
        format!("data: {other}\r\n\r\n"),
        format!("data: {LAST}\r\n\r\n"),
    ];
    let served = served("text/event-stream", pieces.iter().cloned().map(Bytes::from).collect()).await;
    assert_eq!(served.ask(STREAM_EVENTS, &json!({})).await.1, pieces.concat());
    let settled = served.books.next().await;
    assert_eq!((settled.usage, settled.estimated), (GEMINI_USAGE, false));
}

#[tokio::test]
async fn no_piece_waits_for_the_next() {
    let pieces = |path: &str| match path {
        STREAM => [format!("[{FIRST}\n"), format!(",\r\n{FIRST}\n")],
        STREAM_EVENTS => [format!("data: {FIRST}\r\n\r\n"), format!("data: {FIRST}\r\n\r\n")],
        _ => [format!("{WORD}\n"), format!("{WORD}\n")],
    };
    for (path, content_type) in [
        (STREAM, "application/json"),
        (STREAM_EVENTS, "text/event-stream"),
        ("/ollama/api/chat", "application/x-ndjson"),
    ] {
        let (chunks, source) = mpsc::unbounded_channel::<String>();
        let source = std::sync::Arc::new(std::sync::Mutex::new(Some(source)));
        let (address, _asks) = upstream(move |_| {
            let source = source.lock().unwrap().take().unwrap();
            let body = stream::unfold(source, |mut source| async move { Some((source.recv().await?, source)) });
            answer(content_type, axum::body::Body::from_stream(body.map(Ok::<_, std::io::Error>)))
        })
        .await;
        let served = serve_upstream(&address);
        let [first, second] = pieces(path);
        chunks.send(first.clone()).unwrap();
        let mut body = served.post(path, &json!({})).await.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), first, "{path}");
        chunks.send(second.clone()).unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), second, "{path}");
    }
}

#[tokio::test]
async fn a_cut_is_settled_once_with_what_is_known() {
    for (path, content_type, seen, input) in [
        (STREAM_EVENTS, "text/event-stream", format!("data: {FIRST}\r\n\r\n"), 1000),
        (STREAM, "application/json", format!("[{FIRST}\n,"), 1000),
        // Nothing told the prompt's tokens: the request has 17 bytes.
        ("/ollama/api/chat", "application/x-ndjson", format!("{WORD}\n"), 5),
    ] {
        let start = seen.clone();
        let (address, _asks) = upstream(move |_| {
            let cut = stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            let body = stream::iter([Ok(Bytes::from(start.clone()))]).chain(cut);
            answer(content_type, axum::body::Body::from_stream(body))
        })
        .await;
        let served = serve_upstream(&address);
        let (came, complete) = until_cut(served.post(path, &json!({ "model": "qwen3" })).await).await;
        assert_eq!((came, complete), (seen, false), "{path}");
        let settled = served.books.next().await;
        assert_eq!((settled.usage.input_tokens, settled.estimated), (input, true), "{path}");
        assert!((1..6).contains(&settled.usage.output_tokens), "{settled:?}");
        served.serving.stop().await;
        assert_eq!(served.books.settled().await, []);
    }
}

#[tokio::test]
async fn an_event_of_100_mb_passes_and_what_follows_it_is_counted() {
    let filler = Bytes::from(vec![b'x'; 1 << 20]);
    for (path, content_type, start, end) in [
        (STREAM_EVENTS, "text/event-stream", "data: {\"x\":\"", format!("\"}}\r\n\r\ndata: {LAST}\r\n\r\n")),
        (STREAM, "application/json", "[{\"x\":\"", format!("\"}},{LAST}]")),
        ("/ollama/api/chat", "application/x-ndjson", "{\"x\":\"", format!("\"}}\n{DONE}\n")),
    ] {
        let mut pieces = vec![Bytes::from(start)];
        pieces.extend(std::iter::repeat_n(filler.clone(), 100));
        pieces.push(Bytes::from(end.clone()));
        let served = served(content_type, pieces).await;
        let mut body = served.post(path, &json!({})).await.into_body();
        let (mut length, mut tail) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            length += data.len();
            tail.extend_from_slice(&data);
            tail.drain(..tail.len().saturating_sub(end.len()));
        }
        assert_eq!((length, tail), (start.len() + (100 << 20) + end.len(), end.into_bytes()), "{path}");
        let settled = served.books.next().await;
        let expected = if path.starts_with("/gemini") { GEMINI_USAGE } else { OLLAMA_USAGE };
        assert_eq!((settled.usage, settled.estimated), (expected, false), "{path}");
    }
}

#[tokio::test]
async fn ollamas_openai_dialect_is_asked_for_its_usage() {
    let (address, mut asks) = upstream(|_| {
        let usage = r#"{"prompt_tokens":26,"completion_tokens":12,"total_tokens":38}"#;
        let chunk = format!("data: {{\"model\":\"qwen3:8b\",\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n");
        answer("text/event-stream", chunk)
    })
    .await;
    let served = serve_upstream(&address);
    served.ask("/ollama/v1/chat/completions", &json!({ "stream": true })).await;
    let (_, body) = asks.recv().await.unwrap();
    assert_eq!(body, r#"{"stream_options":{"include_usage":true},"stream":true}"#);
    let settled = served.books.next().await;
    assert_eq!((settled.provider.as_str(), settled.usage, settled.cost), ("ollama", OLLAMA_USAGE, Cost::ZERO));
}

#[tokio::test]
async fn refusals_have_the_shape_of_the_vendor() {
    let served = serve_upstream("http://127.0.0.1:1");
    served.books.refuse("the budget of $1.00 is spent");
    let mut seen = Vec::new();
    for path in [GENERATE, STREAM_EVENTS, "/ollama/api/chat", "/ollama/v1/chat/completions"] {
        let (status, body) = served.ask(path, &json!({})).await;
        seen.push(format!("{} {body}", status.as_u16()));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    402 {"error":{"code":402,"message":"the budget of $1.00 is spent","status":"FAILED_PRECONDITION"}}
    402 {"error":{"code":402,"message":"the budget of $1.00 is spent","status":"FAILED_PRECONDITION"}}
    402 {"error":"the budget of $1.00 is spent"}
    402 {"error":{"code":"insufficient_quota","message":"the budget of $1.00 is spent","param":null,"type":"insufficient_quota"}}
    "#);
}
