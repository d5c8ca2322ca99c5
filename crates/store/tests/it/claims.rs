//! Claims and leases: of any number of claimers one wins, and who lost a lease can write nothing.

use harvest_core::{EventBody, FailureReason, Move, Outcome, TaskStatus, TurnStatus};
use harvest_store::{Error, Lease, Owner, OwnerKind, Step};

use crate::{Place, now, owner, submit};

fn warning(text: &str) -> Step {
    Step::new(now(), vec![EventBody::Warning { message: text.into() }])
}

pub fn ending(lease: &Lease, status: TaskStatus, reason: Option<FailureReason>) -> Step {
    let outcome = Outcome {
        task_id: lease.task.clone(),
        session_id: lease.session.clone(),
        status,
        reason,
        error: reason.map(|reason| reason.to_string()),
        branch: None,
        commit: "c".repeat(40),
        base: "b".repeat(40),
        evidence: None,
        usage: Default::default(),
        cost_usd: Default::default(),
    };
    let by = if status == TaskStatus::Completed { Move::Complete } else { Move::Fail };
    Step::new(now(), vec![EventBody::TaskFinished(outcome.clone())]).moving(by).ending(outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_claimers_one_winner() {
    let place = Place::new();
    // Two handles on one file contend like two processes.
    let stores = [place.open(), place.open()];
    let mut turns = Vec::new();
    for _ in 0..40 {
        turns.push(submit(&stores[0]).await.turn);
    }
    let claiming = (0..16).map(|number| {
        let store = stores[number % 2].clone();
        tokio::spawn(async move {
            let me = owner();
            let mut mine = Vec::new();
            while let Some(lease) = store.claim(&me, None, now()).await.unwrap() {
                mine.push(lease.turn);
            }
            mine
        })
    });
    let mut claimed = Vec::new();
    for worker in claiming.collect::<Vec<_>>() {
        claimed.extend(worker.await.unwrap());
    }
    claimed.sort();
    turns.sort();
    assert_eq!(claimed, turns, "every turn exactly once");
}

#[tokio::test]
async fn claims_come_in_order() {
    let place = Place::new();
    let store = place.open();
    let (first, second) = (submit(&store).await, submit(&store).await);
    let me = owner();
    assert_eq!(store.claim(&me, None, now()).await.unwrap().unwrap().turn, first.turn);
    assert_eq!(store.claim(&me, None, now()).await.unwrap().unwrap().turn, second.turn);
    assert_eq!(store.claim(&me, None, now()).await.unwrap(), None);
}

#[tokio::test]
async fn an_owner_that_was_thought_dead_can_write_nothing() {
    let place = Place::new();
    let store = place.open();
    let submitted = submit(&store).await;
    let (dead, heir) = (owner(), owner());
    let old = store.claim(&dead, Some(&submitted.turn), now()).await.unwrap().unwrap();
    store.append(&old, warning("still alive").moving(Move::Start)).await.unwrap();
    let new = store.take_over(&dead, &heir).await.unwrap();
    let [new] = new.as_slice() else { panic!("one lease, got {new:?}") };
    assert!(new.fence > old.fence);

    let refused = store.append(&old, ending(&old, TaskStatus::Completed, None)).await;
    assert!(matches!(refused, Err(Error::StaleLease { .. })), "{refused:?}");
    assert_eq!(store.task(&submitted.task.id).await.unwrap().task.status, TaskStatus::Running);

    store.append(new, ending(new, TaskStatus::Failed, Some(FailureReason::Internal))).await.unwrap();
    let again = store.append(new, warning("after the end")).await;
    assert!(matches!(again, Err(Error::StaleLease { .. })), "an ended turn takes no more: {again:?}");
    let detail = store.task(&submitted.task.id).await.unwrap();
    assert_eq!(detail.task.status, TaskStatus::Failed);
    assert_eq!(detail.sessions[0].turns[0].status, TurnStatus::Done);
    let journal = store.events(&submitted.session, 0, 100).await.unwrap();
    assert!(!journal.iter().any(|event| matches!(&event.body, EventBody::Warning { message } if message == "after the end")));
}

#[tokio::test]
async fn an_impossible_move_changes_nothing() {
    let place = Place::new();
    let store = place.open();
    let submitted = submit(&store).await;
    let lease = store.claim(&owner(), Some(&submitted.turn), now()).await.unwrap().unwrap();
    let refused = store.append(&lease, warning("too early").moving(Move::Complete)).await;
    assert!(matches!(refused, Err(Error::IllegalMove(_))), "{refused:?}");
    assert_eq!(store.task(&submitted.task.id).await.unwrap().task.status, TaskStatus::Provisioning);
    let journal = store.events(&submitted.session, 0, 100).await.unwrap();
    assert!(!journal.iter().any(|event| matches!(event.body, EventBody::Warning { .. })), "{journal:?}");
}

#[tokio::test]
async fn waiting_tasks_are_cancelled_and_others_are_not() {
    let place = Place::new();
    let store = place.open();
    let (waiting, working) = (submit(&store).await, submit(&store).await);
    store.claim(&owner(), Some(&working.turn), now()).await.unwrap().unwrap();
    let outcome = store.cancel_waiting(&waiting.task.id, now()).await.unwrap().unwrap();
    assert_eq!((outcome.status, outcome.reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
    assert!(store.cancel_waiting(&waiting.task.id, now()).await.unwrap().is_none(), "twice");
    assert!(store.cancel_waiting(&working.task.id, now()).await.unwrap().is_none(), "being worked on");
    assert_eq!(store.claim(&owner(), None, now()).await.unwrap(), None, "a cancelled turn is not handed out");
}

#[tokio::test]
async fn owners_are_remembered_until_they_leave() {
    let place = Place::new();
    let store = place.open();
    let me = Owner { id: owner(), kind: OwnerKind::Run, pid: 42 };
    store.register_owner(me.clone()).await.unwrap();
    assert_eq!(store.owners().await.unwrap(), [me.clone()]);
    store.remove_owner(&me.id).await.unwrap();
    assert_eq!(store.owners().await.unwrap(), []);
}
