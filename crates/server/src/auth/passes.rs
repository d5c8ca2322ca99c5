//! Open streams end with what they were opened with: a token or session that is revoked, expires, or may less than before.
//!
//! Whoever revokes a token or changes a member wakes the queue, on every server (see [`harvest_store::Access::revoke_token`]).
//! One task of the server then looks at all tokens that have streams open, in one query, and ends those that lost their
//! right. Expiry is a timer of the same task.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harvest_core::{Timestamp, TokenId};
use harvest_store::{AccessToken, TokenKind};
use tokio::sync::{Notify, oneshot};

use super::{Principal, Way};
use crate::state::App;

/// However often the queue changes and streams are opened, tokens are not read more often than this.
const SETTLE: Duration = Duration::from_millis(200);
/// What nobody was woken for is noticed by then.
const LONGEST: Duration = Duration::from_secs(30);
/// The database does not answer: it is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Passes(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<HashMap<u64, Holder>>,
    next: AtomicU64,
    opened: Notify,
}

/// One open stream.
#[derive(Debug)]
struct Holder {
    /// As they were when it was opened.
    principal: Principal,
    shows: Shows,
    end: oneshot::Sender<()>,
}

/// What a stream shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shows {
    Repository(String),
    /// Everything that the reader could see when it was opened.
    Everything,
}

/// The right of one stream to go on.
#[derive(Debug)]
pub struct Pass {
    passes: Passes,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl Passes {
    pub fn open(&self, principal: &Principal, shows: Shows) -> Pass {
        let (end, ended) = oneshot::channel();
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let holder = Holder { principal: principal.clone(), shows, end };
        self.lock().insert(number, holder);
        // The token may have been revoked since it was looked at.
        self.0.opened.notify_one();
        Pass { passes: self.clone(), number, ended }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Holder>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// When the stream has to end.
    pub async fn ended(&mut self) {
        let _ = (&mut self.ended).await;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.passes.lock().remove(&self.number);
    }
}

/// Ends streams whose right is gone, as long as it is polled.
pub async fn watch(app: App) {
    let mut woken = app.store.watch_queue();
    // Said once, and not at every try.
    let mut unread = false;
    loop {
        woken.mark_unchanged();
        let sleep = match check(&app, &mut unread).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "tokens of open streams cannot be looked at at the moment");
                AGAIN
            }
        };
        tokio::select! {
            Ok(()) = woken.changed() => tokio::time::sleep(SETTLE).await,
            () = app.passes.0.opened.notified() => tokio::time::sleep(SETTLE).await,
            () = tokio::time::sleep(sleep) => {}
        }
    }
}

/// Ends what has to, and says when to look again. `unread`: projects could not be read the last time.
async fn check(app: &App, unread: &mut bool) -> Result<Duration, harvest_store::Error> {
    let mut ids: Vec<TokenId> = app.passes.lock().values().map(|holder| holder.principal.token.clone()).collect();
    if ids.is_empty() {
        return Ok(LONGEST);
    }
    ids.sort();
    ids.dedup();
    let tokens = app.store.tokens_by_id(&ids).await?;
    let mut longest = LONGEST;
    if tokens.iter().any(|token| token.projects.is_some() || token.kind == TokenKind::Person) {
        let read = app.desk.projects_changed().await;
        if let Err(refusal) = &read {
            longest = AGAIN;
            if !*unread {
                tracing::warn!(error = refusal.message, "projects cannot be read at the moment");
            }
        }
        *unread = read.is_err();
    }
    let now = app.clock.now();
    for token in tokens.iter().filter(|token| matches!(token.kind, TokenKind::Person | TokenKind::Personal)) {
        if let Some(sign_in) = &app.sign_in {
            sign_in.check_again(app, token);
        }
    }
    // Before the lock is taken, and once for all streams of a token.
    let valid = tokens.iter().filter(|token| is_valid(token, now));
    let principals: HashMap<&TokenId, Principal> =
        valid.map(|token| (&token.id, Principal::new(app, token, Way::Token, None))).collect();
    let mut open = app.passes.lock();
    let over: Vec<u64> = open
        .iter()
        .filter(|(_, holder)| {
            // One that was opened meanwhile has its turn in a moment.
            let id = &holder.principal.token;
            ids.binary_search(id).is_ok() && !principals.get(id).is_some_and(|now| may_go_on(holder, now))
        })
        .map(|(number, _)| *number)
        .collect();
    for number in over {
        if let Some(holder) = open.remove(&number) {
            let _ = holder.end.send(());
        }
    }
    let expiries = tokens.iter().filter_map(|token| token.expires_at).filter(|end| *end > now);
    let next = expiries.min().map(|end| Duration::try_from(end.duration_since(now)).unwrap_or_default());
    Ok(next.unwrap_or(longest).min(longest))
}

fn is_valid(token: &AccessToken, now: Timestamp) -> bool {
    token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now)
}

fn may_go_on(holder: &Holder, now: &Principal) -> bool {
    let before = &holder.principal;
    match &holder.shows {
        Shows::Repository(repository) => {
            now.sees_repository(repository) && now.role_for(repository) >= before.role_for(repository)
        }
        // Whoever may see other repositories than before opens it anew.
        Shows::Everything => now.repositories() == before.repositories() && now.may_as_much_as(before),
    }
}
