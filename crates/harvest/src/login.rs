//! `harvest login`: keeps the token for a server where only its owner can read it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use harvest_api_types::Me;
use harvest_core::Code;
use harvest_vault::{ExposeSecret, SecretString};
use serde_json::json;

use crate::cli::{Global, Login};
use crate::credential::read_secret;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::remote::Remote;
use crate::view::{Style, clean};

pub async fn login(global: &Global, environment: &Environment, options: Login) -> Result<Exit, Failure> {
    let style = Style::detect(environment);
    let Some(url) = options.url.as_deref().or_else(|| environment.text("HARVEST_URL")) else {
        let message = "there is no server to sign in to";
        return Err(Failure::refused(
            Code::BadOption,
            message,
            "name it: harvest login --url https://harvest.example.com",
        ));
    };
    let url = server(url)?;
    let mut kept = read(environment)?;
    if options.forget {
        kept.remove(&url);
        write(environment, &kept)?;
        let _ = if global.json {
            output::json(&json!({ "url": url, "kept": false }))
        } else {
            output::line(&format!("{} the token for {url} is removed", style.ok()))
        };
        return Ok(Exit::Done);
    }
    let secret = read_secret("token", options.from_stdin)?;
    let me: Me = Remote::new(url.clone(), secret.clone()).get("/api/me").await?;
    kept.insert(url.clone(), secret.expose_secret().to_owned());
    write(environment, &kept)?;
    let _ = if global.json {
        output::json(&json!({ "url": url, "kept": true, "user": me.user, "role": me.role }))
    } else {
        output::line(&format!(
            "{} signed in to {url} as {} ({}); use it with HARVEST_URL={url}",
            style.ok(),
            clean(&me.user),
            me.role
        ))
    };
    Ok(Exit::Done)
}

/// An address as it is kept, or why it cannot be one. A token never crosses a network in the clear.
pub fn server(url: &str) -> Result<String, Failure> {
    let url = url.trim().trim_end_matches('/');
    let refuse = |why: &str| {
        let message = format!("`{}` cannot be a server: {why}", clean(url));
        Failure::refused(Code::BadOption, message, "write it like https://harvest.example.com")
    };
    let host = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(host), _) => host,
        (_, Some(host)) => {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            if !["127.0.0.1", "localhost", "[::1]"].contains(&name) {
                return Err(refuse("plain http:// is only allowed for this machine; use https://"));
            }
            host
        }
        _ => return Err(refuse("it begins neither with https:// nor with http://")),
    };
    if host.is_empty() || host.contains(['/', '@', '?', '#']) {
        return Err(refuse("it must be only a host and a port"));
    }
    Ok(url.to_ascii_lowercase())
}

/// The token that is kept for a server.
pub fn token(environment: &Environment, url: &str) -> Result<SecretString, Failure> {
    read(environment)?.remove(url).map(SecretString::from).ok_or_else(|| {
        let message = format!("there is no token for {url}");
        Failure::refused(Code::NotSignedIn, message, "sign in: harvest login; or set HARVEST_TOKEN")
    })
}

fn file(environment: &Environment) -> Result<PathBuf, Failure> {
    let folder = environment.config_folder();
    folder.map(|folder| folder.join("login.json")).ok_or_else(|| {
        let message = "there is no home folder for the token";
        Failure::refused(Code::DataDirectory, message, "set HARVEST_TOKEN instead")
    })
}

fn read(environment: &Environment) -> Result<BTreeMap<String, String>, Failure> {
    let file = file(environment)?;
    let Ok(metadata) = std::fs::metadata(&file) else { return Ok(BTreeMap::new()) };
    let shown = file.display();
    if metadata.permissions().mode() & 0o077 != 0 {
        let help = format!("restrict it: chmod 600 '{shown}'");
        return Err(Failure::refused(Code::BadOption, format!("{shown} can be read by others"), help));
    }
    let refuse = |why: String| {
        let message = format!("{shown} cannot be read: {why}");
        Failure::refused(Code::BadConfig, message, "remove it and sign in again: harvest login")
    };
    let text = std::fs::read_to_string(&file).map_err(|error| refuse(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))
}

/// Beside the old one first, so that nobody ever finds half of it.
fn write(environment: &Environment, kept: &BTreeMap<String, String>) -> Result<(), Failure> {
    let file = file(environment)?;
    let refuse = |error: std::io::Error| {
        let message = format!("{} cannot be written: {error}", file.display());
        Failure::refused(Code::DataDirectory, message, "check its folder's permissions, or set HARVEST_TOKEN instead")
    };
    let text = serde_json::to_string_pretty(kept).unwrap_or_default();
    let new = file.with_extension("new");
    let writing = || {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let _ = std::fs::remove_file(&new);
        let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        std::fs::rename(&new, &file)
    };
    writing().map_err(refuse)
}
