//! Paths that lead nowhere say what there is.

use harvest_gateway::Options;
use hyper::StatusCode;
use serde_json::json;

use crate::support::{get, serve, serve_upstream, text};

#[tokio::test]
async fn unknown_paths() {
    let served = serve(Options::default(), None);
    for path in ["/", "/etc/passwd", "/git/other/info/refs", "/anthropic", "/openaiv1/models"] {
        let response = served.send(get(path)).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        assert!(text(response).await.contains("/anthropic/v1/"), "{path}");
    }
    insta::assert_snapshot!(text(served.send(get("/nothing")).await).await);
}

#[tokio::test]
async fn endpoints_that_are_not_open() {
    let served = serve_upstream("http://127.0.0.1:1");
    for path in ["/anthropic/v1/files", "/openai/v1/models/../files", "/openai/v1/organization/admin_api_keys"] {
        assert_eq!(served.send(get(path)).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    insta::assert_snapshot!(served.ask("/openai/v1/embeddings", &json!({})).await.1);
}

#[tokio::test]
async fn without_a_key_the_answer_says_what_to_set() {
    let served = serve(Options::default(), None);
    let mut seen = Vec::new();
    for path in [
        "/anthropic/v1/messages",
        "/openai/v1/chat/completions",
        "/gemini/v1beta/models/m:generateContent",
        "/ollama/api/chat",
        "/ollama/v1/chat/completions",
    ] {
        let (status, body) = served.ask(path, &json!({})).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        seen.push(body);
    }
    insta::assert_snapshot!(seen.join("\n"));
    assert_eq!(served.books.settled().await, []);
}
