//! Signing in with GitHub: how it is set up, and what is kept of people who did.

use harvest_core::{Code, Role, Scope};
use harvest_server::{GithubSignIn, Secret};
use harvest_store::{CredentialRecord, Store};
use harvest_vault::{ExposeSecret, Redactor, SecretString};

use crate::config::Key;
use crate::credential::{self, NewCredential};
use crate::failure::Failure;
use crate::installation::Installation;
use crate::keychain::{Keychain, Opened};

/// What the client secret is kept as in the vault.
pub const CLIENT_SECRET: &str = "github-sign-in";
/// What the tokens of people are kept as, each under their own name.
const PERSON: &str = "github";
const NAME: &str = "sign-in";

/// As the settings and the vault say; `None` when nobody signs in with GitHub here.
pub async fn options(installation: &Installation) -> Result<Option<GithubSignIn>, Failure> {
    let settings = installation.settings()?;
    let Some(client_id) = settings.text(Key::SignInClientId) else { return Ok(None) };
    let store = installation.store.as_ref();
    let records = records(store, |record| record.credential.provider == CLIENT_SECRET).await?;
    let keychain = Keychain::of(&installation.environment, installation.data.path());
    let (mut opened, _) = open(keychain, records).await?;
    let Some(secret) = opened.pop() else {
        let message = "sign_in.client_id is set, and the vault has no client secret that could be opened";
        let help = "store the secret that GitHub gave you: harvest credential add github-sign-in";
        return Err(Failure::refused(Code::BadConfig, message, help));
    };
    Ok(Some(GithubSignIn {
        client_id,
        client_secret: Secret::given(secret.secret.expose_secret().to_owned()),
        url: settings.text(Key::SignInUrl).unwrap_or_default(),
        organizations: settings.names(Key::SignInOrganizations),
        teams: settings.names(Key::SignInTeams),
        admins: settings.names(Key::SignInAdmins),
        role: settings.text(Key::SignInRole).and_then(|role| Role::parse(&role)),
        believed: settings.time(Key::SignInBelieved).unwrap_or_default(),
    }))
}

/// Seals a person's token, in place of the one before.
pub async fn keep_token(installation: &Installation, person: &str, token: &SecretString) -> Result<(), Failure> {
    let scope = Scope::User(person.to_owned());
    let mut known = records(installation.store.as_ref(), |record| is_theirs(record, &scope)).await?;
    match known.pop() {
        Some(mut record) => credential::replace(installation, &mut record.credential, token).await,
        None => {
            let new = NewCredential { provider: PERSON.to_owned(), scope, name: NAME.to_owned(), base_url: None };
            credential::keep(installation, new, token).await.map(drop)
        }
    }
}

pub async fn token_of(installation: &Installation, person: &str) -> Result<Option<SecretString>, Failure> {
    let keychain = Keychain::of(&installation.environment, installation.data.path());
    kept_for(installation.store.as_ref(), &keychain, &Scope::User(person.to_owned())).await
}

/// What is kept for someone since they last signed in.
pub async fn kept_for(store: &dyn Store, keychain: &Keychain, scope: &Scope) -> Result<Option<SecretString>, Failure> {
    let records = records(store, |record| is_theirs(record, scope)).await?;
    let (mut opened, failed) = open(keychain.clone(), records).await?;
    match (opened.pop(), failed.into_iter().next()) {
        (Some(opened), _) => Ok(Some(opened.secret)),
        (None, Some(reason)) => Err(Failure::failed(Code::MasterKey, reason)),
        (None, None) => Ok(None),
    }
}

fn is_theirs(CredentialRecord { credential, .. }: &CredentialRecord, scope: &Scope) -> bool {
    credential.provider == PERSON && credential.name == NAME && credential.scope == *scope
}

async fn records(
    store: &dyn Store,
    wanted: impl Fn(&CredentialRecord) -> bool,
) -> Result<Vec<CredentialRecord>, Failure> {
    Ok(store.credentials().await?.into_iter().filter(wanted).collect())
}

/// Beside everything else: the master key may come from a slow command. What was opened is redacted from then on.
async fn open(keychain: Keychain, records: Vec<CredentialRecord>) -> Result<(Vec<Opened>, Vec<String>), Failure> {
    let internal = |error: String| Failure::failed(Code::Internal, error);
    let opening = tokio::task::spawn_blocking(move || keychain.open(records));
    let (opened, failed) = opening.await.map_err(|error| internal(error.to_string()))?;
    let redactor = Redactor::of_process().map_err(|error| internal(error.to_string()))?;
    redactor.learn(opened.iter().map(|one| &one.secret)).map_err(|error| internal(error.to_string()))?;
    Ok((opened, failed))
}
