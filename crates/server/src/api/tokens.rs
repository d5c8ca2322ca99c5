//! Tokens for programs. A token is shown once, when it is made.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_core::{Code, Role, Timestamp, TokenId};
use harvest_store::{AccessToken, TokenKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::page::Page;
use crate::auth::{Mint, Principal};
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

const LONGEST_NAME: usize = 200;
const MOST_PROJECTS: usize = 100;
const LONGEST_LIFE: u64 = 10 * 365;

#[derive(Debug, Serialize, ToSchema)]
pub struct Token {
    id: TokenId,
    name: String,
    user: String,
    role: Role,
    /// Nothing outside of these projects; absent: everything.
    projects: Option<Vec<String>>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct NewToken {
    #[serde(flatten)]
    token: Token,
    /// The token itself. It is shown this once.
    #[serde(rename = "token")]
    #[schema(example = "hv_0123456789abcdefghjkmnpqrstvwxyz0123456789abcdefghjk")]
    secret: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AskToken {
    /// What it is for.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    role: Role,
    /// Whom it stands for; else whoever makes it.
    #[schema(min_length = 1, max_length = 200)]
    user: Option<String>,
    #[schema(max_items = 100)]
    projects: Option<Vec<String>>,
    /// After so many days it opens nothing any more; left out: never.
    #[schema(minimum = 1, maximum = 3650)]
    expires_in_days: Option<u64>,
}

impl From<AccessToken> for Token {
    fn from(token: AccessToken) -> Self {
        let AccessToken { id, name, user, role, projects, created_at, expires_at, revoked_at, last_used_at, .. } =
            token;
        Self { id, name, user, role, projects, created_at, expires_at, revoked_at, last_used_at }
    }
}

/// Make a token
#[utoipa::path(
    post, path = "/api/tokens", tag = "tokens", operation_id = "token.create", request_body = AskToken,
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 201, body = NewToken), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Body(ask): Body<AskToken>,
) -> Result<(StatusCode, Json<NewToken>), Problem> {
    let named = |field: &str, text: &str| {
        let fits = !text.trim().is_empty() && text.len() <= LONGEST_NAME && !text.contains(char::is_control);
        let detail = format!("it is empty, longer than {LONGEST_NAME} bytes, or has control characters");
        if fits { Ok(()) } else { Err(Problem::bad(field, detail)) }
    };
    named("name", &ask.name)?;
    let user = ask.user.unwrap_or(principal.user);
    named("user", &user)?;
    if let Some(projects) = &ask.projects {
        if projects.len() > MOST_PROJECTS {
            return Err(Problem::bad("projects", format!("a token is for at most {MOST_PROJECTS} projects")));
        }
        for project in projects {
            named("projects", project)?;
        }
    }
    if ask.expires_in_days.is_some_and(|days| !(1..=LONGEST_LIFE).contains(&days)) {
        return Err(Problem::bad("expires_in_days", format!("a token lives between 1 and {LONGEST_LIFE} days")));
    }
    let life = ask.expires_in_days.map(|days| std::time::Duration::from_secs(days * 24 * 60 * 60));
    let mint = Mint { kind: TokenKind::Api, name: ask.name, user, role: ask.role, projects: ask.projects, life };
    let made = mint.make(app.clock.as_ref(), app.entropy.as_ref());
    let (token, secret) = made.map_err(|error| Problem::internal(&error))?;
    app.store.add_token(token.clone()).await?;
    Ok((StatusCode::CREATED, Json(NewToken { token: token.into(), secret: secret.reveal().to_owned() })))
}

/// List tokens, newest first
#[utoipa::path(
    get, path = "/api/tokens", tag = "tokens", operation_id = "token.list",
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 200, body = Page<Token>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(State(app): State<App>) -> Result<Page<Token>, Problem> {
    let tokens = app.store.tokens(TokenKind::Api).await?;
    Ok(Page::whole(tokens.into_iter().map(Token::from).collect()))
}

/// Revoke a token: it opens nothing from now on
#[utoipa::path(
    delete, path = "/api/tokens/{id}", tag = "tokens", operation_id = "token.revoke", params(("id" = TokenId, Path)),
    security(("token" = ["admin", "everywhere"]), ("cookie" = ["admin", "everywhere"])),
    responses((status = 204, description = "Revoked"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn revoke(State(app): State<App>, Id(id): Id<TokenId>) -> Result<StatusCode, Problem> {
    let revoked = app.store.revoke_token(&id, app.clock.now()).await?;
    app.doorman.forget();
    if revoked {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::new(Code::UnknownToken, format!("there is no token {id} that opens anything"))
        .help("see GET /api/tokens"))
}
