//! The account on GitHub: found in the vault, used for everyone's repositories there; and `harvest github setup`, which makes one.

use std::sync::Arc;

use harvest_core::{Clock, Code, Credential, DEFAULT_CREDENTIAL, Scope};
use harvest_forge::github::webhook::Listener;
use harvest_forge::github::{Account, Client, Host, NewApp, setup_page};
use harvest_server::{Webhooks, origin_of};
use harvest_vault::{ExposeSecret, SecretString};

use serde_json::json;

use crate::cli::{Github, GithubSetup, Global};
use crate::config::Key;
use crate::credential::{self, NewCredential};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::installation::{Installation, SystemClock};
use crate::keychain::Opened;
use crate::output;
use crate::view::{Style, clean};

/// The provider under which the vault keeps it.
pub const PROVIDER: &str = "github";

pub async fn github(global: &Global, environment: Environment, command: Github) -> Result<Exit, Failure> {
    let Github::Setup(options) = command;
    let host = Host::new(options.base_url.as_deref())?;
    match (&options.code, &options.public_url) {
        (Some(code), _) => convert(global, environment, host, code, &options).await,
        (None, Some(public_url)) => {
            let page = setup_page(host.web(), options.organisation.as_deref(), &origin_of(public_url)?);
            let _ = if global.json { output::json(&json!({ "page": page })) } else { output::line(&page) };
            let next = "save this as a file, open it in a browser, and press the button; then: harvest github setup --code CODE";
            output::complain(next);
            Ok(Exit::Done)
        }
        (None, None) => Err(Failure::refused(
            Code::BadOption,
            "--public-url is missing",
            "name the URL at which GitHub can reach this Harvest",
        )),
    }
}

async fn convert(
    global: &Global,
    environment: Environment,
    host: Host,
    code: &str,
    options: &GithubSetup,
) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    let installation = Installation::open(global, environment).await?;
    // No account is needed for this: the code is enough.
    let nobody = Account::parse(&SecretString::from("nobody".to_owned())).map_err(harvest_forge::Error::from)?;
    let NewApp { url, login, secret } = Client::new(host, nobody, Arc::new(SystemClock)).convert(code).await?;
    let new = NewCredential {
        provider: PROVIDER.to_owned(),
        scope: Scope::User(installation.environment.user()),
        name: DEFAULT_CREDENTIAL.to_owned(),
        base_url: options.base_url.clone(),
    };
    let kept = credential::keep(&installation, new, &secret).await?;
    let _ = if global.json {
        output::json(&json!({ "credential": kept.id, "app": login, "url": url }))
    } else {
        output::line(&format!(
            "{} the App {} is saved\n  install it in your repositories: {}/installations/new\n  people mention it as @{}: set \
             login in [github] of harvest.toml",
            style.ok(),
            style.bold(&clean(&login)),
            clean(&url),
            clean(&login)
        ))
    };
    Ok(Exit::Done)
}

/// The account of whoever runs this. One that cannot be used is told of, and done without.
pub fn account(opened: &[Opened], user: &str, clock: &Arc<dyn Clock>) -> Option<Arc<Client>> {
    let found = opened.iter().find(|opened| is_account_of(&opened.record.credential, user))?;
    let host = Host::new(found.record.credential.base_url.as_deref());
    let account = Account::parse(&found.secret).map_err(harvest_forge::Error::from);
    match host.and_then(|host| Ok(Client::new(host, account?, clock.clone()))) {
        Ok(client) => Some(Arc::new(client)),
        Err(error) => {
            let warning = format!("warning[{}]: {error}; {}", error.code(), error.help());
            output::complain(&warning);
            None
        }
    }
}

pub fn is_account_of(credential: &Credential, user: &str) -> bool {
    credential.provider == PROVIDER && credential.scope == Scope::User(user.to_owned())
}

/// All that must never be shown of a credential.
pub fn secrets(opened: &Opened) -> Vec<SecretString> {
    secrets_of(&opened.record.credential.provider, &opened.secret)
}

/// The same of a credential that is not kept yet.
pub fn secrets_of(provider: &str, secret: &SecretString) -> Vec<SecretString> {
    match provider {
        PROVIDER => Account::secrets(secret),
        _ => vec![SecretString::from(secret.expose_secret().to_owned())],
    }
}

/// What people tell a credential by: the end of its key or token.
pub fn last4(provider: &str, secret: &SecretString) -> String {
    match provider {
        PROVIDER => Account::token(secret).map(|token| Credential::last4_of(token.expose_secret())).unwrap_or_default(),
        _ => Credential::last4_of(secret.expose_secret()),
    }
}

/// How the server takes webhooks of an account, where it has a secret for them.
pub fn webhooks(installation: &Installation, client: &Client) -> Result<Option<Webhooks>, Failure> {
    let Some(secret) = client.account().webhook_secret() else { return Ok(None) };
    let settings = installation.settings()?;
    let text = |key| settings.text(key).ok_or_else(|| Failure::failed(Code::Internal, "a setting has no default"));
    let listener = Listener::new(client.host().clone(), secret, &text(Key::GithubLogin)?, &text(Key::GithubLabel)?);
    Ok(Some(Webhooks { listener, most_fixes: settings.count(Key::GithubFixes).unwrap_or_default() }))
}
