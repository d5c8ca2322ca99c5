//! Who asks, and what they may do.
//!
//! Every request to `/api` comes through [`guard`]. It finds out who asks, refuses what may come from another page, and holds
//! the request against its rates and the role that the document of the API names for it. So an operation that the document does not have
//! cannot be reached, and one that it has is open to whom it says.

mod cookie;
pub mod github;
pub mod login;
mod mint;
mod origin;
pub mod passes;
mod principal;
pub mod secret;

pub use cookie::Cookie;
pub use mint::Mint;
pub use origin::{Origins, origin_of, strict};
pub use passes::{Pass, Passes, Shows};
pub use principal::{Principal, Way};

use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::Code;
use harvest_store::{AccessToken, TokenKind};

use crate::problem::Problem;
use crate::state::App;

/// What API tokens begin with, so that scanners and people recognise them.
pub const TOKEN_PREFIX: &str = "hv_";
/// The header in which our own page shows its half of the session's secret.
pub const CSRF_HEADER: &str = "x-harvest-csrf";

/// What a person finds and ends a stolen token or session with. These take from the rate of the asking token alone: a thief who
/// uses up what the person may ask for, with another token, keeps nobody from them.
const END_TOKENS: &[&str] = &["me.get", "session.logout", "token.list", "token.revoke"];

/// In front of every operation of the API.
pub async fn guard(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let principal = authenticate(&app, &parts).await?;
    let mut request = Request::from_parts(parts, body);
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let allowed = app.rules.check(request.method(), path.as_deref().unwrap_or_default(), &principal);
    let teams = app.engine.tenancy().teams_of(&principal.user);
    // What is refused takes from the rate of the token alone.
    let is_shared = allowed.as_ref().is_ok_and(|rule| !END_TOKENS.contains(&rule.operation.as_str()));
    let teams = is_shared.then_some(teams.as_slice());
    let operation = allowed.as_ref().map_or("", |rule| rule.operation.as_str());
    let standing = app.pace.take(app.store.as_ref(), &principal, teams, request.method(), operation).await?;
    let principal = principal.needing(allowed?.role);
    request.extensions_mut().insert(principal);
    let mut response = next.run(request).await;
    standing.describe(response.headers_mut());
    Ok(response)
}

/// A token in the header counts before a cookie, so that a program in a browser is not mistaken for the person.
async fn authenticate(app: &App, request: &Parts) -> Result<Principal, Problem> {
    let (method, headers) = (&request.method, &request.headers);
    let nobody = || {
        Problem::new(Code::NotSignedIn, "there is no valid token or cookie")
            .help("send `Authorization: Bearer hv_…`; make one with `harvest token create`")
    };
    let proof = proof(request);
    let (secret, way) = match bearer(headers) {
        Some(token) => (token.to_owned(), Way::Token),
        None => {
            let cookie = app.cookie.find(headers).ok_or_else(nobody)?;
            (secret::session(&cookie, proof.as_deref().unwrap_or_default()), Way::Cookie)
        }
    };
    let unproved = || {
        let detail = "the request has a cookie but lacks the proof that this page sent it";
        let help = "sign in again; the page sends its proof as X-Harvest-CSRF. Programs use a token";
        Problem::new(Code::Forged, detail).about("X-Harvest-CSRF").help(help)
    };
    let refuse = || if way == Way::Cookie && !is_safe(method) { unproved() } else { nobody() };
    let token = app.doorman.find(&secret).await?.filter(|token| opens(token, way)).ok_or_else(refuse)?;
    let now = app.clock.now();
    if token.revoked_at.is_some() || token.expires_at.is_some_and(|end| end <= now) {
        return Err(nobody());
    }
    if matches!(token.kind, TokenKind::Person | TokenKind::Personal) {
        // It opens as long as GitHub says that its person belongs, and nobody could ask here.
        let Some(sign_in) = app.sign_in.as_ref().filter(|sign_in| sign_in.concerns(&token.user)) else {
            let detail =
                "people do not sign in with that GitHub on this server, so it cannot tell whether you still belong";
            let help = "ask an admin for a token, or to set [sign_in] in harvest.toml as it was when you signed in";
            return Err(Problem::new(Code::NotSignedIn, detail).help(help));
        };
        sign_in.check_again(app, &token);
    }
    app.doorman.note_use(&token, now);
    Ok(Principal::new(app, &token, way, proof.filter(|_| way == Way::Cookie)))
}

/// What our own page holds beside the cookie. Streams cannot send headers from a browser, and name it in their address;
/// nothing that changes anything is believed that way.
fn proof(request: &Parts) -> Option<String> {
    if let Some(shown) = request.headers.get(CSRF_HEADER) {
        return shown.to_str().ok().map(str::to_owned);
    }
    let query = request.uri.query().filter(|_| is_safe(&request.method))?;
    query.split('&').find_map(|pair| pair.strip_prefix("proof=")).map(str::to_owned)
}

fn opens(token: &AccessToken, way: Way) -> bool {
    match way {
        Way::Token => matches!(token.kind, TokenKind::Api | TokenKind::Personal),
        Way::Cookie => matches!(token.kind, TokenKind::Login | TokenKind::Person),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether a method changes nothing.
pub fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
