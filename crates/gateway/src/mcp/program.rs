//! Servers that are programs: one of each runs for a session, whoever of its clients asks, and ends with it.
//!
//! Every request gets a number of its own on the way in, and its answer the client's number again. Nothing that the program says
//! unasked reaches a client, and what it asks for is refused: it is there to offer tools.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use harvest_core::{McpOutcome, McpServer};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::message::{self, Message, without_forbidden_tools};
use super::{CALL_LIMIT, Calling, MAX_MESSAGE};
use crate::answer::{self, Body};

/// Lines that wait to be read, either way.
const QUEUE: usize = 64;
/// A program may have to be fetched before it can answer for the first time.
const GREETING_LIMIT: Duration = Duration::from_secs(180);
const QUESTION_LIMIT: Duration = Duration::from_secs(60);

/// How a server is run. Whoever implements it decides where.
#[async_trait]
pub trait Program: Send + Sync + Debug {
    /// Runs the server until `input` is closed or it ends by itself, and leaves nothing of it behind. Lines go in with their
    /// newline and come out without. What is returned says why it ended or could not begin.
    async fn run(&self, input: mpsc::Receiver<String>, output: mpsc::Sender<Vec<u8>>) -> String;
}

pub(super) fn no_credential(name: &str) -> String {
    format!("there is no credential `{name}` for it: harvest credential add mcp --name {name}")
}

/// A program, running or not.
#[derive(Debug)]
pub(super) struct Hosted {
    program: Arc<dyn Program>,
    tasks: TaskTracker,
    running: tokio::sync::Mutex<Option<Arc<Running>>>,
}

#[derive(Debug)]
struct Running {
    input: mpsc::Sender<String>,
    waiting: Arc<Waiting>,
    /// What it said when it was greeted first.
    welcome: tokio::sync::Mutex<Option<Value>>,
}

/// Who waits for which answer.
#[derive(Debug, Default)]
struct Waiting {
    last: Mutex<u64>,
    clients: Mutex<HashMap<u64, (Value, oneshot::Sender<Value>)>>,
    /// Why there will be no more answers.
    ended: Mutex<Option<String>>,
}

/// Nobody waits any more when it is dropped.
struct Place<'a> {
    waiting: &'a Waiting,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.waiting.clients).remove(&self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    fn enter(&self, client: &Value) -> (Place<'_>, oneshot::Receiver<Value>) {
        let number = {
            let mut last = lock(&self.last);
            *last += 1;
            *last
        };
        let (answer, answered) = oneshot::channel();
        lock(&self.clients).insert(number, (client.clone(), answer));
        (Place { waiting: self, number }, answered)
    }

    /// The number under which a client's request is known to the program.
    fn number_of(&self, client: &Value) -> Option<u64> {
        lock(&self.clients).iter().filter(|(_, (known, _))| known == client).map(|(number, _)| *number).max()
    }

    fn end(&self, reason: String) {
        lock(&self.ended).get_or_insert(reason);
        lock(&self.clients).clear();
    }

    fn reason(&self) -> Option<String> {
        lock(&self.ended).clone()
    }
}

impl Hosted {
    pub(super) fn new(program: Arc<dyn Program>, tasks: TaskTracker) -> Self {
        Self { program, tasks, running: tokio::sync::Mutex::default() }
    }

    pub(super) async fn answer(&self, message: &Message, server: &McpServer, calling: Calling<'_>) -> Response<Body> {
        let running = self.running(message.method() == Some("initialize")).await;
        let Some(id) = message.id() else {
            running.tell(message).await;
            return answer::with_type(StatusCode::ACCEPTED, "application/json", answer::full(""));
        };
        match running.ask(message, id).await {
            Ok(mut value) => {
                calling.ended(message::outcome(&value)).await;
                without_forbidden_tools(&mut value, server);
                answer::json(StatusCode::OK, &value)
            }
            Err(reason) => {
                calling.ended(McpOutcome::Failed).await;
                let reason = format!("{}: {reason}", server.name);
                answer::json(StatusCode::OK, &message.refusal(message::SERVER_ERROR, &reason))
            }
        }
    }

    /// The program, started if need be. One that has ended is started again for a client that begins anew.
    async fn running(&self, begins: bool) -> Arc<Running> {
        let mut running = self.running.lock().await;
        match running.as_ref() {
            Some(known) if !begins || known.waiting.reason().is_none() => Arc::clone(known),
            _ => Arc::clone(running.insert(Arc::new(self.start()))),
        }
    }

    fn start(&self) -> Running {
        let (input, lines_in) = mpsc::channel(QUEUE);
        let (lines_out, output) = mpsc::channel(QUEUE);
        let waiting = Arc::new(Waiting::default());
        let (program, ended) = (Arc::clone(&self.program), Arc::clone(&waiting));
        self.tasks.spawn(async move {
            let reason = program.run(lines_in, lines_out).await;
            ended.end(reason);
        });
        // Weak: the program ends when nobody can ask it any more.
        self.tasks.spawn(read(output, input.downgrade(), Arc::clone(&waiting)));
        Running { input, waiting, welcome: tokio::sync::Mutex::default() }
    }
}

impl Running {
    async fn ask(&self, message: &Message, id: &Value) -> Result<Value, String> {
        if message.method() != Some("initialize") {
            let limit = if message.tool().is_some() { CALL_LIMIT } else { QUESTION_LIMIT };
            return self.exchange(message, id, None, limit).await;
        }
        // It is greeted once; whoever comes later hears the same.
        let mut welcome = self.welcome.lock().await;
        if let Some(known) = welcome.as_ref() {
            let mut answer = known.clone();
            answer["id"] = id.clone();
            return Ok(answer);
        }
        let mut params = message.params().cloned().unwrap_or_default();
        // What it asks of clients is refused, so it is told that there is nothing to ask for.
        params.insert("capabilities".to_owned(), json!({}));
        let answer = self.exchange(message, id, Some(params.into()), GREETING_LIMIT).await?;
        if answer.get("result").is_some() {
            *welcome = Some(answer.clone());
        }
        Ok(answer)
    }

    async fn exchange(
        &self,
        message: &Message,
        id: &Value,
        params: Option<Value>,
        limit: Duration,
    ) -> Result<Value, String> {
        let (place, answered) = self.waiting.enter(id);
        let line = message.line(Some(place.number), params);
        let exchange = async {
            let ended = || self.waiting.reason().unwrap_or_else(|| "it ended".to_owned());
            self.input.send(line).await.map_err(|_| ended())?;
            let mut answer = answered.await.map_err(|_| ended())?;
            answer["id"] = id.clone();
            Ok(answer)
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("it did not answer in {} s", limit.as_secs())),
        }
    }

    /// A notification. One that concerns a request names it by the program's number.
    async fn tell(&self, message: &Message) {
        let params = match (message.method(), message.params()) {
            (Some("notifications/cancelled"), Some(params)) => {
                let known = params.get("requestId").and_then(|id| self.waiting.number_of(id));
                let Some(number) = known else { return };
                let mut params = params.clone();
                params.insert("requestId".to_owned(), number.into());
                Some(Value::Object(params))
            }
            (Some(_), _) => None,
            // An answer to something that the program never got to ask.
            (None, _) => return,
        };
        let _ = tokio::time::timeout(QUESTION_LIMIT, self.input.send(message.line(None, params))).await;
    }
}

/// Hands each answer to whoever waits for it.
async fn read(mut output: mpsc::Receiver<Vec<u8>>, input: mpsc::WeakSender<String>, waiting: Arc<Waiting>) {
    while let Some(line) = output.recv().await {
        if line.len() > MAX_MESSAGE {
            continue;
        }
        // What is no message is noise; some programs print a greeting.
        let Ok(Value::Object(mut message)) = serde_json::from_slice(&line) else { continue };
        match (message.get("method").and_then(Value::as_str).map(str::to_owned), message.remove("id")) {
            (None, Some(id)) => {
                let waited = id.as_u64().and_then(|number| lock(&waiting.clients).remove(&number));
                if let Some((_, client)) = waited {
                    let _ = client.send(Value::Object(message));
                }
            }
            (Some(method), Some(id)) => {
                let answer = if method == "ping" {
                    json!({ "jsonrpc": "2.0", "id": id, "result": {} })
                } else {
                    let error = json!({ "code": message::NO_METHOD, "message": format!("there is no {method} here") });
                    json!({ "jsonrpc": "2.0", "id": id, "error": error })
                };
                // One that asks without reading answers is not waited for.
                if let Some(input) = input.upgrade() {
                    let _ = input.try_send(format!("{answer}\n"));
                }
            }
            _ => {}
        }
    }
}
