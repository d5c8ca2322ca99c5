//! Tokens for programs. A token is shown once, when it is made.

use std::collections::HashSet;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{AskToken, NewToken, Page, Token};
use harvest_core::{Code, Role, TokenId, belongs_to_github};
use harvest_store::{AccessToken, TokenKind};

use super::page::PageAnswer;
use crate::auth::{Mint, Principal};
use crate::extract::{Body, Id, check_name};
use crate::problem::Problem;
use crate::state::App;

const MOST_PROJECTS: usize = 100;
const LONGEST_LIFE: u64 = 10 * 365;

/// A token as the API shows it.
pub fn describe_token(token: AccessToken) -> Token {
    let AccessToken { id, name, user, role, projects, created_at, expires_at, revoked_at, last_used_at, .. } = token;
    Token { id, name, user, role, projects, created_at, expires_at, revoked_at, last_used_at }
}

/// Create a token
///
/// An admin of the installation can create any token. A signed-in user can create one for themselves, with at most
/// their own permissions, for the whole installation or for some of their projects; it loses permissions when they do.
/// A token created with another token ends when that one expires or is revoked.
#[utoipa::path(
    post, path = "/api/tokens", tag = "tokens", operation_id = "token.create", request_body = AskToken,
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = NewToken), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Body(ask): Body<AskToken>,
) -> Result<(StatusCode, Json<NewToken>), Problem> {
    check_name("name", &ask.name)?;
    let user = ask.user.clone().unwrap_or_else(|| principal.user.clone());
    check_name("user", &user)?;
    if ask.user.is_some() && belongs_to_github(&user) {
        let detail = "names that begin with `github:` or end in `[bot]` are reserved for people and programs on GitHub";
        return Err(Problem::bad("user", detail));
    }
    if let Some(projects) = &ask.projects {
        if projects.len() > MOST_PROJECTS {
            return Err(Problem::bad("projects", format!("a token is for at most {MOST_PROJECTS} projects")));
        }
        for project in projects {
            check_name("projects", project)?;
        }
    }
    if ask.expires_in_days.is_some_and(|days| !(1..=LONGEST_LIFE).contains(&days)) {
        return Err(Problem::bad("expires_in_days", format!("a token is valid for 1 to {LONGEST_LIFE} days")));
    }
    let life = ask.expires_in_days.map(|days| std::time::Duration::from_secs(days * 24 * 60 * 60));
    let is_own = principal.is_person() && user == principal.user;
    let (kind, projects) = match principal.role_everywhere() {
        Some(Role::Admin) if !is_own && !principal.is_personal_token() => (TokenKind::Api, ask.projects),
        _ => (TokenKind::Personal, own_projects(&app, &principal, &user, ask.role, ask.projects)?),
    };
    let mint = Mint { kind, name: ask.name, user, role: ask.role, projects, life };
    let made = mint.make(app.clock.as_ref(), app.entropy.as_ref());
    let (mut token, secret) = made.map_err(|error| Problem::internal(&error))?;
    if let Some(maker) = principal.counted_token() {
        // What a token makes ends with it: by the clock, and when it is revoked.
        token.expires_at = token.expires_at.into_iter().chain(principal.expires_at).min();
        token.made_by = Some(maker);
    }
    app.store.add_token(token.clone()).await?;
    app.doorman.expect(token.digest.clone());
    Ok((StatusCode::CREATED, Json(NewToken { token: describe_token(token), secret: secret.reveal().to_owned() })))
}

/// The projects of a token that someone makes for themselves, none of which gives it more than they have; `None`: wherever
/// they may. A token of theirs makes no tokens: one that leaked would outlive its revocation in those.
fn own_projects(
    app: &App,
    principal: &Principal,
    user: &str,
    role: Role,
    asked: Option<Vec<String>>,
) -> Result<Option<Vec<String>>, Problem> {
    if !principal.is_person() {
        let detail = "tokens can be created by an admin of the installation, or by a signed-in person for themselves";
        return Err(Problem::new(Code::NotAllowed, detail).help("sign in by name, or ask an admin"));
    }
    if user != principal.user {
        let detail = "only an admin of the installation can create tokens for others";
        return Err(Problem::new(Code::NotAllowed, detail).about("user").help("leave it out, or ask an admin"));
    }
    // Membership, and what they may everywhere, is what it is held to later, whenever it is used.
    let (memberships, everywhere) = (app.desk.memberships(user), principal.role_everywhere());
    if asked.is_none() && everywhere >= Some(role) {
        return Ok(None);
    }
    let enough = |name: &String| memberships.get(name).copied().max(everywhere) >= Some(role);
    let projects = asked.unwrap_or_else(|| memberships.keys().filter(|name| enough(name)).cloned().collect());
    match projects.iter().find(|name| !enough(name)) {
        None if !projects.is_empty() => Ok(Some(projects)),
        Some(name) => {
            let detail = format!("you do not have the role {role} in the project `{}`", name.escape_debug());
            Err(Problem::new(Code::NotAllowed, detail).about("projects").help("ask for less, or leave the project out"))
        }
        None => {
            let detail = format!("you have the role {role} neither everywhere nor in a project");
            Err(Problem::new(Code::NotAllowed, detail).about("role").help("ask for less"))
        }
    }
}

/// List tokens, newest first: an admin of the installation sees all, others see their own
///
/// A token that is limited to projects sees itself and the tokens created with it.
#[utoipa::path(
    get, path = "/api/tokens", tag = "tokens", operation_id = "token.list",
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Page<Token>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
) -> Result<PageAnswer<Token>, Problem> {
    Ok(PageAnswer::whole(visible(&app, &principal).await?.into_iter().map(describe_token).collect()))
}

async fn visible(app: &App, principal: &Principal) -> Result<Vec<AccessToken>, Problem> {
    let mut tokens = app.store.tokens(TokenKind::Personal).await?;
    tokens.extend(app.store.tokens(TokenKind::Api).await?);
    if principal.role_everywhere() < Some(Role::Admin) {
        tokens.retain(|token| token.user == principal.user);
    }
    if principal.is_confined() {
        // One that leaked is no list of what else its user has, and ends nothing but itself.
        let made = made_with(&tokens, &principal.token);
        tokens.retain(|token| made.contains(&token.id));
    }
    tokens.sort_by_key(|token| std::cmp::Reverse(token.created_at));
    Ok(tokens)
}

/// A token and those that were made with it, or with one of these.
fn made_with(tokens: &[AccessToken], first: &TokenId) -> HashSet<TokenId> {
    let mut made = HashSet::from([first.clone()]);
    loop {
        let is_new = |token: &&AccessToken| {
            !made.contains(&token.id) && token.made_by.as_ref().is_some_and(|by| made.contains(by))
        };
        let new: Vec<TokenId> = tokens.iter().filter(is_new).map(|token| token.id.clone()).collect();
        if new.is_empty() {
            return made;
        }
        made.extend(new);
    }
}

/// Revoke a token; only an admin of the installation may revoke those of others
///
/// A token that is limited to projects may revoke itself and the tokens created with it.
#[utoipa::path(
    delete, path = "/api/tokens/{id}", tag = "tokens", operation_id = "token.revoke", params(("id" = TokenId, Path)),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 204, description = "Revoked"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn revoke(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<TokenId>,
) -> Result<StatusCode, Problem> {
    let known = principal.role_everywhere() == Some(Role::Admin)
        || visible(&app, &principal).await?.iter().any(|token| token.id == id);
    let revoked = known && app.store.revoke_token(&id, app.clock.now()).await?;
    app.doorman.forget();
    if revoked {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::new(Code::UnknownToken, format!("there is no valid token {id}")).help("see GET /api/tokens"))
}
