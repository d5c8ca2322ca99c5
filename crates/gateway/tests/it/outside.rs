//! A sandbox does not reach the outside through a vendor: what a vendor would do there is refused in its own error shape.

use harvest_gateway::{Gateway, Options, Prices, Upstreams};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::support::{answer, credential, post, quick, serve_open, serve_upstream, text, upstream};

fn requests() -> Vec<(&'static str, Value, &'static str)> {
    let image = json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "https://evil.test/?leak" } }] }]);
    let search = json!([{ "type": "web_search_20250305", "name": "web_search", "max_uses": 2 }]);
    vec![
        ("/anthropic/v1/messages", json!({ "model": "claude-sonnet-5", "tools": search }), "web_search"),
        (
            "/anthropic/v1/messages/count_tokens",
            json!({ "model": "claude-sonnet-5", "mcp_servers": [{ "url": "https://evil.test" }] }),
            "mcp",
        ),
        ("/openai/v1/chat/completions", json!({ "model": "gpt-5", "messages": image }), "remote_media"),
        ("/openai/v1/responses", json!({ "model": "gpt-5", "tools": [{ "type": "mcp" }] }), "mcp"),
        (
            "/gemini/v1beta/models/gemini-2.5-pro:generateContent",
            json!({ "tools": [{ "urlContext": {} }] }),
            "web_fetch",
        ),
        ("/gemini/v1beta/models/gemini-2.5-pro:countTokens", json!({ "cachedContent": "x" }), "stored_context"),
        ("/ollama/api/chat", json!({ "model": "qwen3", "tools": [{ "type": "web_search" }] }), "web_search"),
    ]
}

#[tokio::test]
async fn a_way_out_through_the_vendor_is_refused_in_its_own_shape_and_nothing_goes_out() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let served = serve_upstream(&address);
    let mut seen = Vec::new();
    for (path, body, tool) in requests() {
        let response = served.send(post(path, body.to_string())).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(response.headers()["x-should-retry"], "false", "{path}");
        let body = text(response).await;
        assert!(body.contains(tool) && body.contains("HV-0412") && body.contains("server_tools"), "{body}");
        seen.push(body);
    }
    assert!(
        seen[0].starts_with(r#"{"error":{"message":"`tools[0].type` asks the vendor for `web_search`"#),
        "{}",
        seen[0]
    );
    assert!(seen[0].contains(r#""type":"invalid_request_error""#) && seen[4].contains("INVALID_ARGUMENT"));
    assert!(asks.try_recv().is_err(), "nothing went out");
    assert!(served.books.asked.lock().unwrap().is_empty(), "and nothing was set aside");
}

#[tokio::test]
async fn a_policy_opens_by_name_what_it_names_and_nothing_else() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let gateway = || {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prices.toml");
        let fees = "web_search = 0.01\nweb_fetch = 0.0\nmcp = 0.0\n";
        let table = ["anthropic", "openai", "gemini", "ollama"]
            .map(|vendor| format!("[{vendor}]\nas_of = ''\nsource = ''\nmodels = {{}}\n[{vendor}.fees]\n{fees}"));
        std::fs::write(&file, table.concat()).unwrap();
        let prices = Prices::load(&file).unwrap();
        Gateway::new(Options { prices, patience: quick(), ..Options::default() }).unwrap()
    };
    for (path, body, tool) in requests() {
        let providers = ["anthropic", "openai", "gemini", "ollama"];
        let credentials = || Upstreams::new(providers.map(|provider| credential(provider, provider, &address)));
        let served = serve_open(&gateway(), credentials(), &[tool]);
        let mut request = post(path, body.to_string());
        request.headers_mut().insert("anthropic-beta", "mcp-client-2025-11-20".parse().unwrap());
        assert_eq!(served.send(request).await.status(), StatusCode::OK, "{path}: {tool}");
        let (head, _) = asks.recv().await.unwrap();
        assert_eq!(head.headers.contains_key("anthropic-beta"), tool == "mcp", "{path}");
        let others = ["web_search", "web_fetch", "mcp", "remote_media", "stored_context"];
        let others: Vec<&str> = others.into_iter().filter(|other| *other != tool).collect();
        let served = serve_open(&gateway(), credentials(), &others);
        assert_eq!(served.ask(path, &body).await.0, StatusCode::BAD_REQUEST, "{path}: {others:?}");
    }
    assert!(asks.try_recv().is_err());
}
