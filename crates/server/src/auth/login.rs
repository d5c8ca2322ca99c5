//! Signing in by a link that opens once, and signing out.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use harvest_api_types::SignInWays;
use harvest_core::Code;
use harvest_store::{AccessToken, NewAudit, Record, TokenKind, recorded};
use serde::Deserialize;
use serde_json::json;

use super::secret::Secret;
use super::{Cookie, Mint, Principal, Way, secret};
use crate::problem::Problem;
use crate::state::App;

/// How long a browser stays signed in.
const STAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug, Deserialize)]
pub struct Link {
    code: String,
}

/// `GET /login?code=…`: the code is used up, and the browser gets its cookie.
pub async fn login(State(app): State<App>, Query(link): Query<Link>) -> Result<Response, Problem> {
    let now = app.clock.now();
    let used = app.store.redeem_token(&secret::digest(&link.code), now).await?;
    let used = used.filter(|token| token.kind == TokenKind::Link && token.expires_at.is_none_or(|end| end > now));
    let Some(link) = used else {
        let detail = "this link was used before, has expired, or never was one";
        return Err(Problem::new(Code::NotSignedIn, detail).help("ask for a new one: harvest token link"));
    };
    let AccessToken { name, user, role, projects, .. } = link;
    let login = Mint { kind: TokenKind::Login, name, user, role, projects, life: Some(STAY) };
    welcome(&app, login, "link").await
}

/// `GET /auth/ways`: where a browser that is not signed in can go; nothing that a stranger may not know.
pub async fn ways(State(app): State<App>) -> Response {
    let github = app.sign_in.is_some().then(|| "/auth/github".to_owned());
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(SignInWays { github })).into_response()
}

/// The browser gets a cookie of its own, and its page the other half of the secret behind `#`, which no browser sends
/// anywhere. The audit log says with what someone came in.
pub async fn welcome(app: &App, login: Mint, with: &str) -> Result<Response, Problem> {
    let seconds = login.life.and_then(|life| i64::try_from(life.as_secs()).ok()).unwrap_or(i64::MAX);
    let made = login.make(app.clock.as_ref(), app.entropy.as_ref());
    let (mut login, cookie) = made.map_err(|error| Problem::internal(&error))?;
    let proof = Secret::generate("").map_err(|error| Problem::internal(&error))?;
    login.digest = secret::digest(&secret::session(cookie.reveal(), proof.reveal()));
    let entry = NewAudit {
        at: app.clock.now(),
        actor: format!("user:{}", login.user),
        action: "session.login".to_owned(),
        target: format!("login:{}", login.id),
        project: None,
        detail: json!({ "role": login.role, "everywhere": login.projects.is_none(), "with": with }),
    };
    let digest = login.digest.clone();
    recorded(Record { audit: entry, answer: None }, app.store.add_token(login)).await.0?;
    app.doorman.expect(digest);
    let home = Redirect::to(&format!("/#proof={}", proof.reveal()));
    Ok(signed(&app.cookie, cookie.reveal(), seconds, home.into_response()))
}

/// Sign out: the cookie becomes invalid
#[utoipa::path(
    post, path = "/api/logout", tag = "me", operation_id = "session.logout", security(("cookie" = ["viewer"])),
    responses((status = 204, description = "Signed out"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn logout(State(app): State<App>, Extension(principal): Extension<Principal>) -> Result<Response, Problem> {
    if principal.way == Way::Token {
        let detail = "a token is not signed in; it is valid until it is revoked";
        return Err(Problem::bad("Authorization", detail).help("revoke it: DELETE /api/tokens/{id}"));
    }
    app.store.revoke_token(&principal.token, app.clock.now()).await?;
    app.doorman.forget();
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Some(gone) = app.cookie.remove() {
        response.headers_mut().insert(header::SET_COOKIE, gone);
    }
    Ok(response)
}

/// The answer, with the cookie that signs its browser in.
pub fn signed(cookie: &Cookie, secret: &str, seconds: i64, mut response: Response) -> Response {
    let headers: &mut HeaderMap = response.headers_mut();
    if let Some(value) = cookie.set(secret, seconds) {
        headers.insert(header::SET_COOKIE, value);
    }
    response
}
