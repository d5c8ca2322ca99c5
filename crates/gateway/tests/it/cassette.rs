//! A run is recorded and played again, without a model, a key or a network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use harvest_gateway::cassette::{Cassette, CassetteError, Heading, Recorder, Replay};
use harvest_gateway::{Gateway, Options, Patience, Script, Upstreams, egress};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::support::{KEY, Served, answer, credential, get, quick, serve, serve_session, text, until_cut, upstream};

const MESSAGES: &str = "/anthropic/v1/messages?beta=true";
const ANTHROPIC: &str = include_str!("streams/anthropic.sse");

struct Tape {
    folder: tempfile::TempDir,
}

impl Tape {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("run.jsonl")
    }

    fn recorder(&self) -> Arc<Recorder> {
        let heading = Heading::new("anthropic", Some("claude-sonnet-4-5".to_owned()), None);
        let redact = Arc::new(|text: &str| text.replace(KEY, "[redacted]"));
        Arc::new(Recorder::create(&self.path(), &heading, redact).unwrap())
    }

    fn record(&self, address: &str) -> Served {
        let cassette = Some(Cassette::Record(self.recorder()));
        // What the gateway would do about trouble has its own tests.
        let patience = Patience { retries: 0, ..quick() };
        let gateway = Gateway::new(Options { cassette, patience, ..Options::default() }).unwrap();
        let upstreams = ["anthropic", "openai"].map(|provider| credential(provider, provider, address));
        serve_session(&gateway, "session-1", Arc::new(Upstreams::new(upstreams)), None, egress::Access::none())
    }

    fn replay(&self) -> (Served, Arc<Replay>) {
        let replay = Arc::new(Replay::load(&self.path()).unwrap());
        let cassette = Some(Cassette::Replay(Arc::clone(&replay)));
        (serve(Options { cassette, ..Options::default() }, None), replay)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }
}

fn turn(prompt: &str, results: &[&str]) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": prompt })];
    for result in results {
        messages.push(
            json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "bash", "input": {} }] }),
        );
        messages.push(
            json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": result }] }),
        );
    }
    json!({ "model": "claude-sonnet-4-5", "stream": true, "tools": [{ "name": "bash" }], "messages": messages })
}

#[tokio::test]
async fn a_run_comes_again_byte_for_byte_without_a_network() {
    let tape = Tape::new();
    let (address, _asks) = upstream(|head| match head.uri.path() {
        "/v1/messages" => {
            let pieces: Vec<_> =
                ANTHROPIC.as_bytes().chunks(50).map(|it| Ok::<_, std::io::Error>(Bytes::copy_from_slice(it))).collect();
            let mut response = answer("text/event-stream", axum::body::Body::from_stream(stream::iter(pieces)));
            response.headers_mut().insert("request-id", "req_1".parse().unwrap());
            response.headers_mut().insert("set-cookie", "session=canary".parse().unwrap());
            response
        }
        // Some vendors repeat a bad key.
        "/v1/responses" => {
            let mut response =
                answer("application/json", format!(r#"{{"error":{{"message":"Incorrect key {KEY}"}}}}"#));
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            response
        }
        _ => answer("application/json", r#"{"data":[]}"#),
    })
    .await;
    let ask = async |served: &Served| {
        let mut seen = Vec::new();
        for results in [&[][..], &["exit code 0"]] {
            let (status, body) = served.ask(MESSAGES, &turn("add a greeting", results)).await;
            seen.push((status.as_u16(), body));
        }
        let (status, body) = served.ask("/openai/v1/responses", &json!({ "input": "x", "model": "gpt-5" })).await;
        seen.push((status.as_u16(), body.replace(KEY, "[redacted]").replace("[redacted]*", "[redacted]")));
        seen.push((200, text(served.send(get("/anthropic/v1/models?limit=3")).await).await));
        let calls: Vec<_> = served
            .books
            .settled()
            .await
            .into_iter()
            .map(|call| (call.provider, call.model, call.usage, call.cost, call.estimated, call.status))
            .collect();
        (seen, calls)
    };
    let recording = tape.record(&address);
    let recorded = ask(&recording).await;
    recording.serving.stop().await;
    assert_eq!(recorded.0[0], (200, ANTHROPIC.to_owned()));

    let file = tape.text();
    assert!(!file.contains(KEY) && !file.contains("placeholder") && !file.contains("canary"), "{file}");
    assert_eq!(file.lines().count(), 5, "a heading and four exchanges");
    insta::assert_snapshot!(file.replace(&address, "http://upstream"));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(tape.path()).unwrap().permissions().mode() & 0o777, 0o600);

    let (replaying, replay) = tape.replay();
    assert_eq!(ask(&replaying).await, recorded);
    assert_eq!(replay.difference(), None);
    // What informs may be asked any number of times.
    assert_eq!(text(replaying.send(get("/anthropic/v1/models?limit=3")).await).await, r#"{"data":[]}"#);
}

#[tokio::test]
async fn failures_and_cuts_come_again_too() {
    let tape = Tape::new();
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (address, _asks) = upstream(move |_| match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => {
            let mut response = answer("application/json", r#"{"type":"error"}"#);
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert("retry-after", "0".parse().unwrap());
            response.headers_mut().insert("x-should-retry", "false".parse().unwrap());
            response
        }
        1 => {
            let start: String = ANTHROPIC.split_inclusive("\n\n").take(4).collect();
            let cut = stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            let body = stream::iter([Ok(Bytes::from(start))]).chain(cut);
            answer("text/event-stream", axum::body::Body::from_stream(body))
        }
        _ => answer("text/event-stream", ANTHROPIC),
    })
    .await;
    let ask = async |served: &Served| {
        let mut seen = Vec::new();
        for _ in 0..3 {
            let response = served.post(MESSAGES, &turn("x", &[])).await;
            let (status, retry) = (response.status().as_u16(), response.headers().get("retry-after").cloned());
            let (body, complete) = until_cut(response).await;
            seen.push((status, retry, body, complete));
        }
        seen
    };
    let recording = tape.record(&address);
    let recorded = ask(&recording).await;
    recording.serving.stop().await;
    assert_eq!(
        recorded.iter().map(|(status, _, _, complete)| (*status, *complete)).collect::<Vec<_>>(),
        [(429, true), (200, false), (200, true)]
    );
    let (replaying, replay) = tape.replay();
    assert_eq!(ask(&replaying).await, recorded);
    assert_eq!(replay.difference(), None);
}

const FRUIT: &str = "
price: { input_per_mtok: 3.0, output_per_mtok: 15.0 }
conversations:
  - { when_prompt_contains: apples, replies: [{ say: apple 1, shell: a, tokens: { input: 10, output: 1 } }, { say: apple 2 }] }
  - { when_prompt_contains: pears, replies: [{ say: pear 1, shell: p }, { say: pear 2 }] }
";

/// The conversations of `FRUIT`, recorded from the script in the order given.
async fn recorded(tape: &Tape, order: &[(&str, &[&str])]) {
    let script = Arc::new(Script::parse(FRUIT).unwrap());
    let heading = Heading::new("anthropic", None, Some(&script));
    let recorder = Recorder::create(&tape.path(), &heading, Arc::new(str::to_owned)).unwrap();
    let cassette = Some(Cassette::Record(Arc::new(recorder)));
    let served = serve(Options { script: Some(script), cassette, ..Options::default() }, None);
    for (fruit, results) in order {
        served.ask(MESSAGES, &turn(fruit, results)).await;
    }
    served.serving.stop().await;
}

#[tokio::test]
async fn conversations_side_by_side_may_come_in_another_order() {
    let tape = Tape::new();
    let (ok, order) = (["ok"], ["apples", "pears"]);
    recorded(&tape, &[("apples", &[]), ("pears", &[]), ("pears", &ok), ("apples", &ok)]).await;
    let (served, replay) = tape.replay();
    for results in [&[][..], &ok] {
        for fruit in order.iter().rev() {
            let number = results.len() + 1;
            let (_, body) = served.ask(MESSAGES, &turn(fruit, results)).await;
            assert!(
                body.contains(fruit.strip_suffix('s').unwrap()) && body.contains(&format!("\"{number}\"")),
                "{body}"
            );
        }
    }
    assert_eq!(replay.difference(), None);
    let costs: Vec<_> =
        served.books.settled().await.iter().map(|call| (call.provider.clone(), call.cost.dollars())).collect();
    assert_eq!(
        costs.iter().map(|(_, dollars)| dollars).sum::<f64>(),
        0.000_045,
        "the price of the script is in the cassette"
    );
    assert!(costs.iter().all(|(provider, _)| provider == "scripted"), "{costs:?}");
}

#[tokio::test]
async fn what_differs_from_run_to_run_does_not_count() {
    let tape = Tape::new();
    let before = "[harvest/x-0a1b2c3d 1a2b3c4] at 2026-11-15T08:00:00Z in /tmp/one, 0.12s";
    let after = "[harvest/x-9z8y7x6w 9f8e7d6] at 2027-01-02T09:30:00Z in /tmp/two, 7.5s";
    recorded(&tape, &[("apples", &[]), ("apples", &[before])]).await;
    let (served, replay) = tape.replay();
    served.ask(MESSAGES, &turn("apples", &[])).await;
    assert_eq!(served.ask(MESSAGES, &turn("apples", &[after])).await.0, StatusCode::OK);
    assert_eq!(replay.difference(), None);
}

#[tokio::test]
async fn the_first_difference_is_told_and_ends_the_replay() {
    let told = async |asks: &[(&str, &[&str])]| {
        let tape = Tape::new();
        recorded(&tape, &[("apples", &[]), ("apples", &["exit code 0"])]).await;
        let (served, replay) = tape.replay();
        let (mut status, mut body) = (StatusCode::OK, String::new());
        for (fruit, results) in asks {
            (status, body) = served.ask(MESSAGES, &turn(fruit, results)).await;
        }
        if status != StatusCode::OK {
            let reason = replay.diverged().await;
            assert!(body.contains("invalid_request_error"), "in the vendor's shape: {body}");
            let again = served.ask(MESSAGES, &turn("apples", &["exit code 0"])).await;
            assert_eq!(again.0, StatusCode::BAD_REQUEST, "nothing is answered after that");
            assert_eq!(replay.difference(), Some(reason));
        }
        replay.difference().unwrap_or_default()
    };
    let seen = [
        told(&[("apples", &[]), ("apples", &["exit code 1"])]).await,
        told(&[("apples", &[]), ("apples", &["exit code 0", "more"])]).await,
        told(&[("plums", &[])]).await,
        told(&[("apples", &[]), ("apples", &["exit code 0"]), ("apples", &["exit code 0"])]).await,
        told(&[("apples", &[])]).await,
    ];
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn what_the_budget_keeps_back_is_not_recorded() {
    let tape = Tape::new();
    let served = tape.record("http://127.0.0.1:1");
    served.books.refuse("nothing is left");
    served.ask(MESSAGES, &turn("x", &[])).await;
    served.serving.stop().await;
    assert_eq!(tape.text().lines().count(), 1);
}

#[test]
fn files_that_cannot_be_used() {
    let tape = Tape::new();
    let recorder = tape.recorder();
    assert!(recorder.failure().is_none());
    let heading = Heading::new("anthropic", None, None);
    let again = Recorder::create(&tape.path(), &heading, Arc::new(str::to_owned));
    assert!(matches!(again, Err(CassetteError::Exists { .. })), "a cassette is not written over");
    let nowhere = Recorder::create(Path::new("/nonexistent/x"), &heading, Arc::new(str::to_owned));
    assert!(matches!(nowhere, Err(CassetteError::Unwritable { .. })));
    assert!(matches!(Replay::load(Path::new("/nonexistent/x")), Err(CassetteError::Unreadable { .. })));
    let good = tape.text();
    let mut seen = Vec::new();
    for bad in [
        "",
        "{}",
        "hello",
        r#"{"cassette":7,"provider":"x"}"#,
        &format!("{good}{{\"n\":1}}"),
        &format!("{good}{{\"n\":"),
    ] {
        std::fs::write(tape.path(), bad).unwrap();
        let error = Replay::load(&tape.path()).unwrap_err().to_string();
        seen.push(error.replace(&tape.path().display().to_string(), "FILE"));
    }
    insta::assert_snapshot!(seen.join("\n"));
}
