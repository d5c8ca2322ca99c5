//! Leases that are kept alive, run out, are given back; retries that wait for their time.

use harvest_core::{EventBody, FailureReason, Move, Stopping, TaskStatus, TurnStatus};
use harvest_store::{Claim, Error, Reclaimed, Step};

use crate::support::make::*;
use crate::support::on_both;

on_both! {
    async fn a_heartbeat_keeps_a_lease_and_silence_loses_it(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let me = owner();
        let lease = store.claim(Claim { until: Some(later(10)), ..a_claim(&me, 1) }).await.unwrap().pop().unwrap();
        assert_eq!(store.reclaim(later(10)).await.unwrap(), Reclaimed::default());
        assert_eq!(store.heartbeat(&me, later(20)).await.unwrap(), std::slice::from_ref(&lease));
        assert_eq!(store.reclaim(later(15)).await.unwrap().expired, 0);
        store.append(&lease, warning("alive").moving(Move::Start)).await.unwrap();
        assert_eq!(store.reclaim(later(21)).await.unwrap().expired, 1);
        assert_eq!(store.heartbeat(&me, later(40)).await.unwrap(), [], "what is missing was lost");
        let refused = store.append(&lease, warning("too late")).await;
        assert!(matches!(refused, Err(Error::StaleLease { held: 1, .. })), "{refused:?}");

        let detail = store.task(&submitted.task.id).await.unwrap();
        assert_eq!((detail.task.status, detail.sessions[0].turns[0].status), (TaskStatus::Pending, TurnStatus::Ready));
        let journal = store.events(&submitted.session, 0, 100).await.unwrap();
        assert!(matches!(&journal.last().unwrap().body, EventBody::Warning { message } if message.contains("lost")));
        let again = claim_any(&store, &owner()).await.unwrap();
        assert!(again.fence > lease.fence);
        assert_eq!(store.task(&submitted.task.id).await.unwrap().task.tries, 2);
        let refused = store.append(&lease, warning("much too late")).await;
        assert!(matches!(refused, Err(Error::StaleLease { .. })), "{refused:?}");
    }

    async fn a_lease_without_end_is_only_given_back_with_its_owner(place) {
        let store = place.open().await;
        submit(&store).await;
        let me = owner();
        let lease = claim_any(&store, &me).await.unwrap();
        assert_eq!(store.reclaim(later(1_000_000)).await.unwrap().expired, 0);
        let lost = store.release(&me, now()).await.unwrap();
        assert_eq!((lost[0].turn.clone(), lost.len()), (lease.turn.clone(), 1));
        assert!(lost[0].fence > lease.fence);
        assert!(store.release(&me, now()).await.unwrap().is_empty());
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, lease.turn);
    }

    async fn a_task_can_be_claimed_as_it_is_made(place) {
        let store = place.open().await;
        let me = owner();
        let made = create(&store, harvest_store::NewTask { claim_for: Some(me.clone()), ..new_task("mine") }).await;
        let lease = made.lease.expect("claimed");
        assert_eq!((&lease.turn, made.task.status), (&made.turn, TaskStatus::Provisioning));
        assert_eq!(store.heartbeat(&me, later(5)).await.unwrap(), std::slice::from_ref(&lease));
        assert_eq!(claim_any(&store, &owner()).await, None);
        complete(&store, &lease).await;
    }

    async fn a_retry_waits_until_it_is_due(place) {
        let store = place.open().await;
        let submitted = create(&store, harvest_store::NewTask { retries: 1, ..new_task("x") }).await;
        let lease = claim(&store, &submitted.turn).await;
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        let retried = EventBody::TaskRetried { reason: FailureReason::Stall, error: "silent".into(), tries: 1, delay_ms: 30_000 };
        store.append(&lease, Step::new(now(), vec![retried]).retrying(later(30))).await.unwrap();
        let task = store.task(&submitted.task.id).await.unwrap().task;
        assert_eq!((task.status, task.retries_left, task.tries), (TaskStatus::Pending, 0, 1));
        assert_eq!(claim_any(&store, &owner()).await, None);
        let early = store.reclaim(later(29)).await.unwrap();
        assert_eq!(early, Reclaimed { expired: 0, due: 0, next_due: Some(later(30)) });
        assert_eq!(store.reclaim(later(30)).await.unwrap(), Reclaimed { expired: 0, due: 1, next_due: None });
        let lease = claim_any(&store, &owner()).await.unwrap();
        store.append(&lease, Step::new(now(), Vec::new()).retrying(later(60))).await.unwrap();
        assert_eq!(store.task(&submitted.task.id).await.unwrap().task.retries_left, 0, "never below zero");
        assert!(store.cancel_waiting(&submitted.task.id, now()).await.unwrap().is_some(), "while it waits");
        assert_eq!(store.reclaim(later(100)).await.unwrap(), Reclaimed::default());
    }

    async fn an_ended_task_is_retried_by_hand(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let refused = store.retry(&submitted.task.id, now()).await;
        assert!(matches!(refused, Err(Error::IllegalMove(_))), "{refused:?}");
        let unknown = store.retry(&new_task("x").id, now()).await;
        assert!(matches!(unknown, Err(Error::UnknownTask(_))), "{unknown:?}");
        fail(&store, &claim(&store, &submitted.turn).await).await;
        store.retry(&submitted.task.id, later(5)).await.unwrap();
        let task = store.task(&submitted.task.id).await.unwrap().task;
        assert_eq!((task.status, task.reason, task.error, task.finished_at), (TaskStatus::Pending, None, None, None));
        let journal = store.events(&submitted.session, 0, 100).await.unwrap();
        let retried = EventBody::TaskRetried { reason: FailureReason::Agent, error: FailureReason::Agent.to_string(), tries: 1, delay_ms: 0 };
        assert_eq!(journal.last().unwrap().body, retried);
        complete(&store, &claim(&store, &submitted.turn).await).await;
        let refused = store.retry(&submitted.task.id, now()).await;
        assert!(matches!(refused, Err(Error::IllegalMove(_))), "{refused:?}");
        store.cancel_waiting(&submitted.task.id, now()).await.unwrap();
    }

    async fn a_refused_step_disturbs_no_other(place) {
        let store = place.open().await;
        let made = store.create_tasks((0..30).map(|_| new_task("x")).collect()).await.unwrap();
        let me = owner();
        let leases = store.claim(a_claim(&me, 30)).await.unwrap();
        let steps: Vec<_> = leases.into_iter().enumerate().map(|(number, lease)| {
            let store = store.clone();
            tokio::spawn(async move {
                match number % 3 {
                    0 => store.append(&lease, warning("fine").moving(Move::Start)).await.map(|_| ()),
                    1 => store.append(&lease, warning("too early").moving(Move::Complete)).await.map(|_| ()),
                    _ => store.append(&harvest_store::Lease { fence: 99, ..lease }, warning("stale")).await.map(|_| ()),
                }
            })
        }).collect();
        for (number, step) in steps.into_iter().enumerate() {
            let done = step.await.unwrap();
            match number % 3 {
                0 => done.unwrap(),
                1 => assert!(matches!(done, Err(Error::IllegalMove(moved)) if moved.by == Move::Complete), "{done:?}"),
                _ => assert!(matches!(done, Err(Error::StaleLease { held: 99, .. })), "{done:?}"),
            }
        }
        for (number, made) in made.iter().enumerate() {
            let journal = store.events(&made.session, 0, 10).await.unwrap();
            assert_eq!(journal.len(), if number % 3 == 0 { 3 } else { 2 });
        }
    }
}

on_both! {
    async fn whoever_works_on_a_task_hears_that_it_is_to_stop(place) {
        let (store, elsewhere) = (place.open().await, place.open().await);
        let (here, there) = (owner(), owner());
        submit(&store).await;
        let lease = claim_any(&store, &here).await.unwrap();
        let mut woken = store.watch_queue();
        assert!(elsewhere.request_stop(&lease.task, Stopping::Cancel).await.unwrap());
        tokio::time::timeout(std::time::Duration::from_secs(30), woken.changed()).await.unwrap().unwrap();
        assert_eq!(store.stops(&here).await.unwrap(), [(lease.task.clone(), Stopping::Cancel)]);
        assert!(elsewhere.request_stop(&lease.task, Stopping::Terminate).await.unwrap());
        assert!(elsewhere.request_stop(&lease.task, Stopping::Cancel).await.unwrap());
        let asked = store.stops(&here).await.unwrap();
        assert_eq!(asked, [(lease.task.clone(), Stopping::Terminate)], "more haste is not taken back");
        // Whoever takes the turn over from a dead owner is asked as well.
        let heir = owner();
        store.take_over(&here, &heir, None).await.unwrap();
        assert_eq!(store.stops(&heir).await.unwrap(), [(lease.task.clone(), Stopping::Terminate)]);
        store.take_over(&heir, &here, Some(std::slice::from_ref(&lease.session))).await.unwrap();
        assert_eq!(store.stops(&there).await.unwrap(), []);
        // Whoever takes the turn later is not meant.
        store.release(&here, now()).await.unwrap();
        assert!(!elsewhere.request_stop(&lease.task, Stopping::Cancel).await.unwrap(), "no one works on it");
        claim_any(&store, &there).await.unwrap();
        assert_eq!(store.stops(&there).await.unwrap(), []);
    }
}
