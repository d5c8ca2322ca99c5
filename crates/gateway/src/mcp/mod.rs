//! MCP servers that an agent may use and must not hold the keys of, at `/mcp/{name}`.
//!
//! The agent speaks streamable HTTP to the gateway. A server with an address is called with the credential added; a program
//! with a credential runs elsewhere and is spoken to on its standard input and output. In both cases only allowed tools are
//! listed and called, and every call of a tool is told to the session's [`Recorder`].

mod events;
mod message;
mod program;
mod remote;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use harvest_core::{McpOutcome, McpServer};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio_util::task::TaskTracker;

pub use self::program::Program;

use self::message::Message;
use self::program::Hosted;
use crate::answer::{self, Body};
use crate::model::Clients;
use crate::service::Context;

/// One message, either way.
const MAX_MESSAGE: usize = 16 << 20;
const RECEIVE_LIMIT: Duration = Duration::from_secs(60);
/// How long a tool may take.
const CALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// What one session may use.
#[derive(Debug, Clone)]
pub struct Access {
    pub servers: Vec<Server>,
    pub recorder: Arc<dyn Recorder>,
}

#[derive(Debug, Clone)]
pub struct Server {
    pub definition: McpServer,
    /// How to run it, where it is a program; one with an address needs none.
    pub program: Option<Arc<dyn Program>>,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    pub server: String,
    pub tool: String,
    pub outcome: McpOutcome,
    pub took: Duration,
}

/// Is told which tools a session calls.
#[async_trait]
pub trait Recorder: Send + Sync + Debug {
    async fn called(&self, call: Called);
}

impl Access {
    pub fn none() -> Self {
        #[derive(Debug)]
        struct Nobody;
        #[async_trait]
        impl Recorder for Nobody {
            async fn called(&self, _call: Called) {}
        }
        Self { servers: Vec::new(), recorder: Arc::new(Nobody) }
    }

    fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.definition.name == name)
    }
}

/// The programs of one session, each started when it is first wanted.
#[derive(Debug, Default)]
pub(crate) struct Programs(HashMap<String, Hosted>);

impl Programs {
    pub(crate) fn of(access: &Access, tasks: &TaskTracker) -> Self {
        let hosted = access.servers.iter().filter_map(|server| {
            let program = Arc::clone(server.program.as_ref()?);
            Some((server.definition.name.clone(), Hosted::new(program, tasks.clone())))
        });
        Self(hosted.collect())
    }
}

/// The name in a path, if it is one of these.
pub(crate) fn of_path(path: &str) -> Option<&str> {
    path.strip_prefix("/mcp/").filter(|name| !name.is_empty() && !name.contains('/'))
}

/// A call under way, told when it has an answer, or when it is clear that there will be none.
#[derive(Debug)]
struct Calling<'a> {
    recorder: &'a Arc<dyn Recorder>,
    server: &'a str,
    tool: Option<&'a str>,
    begun: Instant,
}

impl Calling<'_> {
    async fn ended(&self, outcome: McpOutcome) {
        const LONGEST: usize = 200;
        let Some(tool) = self.tool else { return };
        let tool = tool.chars().take(LONGEST).collect();
        let call = Called { server: self.server.to_owned(), tool, outcome, took: self.begun.elapsed() };
        self.recorder.called(call).await;
    }
}

pub(crate) async fn handle(
    name: &str,
    request: Request<Incoming>,
    clients: &Clients,
    context: &Context,
) -> Response<Body> {
    let access = &context.mcp;
    let Some(server) = access.server(name) else {
        let names: Vec<&str> = access.servers.iter().map(|server| server.definition.name.as_str()).collect();
        let there =
            if names.is_empty() { "there is none".to_owned() } else { format!("there is {}", names.join(", ")) };
        return answer::text(StatusCode::NOT_FOUND, format!("this session has no MCP server of that name: {there}"));
    };
    let (head, body) = request.into_parts();
    match (&head.method, context.programs.0.get(name)) {
        (&Method::POST, hosted) => {
            let body = match receive(body).await {
                Ok(body) => body,
                Err(refused) => return refused,
            };
            let message = match Message::parse(&body) {
                Ok(message) => message,
                Err(reason) => return answer::text(StatusCode::BAD_REQUEST, reason),
            };
            let begun = Instant::now();
            let calling = Calling { recorder: &access.recorder, server: name, tool: message.tool(), begun };
            if let Some(tool) = message.tool()
                && !server.definition.allows(tool)
            {
                calling.ended(McpOutcome::Refused).await;
                let reason = format!("the tool {tool} of {name} is not allowed here");
                return answer::json(StatusCode::OK, &message.refusal(message::NOT_ALLOWED, &reason));
            }
            match hosted {
                Some(hosted) => hosted.answer(&message, &server.definition, calling).await,
                None => remote::post(server, &head, &message, clients, context).await,
            }
        }
        // Nothing comes from a program unasked; clients are told so in the protocol's own way.
        (&Method::GET, Some(_)) => not_allowed("POST, DELETE"),
        (&Method::DELETE, Some(_)) => answer::text(StatusCode::OK, "the server keeps running until the session ends"),
        (&Method::GET | &Method::DELETE, None) => remote::pass(server, &head, clients, context).await,
        _ => not_allowed("POST, GET, DELETE"),
    }
}

fn not_allowed(methods: &'static str) -> Response<Body> {
    let mut response = answer::text(StatusCode::METHOD_NOT_ALLOWED, format!("send one of {methods}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

async fn receive(body: Incoming) -> Result<Bytes, Response<Body>> {
    match tokio::time::timeout(RECEIVE_LIMIT, Limited::new(body, MAX_MESSAGE).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(_)) => {
            let reason = format!("the message is cut off, or larger than {} MiB", MAX_MESSAGE >> 20);
            Err(answer::text(StatusCode::PAYLOAD_TOO_LARGE, reason))
        }
        Err(_) => Err(answer::text(StatusCode::REQUEST_TIMEOUT, "the message did not arrive in time")),
    }
}
