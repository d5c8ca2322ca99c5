//! The scripted model, as clients of both wire formats see it.

use harvest_core::{Cost, Usage};
use harvest_gateway::{Script, ScriptError};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::support::{Served, events, get, serve_script, text, until_cut};

const MESSAGES: &str = "/anthropic/v1/messages";
const CHAT: &str = "/openai/v1/chat/completions";

const GREETING: &str = r#"
model: scripted-1
price: { input_per_mtok: 3.0, output_per_mtok: 15.0 }
conversations:
  - when_prompt_contains: "greeting"
    replies:
      - say: "I will add it."
        shell: "printf 'hello\n' > greeting.txt"
        tokens: { input: 1200, output: 40 }
      - expect: "exit code 0"
        write: { path: src/x.txt, content: "it's" }
      - tool: { name: search, input: { query: x } }
      - say: "All done."
"#;

/// A request in Anthropic's format that offers the tools of the built-in agent.
fn messages(stream: bool, turns: &[(&str, Value)]) -> Value {
    let tool = |name: &str, arguments: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            arguments.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
        json!({ "name": name, "input_schema": { "type": "object", "properties": properties, "required": arguments } })
    };
    let tools = [tool("bash", &["command"]), tool("write", &["path", "content"]), tool("search", &["query"])];
    let turns: Vec<Value> = turns.iter().map(|(role, content)| json!({ "role": role, "content": content })).collect();
    json!({ "model": "any", "max_tokens": 100, "stream": stream, "tools": tools, "messages": turns })
}

/// The same in OpenAI's format.
fn chat(stream: bool, turns: &[(&str, Value)]) -> Value {
    let mut request = messages(stream, turns);
    let tools = request["tools"].as_array().unwrap().iter().map(
        |tool| json!({ "type": "function", "function": { "name": tool["name"], "parameters": tool["input_schema"] } }),
    );
    request["tools"] = tools.collect();
    request
}

fn user(text: &str) -> (&'static str, Value) {
    ("user", json!(text))
}

fn assistant() -> (&'static str, Value) {
    ("assistant", json!("…"))
}

async fn document(served: &Served, path: &str, request: &Value) -> Value {
    let (status, body) = served.ask(path, request).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str(&body).unwrap()
}

async fn refusal(served: &Served, path: &str, request: &Value) -> String {
    let (status, body) = served.ask(path, request).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["error"]["message"].as_str().unwrap().to_owned()
}

fn first_text(message: &Value) -> &str {
    message["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn anthropic_documents() {
    let served = serve_script(GREETING);
    let first = document(&served, MESSAGES, &messages(false, &[user("add a greeting")])).await;
    insta::assert_json_snapshot!(first);
    let settled = served.books.next().await;
    assert_eq!((settled.provider.as_str(), settled.model.as_str(), settled.status), ("scripted", "scripted-1", 200));
    assert_eq!(settled.usage, Usage { input_tokens: 1200, output_tokens: 40, ..Usage::default() });
    assert_eq!((settled.cost, settled.estimated), (Cost::from_dollars(0.0042).unwrap(), false));
}

#[tokio::test]
async fn anthropic_streams() {
    let served = serve_script(GREETING);
    let response = served.post(MESSAGES, &messages(true, &[user("add a greeting")])).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    insta::assert_snapshot!(text(response).await);
    assert_eq!(served.books.next().await.usage, Usage { input_tokens: 1200, output_tokens: 40, ..Usage::default() });
}

#[tokio::test]
async fn openai_documents_and_streams() {
    let served = serve_script(GREETING);
    let first = document(&served, CHAT, &chat(false, &[user("add a greeting")])).await;
    insta::assert_json_snapshot!(first);
    let expected = Usage { input_tokens: 1200, output_tokens: 40, ..Usage::default() };
    assert_eq!(served.books.next().await.usage, expected);
    let (_, stream) = served.ask(CHAT, &chat(true, &[user("add a greeting")])).await;
    assert!(stream.ends_with("data: [DONE]\n\n"));
    assert_eq!(served.books.next().await.usage, expected);
    // Put together, the stream says what the document says.
    let events = events(&stream);
    let deltas = || events.iter().map(|event| &event["choices"][0]["delta"]);
    let join = |pick: &dyn Fn(&Value) -> Option<String>| deltas().filter_map(pick).collect::<String>();
    let message = &first["choices"][0]["message"];
    assert_eq!(join(&|delta| Some(delta["content"].as_str()?.to_owned())), message["content"]);
    let arguments = join(&|delta| Some(delta["tool_calls"][0]["function"]["arguments"].as_str()?.to_owned()));
    assert_eq!(arguments, message["tool_calls"][0]["function"]["arguments"]);
}

#[tokio::test]
async fn the_whole_conversation_in_both_formats() {
    let served = serve_script(GREETING);
    let result = json!([{ "type": "tool_result", "tool_use_id": "t", "content": [{ "type": "text", "text": "ok\nexit code 0" }] }]);
    let turns = [
        user("a greeting"),
        assistant(),
        ("user", result),
        assistant(),
        user("r"),
        assistant(),
        user("r"),
        assistant(),
        user("more"),
    ];
    let at = |count: usize| messages(false, &turns[..count]);
    let second = document(&served, MESSAGES, &at(3)).await;
    assert_eq!(second["content"][0]["name"], "write");
    assert_eq!(second["content"][0]["input"], json!({ "path": "src/x.txt", "content": "it's" }));
    assert_eq!(second["stop_reason"], "tool_use");
    let third = document(&served, MESSAGES, &at(5)).await;
    assert_eq!(third["content"][0]["input"], json!({ "query": "x" }));
    let fourth = document(&served, MESSAGES, &at(7)).await;
    assert_eq!((first_text(&fourth), &fourth["stop_reason"]), ("All done.", &json!("end_turn")));
    assert_eq!(first_text(&document(&served, MESSAGES, &at(9)).await), "Done.");

    let turns = [user("a greeting"), assistant(), ("tool", json!("exit code 0"))];
    let second = document(&served, CHAT, &chat(false, &turns)).await;
    assert_eq!(second["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "write");
    assert_eq!(second["choices"][0]["finish_reason"], "tool_calls");
    let again = document(&served, CHAT, &chat(false, &turns)).await;
    assert_eq!(again, second, "a retry gets the same reply");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_the_reason() {
    let served = serve_script(GREETING);
    let mut without_shell = messages(false, &[user("greeting")]);
    without_shell["tools"] = json!([{ "name": "read", "input_schema": {} }]);
    let seen = [
        refusal(&served, MESSAGES, &messages(false, &[user("something else")])).await,
        refusal(&served, CHAT, &chat(true, &[user("a greeting"), assistant(), ("tool", json!("exit code 1"))])).await,
        refusal(&served, MESSAGES, &without_shell).await,
        refusal(&served, "/openai/v1/responses", &json!({})).await,
    ];
    insta::assert_snapshot!(seen.join("\n"));
}

/// As Aider asks: no tools, and examples before the question that look like a history.
#[tokio::test]
async fn a_conversation_can_be_for_requests_without_tools() {
    let served = serve_script(
        "conversations:
  - { when_prompt_contains: pears, without_tools: true, replies: [{ say: an edit, tokens: { input: 7, output: 2 } }] }
  - { replies: [{ say: with tools }] }",
    );
    for (newest, tools, expected) in
        [("pears", false, "an edit"), ("apples", false, "ok"), ("pears", true, "Done."), ("", true, "Done.")]
    {
        let mut request = chat(false, &[user("apples"), assistant(), user(newest)]);
        if !tools {
            request["tools"] = json!([]);
        }
        let answer = document(&served, CHAT, &request).await;
        assert_eq!(answer["choices"][0]["message"]["content"], expected, "{newest} {tools}");
        assert_eq!(served.books.next().await.usage.input_tokens, if expected == "an edit" { 7 } else { 0 });
    }
}

#[tokio::test]
async fn a_request_without_tools_uses_up_nothing() {
    let served = serve_script(GREETING);
    for (path, mut request) in [(MESSAGES, messages(true, &[user("a title")])), (CHAT, chat(true, &[user("a title")]))]
    {
        request["tools"] = json!([]);
        let (_, stream) = served.ask(path, &request).await;
        assert!(stream.contains(r#""ok""#), "{stream}");
        assert_eq!(served.books.next().await.cost, Cost::ZERO);
    }
}

#[tokio::test]
async fn failures_happen_once_and_then_the_reply_comes() {
    let served = serve_script(
        "conversations: [{ replies: [
            { say: one two three four, status: 529 },
            { say: one two three four, cut_after: 3 },
            { say: one two three four, cut_after: 1 },
        ] }]",
    );
    let at = |index: usize, stream| {
        let turns: Vec<_> = (0..index).flat_map(|_| [user("x"), assistant()]).chain([user("x")]).collect();
        (messages(stream, &turns), chat(stream, &turns))
    };
    let (status, body) = served.ask(MESSAGES, &at(0, true).0).await;
    assert_eq!((status.as_u16(), body.contains("overloaded_error")), (529, true));
    assert_eq!(served.books.next().await.status, 529);
    assert_eq!(served.ask(CHAT, &at(0, true).1).await.0, StatusCode::OK, "whatever format asks again");

    let (seen, complete) = until_cut(served.post(MESSAGES, &at(1, true).0).await).await;
    assert_eq!((seen.matches("text_delta").count(), complete), (3, false));
    assert!(until_cut(served.post(MESSAGES, &at(1, true).0).await).await.1);

    assert!(!until_cut(served.post(CHAT, &at(2, false).1).await).await.1, "documents are cut as well");
    assert!(until_cut(served.post(CHAT, &at(2, false).1).await).await.1);

    served.serving.stop().await;
    let settled = served.books.settled().await;
    assert_eq!(settled.iter().map(|call| call.estimated).collect::<Vec<_>>(), [false, true, false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn delays_and_stalls_take_their_time() {
    let served =
        serve_script("conversations: [{ replies: [{ say: a b c, delay: 200ms, chunk_delay: 1s, stall: 1m }] }]");
    let mut took = Vec::new();
    for _ in 0..2 {
        let started = tokio::time::Instant::now();
        served.ask(MESSAGES, &messages(true, &[user("x")])).await;
        took.push(started.elapsed().as_millis());
    }
    assert!((62_200..62_400).contains(&took[0]) && (2_200..2_400).contains(&took[1]), "{took:?}");
}

#[tokio::test]
async fn calls_come_in_the_order_of_the_file() {
    let served = serve_script(
        "conversations:
  - replies:
      - write: [{ path: a, content: x }, { path: b, content: y }]
        tool: { name: search, input: { query: [1, null, true] } }
        shell: [true, ls]",
    );
    let reply = document(&served, MESSAGES, &messages(false, &[user("x")])).await;
    let calls: Vec<_> =
        reply["content"].as_array().unwrap().iter().map(|call| (&call["name"], &call["input"])).collect();
    insta::assert_json_snapshot!(calls);
}

#[tokio::test]
async fn lists_of_models_and_token_counts() {
    let served = serve_script(GREETING);
    for path in ["/anthropic/v1/models", "/openai/v1/models"] {
        let models: Value = serde_json::from_str(&text(served.send(get(path)).await).await).unwrap();
        assert_eq!(models["data"][0]["id"], "scripted-1");
    }
    let counted = document(&served, "/anthropic/v1/messages/count_tokens", &messages(false, &[user("x")])).await;
    assert!(counted["input_tokens"].as_u64().unwrap() > 10);
    assert_eq!(served.books.settled().await, []);
}

#[test]
fn bad_files_are_refused_with_line_field_and_reason() {
    let seen: Vec<String> = [
        "",
        "conversations: []",
        "model: x",
        "conversations:\n  - replies:\n      - sya: hello",
        "conversations:\n  - replies:\n      - say: hello\n        status: 200",
        "conversations:\n  - replies:\n      - say: hello\n        status: often",
        "conversations:\n  - replies:\n      - delay: 5",
        "conversations:\n  - replies:\n      - say: hello\n      - delay: soon",
        "conversations:\n  - replies:\n      - write: { path: x }",
        "conversations:\n  - replies:\n      - write:\n          - path: x\n            content: y\n            mode: 7",
        "conversations:\n  - replies:\n      - tool: { input: {} }",
        "conversations:\n  - replies:\n      - shell: { command: ls }",
        "conversations:\n  - replies:\n      - tokens: { input: -1 }",
        "price: { input_per_mtok: -3, output_per_mtok: 1 }\nconversations: [{ replies: [] }]",
        "conversations:\n  - replies: {}",
        "conversations:\n  - when_prompt_contains: a\n\treplies: []",
        "conversations:\n  - replies:\n      - say: \"unclosed",
        "conversations: [{ replies: [] }]\nconversations: []",
        "model: \"\"\nconversations: [{ replies: [] }]",
        "- just\n- a list",
    ]
    .iter()
    .map(|text| format!("{text}\n=> {}\n", Script::parse(text).unwrap_err()))
    .collect();
    insta::assert_snapshot!(seen.join("\n"));
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Script::load(&folder.path().join("none.yaml"));
    assert!(matches!(missing, Err(ScriptError::Unreadable { .. })));
    assert!(matches!(Script::load(folder.path()), Err(ScriptError::Unreadable { .. })), "a folder");
    let file = folder.path().join("binary.yaml");
    std::fs::write(&file, b"model: x\n\xff").unwrap();
    let Err(ScriptError::Invalid { line, .. }) = Script::load(&file) else { panic!("it is not UTF-8") };
    assert_eq!(line, Some(2));
    std::fs::write(&file, GREETING).unwrap();
    assert_eq!(Script::load(&file).unwrap().model(), "scripted-1");
}

#[test]
fn the_example_in_the_documentation_is_valid() {
    let page = include_str!("../../../../docs/model-script.md");
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(Script::parse(example).unwrap().model(), "scripted-1");
}
