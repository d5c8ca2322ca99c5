//! The tokens of people: kept in the vault, and exchanged for new ones before they expire.
//!
//! GitHub takes a refresh token once. Every server, and every worker that runs schedules, may find the same token expired, so
//! one of them takes the right to exchange it in the store; the others wait for what it keeps. That GitHub does not know a
//! refresh token says something about its person only when the same one is still kept.

use std::time::Duration;

use harvest_core::{Clock, Timestamp};
use harvest_store::Store;

use super::SignIn;
use super::protocol::{Trouble, UserToken};
use crate::desk::Desk;

/// A token that expires sooner is exchanged first.
const SOON: Duration = Duration::from_secs(5 * 60);
/// How long the right to exchange a token is held; longer than GitHub and the vault take together.
const HELD: Duration = Duration::from_secs(60);
/// How often someone who waits looks for what the other keeps, and how many times.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 300;

/// What is needed to look after the tokens of people.
#[derive(Debug, Clone, Copy)]
pub struct Keeping<'k> {
    pub store: &'k dyn Store,
    pub desk: &'k dyn Desk,
    pub clock: &'k dyn Clock,
}

impl SignIn {
    /// A token of theirs that is valid now, to act as that person; `None` when there is none, or no new one to be had.
    pub async fn token_of(&self, keeping: Keeping<'_>, user: &str) -> Result<Option<UserToken>, Trouble> {
        let Keeping { store, desk, clock } = keeping;
        // One at a time in this process, so that the store is asked by one.
        let _alone = self.refreshing.lock().await;
        for _ in 0..LOOKS {
            let Some(kept) = read(desk, user).await? else { return Ok(None) };
            if holds(&kept, clock.now()) {
                return Ok(Some(kept));
            }
            if kept.refresh_token.is_none() {
                return Ok(None);
            }
            let now = clock.now();
            let until = now.checked_add(HELD).unwrap_or(now);
            if store.begin_refresh(user, self.holder.reveal(), now, until).await.map_err(|error| unreadable(&error))? {
                let exchanged = self.exchange(keeping, user).await;
                if let Err(error) = store.end_refresh(user, self.holder.reveal()).await {
                    tracing::warn!(%error, user, "the right to refresh a token could not be given back; it expires");
                }
                return exchanged;
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(Trouble::Busy)
    }

    /// Called by the holder of the right to do it.
    async fn exchange(
        &self,
        Keeping { desk, clock, .. }: Keeping<'_>,
        user: &str,
    ) -> Result<Option<UserToken>, Trouble> {
        // The holder before may have kept a new one since.
        let Some(kept) = read(desk, user).await? else { return Ok(None) };
        if holds(&kept, clock.now()) {
            return Ok(Some(kept));
        }
        let Some(refresh) = &kept.refresh_token else { return Ok(None) };
        let fields = [
            ("client_id", self.options.client_id.as_str()),
            ("client_secret", self.options.client_secret.reveal()),
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh),
        ];
        match self.github.grant(&fields, clock.now()).await {
            Ok(new) => {
                let new = UserToken { account: kept.account, ..new };
                keep(desk, user, &new).await?;
                Ok(Some(new))
            }
            Err(Trouble::BadRefreshToken) => {
                let now_kept = read(desk, user).await?;
                let Some(other) = now_kept.filter(|other| other.refresh_token != kept.refresh_token) else {
                    // It was withdrawn, or has expired.
                    return Ok(None);
                };
                // Someone signed in, or exchanged it without the right; their token is asked next time if not now.
                if holds(&other, clock.now()) { Ok(Some(other)) } else { Err(Trouble::Busy) }
            }
            // Any other refusal is about this installation, such as its client secret.
            Err(error) => Err(error),
        }
    }
}

fn holds(token: &UserToken, now: Timestamp) -> bool {
    token.expires_at.is_none_or(|end| now.checked_add(SOON).is_ok_and(|soon| soon < end))
}

fn unreadable(error: &harvest_store::Error) -> Trouble {
    Trouble::Vault(error.to_string())
}

/// Makes what is kept useless, and remembers the account alone: nobody acts as someone who has given up their name, and no
/// other account takes it over unnoticed.
pub async fn forget(desk: &dyn Desk, user: &str, kept: &UserToken) -> Result<(), Trouble> {
    let spent = UserToken {
        account: kept.account,
        access_token: String::new(),
        expires_at: Some(Timestamp::UNIX_EPOCH),
        refresh_token: None,
    };
    keep(desk, user, &spent).await
}

pub async fn keep(desk: &dyn Desk, user: &str, token: &UserToken) -> Result<(), Trouble> {
    let text = serde_json::to_string(token).map_err(|error| Trouble::Vault(error.to_string()))?;
    desk.keep_person_token(user, text).await.map_err(|refusal| Trouble::Vault(refusal.message))
}

pub async fn read(desk: &dyn Desk, user: &str) -> Result<Option<UserToken>, Trouble> {
    let kept = desk.person_token(user).await.map_err(|refusal| Trouble::Vault(refusal.message))?;
    let parse = |text: String| serde_json::from_str(&text).map_err(|_| Trouble::Vault("it is not a token".to_owned()));
    kept.map(parse).transpose()
}
