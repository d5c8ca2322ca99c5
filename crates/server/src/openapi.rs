//! The document that describes the API, made from the code it describes.

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder};

use crate::api;
use crate::pages;
use crate::state::App;

const DESCRIPTION: &str = "\
Everything that Harvest does, over HTTP. Send a token as `Authorization: Bearer hv_…`; `harvest token create` makes one.

The role that an operation takes is the first word of its security requirement: `viewer`, `member` or `admin`. Where \
`everywhere` stands beside it, the token must not be confined to projects. What a token may not see does not exist for it.

Lists are `{items, next_cursor}`. Every problem is `application/problem+json` with a `code` that `harvest explain` explains. \
A POST with an `Idempotency-Key` is carried out once, however often it is sent within a day.";

/// The document as it is served and committed.
pub fn document() -> OpenApi {
    api::router().1
}

/// What the operations are put into.
pub fn frame() -> OpenApi {
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("`hv_…`")).build();
    let cookie = ApiKeyValue::with_description(
        "harvest",
        "Set by the one-time link; it opens nothing without `X-Harvest-CSRF`, which only the page knows",
    );
    let schemes = ComponentsBuilder::new()
        .security_scheme("token", SecurityScheme::Http(token))
        .security_scheme("cookie", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)))
        .build();
    let info = InfoBuilder::new()
        .title("Harvest")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(License::new("MIT")))
        .build();
    OpenApiBuilder::new().info(info).components(Some(schemes)).build()
}

/// `/api/openapi.json`, and the same for people.
pub fn routes(document: &OpenApi) -> Router<App> {
    let json = document.to_pretty_json().unwrap_or_default();
    let page = readable(document);
    Router::new()
        .route(
            "/api/openapi.json",
            get(async move || ([(header::CONTENT_TYPE, "application/json")], json.clone()).into_response()),
        )
        .route(
            "/api/docs",
            get(async move |headers: HeaderMap| {
                pages::index(&headers).unwrap_or_else(|| Html(page.clone()).into_response())
            }),
        )
}

/// A plain page for programs without scripts, and for installations without the page: what there is, what it takes, what it answers.
fn readable(document: &OpenApi) -> String {
    let mut page =
        String::from("<!doctype html><html lang=en><meta charset=utf-8><title>Harvest API</title><h1>Harvest API</h1>");
    for paragraph in DESCRIPTION.split("\n\n") {
        page.push_str(&format!("<p>{}</p>", escape(paragraph)));
    }
    page.push_str("<p><a href=/api/openapi.json>openapi.json</a></p>");
    for (path, item) in &document.paths.paths {
        let operations = [
            ("GET", &item.get),
            ("POST", &item.post),
            ("PUT", &item.put),
            ("PATCH", &item.patch),
            ("DELETE", &item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let text = |text: &Option<String>| text.as_deref().map(escape).unwrap_or_default();
            let mut needs = crate::state::words(operation);
            needs.dedup();
            needs.sort();
            needs.dedup();
            page.push_str(&format!(
                "<h2><code>{method} {}</code></h2><p>{}</p>",
                escape(path),
                text(&operation.summary)
            ));
            page.push_str(&format!("<p>{}</p><p>Takes: {}</p><ul>", text(&operation.description), needs.join(", ")));
            for parameter in operation.parameters.iter().flatten() {
                let utoipa::openapi::RefOr::T(parameter) = parameter else { continue };
                let about = text(&parameter.description);
                page.push_str(&format!("<li><code>{}</code> {about}</li>", escape(&parameter.name)));
            }
            page.push_str("</ul>");
        }
    }
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
