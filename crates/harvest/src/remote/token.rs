//! `harvest token …` over HTTP. An admin's token makes tokens for everyone; another's lists and revokes its person's own.

use harvest_core::{Clock, Code};
use harvest_outbound::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Remote, refusal};
use crate::cli::{Global, Token};
use crate::failure::{Exit, Failure};
use crate::installation::SystemClock;
use crate::token::{NewTokenRow, TokenRow, find, show_list, show_new, show_revoked};
use crate::view::Style;

#[derive(Deserialize)]
struct Page {
    items: Vec<TokenRow>,
}

pub async fn token(global: &Global, style: Style, remote: &Remote, command: Token) -> Result<Exit, Failure> {
    match command {
        Token::Create(options) => {
            let mut body = json!({ "name": options.name, "role": options.role });
            if let Some(user) = options.user {
                body["user"] = user.into();
            }
            if !options.project.is_empty() {
                body["projects"] = options.project.into();
            }
            if let Some(days) = options.expires_in_days {
                body["expires_in_days"] = days.into();
            }
            let new: NewTokenRow = remote.post("/api/tokens", &body).await?;
            show_new(global, style, &new);
        }
        Token::List => show_list(global, style, &list(remote).await?, SystemClock.now()),
        Token::Revoke { id } => {
            let tokens = list(remote).await?;
            let token = find(&tokens, |token| &token.id, &id)?;
            let answer = remote.ask(remote.request(Method::DELETE, &format!("/api/tokens/{}", token.id))).await?;
            if !answer.is_success() {
                return Err(refusal(&answer));
            }
            show_revoked(global, style, &token.id);
        }
        Token::Link { .. } => {
            let message = "links can only be created on the server's machine, and HARVEST_URL names a server";
            let help = "sign in on its page, or unset HARVEST_URL on the machine that has the data directory";
            return Err(Failure::refused(Code::BadOption, message, help));
        }
    }
    Ok(Exit::Done)
}

async fn list(remote: &Remote) -> Result<Vec<TokenRow>, Failure> {
    let page: Page = remote.get("/api/tokens").await?;
    Ok(page.items)
}
