//! `harvest token …`: who may use the API of this data directory.

use std::time::Duration;

use harvest_core::{Code, Timestamp};
use harvest_server::Mint;
use harvest_store::{AccessToken, TokenKind, describe};
use serde_json::{Value, json};

use crate::cli::{Global, Token, TokenCreate};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::view::{Style, clean};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub async fn token(global: &Global, environment: Environment, command: Token) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    match command {
        Token::Create(options) => create(global, &installation, style, options).await,
        Token::List => list(global, &installation, style).await,
        Token::Revoke { id } => revoke(global, &installation, style, &id).await,
        Token::Link { url } => link(global, &installation, &url).await,
    }
}

async fn create(
    global: &Global,
    installation: &Installation,
    style: Style,
    options: TokenCreate,
) -> Result<Exit, Failure> {
    for (option, text) in [("--name", Some(&options.name)), ("--user", options.user.as_ref())] {
        if text.is_some_and(|text| text.trim().is_empty() || text.contains(char::is_control)) {
            let message = format!("{option} is empty or has control characters");
            return Err(Failure::refused(Code::BadOption, message, "use a short plain name"));
        }
    }
    let mint = Mint {
        kind: TokenKind::Api,
        name: options.name,
        user: options.user.unwrap_or_else(|| installation.environment.user()),
        role: options.role,
        projects: Some(options.project).filter(|projects| !projects.is_empty()),
        life: options.expires_in_days.map(|days| DAY * u32::try_from(days).unwrap_or(u32::MAX)),
    };
    let (token, secret) = mint.make(installation.clock.as_ref(), installation.entropy.as_ref())?;
    note(&token);
    installation.store.add_token(token.clone()).await?;
    let _ = if global.json {
        let mut shown = shown(&token);
        shown["token"] = secret.reveal().into();
        output::json(&shown)
    } else {
        output::complain(&format!("{} this is shown once; keep it where only {} can read it", style.ok(), token.user));
        output::line(secret.reveal())
    };
    Ok(Exit::Done)
}

async fn list(global: &Global, installation: &Installation, style: Style) -> Result<Exit, Failure> {
    let tokens = of_programs(installation).await?;
    if global.json {
        let items: Vec<Value> = tokens.iter().map(shown).collect();
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return Ok(Exit::Done);
    }
    if tokens.is_empty() {
        let _ = output::line("no tokens yet; make one: harvest token create --role member");
    }
    let now = installation.clock.now();
    for token in &tokens {
        let state = if opens(token, now) { style.ok() } else { style.failed() };
        let projects = token.projects.as_ref().map_or_else(|| "all projects".to_owned(), |names| names.join(", "));
        let used = token.last_used_at.map_or_else(|| "never used".to_owned(), |time| format!("used {time}"));
        let line = format!(
            "{state} {}  {:<6}  {:<16}  {:<16}  {}",
            token.id.short(),
            token.role.as_str(),
            clean(&token.user),
            clean(&token.name),
            style.dim(&format!("{}, {used}", clean(&projects)))
        );
        if output::line(&line).is_err() {
            break;
        }
    }
    Ok(Exit::Done)
}

async fn revoke(global: &Global, installation: &Installation, style: Style, prefix: &str) -> Result<Exit, Failure> {
    let tokens = of_programs(installation).await?;
    let wanted = prefix.to_ascii_lowercase();
    let mut fitting = tokens.iter().filter(|token| !wanted.is_empty() && token.id.as_str().starts_with(&wanted));
    let token = match (fitting.next(), fitting.next()) {
        (Some(only), None) => only,
        (Some(_), Some(_)) => {
            let message = format!("`{}` fits more than one token", clean(prefix));
            return Err(Failure::refused(Code::AmbiguousId, message, "type more of the id: harvest token list"));
        }
        _ => {
            let message = format!("no token's id begins with `{}`", clean(prefix));
            return Err(Failure::refused(Code::UnknownToken, message, "see which there are: harvest token list"));
        }
    };
    note(token);
    installation.store.revoke_token(&token.id, installation.clock.now()).await?;
    let _ = if global.json {
        output::json(&json!({ "id": token.id, "revoked": true }))
    } else {
        output::line(&format!("{} token {} opens nothing any more", style.ok(), token.id.short()))
    };
    Ok(Exit::Done)
}

async fn link(global: &Global, installation: &Installation, url: &str) -> Result<Exit, Failure> {
    let Installation { store, clock, entropy, environment, .. } = installation;
    let url = url.trim_end_matches('/');
    let link = harvest_server::link(store.as_ref(), clock.as_ref(), entropy.as_ref(), &environment.user(), url).await?;
    let _ = if global.json { output::json(&json!({ "link": link })) } else { output::line(&link) };
    Ok(Exit::Done)
}

/// Those that someone made for programs, newest first.
async fn of_programs(installation: &Installation) -> Result<Vec<AccessToken>, Failure> {
    let mut tokens = installation.store.tokens(TokenKind::Api).await?;
    tokens.extend(installation.store.tokens(TokenKind::Personal).await?);
    tokens.sort_by_key(|token| std::cmp::Reverse(token.created_at));
    Ok(tokens)
}

/// More for the audit log, whose entry is written with the change.
fn note(token: &AccessToken) {
    describe(|entry| entry.detail = json!({ "role": token.role, "for": token.user, "by": "command line" }));
}

fn opens(token: &AccessToken, now: Timestamp) -> bool {
    token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now)
}

/// The same object as the API's.
fn shown(token: &AccessToken) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "user": token.user,
        "role": token.role,
        "projects": token.projects,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
    })
}
