//! The operations, a module for each resource, and what stands in front of all of them.

pub mod again;
mod agents;
pub mod ask;
mod audit;
mod comments;
pub mod convoys;
pub mod credentials;
mod demo;
pub mod health;
mod interrupts;
mod me;
mod page;
mod projects;
pub mod queue;
pub mod races;
mod range;
pub mod record;
pub mod repositories;
mod results;
pub mod schedules;
pub mod sessions;
pub mod stats;
pub mod tasks;
pub mod templates;
pub mod tokens;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use harvest_core::Code;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::state::App;
use crate::{auth, events, idempotency, limits, metrics, openapi, pages, telemetry, webhooks};

/// Everything that the document describes.
pub fn router() -> (Router<App>, OpenApi) {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(tasks::create, tasks::list))
        .routes(routes!(tasks::get))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::terminate))
        .routes(routes!(tasks::retry))
        .routes(routes!(interrupts::task))
        .routes(routes!(tasks::approve))
        .routes(routes!(tasks::reject))
        .routes(routes!(tasks::attempts))
        .routes(routes!(results::apply))
        .routes(routes!(results::pull_request))
        .routes(routes!(results::evidence))
        .routes(routes!(results::evidence_key))
        .routes(routes!(races::get))
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::get, sessions::delete))
        .routes(routes!(sessions::stop))
        .routes(routes!(sessions::prompt))
        .routes(routes!(interrupts::session))
        .routes(routes!(interrupts::resume))
        .routes(routes!(sessions::fork))
        .routes(routes!(sessions::messages))
        .routes(routes!(sessions::files))
        .routes(routes!(sessions::diff))
        .routes(routes!(comments::people))
        .routes(routes!(comments::create, comments::list))
        .routes(routes!(comments::remove))
        .routes(routes!(events::events))
        .routes(routes!(events::feed::all))
        .routes(routes!(convoys::list))
        .routes(routes!(convoys::get))
        .routes(routes!(schedules::create, schedules::list))
        .routes(routes!(schedules::remove))
        .routes(routes!(templates::create, templates::list))
        .routes(routes!(templates::remove))
        .routes(routes!(templates::fill))
        .routes(routes!(repositories::create, repositories::list))
        .routes(routes!(repositories::get, repositories::remove))
        .routes(routes!(repositories::build))
        .routes(routes!(repositories::build_log))
        .routes(routes!(repositories::snapshots))
        .routes(routes!(agents::list))
        .routes(routes!(agents::check))
        .routes(routes!(credentials::create, credentials::list))
        .routes(routes!(credentials::rotate))
        .routes(routes!(credentials::remove))
        .routes(routes!(queue::get, queue::change))
        .routes(routes!(queue::set_cap))
        .routes(routes!(projects::create, projects::list))
        .routes(routes!(projects::get, projects::change, projects::remove))
        .routes(routes!(projects::settings::get, projects::settings::put))
        .routes(routes!(projects::members::list))
        .routes(routes!(projects::members::put, projects::members::remove))
        .routes(routes!(stats::get))
        .routes(routes!(stats::pull_requests))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::revoke))
        .routes(routes!(audit::list))
        .routes(routes!(demo::begin))
        .routes(routes!(me::me))
        .routes(routes!(auth::login::logout))
        .routes(routes!(metrics::scrape))
        .split_for_parts()
}

/// The router with its guards, and with what needs none.
pub fn finish(described: Router<App>, app: &App, document: &OpenApi) -> Router {
    let guarded = described
        .route_layer(from_fn_with_state(app.clone(), idempotency::once))
        .route_layer(from_fn_with_state(app.clone(), auth::guard))
        .route_layer(from_fn_with_state(app.clone(), telemetry::trace))
        .route_layer(from_fn_with_state(app.clone(), metrics::measure))
        .route(
            "/login",
            get(auth::login::login)
                .layer(from_fn_with_state(app.clone(), limits::sign_ins))
                .layer(from_fn(pages::tell_people)),
        )
        .route("/auth/ways", get(auth::login::ways))
        .route("/auth/github", get(auth::github::begin).layer(from_fn_with_state(app.clone(), limits::sign_ins)))
        .route(
            "/auth/github/callback",
            get(auth::github::callback).layer(from_fn_with_state(app.clone(), limits::sign_ins)),
        )
        .merge(openapi::routes(document))
        .fallback(pages::serve)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), auth::strict));
    // Asked for by machines, under whatever address they have for this one.
    let open = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/webhooks/github", post(webhooks::github).layer(from_fn_with_state(app.clone(), limits::webhooks)));
    guarded
        .merge(open)
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            tracing::error!("a request made the server panic");
            Problem::new(Code::Internal, "the server failed while handling this request").into_response()
        }))
        .layer(from_fn(headers))
        .with_state(app.clone())
}

async fn not_so(request: Request) -> Problem {
    let detail = format!("{} cannot be used with {}", request.uri().path().escape_debug(), request.method());
    let status = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(Code::UnknownAddress, detail).with_status(status).help("see /api/docs")
}

/// What browsers are told about every answer: nothing from elsewhere, nothing inside of others, nothing guessed.
async fn headers(request: Request, next: Next) -> Response {
    const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                       connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    let api = request.uri().path().starts_with("/api");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if api {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}
