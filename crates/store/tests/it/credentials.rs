//! Credentials are kept sealed, one of a name for each provider and scope.

use harvest_core::{Credential, CredentialId, Timestamp};
use harvest_store::{CredentialRecord, Error, NewSecret};

use crate::support::make::*;
use crate::support::on_both;

fn record(scope: &str, name: &str, sealed: &str) -> CredentialRecord {
    let credential = Credential {
        id: CredentialId::generate(&Counter),
        provider: "anthropic".into(),
        scope: scope.parse().unwrap(),
        name: name.into(),
        last4: "wxyz".into(),
        base_url: Some("https://models.example.com".into()),
        created_at: now(),
        rotated_at: None,
        last_used_at: None,
    };
    CredentialRecord { credential, sealed: sealed.into() }
}

on_both! {
    async fn what_is_kept_comes_back(place) {
        let store = place.open().await;
        let (ada, bob) = (record("user:ada", "default", "s1"), record("user:bob", "default", "s2"));
        for record in [&bob, &ada] {
            store.add_credential(record.clone()).await.unwrap();
        }
        assert_eq!(place.open().await.credentials().await.unwrap(), [ada.clone(), bob.clone()]);
        assert!(store.remove_credential(&bob.credential.id).await.unwrap());
        assert!(!store.remove_credential(&bob.credential.id).await.unwrap());
        assert_eq!(store.credentials().await.unwrap(), [ada]);
    }

    async fn there_is_one_of_a_name(place) {
        let store = place.open().await;
        let first = record("team:fruit", "default", "s1");
        store.add_credential(first.clone()).await.unwrap();
        let refused = store.add_credential(record("team:fruit", "default", "s2")).await;
        assert!(matches!(refused, Err(Error::CredentialExists { .. })), "{refused:?}");
        store.add_credential(record("team:fruit", "spare", "s3")).await.unwrap();
        assert_eq!(store.credentials().await.unwrap()[0], first);
    }

    async fn a_new_seal_never_brings_an_old_secret_back(place) {
        let store = place.open().await;
        let kept = record("project:shop", "default", "s1");
        let id = &kept.credential.id;
        store.add_credential(kept.clone()).await.unwrap();
        assert!(store.reseal_credential(id, "s1", "s1 anew").await.unwrap());
        let at: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
        let new = NewSecret { sealed: "s2".into(), last4: "9876".into(), at };
        assert!(store.replace_credential(id, new).await.unwrap());
        assert!(!store.reseal_credential(id, "s1 anew", "s1 again").await.unwrap(), "someone has put in another one");
        store.credential_used(id, at).await.unwrap();
        let found = store.credentials().await.unwrap().remove(0);
        assert_eq!((found.sealed.as_str(), found.credential.last4.as_str()), ("s2", "9876"));
        assert_eq!((found.credential.rotated_at, found.credential.last_used_at), (Some(at), Some(at)));
    }

    async fn of_any_number_who_would_refresh_a_token_one_does_until_its_time_is_over(place) {
        let stores = [place.open().await, place.open().await];
        let begun = async |store: usize, who: &str, holder: &str, at| {
            stores[store].begin_refresh(who, holder, at, later(60)).await.unwrap()
        };
        assert!(begun(0, "ada", "one", now()).await);
        assert!(!begun(1, "ada", "two", later(59)).await);
        assert!(begun(1, "bob", "two", now()).await);
        // Only its holder gives it back, and one that died with it holds it until its end.
        stores[1].end_refresh("ada", "two").await.unwrap();
        assert!(!begun(1, "ada", "two", later(59)).await);
        stores[0].end_refresh("ada", "one").await.unwrap();
        assert!(begun(1, "ada", "two", later(59)).await);
        assert!(begun(0, "ada", "one", later(60)).await);
    }

}
