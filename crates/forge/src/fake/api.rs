//! What is asked becomes an answer: one list of everything that this GitHub can do.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::access::Caller;
use super::{Exchange, Shared};

const MOST_BODY: usize = 512 << 20;

/// An answer before it is sent.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Option<Value>,
    pub(super) location: Option<String>,
}

impl Reply {
    pub(super) fn ok(body: Value) -> Self {
        Self { status: 200, body: Some(body), location: None }
    }

    pub(super) fn created(body: Value) -> Self {
        Self { status: 201, body: Some(body), location: None }
    }

    pub(super) fn nothing(status: u16) -> Self {
        Self { status, body: None, location: None }
    }

    pub(super) fn refused(status: u16, message: &str) -> Self {
        let body = json!({ "message": message, "documentation_url": "https://docs.github.com/rest", "status": status.to_string() });
        Self { status, body: Some(body), location: None }
    }

    pub(super) fn not_found() -> Self {
        Self::refused(404, "Not Found")
    }

    pub(super) fn invalid(message: &str) -> Self {
        let errors = json!([{ "resource": "PullRequest", "code": "custom", "message": message }]);
        let body = json!({ "message": "Validation Failed", "errors": errors, "documentation_url": "https://docs.github.com/rest" });
        Self { status: 422, body: Some(body), location: None }
    }
}

/// One request to the API.
pub(super) struct Asked<'a> {
    pub(super) shared: &'a Shared,
    pub(super) caller: &'a Caller,
    pub(super) repository: String,
    pub(super) query: &'a str,
    pub(super) body: &'a Value,
}

impl Asked<'_> {
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.body[name].as_str().map(str::to_owned)
    }

    pub(super) fn names(&self, name: &str) -> Vec<String> {
        let items = self.body[name].as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }

    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let pair = self.query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
        Some(decoded(pair.1))
    }
}

pub(super) async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MOST_BODY).await else {
        return sent(Reply::refused(413, "too large"), Vec::new());
    };
    let fails = {
        let mut world = shared.world();
        let left = world.outage;
        world.outage = left.saturating_sub(1);
        left > 0
    };
    if fails {
        return sent(Reply::refused(503, "Service Unavailable"), Vec::new());
    }
    let caller = Caller::find(&shared, &parts.headers);
    let Some(path) = parts.uri.path().strip_prefix("/api/v3") else {
        if let Some(page) = shared.page(&parts.method, parts.uri.path()) {
            return page;
        }
        return match parts.uri.path().strip_prefix("/logs/").and_then(|id| id.parse().ok()) {
            Some(id) => shared.log(id),
            None => shared.serve_git(&caller, &parts.method, &parts.uri, &parts.headers, &body).await,
        };
    };
    let refusal = shared.world().refusals.pop_front();
    if let Some((status, headers)) = refusal {
        return sent(Reply::refused(status, "You have exceeded a secondary rate limit"), headers);
    }
    let parsed: Option<Value> = serde_json::from_slice(&body).ok();
    if parsed.is_none() && !body.is_empty() {
        return sent(Reply::refused(400, "Problems parsing JSON"), Vec::new());
    }
    let (query, method) = (parts.uri.query().unwrap_or_default(), parts.method.as_str());
    let value = parsed.clone().unwrap_or(Value::Null);
    let mut reply = dispatch(&shared, &caller, method, path, query, &value).await;
    shared.world().exchanges.push(Exchange {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        request: parsed,
        status: reply.status,
        answer: reply.body.clone(),
    });
    if method != "GET" {
        shared.save();
    }
    shared.exchanged.send_modify(|count| *count += 1);
    let is_lost = {
        let mut world = shared.world();
        let found = world.lost_answers.iter().position(|(of, end)| of == method && path.ends_with(end));
        found.map(|index| world.lost_answers.remove(index)).is_some()
    };
    if is_lost {
        return sent(Reply::refused(504, "Gateway Timeout"), Vec::new());
    }
    // What has not changed is not sent again.
    let mut headers = Vec::new();
    if method == "GET" && reply.status == 200 {
        let digest =
            ring::digest::digest(&ring::digest::SHA256, reply.body.clone().unwrap_or_default().to_string().as_bytes());
        let tag =
            format!("\"{}\"", digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>());
        if parts.headers.get(header::IF_NONE_MATCH).and_then(|shown| shown.to_str().ok()) == Some(&tag) {
            reply = Reply::nothing(304);
        }
        headers.push(("etag".to_owned(), tag));
    }
    sent(reply, headers)
}

async fn dispatch(shared: &Shared, caller: &Caller, method: &str, path: &str, query: &str, body: &Value) -> Reply {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    if let ("POST", ["app-manifests", code, "conversions"]) = (method, parts.as_slice()) {
        return shared.convert(code);
    }
    if matches!(caller, Caller::Nobody) {
        return Reply::refused(401, "Bad credentials");
    }
    let repository = match parts.as_slice() {
        ["repos", owner, name, ..] => format!("{owner}/{name}"),
        ["app", "installations", id, "access_tokens"] if method == "POST" => {
            return shared.make_token(caller, number(id), body);
        }
        ["user"] if method == "GET" => return shared.user(caller),
        _ => return Reply::not_found(),
    };
    if !shared.world().repositories.contains_key(&repository) {
        return Reply::not_found();
    }
    let asked = Asked { shared, caller, repository, query, body };
    let may = |permissions: &[(&str, &str)]| caller.may(&shared.world(), &asked.repository, permissions);
    let refused = || Reply::refused(403, "Resource not accessible by integration");
    let (issues, pulls) = ([("issues", "write"), ("pull_requests", "write")], [("pull_requests", "write")]);
    match (method, &parts[3..]) {
        ("GET", ["installation"]) if matches!(caller, Caller::App) => asked.installation(),
        ("GET", []) if may(&[("metadata", "read")]) => asked.about(),
        ("PUT", ["collaborators", login]) if may(&[("administration", "write")]) => asked.add_writer(login),
        ("GET", ["collaborators", login, "permission"]) if may(&[("metadata", "read")]) => asked.permission(login),
        ("POST", ["issues"]) if may(&issues) => asked.open_issue(),
        ("GET", ["issues", id]) if may(&[("issues", "read"), ("pull_requests", "read")]) => asked.issue(number(id)),
        ("PATCH", ["issues", id]) if may(&issues) => asked.edit_issue(number(id)),
        ("POST", ["issues", id, "labels"]) if may(&issues) => asked.label(number(id)),
        ("POST", ["issues", id, "assignees"]) if may(&issues) => asked.assign(number(id)),
        ("GET", ["issues", id, "comments"]) if may(&[("issues", "read"), ("pull_requests", "read")]) => {
            asked.comments(number(id))
        }
        ("POST", ["issues", id, "comments"]) if may(&issues) => asked.comment(number(id)),
        ("PATCH", ["issues", "comments", id]) if may(&issues) => asked.edit_comment(number(id)),
        ("GET", ["pulls"]) if may(&[("pull_requests", "read")]) => asked.pulls().await,
        // Whoever can read can propose.
        ("POST", ["pulls"]) if may(&pulls) || matches!(caller, Caller::Person(_)) => asked.open_pull().await,
        ("GET", ["pulls", id]) if may(&[("pull_requests", "read")]) => asked.pull(number(id)).await,
        ("PATCH", ["pulls", id]) if may(&pulls) => asked.edit_pull(number(id)).await,
        ("PUT", ["pulls", id, "merge"]) if may(&[("contents", "write")]) => asked.merge(number(id)).await,
        ("POST", ["pulls", id, "requested_reviewers"]) if may(&pulls) => asked.ask_reviewers(number(id)),
        ("POST", ["pulls", id, "reviews"]) if may(&pulls) || may(&[("issues", "write")]) => {
            asked.review(number(id)).await
        }
        ("GET", ["pulls", id, "reviews"]) if may(&[("pull_requests", "read")]) => asked.reviews(number(id)),
        ("GET", ["pulls", id, "reviews", review, "comments"]) if may(&[("pull_requests", "read")]) => {
            asked.remarks(number(id), number(review))
        }
        ("POST", ["check-runs"]) if may(&[("checks", "write")]) => asked.add_check().await,
        ("GET", ["commits", commit, "check-runs"]) if may(&[("checks", "read")]) => asked.checks(commit),
        ("GET", ["actions", "jobs", id, "logs"]) if may(&[("actions", "read")]) => {
            Reply { status: 302, body: None, location: Some(format!("{}/logs/{}", shared.web, number(id))) }
        }
        _ if caller_is_short(&asked) => refused(),
        _ => Reply::not_found(),
    }
}

/// An installation whose token lacks a permission is told so.
fn caller_is_short(asked: &Asked<'_>) -> bool {
    matches!(asked.caller, Caller::Installation(_))
}

fn sent(reply: Reply, headers: Vec<(String, String)>) -> Response<Body> {
    let body = reply.body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    let location = reply.location.map(|url| ("location".to_owned(), url));
    for (name, value) in headers.into_iter().chain(location) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match (first, hex.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
