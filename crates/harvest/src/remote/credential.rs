//! `harvest credential …` over HTTP. The secret goes to the server and never comes back.

use std::collections::BTreeMap;

use harvest_api_types::NewSecret;
use harvest_core::{Code, Credential};
use harvest_vault::ExposeSecret;
use serde::Deserialize;
use serde_json::json;

use super::Remote;
use crate::cli::{Credential as Command, Global};
use crate::credential::{find, read_secret, show_added, show_list, show_removed, show_rotated};
use crate::failure::{Exit, Failure};
use crate::view::Style;

pub async fn credential(global: &Global, style: Style, remote: &Remote, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(options) => {
            let secret = read_secret(&options.provider, options.from_stdin)?;
            let mut body = json!({ "provider": options.provider, "secret": secret.expose_secret() });
            // `user` alone means the person of the token, which is what the server takes without a scope.
            let scope = options.scope.filter(|scope| scope != "user");
            for (name, value) in [("scope", scope), ("name", options.name), ("base_url", options.base_url)] {
                if let Some(value) = value {
                    body[name] = value.into();
                }
            }
            show_added(global, style, &remote.post("/api/credentials", &body).await?);
        }
        Command::List => {
            let listed = remote.items::<Listed>("/api/credentials").await?;
            let usable: BTreeMap<_, _> = listed.iter().map(|one| (one.credential.id.clone(), one.usable)).collect();
            let credentials: Vec<Credential> = listed.into_iter().map(|one| one.credential).collect();
            show_list(global, style, &credentials, |one| usable.get(&one.id).copied().flatten());
        }
        Command::Rotate { master_key: true, .. } => {
            let message = "the master key is on the server's machine, and HARVEST_URL names a server";
            let help = "run it there, or unset HARVEST_URL";
            return Err(Failure::refused(Code::BadOption, message, help));
        }
        Command::Rotate { id, from_stdin, .. } => {
            let credential = find(list(remote).await?, &id.unwrap_or_default())?;
            let secret = read_secret(&credential.provider, from_stdin)?;
            let body = NewSecret { secret: secret.expose_secret().to_owned() };
            let path = format!("/api/credentials/{}/secret", credential.id);
            show_rotated(global, style, &remote.put(&path, &body).await?);
        }
        Command::Remove { id } => {
            let credential = find(list(remote).await?, &id)?;
            remote.delete(&format!("/api/credentials/{}", credential.id)).await?;
            show_removed(global, style, &credential);
        }
    }
    Ok(Exit::Done)
}

/// As the server lists it; an older one does not say whether it can read the secret.
#[derive(Deserialize)]
struct Listed {
    #[serde(flatten)]
    credential: Credential,
    usable: Option<bool>,
}

async fn list(remote: &Remote) -> Result<Vec<Credential>, Failure> {
    remote.items::<Credential>("/api/credentials").await
}
