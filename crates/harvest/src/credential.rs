//! `harvest credential …`: keys and tokens in the vault. A secret goes in and never comes out.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Read, Write};

use harvest_core::{Code, Credential, CredentialId, DEFAULT_CREDENTIAL, NamedBy, Scope};
use harvest_engine::{KeyInName, check_address, check_name};
use harvest_gateway::{Upstream, key_form_mismatch};
use harvest_store::{CredentialRecord, NewSecret};
use harvest_vault::{ExposeSecret, Redactor, SecretString};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;

use crate::cli::{Credential as Command, CredentialAdd, Global};
use crate::environment::{Environment, key_variable};
use crate::failure::{Exit, Failure};
use crate::gc::plural;
use crate::github;
use crate::installation::Installation;
use crate::keychain::Keychain;
use crate::output;
use crate::remote::{self, Remote};
use crate::view::{Cell, Style, Table, clean, local};

const MAX_SECRET: u64 = 16 * 1024;

pub async fn credential(global: &Global, environment: Environment, command: Command) -> Result<Exit, Failure> {
    let style = Style::detect(&environment);
    if let Some(remote) = Remote::of(global, &environment)? {
        return remote::credential(global, style, &remote, command).await;
    }
    let installation = Installation::open(global, environment).await?;
    match command {
        Command::Add(options) => add(global, &installation, style, options).await,
        Command::List => list(global, &installation, style).await,
        Command::Rotate { master_key: true, .. } => rotate_master_key(global, &installation, style).await,
        Command::Rotate { id, from_stdin, .. } => {
            rotate(global, &installation, style, &id.unwrap_or_default(), from_stdin).await
        }
        Command::Remove { id } => remove(global, &installation, style, &id).await,
    }
}

async fn add(
    global: &Global,
    installation: &Installation,
    style: Style,
    options: CredentialAdd,
) -> Result<Exit, Failure> {
    let secret = read_secret(&options.provider, options.from_stdin)?;
    // What is no scope by itself, `user`, means the person who asks.
    let named = options.scope.and_then(|scope| scope.parse().ok());
    let scope = named.unwrap_or_else(|| Scope::User(installation.environment.user()));
    let new = NewCredential {
        provider: options.provider,
        scope,
        name: options.name.unwrap_or_else(|| DEFAULT_CREDENTIAL.to_owned()),
        base_url: options.base_url,
    };
    let credential = keep(installation, new, &secret).await?;
    warn_of_form(&credential, &secret);
    show_added(global, style, &credential);
    Ok(Exit::Done)
}

pub fn show_added(global: &Global, style: Style, credential: &Credential) {
    tell(global, credential, || {
        let Credential { id, provider, scope, .. } = credential;
        format!("{} {provider} key of {scope} saved as {}{}", style.ok(), id.short(), in_brackets(credential))
    });
}

/// A credential before it has an id.
#[derive(Debug)]
pub struct NewCredential {
    pub provider: String,
    pub scope: Scope,
    pub name: String,
    pub base_url: Option<String>,
}

/// Seals a secret and keeps it.
pub async fn keep(
    installation: &Installation,
    new: NewCredential,
    secret: &SecretString,
) -> Result<Credential, Failure> {
    let credential = Credential {
        id: CredentialId::generate(installation.entropy.as_ref()),
        last4: github::last4(&new.provider, secret),
        provider: new.provider,
        scope: new.scope,
        name: new.name,
        base_url: new.base_url,
        created_at: installation.clock.now(),
        rotated_at: None,
        last_used_at: None,
    };
    check_names(&credential, secret)?;
    check_host(&credential)?;
    let (sealed, sealing) = keychain(installation).seal(&credential, secret)?;
    let record = CredentialRecord { credential: credential.clone(), sealed: sealed.to_string() };
    // A server runs on: nothing that it writes down from here on shows the secret.
    installation.learn(github::secrets_of(&credential.provider, secret)).await?;
    let added = installation.store.add_credential(record).await;
    drop(sealing);
    added.map_err(|error| {
        let failure = Failure::from(error);
        match failure.code {
            Code::CredentialExists => {
                let help = "name another with --name, or replace its secret with `harvest credential rotate ID`";
                Failure { help: Some(help.to_owned()), ..failure }.refusing()
            }
            _ => failure,
        }
    })?;
    Ok(credential)
}

/// Says so when a secret does not look like a key of its provider; a script may have its reasons, so it is saved all the same.
fn warn_of_form(credential: &Credential, secret: &SecretString) {
    let Credential { id, provider, base_url, .. } = credential;
    let is_model_key = key_variable(provider).is_some();
    let mismatch = key_form_mismatch(provider, base_url.as_deref(), secret).filter(|_| is_model_key);
    if let Some(reason) = mismatch {
        let way_out = format!("replace it: harvest credential rotate {}", id.short());
        output::complain(&format!("note: this does not look like a key of {provider}: it {reason}; {way_out}"));
    }
}

/// Everyone who may know of a credential sees all of it but its secret, which is in none of the rest.
fn check_names(credential: &Credential, secret: &SecretString) -> Result<(), Failure> {
    let Credential { name, scope, base_url, .. } = credential;
    let scope = scope.to_string();
    check_name("name", name)?;
    check_name("scope", &scope)?;
    base_url.as_deref().map_or(Ok(()), |url| check_address("base_url", url))?;
    check_own_names(credential, secret)
}

/// What everyone may see of a credential does not hold this secret of its own.
fn check_own_names(credential: &Credential, secret: &SecretString) -> Result<(), Failure> {
    let Credential { name, scope, base_url, .. } = credential;
    let scope = scope.to_string();
    let own = Redactor::new([secret.clone()]).map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
    let texts = [("name", Some(name)), ("scope", Some(&scope)), ("base_url", base_url.as_ref())];
    match texts.into_iter().find(|(_, text)| text.is_some_and(|text| own.finds(text))) {
        Some((field, _)) => Err(KeyInName { field: field.to_owned() }.into()),
        None => Ok(()),
    }
}

/// Refuses the address of a model that could not be used. That of a forge is checked where it is asked.
fn check_host(credential: &Credential) -> Result<(), Failure> {
    let Credential { provider, base_url, scope, .. } = credential;
    let Some(url) = base_url.as_deref().filter(|_| key_variable(provider).is_some()) else { return Ok(()) };
    let made = Upstream::new(provider, "new", Some(url), &SecretString::from("none".to_owned()));
    let checked = made.and_then(|upstream| upstream.named_by(NamedBy::of(scope)));
    checked.map(drop).map_err(|error| {
        let help = "name a host that speaks the vendor's format; for a private address, store the key for a team";
        Failure::refused(Code::BadOption, error.to_string(), help)
    })
}

/// Seals a new secret in place of the old one.
pub async fn replace(
    installation: &Installation,
    credential: &mut Credential,
    secret: &SecretString,
) -> Result<(), Failure> {
    check_own_names(credential, secret).map_err(|_| replaced_refusal(credential, secret))?;
    let (sealed, sealing) = keychain(installation).seal(credential, secret)?;
    installation.learn(github::secrets_of(&credential.provider, secret)).await?;
    let (last4, at) = (github::last4(&credential.provider, secret), installation.clock.now());
    let new = NewSecret { sealed: sealed.to_string(), last4: last4.clone(), at };
    let replaced = installation.store.replace_credential(&credential.id, new).await;
    drop(sealing);
    if !replaced? {
        return Err(unknown(credential.id.as_str()));
    }
    (credential.last4, credential.rotated_at) = (last4, Some(at));
    Ok(())
}

/// Those whose secrets can be opened. The master key may be what a command prints, so it is asked on a thread of its own.
pub async fn usable(installation: &Installation) -> Result<BTreeSet<CredentialId>, Failure> {
    let records = installation.store.credentials().await?;
    let keychain = keychain(installation);
    let opening = tokio::task::spawn_blocking(move || keychain.open(records).0);
    let opened = opening.await.map_err(|error| Failure::failed(Code::Internal, error.to_string()))?;
    Ok(opened.into_iter().map(|opened| opened.record.credential.id).collect())
}

/// Why a secret cannot take the place of another one in a credential whose names hold a key.
fn replaced_refusal(credential: &Credential, secret: &SecretString) -> Failure {
    let Credential { id, provider, name, scope, base_url, .. } = credential;
    let scope = scope.to_string();
    let texts = [("name", Some(name.as_str())), ("scope", Some(scope.as_str())), ("base_url", base_url.as_deref())];
    // One from before such names were refused.
    let is_other = |text: &str| harvest_engine::looks_like_a_key(text) && !text.contains(secret.expose_secret());
    match texts.into_iter().find(|(_, text)| text.is_some_and(is_other)) {
        Some((field, _)) => {
            let message = format!("the credential's {field} contains a key, and is visible to others");
            let help = format!(
                "remove it, revoke that key, and add the new secret with another {field}: harvest credential remove {}, \
                 harvest credential add {provider}",
                id.short()
            );
            Failure::refused(Code::BadSecret, message, help)
        }
        None => {
            let message = "the secret appears in the credential's name, scope or URL, which are visible to others";
            Failure::refused(
                Code::BadSecret,
                message,
                "use another secret, or add it as a credential with another name",
            )
        }
    }
}

async fn list(global: &Global, installation: &Installation, style: Style) -> Result<Exit, Failure> {
    let (opened, failed) = keychain(installation).open_all(installation.store.as_ref()).await?;
    let usable: Vec<&CredentialId> = opened.iter().map(|opened| &opened.record.credential.id).collect();
    let credentials = kept(installation).await?;
    show_list(global, style, &credentials, |credential| Some(usable.contains(&&credential.id)));
    for reason in failed {
        output::complain(&format!("warning[{}]: {reason}", Code::MasterKey));
    }
    Ok(Exit::Done)
}

pub fn show_list(
    global: &Global,
    style: Style,
    credentials: &[Credential],
    is_usable: impl Fn(&Credential) -> Option<bool>,
) {
    if global.json {
        let items: Vec<serde_json::Value> = credentials.iter().map(|one| shown(one, is_usable(one))).collect();
        let _ = output::json(&json!({ "items": items, "next_cursor": null }));
        return;
    }
    if credentials.is_empty() {
        output::complain("no credentials yet; add one: harvest credential add anthropic");
    }
    let mut table = Table::new(style, &["id", "provider", "scope", "name", "key", "state", "added", "used"]);
    for credential in credentials {
        let Credential { id, provider, scope, name, created_at, last_used_at, .. } = credential;
        let (state, paint): (_, fn(Style, &str) -> String) = match is_usable(credential) {
            Some(true) => ("usable", Style::good),
            Some(false) => ("locked", Style::bad),
            None => ("", Style::dim),
        };
        let used = last_used_at.map_or_else(|| "never".to_owned(), local);
        table.row([
            Cell::new(id.short()).painted(Style::bold),
            clean(provider).into(),
            clean(&scope.to_string()).into(),
            clean(name).into(),
            ending(credential).into(),
            Cell::new(state).painted(paint),
            Cell::new(local(*created_at)).painted(Style::dim),
            Cell::new(used).painted(Style::dim),
        ]);
    }
    let _ = table.lines().iter().try_for_each(|line| output::line(line));
}

async fn rotate(
    global: &Global,
    installation: &Installation,
    style: Style,
    id: &str,
    from_stdin: bool,
) -> Result<Exit, Failure> {
    let mut credential = find(kept(installation).await?, id)?;
    let secret = read_secret(&credential.provider, from_stdin)?;
    replace(installation, &mut credential, &secret).await?;
    warn_of_form(&credential, &secret);
    show_rotated(global, style, &credential);
    Ok(Exit::Done)
}

pub fn show_rotated(global: &Global, style: Style, credential: &Credential) {
    tell(global, credential, || {
        format!("{} {} has a new secret{}", style.ok(), credential.id.short(), in_brackets(credential))
    });
}

async fn rotate_master_key(global: &Global, installation: &Installation, style: Style) -> Result<Exit, Failure> {
    let rotated = keychain(installation).rotate(installation.store.as_ref()).await?;
    let _ = if global.json {
        output::json(&json!({ "resealed": rotated.resealed }))
    } else {
        let verb = if rotated.resealed == 1 { "is" } else { "are" };
        let credentials = plural(rotated.resealed, "credential");
        output::line(&format!("{} {credentials} {verb} re-encrypted with the new master key", style.ok()))
    };
    Ok(Exit::Done)
}

async fn remove(global: &Global, installation: &Installation, style: Style, id: &str) -> Result<Exit, Failure> {
    let credential = find(kept(installation).await?, id)?;
    if !installation.store.remove_credential(&credential.id).await? {
        return Err(unknown(id));
    }
    show_removed(global, style, &credential);
    Ok(Exit::Done)
}

pub fn show_removed(global: &Global, style: Style, credential: &Credential) {
    tell(global, credential, || {
        let Credential { provider, scope, .. } = credential;
        format!(
            "{} removed the {provider} key of {scope}{}; also revoke it with {provider}",
            style.ok(),
            in_brackets(credential)
        )
    });
}

fn keychain(installation: &Installation) -> Keychain {
    Keychain::of(&installation.environment, installation.data.path())
}

fn tell(global: &Global, credential: &Credential, line: impl FnOnce() -> String) {
    let _ = if global.json { output::json(credential) } else { output::line(&line()) };
}

fn shown(credential: &Credential, usable: Option<bool>) -> serde_json::Value {
    let mut shown = serde_json::to_value(credential).unwrap_or_default();
    if let Some(usable) = usable {
        shown["usable"] = usable.into();
    }
    shown
}

fn ending(credential: &Credential) -> String {
    if credential.last4.is_empty() { "…".to_owned() } else { format!("…{}", credential.last4) }
}

/// The end of the secret, where there is one to tell it by.
fn in_brackets(credential: &Credential) -> String {
    if credential.last4.is_empty() { String::new() } else { format!(" ({})", ending(credential)) }
}

async fn kept(installation: &Installation) -> Result<Vec<Credential>, Failure> {
    Ok(installation.store.credentials().await?.into_iter().map(|record| record.credential).collect())
}

/// The one credential whose id begins like this.
pub fn find(known: Vec<Credential>, prefix: &str) -> Result<Credential, Failure> {
    let mut fitting =
        known.into_iter().filter(|one| !prefix.is_empty() && one.id.as_str().starts_with(&prefix.to_ascii_lowercase()));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => {
            let message = format!("`{prefix}` matches more than one credential");
            Err(Failure::refused(Code::AmbiguousId, message, "type more of the id: harvest credential list"))
        }
        _ => Err(unknown(prefix)),
    }
}

fn unknown(prefix: &str) -> Failure {
    let message = format!("no credential's id begins with `{prefix}`");
    Failure::refused(Code::UnknownCredential, message, "list them: harvest credential list")
}

/// From standard input, or asked for where nobody sees it.
pub fn read_secret(provider: &str, from_stdin: bool) -> Result<SecretString, Failure> {
    let stdin = std::io::stdin();
    let help = match provider {
        "token" => "pass it on one line: printf %s \"$TOKEN\" | harvest login --from-stdin",
        _ => "pass it on one line: printf %s \"$KEY\" | harvest credential add … --from-stdin",
    };
    let refuse = |reason: &str| Failure::refused(Code::BadSecret, format!("the secret {reason}"), help);
    let mut text = String::new();
    let read = if from_stdin {
        stdin.lock().take(MAX_SECRET + 1).read_to_string(&mut text)
    } else if stdin.is_terminal() {
        type_into(&format!("{provider} key (not shown)"), &mut text)
    } else {
        let message = "standard input is not a terminal: pass the secret with --from-stdin";
        return Err(Failure::refused(Code::BadSecret, message, help));
    };
    let secret = SecretString::from(text);
    read.map_err(|error| refuse(&format!("cannot be read: {error}")))?;
    checked(secret.expose_secret()).map_err(refuse)
}

/// Asks for a secret at the terminal, which shows nothing of it.
pub fn type_secret(question: &str) -> std::io::Result<SecretString> {
    let mut text = String::new();
    let read = type_into(question, &mut text);
    let secret = SecretString::from(text);
    read.map(|_| secret)
}

fn type_into(question: &str, text: &mut String) -> std::io::Result<usize> {
    // Before the question: what is typed from then on is neither shown nor lost.
    let silent = Silent::begin();
    let mut prompt = std::io::stderr();
    let _ = write!(prompt, "{question}: ");
    let _ = prompt.flush();
    let read = std::io::stdin().lock().take(MAX_SECRET + 1).read_line(text);
    drop(silent);
    let _ = writeln!(prompt);
    read
}

/// A secret as it can be sent in a header, or what is wrong with it.
pub fn checked(text: &str) -> Result<SecretString, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty");
    }
    if text.len() as u64 > MAX_SECRET {
        return Err("is longer than 16 KiB");
    }
    if text.contains(char::is_control) {
        return Err("has a line break or another control character in it");
    }
    Ok(SecretString::from(text.to_owned()))
}

/// The terminal shows nothing of what is typed while this lives.
struct Silent(rustix::termios::Termios);

impl Silent {
    fn begin() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet).ok()?;
        Some(Self(before))
    }
}

/// Has the terminal show what is typed, for whoever leaves in the middle of a secret.
pub fn show_typing() {
    if let Ok(mut now) = tcgetattr(std::io::stdin()) {
        now.local_modes.insert(LocalModes::ECHO);
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &now);
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}
