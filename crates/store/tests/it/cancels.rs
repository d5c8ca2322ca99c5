//! Tasks that are cancelled while they wait, and have work.

use std::sync::Arc;

use harvest_core::{EventBody, FailureReason, Move, StageName, Stopping, TaskStatus, TurnStatus};
use harvest_store::{Claim, Lease, NewTask, Step, Store, Submitted};

use crate::support::make::*;
use crate::support::on_both;

/// A task whose first try failed with this work, and that waits for the second.
async fn waiting(store: &Arc<dyn Store>, new: NewTask, work: Option<&str>) -> (Submitted, Lease) {
    let submitted = create(store, NewTask { retries: 1, ..new }).await;
    let lease = claim(store, &submitted.turn).await;
    let checkpoint = work.map(|commit| EventBody::CheckpointCreated { number: 1, commit: commit.into() });
    let told = Step::new(now(), checkpoint.into_iter().collect()).moving(Move::Start);
    store.append(&lease, told).await.unwrap();
    store.append(&lease, warning("it failed").retrying(later(60))).await.unwrap();
    (submitted, lease)
}

async fn cap_in_use(store: &Arc<dyn Store>) -> u32 {
    store.queue().await.unwrap().caps.into_iter().find(|cap| cap.name == "x").unwrap().used
}

on_both! {
    async fn the_newest_work_of_a_turn_is_what_its_journal_says(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        assert_eq!(store.newest_work(&submitted.session).await.unwrap(), None);
        let lease = claim(&store, &submitted.turn).await;
        let work = async |body: EventBody| {
            store.append(&lease, Step::new(now(), vec![body])).await.unwrap();
            store.newest_work(&submitted.session).await.unwrap()
        };
        let executed = |commit: &str| EventBody::StageFinished {
            stage: StageName::Execute,
            result: serde_json::json!({ "commit": commit, "failure": null }),
        };
        assert_eq!(work(EventBody::CheckpointCreated { number: 1, commit: "a".into() }).await.as_deref(), Some("a"));
        assert_eq!(work(executed("b")).await.as_deref(), Some("b"));
        let verified = EventBody::StageFinished { stage: StageName::Verify, result: serde_json::Value::Null };
        assert_eq!(work(verified).await.as_deref(), Some("b"), "it is no new work");
        let (turn_id, author) = (lease.turn.clone(), "ada".to_owned());
        let interrupted = EventBody::SessionInterrupted { turn_id, author, reason: None, commit: "c".into() };
        assert_eq!(work(interrupted).await.as_deref(), Some("c"));
        complete(&store, &lease).await;
        assert_eq!(store.newest_work(&submitted.session).await.unwrap(), None, "its turn has ended");
    }

    async fn a_cancelled_task_keeps_the_work_that_nobody_delivered(place) {
        let store = place.open().await;
        let (with, _) = waiting(&store, new_task("with work"), Some("f00d")).await;
        let (without, _) = waiting(&store, new_task("without"), None).await;
        let unstarted = submit(&store).await;
        let cancelled = async |task: &Submitted| {
            let outcome = store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
            let kept = store.task(&task.task.id).await.unwrap().task;
            assert_eq!((kept.commit.as_ref(), &kept.error), (Some(&outcome.commit), &outcome.error));
            (outcome.commit, outcome.error.unwrap(), kept.has_undelivered_work())
        };
        let said = "cancelled before it continued; its work so far was not delivered".to_owned();
        assert_eq!(cancelled(&with).await, ("f00d".to_owned(), said, true));
        let nothing = ("b".repeat(40), "cancelled before it started".to_owned(), false);
        assert_eq!(cancelled(&without).await, nothing);
        assert_eq!(cancelled(&unstarted).await, nothing);
    }

    async fn a_waiting_turn_is_claimed_to_be_ended_and_takes_no_place(place) {
        let store = place.open().await;
        store.set_cap("x", Some(1)).await.unwrap();
        let capped = || NewTask { caps: vec!["x".into()], ..new_task("capped") };
        let (task, before) = waiting(&store, capped(), Some("f00d")).await;
        let other = create(&store, capped()).await;
        let me = owner();
        let claim_it = Claim { until: Some(later(30)), ..a_claim(&me, 1) };
        let lease = store.claim_to_stop(&task.task.id, Stopping::Cancel, claim_it.clone()).await.unwrap().unwrap();
        assert!(lease.fence > before.fence && lease.turn == task.turn, "{lease:?}");
        assert_eq!(store.stops(&me).await.unwrap(), [(lease.clone(), Stopping::Cancel)]);
        assert_eq!(cap_in_use(&store).await, 0, "nobody works on it");
        assert!(store.claim_to_stop(&task.task.id, Stopping::Cancel, claim_it).await.unwrap().is_none(), "twice");
        assert!(store.cancel_waiting(&task.task.id, now()).await.unwrap().is_none(), "it is being ended");
        let end = outcome(&lease, TaskStatus::Cancelled, Some(FailureReason::Cancelled));
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Cancel).ending(end)).await.unwrap();
        let ended = store.task(&task.task.id).await.unwrap();
        assert_eq!((ended.task.status, ended.task.tries), (TaskStatus::Cancelled, 1), "it was no try");
        let lease = claim_any(&store, &owner()).await.unwrap();
        assert_eq!((&lease.turn, cap_in_use(&store).await), (&other.turn, 1));
        let third = create(&store, capped()).await;
        assert_eq!(claim_any(&store, &owner()).await, None, "there is one place");
        complete(&store, &lease).await;
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, third.turn);
    }

    async fn one_that_is_lost_on_the_way_is_ended_by_the_next(place) {
        let store = place.open().await;
        let (task, _) = waiting(&store, new_task("lost"), Some("f00d")).await;
        let (me, next) = (owner(), owner());
        let claim_it = Claim { until: Some(later(30)), ..a_claim(&me, 1) };
        let lost = store.claim_to_stop(&task.task.id, Stopping::Cancel, claim_it).await.unwrap().unwrap();
        assert_eq!(store.reclaim(later(31)).await.unwrap().expired, 1);
        assert_eq!(store.task(&task.task.id).await.unwrap().sessions[0].turns[0].status, TurnStatus::Ready);
        let lease = claim_any(&store, &next).await.unwrap();
        assert!(lease.fence > lost.fence);
        assert_eq!(store.stops(&next).await.unwrap(), [(lease, Stopping::Cancel)], "it is still to be ended");
    }

    async fn what_was_not_begun_or_waits_for_a_person_is_not_claimed_to_be_ended(place) {
        let store = place.open().await;
        let unstarted = submit(&store).await;
        let claim_it = || a_claim(&owner(), 1);
        let taken = async |task: &Submitted| {
            store.claim_to_stop(&task.task.id, Stopping::Cancel, claim_it()).await.unwrap().is_some()
        };
        assert!(!taken(&unstarted).await);
        let lease = claim(&store, &unstarted.turn).await;
        assert!(!taken(&unstarted).await, "it is worked on");
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        store.ask_approval(&lease, now(), vec![EventBody::PlanProposed { text: "x".into() }]).await.unwrap();
        assert!(!taken(&unstarted).await, "a person decides on it");
        let retried = submit(&store).await;
        let lease = claim(&store, &retried.turn).await;
        fail(&store, &lease).await;
        store.retry(&retried.task.id, Default::default(), now()).await.unwrap();
        assert!(!taken(&retried).await, "a retry that nobody began is withdrawn");
        assert!(store.cancel_waiting(&retried.task.id, now()).await.unwrap().is_some());
        let interrupted = submit(&store).await;
        let lease = claim(&store, &interrupted.turn).await;
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        let (turn_id, author) = (lease.turn.clone(), "ada".to_owned());
        let event = EventBody::SessionInterrupted { turn_id, author, reason: None, commit: "c".into() };
        store.interrupt(&lease, now(), vec![event]).await.unwrap();
        assert!(taken(&interrupted).await);
        assert_eq!(store.task(&interrupted.task.id).await.unwrap().task.status, TaskStatus::Provisioning);
    }
}
