//! Leases that are kept alive, run out, are given back; retries that wait for their time.

use std::sync::Arc;

use harvest_core::{EventBody, FailureReason, Move, OwnerId, Stopping, TaskStatus, TurnId, TurnStatus};
use harvest_store::{Admission, Claim, Error, NewTask, Reclaimed, Step, Store};

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

    async fn a_turn_is_given_back_by_whoever_held_it_last_alone(place) {
        let store = place.open().await;
        submit(&store).await;
        let (first, second) = (owner(), owner());
        let lost = store.claim(Claim { until: Some(later(10)), ..a_claim(&first, 1) }).await.unwrap().pop().unwrap();
        assert!(!store.was_given_back(&lost).await.unwrap(), "it is at work");
        assert_eq!(store.reclaim(later(11)).await.unwrap().expired, 1);
        assert!(!store.was_given_back(&lost).await.unwrap(), "it waits for another");
        let lease = claim_any(&store, &second).await.unwrap();
        complete(&store, &lease).await;
        assert!(store.was_given_back(&lease).await.unwrap());
        assert!(!store.was_given_back(&lost).await.unwrap(), "another gave it back");
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
        let made = create(&store, NewTask { claim_for: Some(me.clone()), ..new_task("mine") }).await;
        let lease = made.lease.expect("claimed");
        assert_eq!((&lease.turn, made.task.status), (&made.turn, TaskStatus::Provisioning));
        assert_eq!(store.heartbeat(&me, later(5)).await.unwrap(), std::slice::from_ref(&lease));
        assert_eq!(claim_any(&store, &owner()).await, None);
        complete(&store, &lease).await;
    }

    async fn a_retry_waits_until_it_is_due(place) {
        let store = place.open().await;
        let submitted = create(&store, NewTask { retries: 1, ..new_task("x") }).await;
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
        let refused = store.retry(&submitted.task.id, Admission::default(), now()).await;
        assert!(matches!(refused, Err(Error::IllegalMove(_))), "{refused:?}");
        let unknown = store.retry(&new_task("x").id, Admission::default(), now()).await;
        assert!(matches!(unknown, Err(Error::UnknownTask(_))), "{unknown:?}");
        fail(&store, &claim(&store, &submitted.turn).await).await;
        store.retry(&submitted.task.id, Admission::default(), later(5)).await.unwrap();
        let task = store.task(&submitted.task.id).await.unwrap().task;
        assert_eq!((task.status, task.reason, task.error, task.finished_at), (TaskStatus::Pending, None, None, None));
        let journal = store.events(&submitted.session, 0, 100).await.unwrap();
        let retried = EventBody::TaskRetried { reason: FailureReason::Agent, error: FailureReason::Agent.to_string(), tries: 1, delay_ms: 0 };
        assert_eq!(journal.last().unwrap().body, retried);
        complete(&store, &claim(&store, &submitted.turn).await).await;
        let refused = store.retry(&submitted.task.id, Admission::default(), now()).await;
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
        assert_eq!(asked_of(&store, &here).await, [(lease.turn.clone(), 1, Stopping::Cancel)]);
        assert!(elsewhere.request_stop(&lease.task, Stopping::Terminate).await.unwrap());
        assert!(elsewhere.request_stop(&lease.task, Stopping::Cancel).await.unwrap());
        let asked = asked_of(&store, &here).await;
        assert_eq!(asked, [(lease.turn.clone(), 1, Stopping::Terminate)], "more haste is not taken back");
        // Whoever takes the turn over from a dead owner is asked as well.
        let heir = owner();
        store.take_over(&here, &heir, None).await.unwrap();
        assert_eq!(asked_of(&store, &heir).await, [(lease.turn.clone(), 2, Stopping::Terminate)]);
        store.take_over(&heir, &here, Some(std::slice::from_ref(&lease.session))).await.unwrap();
        assert_eq!(asked_of(&store, &there).await, []);
        // And whoever takes it from the queue.
        store.release(&here, now()).await.unwrap();
        assert!(!elsewhere.request_stop(&lease.task, Stopping::Cancel).await.unwrap(), "no one works on it");
        let lease = claim_any(&store, &there).await.unwrap();
        assert_eq!(asked_of(&store, &there).await, [(lease.turn, lease.fence, Stopping::Terminate)]);
    }
}

on_both! {
    async fn a_stop_outlives_a_lease_that_ran_out_and_a_try_that_failed(place) {
        let store = place.open().await;
        let (first, second) = (owner(), owner());
        store.create_tasks(vec![NewTask { retries: 1, ..new_task("Mend it") }]).await.unwrap();
        let lease = store.claim(Claim { until: Some(later(10)), ..a_claim(&first, 1) }).await.unwrap().remove(0);
        assert!(store.request_stop(&lease.task, Stopping::Cancel).await.unwrap());
        assert_eq!(store.reclaim(later(11)).await.unwrap().expired, 1);
        let lease = claim_any(&store, &second).await.unwrap();
        assert_eq!(asked_of(&store, &second).await, [(lease.turn.clone(), lease.fence, Stopping::Cancel)]);
        store.append(&lease, Step::new(now(), vec![]).retrying(later(20))).await.unwrap();
        store.reclaim(later(20)).await.unwrap();
        let lease = claim_any(&store, &first).await.unwrap();
        assert_eq!(asked_of(&store, &first).await, [(lease.turn.clone(), lease.fence, Stopping::Cancel)]);
        store.put_off(&lease, later(30), now(), vec![]).await.unwrap();
        store.reclaim(later(30)).await.unwrap();
        let lease = claim_any(&store, &second).await.unwrap();
        assert_eq!(asked_of(&store, &second).await, [(lease.turn, lease.fence, Stopping::Cancel)]);
    }
}

on_both! {
    async fn a_stop_is_over_with_its_turn(place) {
        let store = place.open().await;
        let owner = owner();
        let made = submit(&store).await;
        let lease = claim_any(&store, &owner).await.unwrap();
        assert!(store.request_stop(&lease.task, Stopping::Cancel).await.unwrap());
        fail(&store, &lease).await;
        // The same turn, because someone wants it again.
        store.retry(&lease.task, Admission::default(), now()).await.unwrap();
        let lease = claim_any(&store, &owner).await.unwrap();
        assert_eq!(asked_of(&store, &owner).await, []);
        assert!(store.request_stop(&lease.task, Stopping::Cancel).await.unwrap());
        complete(&store, &lease).await;
        // The next turn of the same task.
        store.prompt(new_turn(&made.session, "And this")).await.unwrap();
        claim_any(&store, &owner).await.unwrap();
        assert_eq!(asked_of(&store, &owner).await, []);
    }
}

on_both! {
    async fn who_is_cancelled_while_a_turn_is_given_back_is_cancelled(place) {
        let store = place.open().await;
        let owner = owner();
        submit(&store).await;
        let lease = claim_any(&store, &owner).await.unwrap();
        store.append(&lease, Step::new(now(), vec![]).moving(Move::Start)).await.unwrap();
        let interrupt = Stopping::Interrupt { author: "ada".into(), reason: None };
        assert!(store.request_stop(&lease.task, Stopping::Cancel).await.unwrap());
        assert!(store.request_stop(&lease.task, interrupt.clone()).await.unwrap());
        store.interrupt(&lease, now(), vec![]).await.unwrap();
        let task = store.task(&lease.task).await.unwrap().task;
        assert_eq!((task.status, task.reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
        // One that is only interrupted waits, and what was asked of it is done.
        submit(&store).await;
        let lease = claim_any(&store, &owner).await.unwrap();
        store.append(&lease, Step::new(now(), vec![]).moving(Move::Start)).await.unwrap();
        assert!(store.request_stop(&lease.task, interrupt).await.unwrap());
        store.interrupt(&lease, now(), vec![]).await.unwrap();
        assert_eq!(store.task(&lease.task).await.unwrap().task.status, TaskStatus::Interrupted);
        store.resume(&lease.task, requester("ada", None), None, now()).await.unwrap();
        claim_any(&store, &owner).await.unwrap();
        assert_eq!(asked_of(&store, &owner).await, []);
    }
}

on_both! {
    async fn a_turn_that_is_put_off_comes_back_when_it_is_due(place) {
        let store = place.open().await;
        let owner = owner();
        store.create_tasks(vec![NewTask { retries: 1, ..new_task("Mend it") }]).await.unwrap();
        let lease = claim_any(&store, &owner).await.unwrap();
        let warning = EventBody::Warning { message: "the disk is full".into() };
        store.put_off(&lease, later(10), now(), vec![warning.clone()]).await.unwrap();
        let task = store.task(&lease.task).await.unwrap().task;
        assert_eq!((task.status, task.retries_left), (TaskStatus::Pending, 1));
        let journal = store.events(&lease.session, 0, 10).await.unwrap();
        assert_eq!(journal.last().map(|event| &event.body), Some(&warning));
        assert!(store.put_off(&lease, later(10), now(), vec![]).await.is_err(), "it is nobody's any more");
        assert!(claim_any(&store, &owner).await.is_none());
        assert_eq!(store.reclaim(later(9)).await.unwrap().next_due, Some(later(10)));
        assert_eq!(store.reclaim(later(10)).await.unwrap().due, 1);
        assert_eq!(claim_any(&store, &owner).await.unwrap().turn, lease.turn);
    }
}

/// Which turns an owner is asked to stop, under which fences, and how.
async fn asked_of(store: &Arc<dyn Store>, owner: &OwnerId) -> Vec<(TurnId, u64, Stopping)> {
    let asked = store.stops(owner).await.unwrap();
    asked.into_iter().map(|(lease, how)| (lease.turn, lease.fence, how)).collect()
}
