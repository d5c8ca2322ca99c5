//! The document that describes the API, made from the code it describes.

use axum::Router;
use axum::extract::RawQuery;
use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder};

use crate::api;
use crate::pages;
use crate::reference;
use crate::state::App;

const DESCRIPTION: &str = "\
The HTTP API of Harvest. Send a token as `Authorization: Bearer hv_…`; `harvest token create` creates one.

The role that an operation needs is the first word of its security requirement: `viewer`, `member` or `admin`. If \
`everywhere` is listed next to it, the token must not be limited to projects. Resources that a token has no access to are \
reported as missing, with 404.

Lists are `{items, next_cursor}`. Every error is `application/problem+json` with a `code` that `harvest explain` explains. \
A POST with an `Idempotency-Key` is executed once, no matter how often it is sent within a day.";

/// The document as it is served and committed.
pub fn document() -> OpenApi {
    api::router().1
}

/// What the operations are put into.
pub fn frame() -> OpenApi {
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("`hv_…`")).build();
    let cookie = ApiKeyValue::with_description(
        "harvest",
        "Set at sign-in; valid only together with the header `X-Harvest-CSRF`, whose value only the page knows",
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
    let page = serde_json::to_value(document).map(|document| reference::html(&document)).unwrap_or_default();
    Router::new()
        .route(
            "/api/openapi.json",
            get(async move || ([(header::CONTENT_TYPE, "application/json")], json.clone()).into_response()),
        )
        .route(
            "/api/docs",
            get(async move |RawQuery(query): RawQuery, headers: HeaderMap| {
                let plain = || Html(page.clone()).into_response();
                let response = match query.as_deref() {
                    Some("plain") => plain(),
                    _ => pages::index(&headers).unwrap_or_else(plain),
                };
                pages::by_accept(response)
            }),
        )
}
