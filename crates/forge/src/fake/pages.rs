//! Issues and pull requests as plain pages, so that the links which people are given can be opened.

use std::fmt::Write;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Response, header};

use super::Shared;

impl Shared {
    /// `/OWNER/NAME/issues/1`, `/OWNER/NAME/pull/2` and `/OWNER/NAME`; `None` for everything else.
    pub(super) fn page(&self, method: &Method, path: &str) -> Option<Response<Body>> {
        if method != Method::GET {
            return None;
        }
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (owner, name, number) = match parts.as_slice() {
            [owner, name] => (owner, name, None),
            [owner, name, "issues" | "pull", number] => (owner, name, Some(number.parse::<u64>().ok()?)),
            _ => return None,
        };
        let world = self.world();
        let repository = world.repositories.get(&format!("{owner}/{name}"))?;
        let full = escape(&format!("{owner}/{name}"));
        let mut text = format!("<!doctype html><html lang=en><meta charset=utf-8><title>{full}</title>");
        let Some(number) = number else {
            let _ = write!(text, "<h1>{full}</h1><ul>");
            for thread in repository.threads.values() {
                let kind = if thread.pull.is_some() { "pull" } else { "issues" };
                let (number, title) = (thread.number, escape(&thread.title));
                let _ = write!(text, "<li><a href=\"/{full}/{kind}/{number}\">#{number} {title}</a></li>");
            }
            text.push_str("</ul>");
            return Some(html(text));
        };
        let thread = repository.threads.get(&number)?;
        let state = match &thread.pull {
            Some(pull) if pull.merged.is_some() => "merged",
            Some(pull) if thread.open && pull.draft => "draft",
            _ if thread.open => "open",
            _ => "closed",
        };
        let _ = write!(text, "<p><a href=\"/{full}\">{full}</a></p><h1>#{number} {}</h1>", escape(&thread.title));
        let _ = write!(text, "<p>{state}, by {}", escape(&thread.author));
        if let Some(pull) = &thread.pull {
            let _ = write!(text, ", <code>{}</code> into <code>{}</code>", escape(&pull.head), escape(&pull.base));
        }
        if !thread.labels.is_empty() {
            let _ = write!(text, ", labels: {}", escape(&thread.labels.join(", ")));
        }
        let _ = write!(text, "</p><pre>{}</pre>", escape(&thread.body));
        for comment in repository.comments.iter().filter(|comment| comment.thread == number) {
            let _ = write!(text, "<h2>{}</h2><pre>{}</pre>", escape(&comment.author), escape(&comment.body));
        }
        Some(html(text))
    }
}

fn html(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    for (name, value) in
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, "default-src 'none'")]
    {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
