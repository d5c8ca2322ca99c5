//! `harvest token …` over HTTP. An admin's token makes tokens for everyone; another's lists and revokes its person's own.

use harvest_api_types::{AskToken, NewToken, Token as TokenRow};
use harvest_core::{Clock, Code};

use super::Remote;
use crate::cli::{Global, Token};
use crate::failure::{Exit, Failure};
use crate::installation::SystemClock;
use crate::token::{find, show_list, show_new, show_revoked};
use crate::view::Style;

pub async fn token(global: &Global, style: Style, remote: &Remote, command: Token) -> Result<Exit, Failure> {
    match command {
        Token::Create(options) => {
            let body = AskToken {
                name: options.name,
                role: options.role,
                user: options.user,
                projects: Some(options.project).filter(|projects| !projects.is_empty()),
                expires_in_days: options.expires_in_days,
            };
            let new: NewToken = remote.post("/api/tokens", &body).await?;
            show_new(global, style, &new);
        }
        Token::List => show_list(global, style, &list(remote).await?, SystemClock.now()),
        Token::Revoke { id } => {
            let tokens = list(remote).await?;
            let token = find(&tokens, |token| &token.id, &id)?;
            remote.delete(&format!("/api/tokens/{}", token.id)).await?;
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
    remote.items("/api/tokens").await
}
