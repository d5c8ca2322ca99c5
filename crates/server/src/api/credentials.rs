//! Keys and tokens for the models. A secret goes in and never comes out.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use harvest_api_types::{ListedCredential, ModelProvider, NewCredential, NewSecret, Page};
use harvest_core::{Code, Credential, CredentialId, Role, Scope, may_name_hosts};

use super::page::PageAnswer;
use crate::auth::Principal;
use crate::extract::{Body, Id};
use crate::problem::Problem;
use crate::state::App;

/// What the installation has with GitHub, and what people's sign-in leaves.
const ACCOUNTS: [&str; 2] = ["github", "github-sign-in"];

/// Whether someone may know of a credential, keep it, replace and remove it. Everyone's repositories and sign-in depend on the
/// accounts on GitHub; and a token that is confined to projects reaches nothing of the person whom it stands for.
fn has(principal: &Principal, provider: &str, scope: &Scope) -> bool {
    match scope {
        _ if ACCOUNTS.contains(&provider) => principal.role_everywhere() == Some(Role::Admin),
        Scope::User(name) if *name == principal.user => !principal.is_confined(),
        Scope::Project(name) => principal.role_in(name) == Some(Role::Admin),
        _ => principal.role_everywhere() == Some(Role::Admin),
    }
}

/// List credentials with their last characters and last use
#[utoipa::path(
    get, path = "/api/credentials", tag = "credentials", operation_id = "credential.list",
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 200, body = Page<ListedCredential>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn list(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
) -> Result<PageAnswer<ListedCredential>, Problem> {
    let all = app.store.credentials().await?.into_iter().map(|record| record.credential);
    let seen: Vec<Credential> = all.filter(|one| has(&principal, &one.provider, &one.scope)).collect();
    let usable = if seen.is_empty() { BTreeSet::new() } else { app.desk.usable_credentials().await? };
    let listed = seen.into_iter().map(|credential| {
        let usable = usable.contains(&credential.id);
        ListedCredential { credential, usable }
    });
    Ok(PageAnswer::whole(listed.collect()))
}

/// Add a credential; the secret is stored encrypted
#[utoipa::path(
    post, path = "/api/credentials", tag = "credentials", operation_id = "credential.create", request_body = NewCredential,
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 201, body = Credential), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn create(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Body(new): Body<NewCredential>,
) -> Result<(StatusCode, Json<Credential>), Problem> {
    // The account on GitHub is the one of the user that runs the server.
    let owner = if new.provider == ModelProvider::Github { app.desk.owner() } else { principal.user.clone() };
    let scope = new.scope.clone().unwrap_or(Scope::User(owner));
    if new.provider == ModelProvider::Github && principal.role_everywhere() != Some(Role::Admin) {
        let detail =
            "the account on GitHub is used for everyone's repositories: only an admin of the installation can add it";
        return Err(Problem::new(Code::NotAllowed, detail).about("provider").help("ask one"));
    }
    if new.provider == ModelProvider::Github && scope != Scope::User(app.desk.owner()) {
        return Err(Problem::bad("scope", "the account on GitHub belongs to the server's own user; leave it out"));
    }
    if !has(&principal, new.provider.as_str(), &scope) {
        let (detail, help) = if principal.is_confined() && scope == Scope::User(principal.user.clone()) {
            (
                "a token limited to projects cannot use a person's credentials".to_owned(),
                "name a project: `project:NAME`",
            )
        } else {
            (format!("credentials of {scope} are for admins"), "leave it out to keep your own")
        };
        return Err(Problem::new(Code::NotAllowed, detail).about("scope").help(help));
    }
    // Whoever names a host has the server speak to it.
    if new.base_url.is_some() && !may_name_hosts(principal.role_everywhere()) {
        let detail = "only an admin of the whole installation decides which hosts the server connects to";
        return Err(Problem::new(Code::NotAllowed, detail).about("base_url").help("ask one"));
    }
    check_secret(&principal, &new.secret)?;
    let kept = app.desk.add_credential(new, scope).await?;
    Ok((StatusCode::CREATED, Json(kept)))
}

/// Replace the secret of a credential
#[utoipa::path(
    put, path = "/api/credentials/{id}/secret", tag = "credentials", operation_id = "credential.rotate", request_body = NewSecret, params(("id" = CredentialId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 200, body = Credential), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn rotate(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<CredentialId>,
    Body(new): Body<NewSecret>,
) -> Result<Json<Credential>, Problem> {
    let credential = find(&app, &principal, &id).await?;
    check_secret(&principal, &new.secret)?;
    Ok(Json(app.desk.rotate_credential(credential, new.secret).await?))
}

/// Remove a credential from Harvest; revoke it with its vendor, too
#[utoipa::path(
    delete, path = "/api/credentials/{id}", tag = "credentials", operation_id = "credential.remove", params(("id" = CredentialId, Path)),
    security(("token" = ["member"]), ("cookie" = ["member"])),
    responses((status = 204, description = "Removed"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn remove(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Id(id): Id<CredentialId>,
) -> Result<StatusCode, Problem> {
    find(&app, &principal, &id).await?;
    if app.store.remove_credential(&id).await? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

/// Longer than any key that a vendor makes.
const MOST_SECRET_BYTES: usize = 4096;

/// A secret is taken out of everyone's texts and commands. A member's may therefore be no word that others could mean; and
/// searching for it takes memory, so it is not arbitrarily long.
fn check_secret(principal: &Principal, secret: &str) -> Result<(), Problem> {
    if principal.role_everywhere() == Some(Role::Admin) {
        return Ok(());
    }
    if secret.len() > MOST_SECRET_BYTES {
        let detail = format!("it is longer than {MOST_SECRET_BYTES} bytes");
        let problem = Problem::new(Code::BadSecret, detail).about("secret");
        return Err(
            problem.help("copy the key from the vendor again; an admin of the installation can add longer ones")
        );
    }
    if harvest_engine::could_hide_words(secret) {
        let detail = "it does not look like a key: a secret is hidden wherever it appears, also in other people's work";
        let problem = Problem::new(Code::BadSecret, detail).about("secret");
        return Err(problem.help("copy the key from the vendor again; an admin of the installation can add any"));
    }
    Ok(())
}

async fn find(app: &App, principal: &Principal, id: &CredentialId) -> Result<Credential, Problem> {
    let mut all = app.store.credentials().await?.into_iter().map(|record| record.credential);
    all.find(|one| one.id == *id && has(principal, &one.provider, &one.scope)).ok_or_else(unknown)
}

fn unknown() -> Problem {
    Problem::new(Code::UnknownCredential, "there is no such credential").help("see GET /api/credentials")
}
