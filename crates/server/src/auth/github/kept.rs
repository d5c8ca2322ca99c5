//! The tokens of people: kept in the vault, and exchanged for new ones before they expire.

use std::time::Duration;

use harvest_core::Timestamp;

use super::SignIn;
use super::protocol::{Trouble, UserToken};
use crate::desk::Desk;

/// A token that expires sooner is exchanged first.
const SOON: Duration = Duration::from_secs(5 * 60);

impl SignIn {
    /// A token of theirs that is valid now, to act as that person; `None` when there is none, or no new one to be had.
    pub async fn token_of(&self, desk: &dyn Desk, now: Timestamp, user: &str) -> Result<Option<String>, Trouble> {
        // One at a time: a refresh token works once, and whoever comes second finds the new one.
        let _alone = self.refreshing.lock().await;
        let Some(kept) = read(desk, user).await? else { return Ok(None) };
        let holds =
            |token: &UserToken| token.expires_at.is_none_or(|end| now.checked_add(SOON).is_ok_and(|soon| soon < end));
        if holds(&kept) {
            return Ok(Some(kept.access_token));
        }
        let Some(refresh) = &kept.refresh_token else { return Ok(None) };
        let fields = [
            ("client_id", self.options.client_id.as_str()),
            ("client_secret", self.options.client_secret.reveal()),
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh),
        ];
        match self.github.grant(&fields, now).await {
            Ok(new) => {
                let new = UserToken { account: kept.account, ..new };
                keep(desk, user, &new).await?;
                Ok(Some(new.access_token))
            }
            // Another server was faster, or it was withdrawn.
            Err(Trouble::Refused(_)) => Ok(read(desk, user).await?.filter(holds).map(|other| other.access_token)),
            Err(error) => Err(error),
        }
    }
}

pub async fn keep(desk: &dyn Desk, user: &str, token: &UserToken) -> Result<(), Trouble> {
    let text = serde_json::to_string(token).map_err(|error| Trouble::Vault(error.to_string()))?;
    desk.keep_person_token(user, text).await.map_err(|refusal| Trouble::Vault(refusal.message))
}

pub async fn read(desk: &dyn Desk, user: &str) -> Result<Option<UserToken>, Trouble> {
    let kept = desk.person_token(user).await.map_err(|refusal| Trouble::Vault(refusal.message))?;
    let parse = |text: String| serde_json::from_str(&text).map_err(|_| Trouble::Vault("it is no token".to_owned()));
    kept.map(parse).transpose()
}
