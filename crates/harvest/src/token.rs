//! `harvest token …`: tokens for the API of this data directory, or of the server that `HARVEST_URL` names.

use std::time::Duration;

use harvest_api_types::{NewToken, Token as TokenRow};
use harvest_core::{Code, Timestamp, TokenId};
use harvest_engine::{USE_A_PLAIN_NAME, check_name};
use harvest_server::{Mint, describe_token};
use harvest_store::{AccessToken, TokenKind, describe};
use serde_json::json;

use crate::cli::{Global, Token, TokenCreate};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::Installation;
use crate::output;
use crate::remote::{self, Remote};
use crate::view::{Cell, Style, Table, age, clean, local};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub async fn token(global: &Global, environment: Environment, command: Token) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::token(global, style, &remote, command).await;
    }
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
    let names = options.user.iter().map(|user| ("--user", user));
    let names = names.chain(options.project.iter().map(|project| ("--project", project)));
    for (option, text) in names.chain([("--name", &options.name)]) {
        if text.trim().is_empty() || text.contains(char::is_control) {
            let message = format!("{option} is empty or has control characters");
            return Err(Failure::refused(Code::BadOption, message, USE_A_PLAIN_NAME));
        }
        check_name(option, text)?;
    }
    if options.user.as_deref().is_some_and(harvest_core::belongs_to_github) {
        let message =
            "--user is reserved for people and programs on GitHub: it begins with `github:` or ends in `[bot]`";
        return Err(Failure::refused(Code::BadOption, message, USE_A_PLAIN_NAME));
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
    show_new(global, style, &NewToken { token: describe_token(token), secret: secret.reveal().to_owned() });
    Ok(Exit::Done)
}

/// Prints a new token's secret, this once.
pub fn show_new(global: &Global, style: Style, new: &NewToken) {
    let _ = if global.json {
        output::json(new)
    } else {
        let user = clean(&new.token.user);
        output::complain(&format!("{} this is shown once; keep it where only {user} can read it", style.ok()));
        output::line(&new.secret)
    };
}

async fn list(global: &Global, installation: &Installation, style: Style) -> Result<Exit, Failure> {
    let rows: Vec<TokenRow> = of_programs(installation).await?.into_iter().map(describe_token).collect();
    show_list(global, style, &rows, installation.clock.now());
    Ok(Exit::Done)
}

pub fn show_list(global: &Global, style: Style, tokens: &[TokenRow], now: Timestamp) {
    if global.json {
        let _ = output::json(&json!({ "items": tokens, "next_cursor": null }));
        return;
    }
    if tokens.is_empty() {
        output::complain("no tokens yet; create one: harvest token create --role member");
    }
    let mut table = Table::new(style, &["id", "role", "user", "name", "projects", "state", "age", "used"]);
    for token in tokens {
        let (state, paint): (_, fn(Style, &str) -> String) =
            if opens(token, now) { ("valid", Style::good) } else { ("ended", Style::bad) };
        let projects = token.projects.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(", "));
        table.row([
            Cell::new(token.id.short()).painted(Style::bold),
            token.role.as_str().into(),
            clean(&token.user).into(),
            clean(&token.name).into(),
            clean(&projects).into(),
            Cell::new(state).painted(paint),
            Cell::new(age(now, token.created_at)).right(),
            Cell::new(token.last_used_at.map_or_else(|| "never".to_owned(), local)).painted(Style::dim),
        ]);
    }
    let _ = table.lines().iter().try_for_each(|line| output::line(line));
}

async fn revoke(global: &Global, installation: &Installation, style: Style, prefix: &str) -> Result<Exit, Failure> {
    let tokens = of_programs(installation).await?;
    let token = find(&tokens, |token| &token.id, prefix)?;
    note(token);
    installation.store.revoke_token(&token.id, installation.clock.now()).await?;
    show_revoked(global, style, &token.id);
    Ok(Exit::Done)
}

/// The only token whose id begins so.
pub fn find<'t, T>(tokens: &'t [T], id: impl Fn(&T) -> &TokenId, prefix: &str) -> Result<&'t T, Failure> {
    let wanted = prefix.to_ascii_lowercase();
    let mut fitting = tokens.iter().filter(|token| !wanted.is_empty() && id(token).as_str().starts_with(&wanted));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => {
            let message = format!("`{}` matches more than one token", clean(prefix));
            Err(Failure::refused(Code::AmbiguousId, message, "type more of the id: harvest token list"))
        }
        _ => {
            let message = format!("no token's id begins with `{}`", clean(prefix));
            Err(Failure::refused(Code::UnknownToken, message, "list them: harvest token list"))
        }
    }
}

pub fn show_revoked(global: &Global, style: Style, id: &TokenId) {
    let _ = if global.json {
        output::json(&json!({ "id": id, "revoked": true }))
    } else {
        output::line(&format!("{} token {} is revoked", style.ok(), id.short()))
    };
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

fn opens(token: &TokenRow, now: Timestamp) -> bool {
    token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now)
}
