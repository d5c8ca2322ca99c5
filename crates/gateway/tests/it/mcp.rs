//! Tools behind the gateway: the key is added here, only allowed tools are told of and called, and every call is told.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use harvest_core::{McpAddress, McpCredential, McpOutcome, McpServer, NamedBy};
use harvest_gateway::egress::{Network, Resolver};
use harvest_gateway::mcp::{Access, Called, Program, Recorder, Server};
use harvest_gateway::{Credentials, Gateway, Options, ServerTools, Session, Upstream, egress};
use hyper::{Method, Request, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

use crate::support::{Books, Served, answer, get, post, text, upstream};

const KEY: &str = "canary-0123456789";

#[derive(Debug)]
struct Vault;

#[async_trait]
impl Credentials for Vault {
    async fn of(&self, _provider: &str) -> Arc<[Arc<Upstream>]> {
        Arc::new([])
    }

    async fn secret(&self, provider: &str, name: &str, host: NamedBy) -> Option<SecretString> {
        (provider == "mcp" && name == "tracker" && host == NamedBy::Installation).then(|| KEY.to_owned().into())
    }
}

#[derive(Debug, Default)]
struct Calls(Mutex<Vec<(String, McpOutcome)>>);

#[async_trait]
impl Recorder for Calls {
    async fn called(&self, call: Called) {
        self.0.lock().unwrap().push((call.tool, call.outcome));
    }
}

impl Calls {
    fn told(&self) -> Vec<(String, McpOutcome)> {
        self.0.lock().unwrap().clone()
    }
}

fn server(at: McpAddress, credential: Option<(&str, &str)>, tools: &[&str]) -> McpServer {
    McpServer {
        name: "tracker".into(),
        at,
        environment: Default::default(),
        credential: credential.map(|(name, sent_as)| McpCredential { name: name.into(), sent_as: sent_as.into() }),
        tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
        hosts: Vec::new(),
        named_by: NamedBy::Installation,
    }
}

fn at(url: &str) -> McpAddress {
    McpAddress::Url { url: url.to_owned() }
}

fn serve(definition: McpServer, program: Option<Arc<dyn Program>>) -> (Served, Arc<Calls>) {
    serve_on(Network::default(), definition, program)
}

fn serve_on(network: Network, definition: McpServer, program: Option<Arc<dyn Program>>) -> (Served, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    let access = Access { servers: vec![Server { definition, program }], recorder: Arc::<Calls>::clone(&calls) };
    let served = Served::with(|socket| {
        let session = Session {
            id: "session-1".into(),
            meter: Books::new(),
            credentials: Arc::new(Vault),
            git: None,
            egress: egress::Access::none(),
            server_tools: ServerTools::none(),
        };
        let gateway = Gateway::new(Options { network, ..Options::default() }).unwrap();
        gateway.serve_with_tools(UnixListener::bind(socket).unwrap(), session, access)
    });
    (served, calls)
}

fn list(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" })
}

fn call(id: u64, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

async fn ask(served: &Served, message: &Value) -> Value {
    let (status, body) = served.ask("/mcp/tracker", message).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_server_that_repeats_its_key_does_not_show_it() {
    for kind in ["application/json", "text/event-stream"] {
        let (address, _asks) = upstream(move |head| {
            let said = head.headers["authorization"].to_str().unwrap().to_owned();
            let message = json!({ "jsonrpc": "2.0", "id": 7, "result": { "said": said } }).to_string();
            let mut response = match kind {
                "application/json" => answer(kind, message),
                _ => {
                    let cut = message.find(KEY).unwrap() + 4;
                    let pieces = [format!("data: {}", &message[..cut]), format!("{}\n\n", &message[cut..])];
                    let pieces = pieces.map(|piece| Ok::<_, std::io::Error>(bytes::Bytes::from(piece)));
                    answer(kind, axum::body::Body::from_stream(futures_util::stream::iter(pieces)))
                }
            };
            response.headers_mut().insert("mcp-session-id", said.parse().unwrap());
            response
        })
        .await;
        let (served, _) = serve(server(at(&address), Some(("tracker", "authorization")), &["find"]), None);
        let response = served.send(post("/mcp/tracker", call(7, "find").to_string())).await;
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let seen = format!("{session} {}", text(response).await);
        assert!(!seen.contains(KEY) && seen.matches("Bearer [redacted]").count() == 2, "{kind}: {seen}");
    }
}

#[tokio::test]
async fn a_server_that_compresses_its_answer_is_not_passed_on() {
    let (address, mut asks) = upstream(|head| {
        let said = head.headers["authorization"].to_str().unwrap().to_owned();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, said.as_bytes()).unwrap();
        let mut response = answer("application/json", packed.finish().unwrap());
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response
    })
    .await;
    let (served, calls) = serve(server(at(&address), Some(("tracker", "authorization")), &["find"]), None);
    let mut request = post("/mcp/tracker", call(7, "find").to_string());
    request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
    let answered: Value = serde_json::from_str(&text(served.send(request).await).await).unwrap();
    let message = answered["error"]["message"].as_str().unwrap();
    assert!(message.contains("`gzip`") && message.contains("uncompressed"), "{answered}");
    assert_eq!(asks.recv().await.unwrap().0.headers["accept-encoding"], "identity");
    assert_eq!(calls.told(), [("find".into(), McpOutcome::Failed)]);
}

#[tokio::test]
async fn a_server_with_an_address_gets_the_key_and_nothing_of_the_clients() {
    let (address, mut asks) = upstream(|_| {
        let tools = json!([{ "name": "find" }, { "name": "drop" }]);
        let mut response =
            answer("application/json", json!({ "jsonrpc": "2.0", "id": 7, "result": { "tools": tools } }).to_string());
        response.headers_mut().insert("mcp-session-id", "s-1".parse().unwrap());
        response
    })
    .await;
    let (served, calls) =
        serve(server(at(&format!("{address}/mcp?a=b")), Some(("tracker", "authorization")), &["find"]), None);
    let mut request = post("/mcp/tracker", list(7).to_string());
    request.headers_mut().insert("mcp-session-id", "s-0".parse().unwrap());
    request.headers_mut().insert("cookie", "a=b".parse().unwrap());
    let response = served.send(request).await;
    assert_eq!((response.status(), response.headers()["mcp-session-id"].to_str().unwrap()), (StatusCode::OK, "s-1"));
    let listed: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(listed["result"]["tools"], json!([{ "name": "find" }]));
    let (head, body) = asks.recv().await.unwrap();
    assert_eq!(head.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!((head.uri.path(), head.headers["mcp-session-id"].to_str().unwrap()), ("/mcp", "s-0"));
    assert!(!head.headers.contains_key("cookie") && !head.headers.contains_key("x-api-key"));
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), list(7));
    // What is not allowed does not even get there.
    let refused = ask(&served, &call(8, "drop")).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(8), &json!(-32602)), "{refused}");
    assert!(asks.try_recv().is_err());
    ask(&served, &call(7, "find")).await;
    assert_eq!(calls.told(), [("drop".into(), McpOutcome::Refused), ("find".into(), McpOutcome::Answered)]);
    // Several at once could hide one; they are refused as a whole.
    let (status, _) = served.ask("/mcp/tracker", &json!([call(9, "drop")])).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

/// Looks every name up as this machine, which a name server of someone else's can do as well.
#[derive(Debug)]
struct Here;

#[async_trait]
impl Resolver for Here {
    async fn resolve(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
}

#[tokio::test]
async fn a_server_that_a_project_names_reaches_no_address_that_is_not_public() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let by_name = address.replace("127.0.0.1", "tracker.example.com");
    let numbers = address.replace("127.0.0.1", "2130706433");
    for url in [&address, &by_name, &numbers] {
        let definition = McpServer { named_by: NamedBy::Project, ..server(at(url), None, &["find"]) };
        let network = Network { resolver: Arc::new(Here), ..Network::default() };
        let (served, _) = serve_on(network, definition, None);
        let refused = ask(&served, &list(1)).await;
        let said = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains("tracker cannot be reached"), "{url}: {refused}");
        assert!(asks.try_recv().is_err(), "{url} was asked");
    }
    // The same name, where its address may be called.
    let definition = McpServer { named_by: NamedBy::Project, ..server(at(&by_name), None, &["find"]) };
    let network = Network { resolver: Arc::new(Here), check: |_| None };
    let (served, _) = serve_on(network, definition, None);
    ask(&served, &list(1)).await;
    asks.recv().await.unwrap();
}

#[tokio::test]
async fn a_server_that_a_project_names_gets_no_credential_but_the_projects() {
    let (address, mut asks) = upstream(|_| answer("application/json", "{}")).await;
    let credential = Some(("tracker", "authorization"));
    let definition = McpServer { named_by: NamedBy::Project, ..server(at(&address), credential, &["find"]) };
    let network = Network { resolver: Arc::new(Here), check: |_| None };
    let (served, _) = serve_on(network, definition, None);
    // The vault of these tests has the credential of a person.
    let refused = ask(&served, &list(1)).await;
    assert!(refused["error"]["message"].as_str().unwrap_or_default().contains("credential"), "{refused}");
    assert!(asks.try_recv().is_err());
}

#[tokio::test]
async fn a_servers_redirect_is_not_followed_with_the_key() {
    let (address, mut asks) = upstream(|_| {
        let mut response = answer("text/plain", "");
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        response.headers_mut().insert("location", "/elsewhere".parse().unwrap());
        response
    })
    .await;
    let (served, _) = serve(server(at(&address), Some(("tracker", "authorization")), &["find"]), None);
    let _ = served.ask("/mcp/tracker", &list(1)).await;
    asks.recv().await.unwrap();
    assert!(asks.try_recv().is_err());
}

/// What two readers could read differently reaches the server as the gateway has read it.
#[tokio::test]
async fn a_name_given_twice_is_the_one_that_was_judged() {
    let (address, mut asks) =
        upstream(|_| answer("application/json", json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string())).await;
    let (served, calls) = serve(server(at(&address), None, &["find"]), None);
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop","name":"find"}}"#;
    assert_eq!(served.send(post("/mcp/tracker", twice.to_owned())).await.status(), StatusCode::OK);
    let (_, body) = asks.recv().await.unwrap();
    assert!(!String::from_utf8_lossy(&body).contains("drop"));
    assert_eq!(calls.told(), [("find".into(), McpOutcome::Answered)]);
}

#[tokio::test]
async fn a_stream_is_passed_on_event_by_event_without_the_tools_that_are_not_allowed() {
    let (address, _asks) = upstream(|head| {
        if head.method == Method::GET {
            return answer("text/event-stream", "id: 4\ndata: {\"method\":\"notifications/message\"}\n\n");
        }
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
        let tools = json!([{ "name": "find" }, { "name": "drop" }]);
        let listed = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools, "isError": true } });
        answer("text/event-stream", format!("data: {progress}\n\nevent: message\ndata: {listed}\n\n"))
    })
    .await;
    let (served, calls) = serve(server(at(&address), Some(("tracker", "x-key")), &["find"]), None);
    let (_, body) = served.ask("/mcp/tracker", &call(1, "find")).await;
    let expected = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\nevent: message\n\
                    data: {\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{\"isError\":true,\"tools\":[{\"name\":\"find\"}]}}\n\n";
    assert_eq!(body, expected);
    assert_eq!(calls.told(), [("find".into(), McpOutcome::Failed)]);
    assert_eq!(
        text(served.send(get("/mcp/tracker")).await).await,
        "id: 4\ndata: {\"method\":\"notifications/message\"}\n\n"
    );
}

#[tokio::test]
async fn a_list_of_tools_in_any_disguise_does_not_show_those_that_are_not_allowed() {
    let tools = json!([{ "name": "find" }, { "name": "drop" }]);
    let listed = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } });
    let unreadable = listed.to_string().replace("\"id\":1", "\"id\":1,\"_meta\":1e999");
    for (kind, body) in [
        ("application/json", json!([listed]).to_string()),
        ("application/json", unreadable.clone()),
        ("Text/Event-Stream; charset=utf-8", format!("data: {listed}\n\n")),
        ("text/event-stream", format!("data: {}\n\n", json!([listed]))),
        ("text/event-stream", format!("data: {unreadable}\n\n")),
    ] {
        let told = body.clone();
        let (address, _asks) = upstream(move |_| answer(kind, told.clone())).await;
        let (served, _) = serve(server(at(&address), Some(("tracker", "x-key")), &["find"]), None);
        let (status, passed) = served.ask("/mcp/tracker", &list(1)).await;
        assert!(status == StatusCode::OK && !passed.contains("drop"), "{kind} {body}: {passed}");
    }
}

#[tokio::test]
async fn trouble_with_a_server_is_an_answer_the_agent_can_read() {
    let (address, _asks) = upstream(|_| {
        let mut response = answer("text/plain", "who are you?");
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response
    })
    .await;
    let (served, calls) = serve(server(at(&address), Some(("tracker", "x-key")), &["find"]), None);
    let said = |answer: Value| answer["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(said(ask(&served, &call(1, "find")).await), "tracker refused the credential (HTTP 401)");
    let (served, _) = serve(server(at(&address), Some(("other", "x-key")), &["find"]), None);
    let told = said(ask(&served, &call(1, "find")).await);
    assert!(told.contains("harvest credential add mcp --name other"), "{told}");
    let (served, _) = serve(server(at("http://127.0.0.1:1/secret-path"), None, &["find"]), None);
    let told = said(ask(&served, &call(1, "find")).await);
    assert!(told.starts_with("tracker cannot be reached") && !told.contains("secret-path"), "{told}");
    assert_eq!(calls.told(), [("find".into(), McpOutcome::Failed)]);
    let (status, body) = served.ask("/mcp/nobody", &list(1)).await;
    assert!(status == StatusCode::NOT_FOUND && body.contains("tracker"), "{body}");
}

/// Answers with what it was asked; `die` ends it, `ask` makes it ask first.
#[derive(Debug, Default)]
struct Echo {
    started: AtomicU32,
    ended: AtomicBool,
    lines: Mutex<Vec<Value>>,
}

#[async_trait]
impl Program for Echo {
    async fn run(&self, mut input: mpsc::Receiver<String>, output: mpsc::Sender<Vec<u8>>) -> String {
        self.started.fetch_add(1, Ordering::SeqCst);
        let mut waiting = Vec::new();
        output.send(b"Echo 1.0 is ready".to_vec()).await.unwrap();
        while let Some(line) = input.recv().await {
            assert!(line.ends_with('\n'));
            let message: Value = serde_json::from_str(&line).unwrap();
            self.lines.lock().unwrap().push(message.clone());
            let tool = message["params"]["name"].as_str().unwrap_or_default();
            match (message["method"].as_str(), tool) {
                (_, "die") => return "it was told to".into(),
                // Answered in the other order than they were asked.
                (_, "wait") => waiting.push(message["id"].clone()),
                (Some("tools/list"), _) => {
                    let tools = json!([{ "name": "find" }, { "name": "drop" }]);
                    output
                        .send(json!({ "id": message["id"], "result": { "tools": tools } }).to_string().into())
                        .await
                        .unwrap();
                }
                (Some("notifications/initialized") | None, _) => {}
                (_, tool) => {
                    if tool == "ask" {
                        output
                            .send(json!({ "id": 1, "method": "sampling/createMessage" }).to_string().into())
                            .await
                            .unwrap();
                    }
                    let answer = json!({ "id": message["id"], "result": { "said": message["params"] } });
                    output.send(answer.to_string().into()).await.unwrap();
                    for id in waiting.drain(..).rev() {
                        output
                            .send(json!({ "id": id, "result": { "waited": true } }).to_string().into())
                            .await
                            .unwrap();
                    }
                }
            }
        }
        self.ended.store(true, Ordering::SeqCst);
        "nobody asks any more".into()
    }
}

fn echo(tools: &[&str]) -> (Served, Arc<Calls>, Arc<Echo>) {
    let program = Arc::new(Echo::default());
    let at = McpAddress::Program { command: "echo".into(), args: Vec::new() };
    let (served, calls) = serve(server(at, Some(("tracker", "TOKEN")), tools), Some(Arc::<Echo>::clone(&program)));
    (served, calls, program)
}

#[tokio::test]
async fn a_program_is_started_once_greeted_once_and_ends_with_the_session() {
    let (served, calls, program) = echo(&["find", "wait", "ask"]);
    let greeting = |id: &str| {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "sampling": {} } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params })
    };
    let first = ask(&served, &greeting("a")).await;
    assert_eq!((&first["id"], &first["result"]["said"]["capabilities"]), (&json!("a"), &json!({})));
    assert_eq!(ask(&served, &greeting("b")).await["id"], "b");
    assert_eq!(program.lines.lock().unwrap().len(), 1, "the second is told what the first was");
    let (status, _) =
        served.ask("/mcp/tracker", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(ask(&served, &list(1)).await["result"]["tools"], json!([{ "name": "find" }]));
    // Two clients count from one, and one of them is answered first.
    let (slow, quick) = (call(1, "wait"), call(1, "find"));
    let both = async {
        while program.lines.lock().unwrap().iter().all(|line| line["params"]["name"] != "wait") {
            tokio::task::yield_now().await;
        }
        ask(&served, &quick).await
    };
    let (slow, quick) = tokio::join!(ask(&served, &slow), both);
    assert_eq!((&slow["id"], &slow["result"]), (&json!(1), &json!({ "waited": true })));
    assert_eq!(quick["result"]["said"]["name"], "find");
    assert_eq!(ask(&served, &call(2, "ask")).await["result"]["said"]["name"], "ask");
    while program.lines.lock().unwrap().last().unwrap()["error"]["code"] != -32601 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&served, &call(3, "drop")).await["error"]["code"], -32602);
    let names: Vec<String> = calls.told().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["find", "wait", "ask", "drop"]);
    assert_eq!(served.send(get("/mcp/tracker")).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    let done =
        Request::builder().method(Method::DELETE).uri("/mcp/tracker").header("host", "g").body(Default::default());
    assert_eq!(served.send(done.unwrap()).await.status(), StatusCode::OK);
    assert_eq!(program.started.load(Ordering::SeqCst), 1);
    assert!(!program.ended.load(Ordering::SeqCst));
    served.serving.stop().await;
    assert!(program.ended.load(Ordering::SeqCst), "and whoever waits for the session waits for it");
}

#[tokio::test]
async fn a_program_that_dies_says_why_and_is_started_anew_for_whoever_begins_anew() {
    let (served, calls, program) = echo(&["die", "find"]);
    let died = ask(&served, &call(1, "die")).await;
    assert_eq!(died["error"]["message"], "tracker: it was told to");
    assert_eq!(ask(&served, &call(2, "find")).await["error"]["message"], "tracker: it was told to");
    assert_eq!(program.started.load(Ordering::SeqCst), 1);
    ask(&served, &json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {} })).await;
    assert_eq!(ask(&served, &call(4, "find")).await["result"]["said"]["name"], "find");
    assert_eq!(program.started.load(Ordering::SeqCst), 2);
    let outcomes: Vec<McpOutcome> = calls.told().into_iter().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, [McpOutcome::Failed, McpOutcome::Failed, McpOutcome::Answered]);
}
