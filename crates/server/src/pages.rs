//! The page that people open, built from `web/` and part of this program.
//!
//! Files below `/assets/` have a hash of their content in their names and may be kept for ever. Whatever else a browser opens
//! is the page itself, which then finds its own way; nothing below `/api` ever is.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use harvest_core::Code;

use crate::problem::Problem;

struct File {
    path: &'static str,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
}

static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

const HASHED: &str = "/assets/";
const INDEX: &str = "/index.html";
const NOT_BUILT: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Harvest</title>\
<h1>The page was not built</h1>\
<p>This program was made without Node.js, so it has the API and no page.</p>\
<p>To have both: install Node.js 20.19 or newer, then run <code>make build</code> in a clone of Harvest.</p>\
<p>Meanwhile: <a href=/api/docs>the API</a>, and <code>harvest task list</code> in a terminal.</p>";

/// Whatever no operation is for.
pub async fn serve(request: Request) -> Response {
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads || path == "/api" || path.starts_with("/api/") {
        return nothing(path).into_response();
    }
    let file = FILES.iter().find(|file| file.path == path);
    match file {
        Some(file) => answer(file, request.headers()),
        None if path.starts_with(HASHED) => nothing(path).into_response(),
        None if path == "/" || wants_page(request.headers()) => {
            by_accept(match FILES.iter().find(|file| file.path == INDEX) {
                Some(index) => answer(index, request.headers()),
                None => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], NOT_BUILT).into_response(),
            })
        }
        None => by_accept(nothing(path).into_response()),
    }
}

/// The page itself, for a person who opens an address that programs read too; `None` when it was not built.
pub fn index(headers: &HeaderMap) -> Option<Response> {
    let file = FILES.iter().find(|file| file.path == INDEX).filter(|_| wants_page(headers))?;
    Some(answer(file, headers))
}

/// Says to caches that the answer depends on `Accept`.
pub fn by_accept(mut response: Response) -> Response {
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// A person who opens a used link is told so by the page; a program gets the problem.
pub async fn tell_people(request: Request, next: Next) -> Response {
    let person = wants_page(request.headers());
    let response = next.run(request).await;
    if person && response.status() == StatusCode::UNAUTHORIZED {
        return by_accept(Redirect::to("/?link=used").into_response());
    }
    by_accept(response)
}

fn nothing(path: &str) -> Problem {
    let detail = format!("there is nothing at {}", path.escape_debug());
    Problem::new(Code::UnknownAddress, detail).help("see /api/docs")
}

fn answer(file: &File, headers: &HeaderMap) -> Response {
    let packed = file.gzip.filter(|_| takes_gzip(headers));
    let mut response = packed.unwrap_or(file.plain).into_response();
    let kept = if file.path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(file.path)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    if file.gzip.is_some() {
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if packed.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Browsers say so when someone opens an address; programs and scripts do not.
pub fn wants_page(headers: &HeaderMap) -> bool {
    values(headers, header::ACCEPT).any(|kind| name(kind).eq_ignore_ascii_case("text/html"))
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    values(headers, header::ACCEPT_ENCODING).any(|coding| {
        let refused = coding.split(';').skip(1).any(|weight| matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00"));
        name(coding).eq_ignore_ascii_case("gzip") && !refused
    })
}

fn values(headers: &HeaderMap, of: header::HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(of).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|line| line.split(','))
}

fn name(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("webmanifest") => "application/manifest+json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, accept: &str) -> Request {
        Request::builder().uri(path).header("accept", accept).body(axum::body::Body::empty()).unwrap()
    }

    const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

    fn varies_by_accept(response: &Response) -> bool {
        response.headers().get_all(header::VARY).iter().any(|value| value == "accept")
    }

    #[tokio::test]
    async fn people_get_the_page_and_programs_get_a_problem() {
        for path in ["/", "/tasks/k3d9", "/sessions/x?tab=changes"] {
            let page = serve(get(path, BROWSER)).await;
            assert_eq!(
                (page.status(), &page.headers()["content-type"]),
                (StatusCode::OK, &HeaderValue::from_static("text/html; charset=utf-8")),
                "{path}"
            );
            assert!(varies_by_accept(&page), "{path}: {:?}", page.headers());
        }
        assert!(varies_by_accept(&serve(get("/tasks/k3d9", "*/*")).await));
        for (path, accept) in
            [("/tasks/k3d9", "*/*"), ("/api", BROWSER), ("/api/nothing", BROWSER), ("/assets/gone.js", BROWSER)]
        {
            assert_eq!(serve(get(path, accept)).await.status(), StatusCode::NOT_FOUND, "{path}");
        }
        let mut post = get("/tasks", BROWSER);
        *post.method_mut() = Method::POST;
        assert_eq!(serve(post).await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn what_has_a_hash_is_kept_and_what_is_packed_says_so() {
        let file = File { path: "/assets/index-a1.js", plain: b"plain", gzip: Some(b"packed") };
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip;q=0.8"));
        let packed = answer(&file, &headers);
        assert_eq!(packed.headers()["content-encoding"], "gzip");
        assert_eq!(packed.headers()["cache-control"], "public, max-age=31536000, immutable");
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip;q=0"));
        let plain = answer(&file, &headers);
        assert!(!plain.headers().contains_key("content-encoding"));
        assert_eq!(plain.headers()["vary"], "accept-encoding");
        let index = answer(&File { path: INDEX, plain: b"", gzip: None }, &headers);
        assert_eq!(index.headers()["cache-control"], "no-cache");
    }
}
