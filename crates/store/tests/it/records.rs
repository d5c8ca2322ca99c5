//! The record of a change is written with the change: both are there, or neither.

use harvest_core::Role;
use harvest_store::{
    AnswerKey, AuditQuery, Begun, Error, Member, NewAudit, NewTask, Project, Record, Recorded, describe, recorded,
};

use crate::support::make::*;
use crate::support::on_both;

fn record(key: Option<&AnswerKey>) -> Record {
    let audit = NewAudit {
        at: now(),
        actor: "user:ada".into(),
        action: "something".into(),
        target: String::new(),
        project: None,
        detail: serde_json::json!({}),
    };
    Record { audit, answer: key.cloned() }
}

fn everything() -> AuditQuery {
    AuditQuery { limit: 100, ..AuditQuery::default() }
}

on_both! {
    async fn a_change_and_its_audit_entry_are_one_transaction(place) {
        let store = place.open().await;
        let task = new_task("x");
        let id = task.id.clone();
        let (made, written) = recorded(record(None), store.create_tasks(vec![task])).await;
        made.unwrap();
        assert_eq!(written, Recorded::Written);
        let log = store.audit_log(everything()).await.unwrap();
        assert_eq!(log.iter().map(|entry| entry.target.clone()).collect::<Vec<_>>(), [format!("task:{id}")]);
        // What is refused leaves no entry.
        let impossible = NewTask { after: vec![new_task("never made").id], ..new_task("x") };
        let (refused, written) = recorded(record(None), store.create_tasks(vec![impossible])).await;
        assert!(matches!(refused, Err(Error::UnknownDependency(_))), "{refused:?}");
        assert_eq!(written, Recorded::Unused);
        assert_eq!(store.audit_log(everything()).await.unwrap().len(), 1);
        // Outside of a scope there is nobody to speak of.
        submit(&store).await;
        assert_eq!(store.audit_log(everything()).await.unwrap().len(), 1);
    }

    async fn the_first_write_that_changes_something_carries_the_record(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        let (stopped, written) = recorded(record(None), async {
            describe(|entry| entry.project = Some("orchard".into()));
            let waiting = store.cancel_waiting(&lease.task, now()).await.unwrap();
            assert_eq!(waiting, None, "someone works on it");
            assert_eq!(store.audit_log(everything()).await.unwrap(), []);
            let stopped = store.request_stop(&lease.task, harvest_core::Stopping::Cancel).await.unwrap();
            store.revoke_token(&harvest_core::TokenId::generate(&Counter), now()).await.unwrap();
            stopped
        })
        .await;
        assert!(stopped && written == Recorded::Written);
        let log = store.audit_log(everything()).await.unwrap();
        assert_eq!((log.len(), log[0].project.as_deref()), (1, Some("orchard")));
        assert_eq!(log[0].target, format!("task:{}", lease.task));
    }

    async fn entries_of_many_changes_at_once_are_one_chain(place) {
        let stores = [place.open().await, place.open().await];
        let changing: Vec<_> = (0..24).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move {
                let task = NewTask { caps: vec!["repository:x".into()], ..new_task("x") };
                recorded(record(None), store.create_tasks(vec![task])).await.0.unwrap();
            })
        }).collect();
        let claiming = {
            let store = stores[1].clone();
            tokio::spawn(async move {
                let (worker, mut claimed) = (owner(), 0);
                while claimed < 24 {
                    claimed += store.claim(a_claim(&worker, 24)).await.unwrap().len();
                }
            })
        };
        for changing in changing {
            changing.await.unwrap();
        }
        within(claiming).await.unwrap();
        let log = stores[0].audit_log(everything()).await.unwrap();
        assert_eq!(log.len(), 24);
        let mut last = None;
        for entry in &log {
            entry.check(last).unwrap();
            last = Some(entry);
        }
    }

    async fn a_request_that_was_carried_out_is_known_when_its_server_died_before_it_answered(place) {
        let store = place.open().await;
        let key = AnswerKey { key: "token 1".into(), digest: "d".into() };
        let begin = async |seconds: i64| store.begin_answer(&key, later(seconds), later(seconds - 120)).await.unwrap();
        assert_eq!(begin(0).await, Begun::New);
        let project = Project {
            name: "orchard".into(),
            repositories: Vec::new(),
            settings: serde_json::json!({}),
            version: 1,
            created_at: now(),
            updated_at: now(),
        };
        let (made, _) = recorded(record(Some(&key)), store.add_project(project)).await;
        assert!(made.unwrap());
        let done = Begun::Done { made: "project:orchard".into() };
        assert_eq!(begin(1).await, done);
        assert_eq!(begin(1000).await, done, "however late");
        store.abandon_answer(&key).await.unwrap();
        assert_eq!(begin(1001).await, done);
    }

    async fn what_changes_nothing_leaves_the_key_to_whoever_asks_again(place) {
        let store = place.open().await;
        let key = AnswerKey { key: "token 1".into(), digest: "d".into() };
        assert_eq!(store.begin_answer(&key, now(), now()).await.unwrap(), Begun::New);
        let (removed, written) = recorded(record(Some(&key)), store.remove_member("orchard", "grace")).await;
        assert!(!removed.unwrap() && written == Recorded::Unused);
        assert_eq!(store.begin_answer(&key, later(1000), later(900)).await.unwrap(), Begun::New);
        let member = Member { project: "orchard".into(), user: "grace".into(), role: Role::Member, since: now() };
        recorded(record(Some(&key)), store.set_member(member)).await.0.unwrap();
        let done = Begun::Done { made: "member:orchard/grace".into() };
        assert_eq!(store.begin_answer(&key, later(1001), later(900)).await.unwrap(), done);
    }
}
