//! Lookups of tokens at the door.

use std::sync::Arc;

use futures_util::FutureExt as _;
use harvest_core::{Role, Timestamp, TokenId};
use harvest_store::{Access as _, AccessToken, Sqlite, TokenKind};

use super::*;

fn token(secret: &str, id: &str) -> AccessToken {
    AccessToken {
        id: id.parse::<TokenId>().unwrap(),
        kind: TokenKind::Api,
        name: "ci".into(),
        user: "ada".into(),
        role: Role::Member,
        projects: None,
        digest: secret::digest(secret),
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        made_by: None,
    }
}

#[tokio::test]
async fn made_up_tokens_keep_nobody_waiting_whose_token_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(&folder.path().join("harvest.db")).unwrap());
    store.add_token(token("hv_before", "0000000000000001")).await.unwrap();
    let doorman = Doorman::new(store.clone());
    doorman.learn(Timestamp::UNIX_EPOCH).await.unwrap();
    // One that another server made, and that has opened here before.
    store.add_token(token("hv_since", "0000000000000002")).await.unwrap();
    assert!(doorman.find("hv_since").await.unwrap().is_some());
    // As many made-up tokens are being looked up as may be; all others of them wait.
    let _asking = doorman.unknown_questions.acquire_many(UNKNOWN_QUESTIONS as u32).await.unwrap();
    assert!(doorman.find("hv_made_up").now_or_never().is_none());
    for known in ["hv_before", "hv_since"] {
        doorman.forget();
        let found = tokio::time::timeout(Duration::from_secs(20), doorman.find(known)).await;
        assert_eq!(found.expect("it waits behind made-up tokens").unwrap().map(|token| token.user), Some("ada".into()));
    }
    // A token that was revoked has no place before others any more.
    store.revoke_token(&"0000000000000002".parse().unwrap(), Timestamp::UNIX_EPOCH).await.unwrap();
    doorman.forget();
    assert!(doorman.find("hv_since").await.unwrap().is_some_and(|token| token.revoked_at.is_some()));
    doorman.forget();
    assert!(doorman.find("hv_since").now_or_never().is_none());
}
