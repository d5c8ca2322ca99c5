//! The scripted model says the same in every wire format, streamed or not, and fails in every one of them as it is told.

use std::sync::Arc;

use harvest_core::Usage;
use harvest_gateway::{Gateway, NoCredentials, Options, Script};
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::support::{Served, events, get, serve_open, serve_script, text, until_cut};

const SCRIPT: &str = r#"
conversations:
  - when_prompt_contains: "greeting"
    replies:
      - say: "I will add it."
        shell: ["printf hi > a", "ls"]
        tokens: { input: 1200, output: 40, cache_read: 300, reasoning: 7 }
      - expect: "exit code 0"
        write: { path: src/x.txt, content: "it's" }
      - say: "All done."
"#;

/// One way of asking.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    Messages,
    ChatCompletions,
    Responses,
    Gemini,
    GeminiArray,
    OllamaChat,
    OllamaAsOpenAi,
}

const FORMATS: [Format; 7] = [
    Format::Messages,
    Format::ChatCompletions,
    Format::Responses,
    Format::Gemini,
    Format::GeminiArray,
    Format::OllamaChat,
    Format::OllamaAsOpenAi,
];

/// A conversation, whatever format it is told in.
#[derive(Debug, Clone)]
enum Turn {
    User(&'static str),
    /// An answer with these calls.
    Answer(&'static [&'static str]),
    /// What one of the calls came to.
    Result(&'static str, &'static str),
}
use Turn::{Answer, Result, User};

#[derive(Debug, Clone, PartialEq, Default)]
struct Said {
    text: String,
    calls: Vec<(String, Value)>,
}

impl Format {
    fn path(self, stream: bool) -> &'static str {
        match (self, stream) {
            (Self::Messages, _) => "/anthropic/v1/messages",
            (Self::ChatCompletions, _) => "/openai/v1/chat/completions",
            (Self::Responses, _) => "/openai/v1/responses",
            (Self::Gemini | Self::GeminiArray, false) => "/gemini/v1beta/models/any:generateContent",
            (Self::Gemini, true) => "/gemini/v1beta/models/any:streamGenerateContent?alt=sse",
            (Self::GeminiArray, true) => "/gemini/v1beta/models/any:streamGenerateContent",
            (Self::OllamaChat, _) => "/ollama/api/chat",
            (Self::OllamaAsOpenAi, _) => "/ollama/v1/chat/completions",
        }
    }

    fn request(self, stream: bool, turns: &[Turn]) -> Value {
        let schema =
            |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
        let functions = [("bash", schema("command")), ("search", schema("query"))];
        let functions = functions.iter();
        match self {
            Self::Messages => {
                let tools: Vec<_> =
                    functions.map(|(name, schema)| json!({ "name": name, "input_schema": schema })).collect();
                let message = |turn: &Turn| match turn {
                    User(text) => json!({ "role": "user", "content": text }),
                    Answer(ids) => {
                        json!({ "role": "assistant", "content": ids.iter().map(|id| json!({ "type": "tool_use", "id": id, "name": "bash", "input": {} })).collect::<Vec<_>>() })
                    }
                    Result(id, text) => {
                        json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": text }] })
                    }
                };
                let messages: Vec<Value> = turns.iter().map(message).collect();
                json!({ "model": "any", "max_tokens": 9, "stream": stream, "tools": tools, "messages": messages })
            }
            Self::ChatCompletions | Self::OllamaChat | Self::OllamaAsOpenAi => {
                let tools: Vec<_> = functions
                    .map(|(name, schema)| json!({ "type": "function", "function": { "name": name, "parameters": schema } }))
                    .collect();
                let message = |turn: &Turn| match turn {
                    User(text) => json!({ "role": "user", "content": text }),
                    Answer(ids) => {
                        json!({ "role": "assistant", "content": "", "tool_calls": ids.iter().map(|id| json!({ "id": id, "type": "function", "function": { "name": "bash", "arguments": "{}" } })).collect::<Vec<_>>() })
                    }
                    Result(id, text) => json!({ "role": "tool", "tool_call_id": id, "content": text }),
                };
                let messages: Vec<Value> = turns.iter().map(message).collect();
                json!({ "model": "any", "stream": stream, "tools": tools, "messages": messages })
            }
            Self::Responses => {
                let tools: Vec<_> = functions
                    .map(|(name, schema)| json!({ "type": "function", "name": name, "strict": false, "parameters": schema }))
                    .collect();
                let items = turns.iter().flat_map(|turn| match turn {
                    User(text) => vec![json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })],
                    Answer(ids) => {
                        let said = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "…" }] });
                        let calls = ids.iter().map(|id| json!({ "type": "function_call", "call_id": id, "name": "bash", "arguments": "{}" }));
                        [said].into_iter().chain(calls).collect()
                    }
                    Result(id, text) => vec![json!({ "type": "function_call_output", "call_id": id, "output": text })],
                });
                let context = json!({ "type": "message", "role": "developer", "content": "be good" });
                let environment = json!({ "role": "user", "content": "<environment>/w</environment>" });
                let input: Vec<Value> = [context, environment].into_iter().chain(items).collect();
                json!({ "model": "any", "store": false, "stream": stream, "tools": tools, "input": input })
            }
            Self::Gemini | Self::GeminiArray => {
                let declared: Vec<_> =
                    functions.map(|(name, schema)| json!({ "name": name, "parametersJsonSchema": schema })).collect();
                let content = |turn: &Turn| match turn {
                    User(text) => json!({ "role": "user", "parts": [{ "text": text }] }),
                    Answer(ids) => {
                        json!({ "role": "model", "parts": ids.iter().map(|id| json!({ "functionCall": { "id": id, "name": "bash", "args": {} } })).collect::<Vec<_>>() })
                    }
                    Result(id, text) => {
                        json!({ "role": "user", "parts": [{ "functionResponse": { "id": id, "name": "bash", "response": { "output": text } } }] })
                    }
                };
                let contents: Vec<Value> = turns.iter().map(content).collect();
                json!({ "contents": contents, "tools": [{ "functionDeclarations": declared }] })
            }
        }
    }

    /// What was said, put together as a client of the format would.
    fn read(self, stream: bool, answer: &str) -> Said {
        let document = || serde_json::from_str::<Value>(answer).unwrap();
        let chunks: Vec<Value> = match (self, stream) {
            (_, false) => vec![document()],
            (Self::GeminiArray, _) => document().as_array().unwrap().clone(),
            (Self::OllamaChat, _) => answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            _ => events(answer),
        };
        let mut said = Said::default();
        let mut arguments: Vec<(String, String)> = Vec::new();
        for chunk in &chunks {
            match (self, stream) {
                (Self::Messages, false) => {
                    for block in chunk["content"].as_array().unwrap() {
                        match block["type"].as_str().unwrap() {
                            "text" => said.text += block["text"].as_str().unwrap(),
                            _ => said.calls.push((block["name"].as_str().unwrap().into(), block["input"].clone())),
                        }
                    }
                }
                (Self::Messages, true) => {
                    said.text += chunk["delta"]["text"].as_str().unwrap_or_default();
                    if let Some(name) = chunk["content_block"]["name"].as_str() {
                        arguments.push((name.to_owned(), String::new()));
                    }
                    if let Some(part) = chunk["delta"]["partial_json"].as_str() {
                        arguments.last_mut().unwrap().1 += part;
                    }
                }
                (Self::ChatCompletions | Self::OllamaAsOpenAi, _) => {
                    let message = &chunk["choices"][0][if stream { "delta" } else { "message" }];
                    said.text += message["content"].as_str().unwrap_or_default();
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        if let Some(name) = call["function"]["name"].as_str() {
                            arguments.push((name.to_owned(), String::new()));
                        }
                        arguments.last_mut().unwrap().1 += call["function"]["arguments"].as_str().unwrap();
                    }
                }
                (Self::Responses, _) => {
                    // Codex takes finished items and ignores the pieces; other clients take the pieces.
                    let items =
                        if stream { vec![chunk["item"].clone()] } else { chunk["output"].as_array().unwrap().clone() };
                    if stream && chunk["type"] != "response.output_item.done" {
                        continue;
                    }
                    for item in items {
                        match item["type"].as_str().unwrap() {
                            "message" => said.text += item["content"][0]["text"].as_str().unwrap(),
                            _ => arguments.push((
                                item["name"].as_str().unwrap().into(),
                                item["arguments"].as_str().unwrap().into(),
                            )),
                        }
                    }
                }
                (Self::Gemini | Self::GeminiArray, _) => {
                    for part in chunk["candidates"][0]["content"]["parts"].as_array().unwrap() {
                        said.text += part["text"].as_str().unwrap_or_default();
                        if let Some(name) = part["functionCall"]["name"].as_str() {
                            said.calls.push((name.to_owned(), part["functionCall"]["args"].clone()));
                        }
                    }
                }
                (Self::OllamaChat, _) => {
                    said.text += chunk["message"]["content"].as_str().unwrap();
                    for call in chunk["message"]["tool_calls"].as_array().into_iter().flatten() {
                        let function = &call["function"];
                        said.calls.push((function["name"].as_str().unwrap().into(), function["arguments"].clone()));
                    }
                }
            }
        }
        said.calls.extend(arguments.into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap())));
        said
    }

    async fn ask(self, served: &Served, stream: bool, turns: &[Turn]) -> Said {
        let (status, body) = served.ask(self.path(stream), &self.request(stream, turns)).await;
        assert_eq!(status, StatusCode::OK, "{self:?}: {body}");
        self.read(stream, &body)
    }

    /// What the books hold of a reply with these tokens; not every format tells them all.
    fn usage(self) -> Usage {
        let told = Usage {
            input_tokens: 1200,
            output_tokens: 40,
            cache_read_tokens: 300,
            reasoning_tokens: 7,
            ..Usage::default()
        };
        match self {
            Self::Messages => Usage { reasoning_tokens: 0, ..told },
            Self::OllamaChat => Usage { input_tokens: 1500, cache_read_tokens: 0, reasoning_tokens: 0, ..told },
            _ => told,
        }
    }
}

fn said(text: &str, commands: &[&str]) -> Said {
    let calls = commands.iter().map(|command| ("bash".to_owned(), json!({ "command": command })));
    Said { text: text.to_owned(), calls: calls.collect() }
}

#[tokio::test]
async fn the_whole_conversation_in_every_format() {
    let served = serve_script(SCRIPT);
    for format in FORMATS {
        for stream in [false, true] {
            let turns = [
                User("add a greeting"),
                Answer(&["call_1_1_1", "call_1_1_2"]),
                Result("call_1_1_1", "exit code 0"),
                Result("call_1_1_2", "fine"),
                Answer(&["call_1_2_1"]),
                Result("call_1_2_1", "written"),
                Answer(&[]),
                User("anything else?"),
            ];
            let mut seen = Vec::new();
            for count in [1, 4, 6, 8] {
                seen.push(format.ask(&served, stream, &turns[..count]).await);
            }
            let expected = [
                said("I will add it.", &["printf hi > a", "ls"]),
                said("", &["mkdir -p -- 'src' && printf %s 'it'\\''s' > 'src/x.txt'"]),
                said("All done.", &[]),
                said("Done.", &[]),
            ];
            assert_eq!(seen, expected, "{format:?}, streamed: {stream}");
            let settled = served.books.settled().await;
            assert_eq!((settled.len(), settled[0].usage), (4, format.usage()), "{format:?}, streamed: {stream}");
            assert!(settled.iter().all(|call| !call.estimated && call.provider == "scripted"), "{settled:?}");
        }
    }
}

#[tokio::test]
async fn failures_happen_once_in_every_format() {
    for format in FORMATS {
        let served = serve_script(
            "conversations: [{ replies: [{ say: one two three four, status: 503, cut_after: 2, tokens: { input: 9, output: 4 } }] }]",
        );
        let request = format.request(true, &[User("x")]);
        let (status, body) = served.ask(format.path(true), &request).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{format:?}");
        let error = &serde_json::from_str::<Value>(&body).unwrap()["error"];
        let message = error["message"].as_str().or(error.as_str()).unwrap();
        assert_eq!(message, "the model script answers this request with status 503", "{format:?}");
        let (seen, complete) = until_cut(served.post(format.path(true), &request).await).await;
        assert!(!complete && seen.contains("two") && !seen.contains("three"), "{format:?}: {seen}");
        assert_eq!(format.ask(&served, true, &[User("x")]).await, said("one two three four", &[]), "{format:?}");
        served.serving.stop().await;
        let settled: Vec<_> = served
            .books
            .settled()
            .await
            .iter()
            .map(|call| (call.status, call.estimated, call.usage.output_tokens))
            .collect();
        assert_eq!(settled.len(), 3, "{format:?}");
        assert_eq!((settled[0], settled[1].1, settled[2]), ((503, false, 0), true, (200, false, 4)), "{format:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn delays_and_stalls_in_every_format() {
    for format in FORMATS {
        let served =
            serve_script("conversations: [{ replies: [{ say: a b c, delay: 200ms, chunk_delay: 1s, stall: 1m }] }]");
        let mut took = Vec::new();
        for stream in [true, true, false] {
            let started = tokio::time::Instant::now();
            format.ask(&served, stream, &[User("x")]).await;
            took.push(started.elapsed().as_millis());
        }
        let about = |took: u128, expected: u128| (expected..expected + 200).contains(&took);
        assert!(about(took[0], 62_200) && about(took[1], 2_200) && about(took[2], 200), "{format:?}: {took:?}");
    }
}

#[tokio::test]
async fn conversations_side_by_side_do_not_meet() {
    let served = serve_script(
        "conversations:
  - { when_prompt_contains: apples, replies: [{ say: apple 1, shell: a1, cut_after: 0 }, { say: apple 2 }] }
  - { when_prompt_contains: pears, replies: [{ say: pear 1, shell: p1 }, { say: pear 2 }] }",
    );
    let talk = async |format: Format, fruit: &'static str, call: &'static [&'static str]| {
        let first = loop {
            // Once, the stream of the apples is cut, whoever is first; a client asks again.
            let request = format.request(true, &[User(fruit)]);
            let (seen, complete) = until_cut(served.post(format.path(true), &request).await).await;
            if complete {
                break format.read(true, &seen);
            }
        };
        let turns = [User(fruit), Answer(call), Result(call[0], "ok")];
        (first, format.ask(&served, true, &turns).await)
    };
    for (format, other) in FORMATS.into_iter().zip(FORMATS.into_iter().rev()) {
        let (apples, pears) =
            tokio::join!(talk(format, "apples", &["call_1_1_1"]), talk(other, "pears", &["call_2_1_1"]));
        assert_eq!(apples, (said("apple 1", &["a1"]), said("apple 2", &[])), "{format:?} beside {other:?}");
        assert_eq!(pears, (said("pear 1", &["p1"]), said("pear 2", &[])), "{other:?} beside {format:?}");
    }
}

#[tokio::test]
async fn responses_on_the_wire() {
    let served = serve_script(SCRIPT);
    let turns = [User("a greeting")];
    let path = Format::Responses.path(true);
    let document = served.ask(path, &Format::Responses.request(false, &turns)).await.1;
    insta::assert_json_snapshot!("responses_document", serde_json::from_str::<Value>(&document).unwrap());
    insta::assert_snapshot!("responses_stream", served.ask(path, &Format::Responses.request(true, &turns)).await.1);
}

#[tokio::test]
async fn gemini_on_the_wire() {
    let served = serve_script(SCRIPT);
    let turns = [User("a greeting")];
    let mut seen = String::new();
    for (format, stream) in [(Format::Gemini, false), (Format::Gemini, true), (Format::GeminiArray, true)] {
        let response = served.post(format.path(stream), &format.request(stream, &turns)).await;
        seen += &format!("{}\n", response.headers()["content-type"].to_str().unwrap());
        seen += &format!("{}\n\n", text(response).await.replace('\r', "␍"));
    }
    insta::assert_snapshot!(seen);
}

#[tokio::test]
async fn ollama_on_the_wire() {
    let served = serve_script(SCRIPT);
    let turns = [User("a greeting")];
    let mut seen = String::new();
    for stream in [false, true] {
        let response = served.post("/ollama/api/chat", &Format::OllamaChat.request(stream, &turns)).await;
        seen += &format!("{}\n", response.headers()["content-type"].to_str().unwrap());
        seen += &format!("{}\n\n", text(response).await);
    }
    insta::assert_snapshot!(seen);
}

#[tokio::test]
async fn a_completion_gets_the_first_reply() {
    let served = serve_script(
        "conversations: [{ when_prompt_contains: hello, replies: [{ say: hello you, tokens: { input: 3, output: 2 } }] }]",
    );
    for stream in [true, false] {
        let (_, body) =
            served.ask("/ollama/api/generate", &json!({ "model": "any", "prompt": "hello", "stream": stream })).await;
        let lines = body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let texts: String = lines.map(|line| line["response"].as_str().unwrap().to_owned()).collect();
        assert_eq!(texts, "hello you");
        assert_eq!(served.books.next().await.usage, Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() });
    }
    assert_eq!(served.ask("/ollama/api/generate", &json!({ "prompt": "bye" })).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn codex_tools_of_every_kind() {
    let served = serve_script(
        "conversations:
  - when_prompt_contains: shell
    replies: [{ shell: ls }]
  - when_prompt_contains: patch
    replies: [{ tool: { name: apply_patch, input: { input: \"*** Begin Patch\" } } }]",
    );
    let tools = json!([
        { "type": "local_shell" },
        { "type": "custom", "name": "apply_patch", "description": "", "format": { "type": "grammar" } },
        { "type": "tool_search" },
    ]);
    for (prompt, kind) in [("shell", "local_shell_call"), ("patch", "custom_tool_call")] {
        let request = |stream: bool| json!({ "model": "any", "stream": stream, "tools": tools, "input": prompt });
        let (_, body) = served.ask("/openai/v1/responses", &request(false)).await;
        let document: Value = serde_json::from_str(&body).unwrap();
        let call = &document["output"][0];
        assert_eq!(call["type"], kind);
        match kind {
            "local_shell_call" => assert_eq!(call["action"]["command"], json!(["sh", "-c", "ls"])),
            _ => assert_eq!(call["input"], "*** Begin Patch"),
        }
        let (_, stream) = served.ask("/openai/v1/responses", &request(true)).await;
        let done = events(&stream).into_iter().find(|event| event["type"] == "response.output_item.done").unwrap();
        assert_eq!(&done["item"], call);
        // What a client sends back of it counts as one answer.
        let output = json!({ "type": kind.to_owned() + "_output", "call_id": call["call_id"], "output": "ok" });
        let user = json!({ "role": "user", "content": prompt });
        let next = json!({ "model": "any", "tools": tools, "input": [user, call, output] });
        assert!(served.ask("/openai/v1/responses", &next).await.1.contains("Done."));
    }
}

#[tokio::test]
async fn responses_that_leave_the_history_to_the_server() {
    let script = Some(Arc::new(Script::parse(SCRIPT).unwrap()));
    let gateway = Gateway::new(Options { script, ..Options::default() }).unwrap();
    let served = serve_open(&gateway, NoCredentials, &["stored_context"]);
    let tools = json!([{ "type": "function", "name": "bash", "parameters": { "properties": { "command": {} } } }]);
    let ask = async |previous: Option<&str>, input: Value| {
        let request = json!({ "model": "any", "tools": tools, "previous_response_id": previous, "input": input });
        serde_json::from_str::<Value>(&served.ask("/openai/v1/responses", &request).await.1).unwrap()
    };
    let first = ask(None, json!("a greeting")).await;
    let output = json!([{ "type": "function_call_output", "call_id": "call_1_1_1", "output": "exit code 0" }]);
    let second = ask(first["id"].as_str(), output).await;
    assert!(second["output"][0]["arguments"].as_str().unwrap().contains("src/x.txt"), "{second}");
    let third = ask(second["id"].as_str(), json!("go on")).await;
    assert_eq!(third["output"][0]["content"][0]["text"], "All done.");
}

#[tokio::test]
async fn results_between_the_calls_of_one_answer() {
    let served = serve_script(SCRIPT);
    let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "bash", "arguments": "{}" });
    let result = |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": "exit code 0" });
    let mut request = Format::Responses.request(false, &[User("a greeting")]);
    request["input"].as_array_mut().unwrap().extend([
        json!({ "type": "reasoning", "summary": [] }),
        call("call_1_1_1"),
        result("call_1_1_1"),
        call("call_1_1_2"),
        result("call_1_1_2"),
    ]);
    let answer = served.ask("/openai/v1/responses", &request).await.1;
    assert!(answer.contains("src/x.txt"), "{answer}");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_in_every_format() {
    let served = serve_script(SCRIPT);
    let mut seen = Vec::new();
    for format in FORMATS {
        let (status, body) = served.ask(format.path(true), &format.request(true, &[User("something else")])).await;
        let error = &serde_json::from_str::<Value>(&body).unwrap()["error"];
        let message = error["message"].as_str().or(error.as_str()).unwrap().to_owned();
        seen.push(format!("{format:?} {} {message}", status.as_u16()));
        let (status, _) = served.ask(format.path(true), &json!({})).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{format:?}");
    }
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn lists_of_models_and_counts_in_every_format() {
    let served = serve_script(SCRIPT);
    let mut seen = Vec::new();
    for path in [
        "/anthropic/v1/models/any",
        "/openai/v1/models/any",
        "/gemini/v1beta/models",
        "/gemini/v1beta/models/any",
        "/ollama/api/tags",
        "/ollama/v1/models",
    ] {
        seen.push(format!("{path}\n{}", text(served.send(get(path)).await).await));
    }
    let counted = served.ask("/gemini/v1beta/models/any:countTokens", &json!({ "contents": [] })).await.1;
    seen.push(format!("countTokens\n{counted}"));
    seen.push(format!("show\n{}", served.ask("/ollama/api/show", &json!({ "model": "any" })).await.1));
    insta::assert_snapshot!(seen.join("\n"));
    assert_eq!(served.books.settled().await, []);
}
