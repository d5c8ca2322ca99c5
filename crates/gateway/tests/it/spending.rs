//! Nothing that a vendor charges for passes unpaid: what has no price is refused, and what was sent and not answered costs what
//! was set aside for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use harvest_core::Cost;
use harvest_gateway::{Gateway, Options, Prices, Upstreams};
use http_body_util::BodyExt;
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::resilience::mute;
use crate::support::{answer, credential, post, quick, serve_open, serve_upstream, upstream};

fn dollars(dollars: f64) -> Cost {
    Cost::from_dollars(dollars).unwrap()
}

/// What the newest request had set aside for it.
fn reserved(served: &crate::support::Served) -> Cost {
    served.books.asked.lock().unwrap().last().unwrap().cost.most
}

#[tokio::test]
async fn a_call_that_is_hung_up_on_before_its_answer_costs_what_was_set_aside() {
    let arrived = Arc::new(Notify::new());
    let told = Arc::clone(&arrived);
    let (address, _asks) = upstream(move |_| {
        told.notify_one();
        let body = stream::iter([Ok::<_, std::io::Error>(Bytes::from("{"))]).chain(stream::pending());
        answer("application/json", axum::body::Body::from_stream(body))
    })
    .await;
    let served = serve_upstream(&address);
    for (path, request) in [
        ("/anthropic/v1/messages", json!({ "model": "claude-sonnet-5", "max_tokens": 1000 })),
        ("/openai/v1/responses", json!({ "model": "gpt-5", "max_output_tokens": 1000 })),
        (
            "/gemini/v1beta/models/gemini-2.5-pro:generateContent",
            json!({ "generationConfig": { "maxOutputTokens": 1000 } }),
        ),
    ] {
        // The head of the answer comes, the document does not.
        let mut body = served.post(path, &request).await.into_body();
        arrived.notified().await;
        drop(body.frame());
        drop(body);
        let settled = served.books.next().await;
        assert_eq!((settled.cost, settled.estimated), (reserved(&served), true), "{path}: {settled:?}");
        assert!(settled.cost >= dollars(0.01), "{settled:?}");
    }
}

#[tokio::test]
async fn a_request_that_a_host_never_answers_costs_what_was_set_aside() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let served = serve_upstream(&address);
    let request = json!({ "model": "claude-sonnet-5", "max_tokens": 1000 });
    tokio::select! {
        _ = served.post("/anthropic/v1/messages", &request) => panic!("nobody answers"),
        accepted = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::io::AsyncReadExt::read(&mut socket, &mut [0; 1]).await.unwrap();
            socket
        } => drop(accepted),
    }
    served.serving.stop().await;
    let settled = served.books.next().await;
    assert_eq!((settled.cost, settled.status), (reserved_of(&served.books), 499));
}

fn reserved_of(books: &crate::support::Books) -> Cost {
    books.asked.lock().unwrap().last().unwrap().cost.most
}

#[tokio::test]
async fn every_try_that_may_have_reached_a_model_is_paid_for() {
    let (address, asked) = mute(1).await;
    let served = serve_upstream(&address);
    let request = json!({ "model": "claude-sonnet-5", "max_tokens": 1000 });
    assert_eq!(served.ask("/anthropic/v1/messages", &request).await.0, StatusCode::OK);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let settled = served.books.next().await;
    let lost = reserved(&served);
    assert!(settled.cost > lost && settled.estimated, "{lost} was lost with the first: {settled:?}");

    let (address, asked) = mute(usize::MAX).await;
    let served = serve_upstream(&address);
    assert_eq!(served.ask("/anthropic/v1/messages", &request).await.0, StatusCode::BAD_GATEWAY);
    let tries = asked.load(Ordering::SeqCst) as u64;
    let settled = served.books.next().await;
    assert_eq!(settled.cost.nanos(), reserved(&served).nanos() * tries);

    let (address, asked) = mute(usize::MAX).await;
    let served = serve_upstream(&address);
    *served.books.allowance.lock().unwrap() = Some(dollars(0.001));
    assert_eq!(served.ask("/anthropic/v1/messages", &request).await.0, StatusCode::BAD_GATEWAY);
    assert_eq!(asked.load(Ordering::SeqCst), 1, "without money for a second try there is none");
    assert_eq!(served.books.next().await.cost, dollars(0.001));
}

#[tokio::test]
async fn what_has_no_price_is_refused_and_0_is_a_price() {
    let (address, mut asks) =
        upstream(|_| answer("application/json", r#"{"usage":{"input_tokens":9,"output_tokens":9}}"#)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.toml");
    let free = "{ input_per_mtok = 0.0, output_per_mtok = 0.0 }";
    let table = format!(
        "[openai]\nas_of = ''\nsource = ''\n[openai.models.\"ours\"]\ninput_per_mtok = 0.0\noutput_per_mtok = 0.0\n\
         tiers = {{ flex = {free} }}\n[anthropic]\nas_of = ''\nsource = ''\nmodels = {{}}\n[anthropic.fees]\nweb_search = 0.01\n"
    );
    std::fs::write(&file, table).unwrap();
    let serve = |prices: Prices| {
        let gateway = Gateway::new(Options { prices, patience: quick(), ..Options::default() }).unwrap();
        let vendors = ["anthropic", "openai", "gemini"];
        let credentials = Upstreams::new(vendors.map(|vendor| credential(vendor, vendor, &address)));
        serve_open(&gateway, credentials, &["web_search"])
    };
    let search = json!([{ "type": "web_search_20250305", "name": "web_search", "max_uses": 3 }]);
    let sound = json!({ "type": "input_audio", "input_audio": { "data": "AAAA", "format": "wav" } });
    let recording = json!({ "inlineData": { "mimeType": "audio/wav", "data": "AAAA" } });
    let cases: [(&str, Value, &str); 9] = [
        ("/openai/v1/responses", json!({ "model": "ours" }), "the model `ours` has no price"),
        ("/openai/v1/responses", json!({ "model": "ours", "service_tier": "flex" }), "the model `ours` has no price"),
        (
            "/openai/v1/responses",
            json!({ "model": "gpt-5", "service_tier": "flex" }),
            "the service tier `flex` of `gpt-5` has no price",
        ),
        (
            "/openai/v1/chat/completions",
            json!({ "model": "o1", "service_tier": "priority" }),
            "the service tier `priority` of `o1`",
        ),
        ("/anthropic/v1/messages", json!({ "model": "claude-sonnet-5", "speed": "fast" }), "the service tier `fast`"),
        (
            "/anthropic/v1/messages",
            json!({ "model": "claude-sonnet-5", "inference_geo": "us" }),
            "the service tier `us`",
        ),
        (
            "/anthropic/v1/messages",
            json!({ "model": "claude-sonnet-5", "tools": search }),
            "a use of `web_search` has no price",
        ),
        (
            "/openai/v1/chat/completions",
            json!({ "model": "gpt-5", "messages": [{ "role": "user", "content": [sound] }] }),
            "audio for `gpt-5` has no price",
        ),
        (
            "/gemini/v1beta/models/gemini-3.8-flash:generateContent",
            json!({ "contents": [{ "parts": [recording] }] }),
            "audio for `gemini-3.8-flash` has no price",
        ),
    ];
    let served = serve(Prices::embedded());
    for (path, request, reason) in &cases {
        let (status, body) = served.ask(path, request).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{request}");
        assert!(body.contains(reason) && body.contains("HV-0413") && body.contains("0 is a price"), "{body}");
    }
    let background = json!({ "model": "gpt-5", "background": true, "stream": true });
    assert_eq!(served.ask("/openai/v1/responses", &background).await.0, StatusCode::BAD_REQUEST);
    assert!(asks.try_recv().is_err() && served.books.asked.lock().unwrap().is_empty(), "nothing went out");

    let served = serve(Prices::load(&file).unwrap());
    for number in [0, 1, 6] {
        let (path, request, _) = &cases[number];
        assert_eq!(served.ask(path, request).await.0, StatusCode::OK, "{request}");
        let settled = served.books.next().await;
        assert_eq!(settled.cost > Cost::ZERO, number == 6, "{settled:?}");
    }
    assert!(reserved(&served) >= dollars(0.03), "three uses are set aside");
}

#[tokio::test]
async fn the_tier_and_the_uses_that_an_answer_tells_are_charged() {
    let (address, _asks) = upstream(|head| match head.uri.path() {
        "/v1/messages" => {
            let usage =
                json!({ "input_tokens": 0, "output_tokens": 1000, "server_tool_use": { "web_search_requests": 2 } });
            answer("application/json", json!({ "model": "claude-sonnet-5", "usage": usage }).to_string())
        }
        _ => {
            let usage = json!({ "input_tokens": 1_000_000, "output_tokens": 0 });
            let answered = json!({ "model": "gpt-5", "service_tier": "priority", "usage": usage });
            answer("application/json", answered.to_string())
        }
    })
    .await;
    let served = serve_upstream(&address);
    served.ask("/openai/v1/responses", &json!({ "model": "gpt-5" })).await;
    assert_eq!(served.books.next().await.cost, dollars(2.5), "the project's own default may be another tier");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prices.toml");
    std::fs::write(&file, "[anthropic]\nas_of = ''\nsource = ''\nmodels = {}\n[anthropic.fees]\nweb_search = 0.01\n")
        .unwrap();
    let options = Options { prices: Prices::load(&file).unwrap(), ..Options::default() };
    let credentials = Upstreams::new([credential("anthropic", "a", &address)]);
    let served = serve_open(&Gateway::new(options).unwrap(), credentials, &["web_search"]);
    let search = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    let response =
        served.send(post("/anthropic/v1/messages", json!({ "model": "claude-sonnet-5", "tools": search }).to_string()));
    assert_eq!(response.await.status(), StatusCode::OK);
    assert_eq!(served.books.next().await.cost, dollars(0.01 + 0.02));
}

#[tokio::test]
async fn a_script_sets_aside_exactly_what_its_next_reply_costs() {
    let served = crate::support::serve_script(
        "price: { input_per_mtok: 3.0, output_per_mtok: 15.0 }\nconversations: [{ replies: [{ shell: ls, tokens: { input: 1000, output: 100 } }] }]",
    );
    let tools = json!([{ "name": "bash", "input_schema": { "properties": { "command": {} } } }]);
    let request = json!({ "model": "any", "tools": tools, "messages": [{ "role": "user", "content": "go" }] });
    assert_eq!(served.ask("/anthropic/v1/messages", &request).await.0, StatusCode::OK);
    let asked = served.books.asked.lock().unwrap().pop().unwrap();
    assert_eq!((asked.cost.least, asked.cost.most), (dollars(0.0045), dollars(0.0045)));
    assert_eq!(served.books.next().await.cost, dollars(0.0045));
}

/// What a request sets aside grows with the number of answers that it asks for, also where it does not bound their length.
#[tokio::test]
async fn every_answer_that_a_request_asks_for_is_set_aside() {
    let (address, _asks) = upstream(|_| answer("application/json", "{}")).await;
    let served = serve_upstream(&address);
    let gemini = "/gemini/v1beta/models/gemini-2.5-pro:generateContent";
    for (path, one, many, answers, per_answer) in [
        (
            "/openai/v1/chat/completions",
            json!({ "model": "gpt-5", "n": 1 }),
            json!({ "model": "gpt-5", "n": 8 }),
            8,
            16_384,
        ),
        (
            "/openai/v1/chat/completions",
            json!({ "model": "gpt-5", "max_tokens": 500, "n": 1 }),
            json!({ "model": "gpt-5", "max_tokens": 500, "n": 8 }),
            8,
            500,
        ),
        (
            gemini,
            json!({ "generationConfig": { "candidateCount": 1 } }),
            json!({ "generationConfig": { "candidateCount": 4 } }),
            4,
            16_384,
        ),
    ] {
        served.post(path, &one).await;
        let single = reserved(&served);
        served.post(path, &many).await;
        // Ten dollars a million for gpt-5, fifteen for gemini-2.5-pro.
        let nanos_per_token = if path == gemini { 15_000 } else { 10_000 };
        let more = reserved(&served).nanos() - single.nanos();
        assert_eq!(more, (answers - 1) * per_answer * nanos_per_token, "{path} {many}");
    }
    let (status, body) = served.ask("/openai/v1/chat/completions", &json!({ "model": "gpt-5", "best_of": 8 })).await;
    assert!(status == StatusCode::BAD_REQUEST && body.contains("best_of"), "{body}");
}
