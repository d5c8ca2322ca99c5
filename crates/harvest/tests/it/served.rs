//! A server to talk to: the real `harvest serve` on a port of its own, and a client that knows nothing of its insides.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::{Method, Request};

use crate::support::{PATIENCE, Running, World};

pub struct Server {
    pub running: Running,
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    pub link: String,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The answer of a request that must succeed.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }

    /// A problem with this status and code, complete.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!((&problem["status"], &problem["type"]), (&json!(status), &json!(format!("urn:harvest:{code}"))));
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        problem
    }
}

impl World {
    pub fn serve(&self, args: &[&str]) -> Server {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--json"];
        all.extend(args);
        Server::started(self.harvest(&all).start())
    }

    /// With agents whose model is played.
    pub fn serve_with(&self, replies: &Value, args: &[&str]) -> Server {
        let script = self.script(replies);
        let mut all = vec!["--model-script", script.to_str().unwrap()];
        all.extend(args);
        self.serve(&all)
    }

    /// Of an admin, who may name any repository, unless another role is given.
    pub fn token(&self, args: &[&str]) -> String {
        let mut all = vec!["token", "create"];
        if !args.contains(&"--role") {
            all.extend(["--role", "admin"]);
        }
        all.extend(args);
        let token = self.json(&all)["token"].as_str().unwrap().to_owned();
        self.give(&token);
        token
    }

    /// What to ask for to have the sample repository mended.
    pub fn ask(&self, prompt: &str) -> Value {
        json!({ "prompt": prompt, "repository": self.repo() })
    }
}

impl Server {
    pub fn started(mut running: Running) -> Self {
        let listening = running.wait_for_type("listening");
        let text = |name: &str| listening[name].as_str().unwrap_or_default().to_owned();
        Self { running, url: format!("http://{}", text("address")), link: text("link") }
    }

    pub fn host(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub fn with(&self, token: &str) -> Client {
        Client { url: self.url.clone(), headers: vec![("authorization".to_owned(), format!("Bearer {token}"))] }
    }

    pub fn anyone(&self) -> Client {
        Client::at(&self.url)
    }

    /// Bytes as they are, and whatever comes back until the other end closes.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Someone who asks.
#[derive(Clone)]
pub struct Client {
    url: String,
    headers: Vec<(String, String)>,
}

impl Client {
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), headers: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body))
    }

    pub fn head(&self, path: &str) -> Answer {
        // An answer without a body keeps its status; what it was is asked for when it is a problem.
        let answer = self.send(Method::HEAD, path, None);
        if answer.status < 400 { answer } else { self.get(path) }
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None)
    }

    pub fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(body.map(Value::to_string).unwrap_or_default()).unwrap();
        let mut response = agent().run(request).unwrap();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
        let headers = headers.collect();
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().unwrap();
        crate::planted::assert_absent(path, &text);
        Answer { status, headers, text }
    }

    /// Server-sent events from a path.
    pub fn stream(&self, path: &str) -> Stream {
        let mut request = Request::builder().uri(format!("{}{path}", self.url)).header("accept", "text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = agent().run(request.body(()).unwrap()).unwrap();
        assert_eq!(response.status().as_u16(), 200, "{response:?}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream { lines: BufReader::new(Box::new(response.into_body().into_reader())) }
    }

    /// The journal of a session until its task has ended.
    #[track_caller]
    pub fn journal(&self, session: &str, after: u64) -> Vec<Value> {
        self.stream(&format!("/api/sessions/{session}/events?after={after}")).until("task.finished")
    }

    /// Asks for a task and waits for its end.
    #[track_caller]
    pub fn worked_off(&self, ask: &Value) -> Value {
        let task = self.post("/api/tasks", ask).ok();
        self.journal(task["sessions"][0]["id"].as_str().unwrap(), 0);
        self.get(&format!("/api/tasks/{}", task["id"].as_str().unwrap())).ok()
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .allow_non_standard_methods(true)
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_global(Some(PATIENCE))
        .build()
        .into()
}

pub struct Stream {
    lines: BufReader<Box<dyn Read + Send>>,
}

/// One server-sent event.
#[derive(Debug, Clone, Default)]
pub struct Told {
    pub id: Option<u64>,
    pub event: String,
    pub data: String,
}

impl Stream {
    /// The next event; `None` at the end.
    pub fn next(&mut self) -> Option<Told> {
        let mut told = Told::default();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line.is_empty() && !told.data.is_empty() {
                return Some(told);
            }
            match line.split_once(": ") {
                Some(("id", id)) => told.id = Some(id.parse().unwrap()),
                Some(("event", event)) => told.event = event.to_owned(),
                Some(("data", data)) => told.data = data.to_owned(),
                _ => {}
            }
        }
    }

    /// Everything up to and with the first event of this type.
    #[track_caller]
    pub fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(told) = self.next() {
            let event: Value = serde_json::from_str(&told.data).unwrap();
            if let Some(id) = told.id {
                assert_eq!((event["seq"].as_u64(), event["type"].as_str()), (Some(id), Some(told.event.as_str())));
            }
            let end = told.event == kind;
            events.push(event);
            if end {
                return events;
            }
        }
        panic!("the stream ended before {kind}: {events:#?}");
    }
}
