//! The account on GitHub: found in the vault, used for everyone's repositories there.

use std::sync::Arc;

use harvest_core::{Clock, Code, Scope};
use harvest_forge::github::webhook::Listener;
use harvest_forge::github::{Account, Client, Host};
use harvest_server::Webhooks;
use harvest_vault::{ExposeSecret, SecretString};

use crate::config::Key;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::keychain::Opened;
use crate::output;

/// The provider under which the vault keeps it.
pub const PROVIDER: &str = "github";

/// The account of whoever runs this. One that cannot be used is told of, and done without.
pub fn account(opened: &[Opened], user: &str, clock: &Arc<dyn Clock>) -> Option<Arc<Client>> {
    let own = Scope::User(user.to_owned());
    let ours = |opened: &&Opened| {
        let credential = &opened.record.credential;
        credential.provider == PROVIDER && credential.scope == own
    };
    let found = opened.iter().find(ours)?;
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

/// All that must never be shown of a credential.
pub fn secrets(opened: &Opened) -> Vec<SecretString> {
    match opened.record.credential.provider.as_str() {
        PROVIDER => Account::secrets(&opened.secret),
        _ => vec![SecretString::from(opened.secret.expose_secret().to_owned())],
    }
}

/// How the server takes webhooks, where the account has a secret for them.
pub fn webhooks(installation: &Installation) -> Result<Option<Webhooks>, Failure> {
    let Some(client) = installation.forges.github() else { return Ok(None) };
    let Some(secret) = client.account().webhook_secret() else { return Ok(None) };
    let settings = installation.settings()?;
    let text = |key| settings.text(key).ok_or_else(|| Failure::failed(Code::Internal, "a setting has no default"));
    let listener = Listener::new(client.host().clone(), secret, &text(Key::GithubLogin)?, &text(Key::GithubLabel)?);
    Ok(Some(Webhooks { listener, most_fixes: settings.count(Key::GithubFixes).unwrap_or_default() }))
}
