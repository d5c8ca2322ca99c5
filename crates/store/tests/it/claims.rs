//! Claims and leases: of any number of claimers one wins, and who lost a lease can write nothing.

use harvest_core::{EventBody, FailureReason, Move, TaskStatus, TurnStatus};
use harvest_store::{Claim, Error, Owner, OwnerKind};

use crate::support::make::*;
use crate::support::on_both;

on_both! {
    async fn many_claimers_one_winner(place) {
        // Two handles on one file contend like two processes.
        let stores = [place.open().await, place.open().await];
        let mut turns = Vec::new();
        for _ in 0..40 {
            turns.push(submit(&stores[0]).await.turn);
        }
        let claiming = (0..16).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move {
                let me = owner();
                let mut mine = Vec::new();
                while let Some(lease) = claim_any(&store, &me).await {
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

    async fn claims_come_in_order(place) {
        let store = place.open().await;
        let (first, second) = (submit(&store).await, submit(&store).await);
        let me = owner();
        assert_eq!(claim_any(&store, &me).await.unwrap().turn, first.turn);
        assert_eq!(claim_any(&store, &me).await.unwrap().turn, second.turn);
        assert_eq!(claim_any(&store, &me).await, None);
    }

    async fn an_owner_that_was_thought_dead_can_write_nothing(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let (dead, heir) = (owner(), owner());
        let only = Claim { turn: Some(submitted.turn.clone()), ..a_claim(&dead, 1) };
        let old = store.claim(only).await.unwrap().pop().unwrap();
        store.append(&old, warning("still alive").moving(Move::Start)).await.unwrap();
        let new = store.take_over(&dead, &heir, None).await.unwrap();
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

    async fn an_impossible_move_changes_nothing(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        let refused = store.append(&lease, warning("too early").moving(Move::Complete)).await;
        assert!(matches!(refused, Err(Error::IllegalMove(_))), "{refused:?}");
        assert_eq!(store.task(&submitted.task.id).await.unwrap().task.status, TaskStatus::Provisioning);
        let journal = store.events(&submitted.session, 0, 100).await.unwrap();
        assert!(!journal.iter().any(|event| matches!(event.body, EventBody::Warning { .. })), "{journal:?}");
    }

    async fn waiting_tasks_are_cancelled_and_others_are_not(place) {
        let store = place.open().await;
        let (waiting, working) = (submit(&store).await, submit(&store).await);
        claim(&store, &working.turn).await;
        let outcome = store.cancel_waiting(&waiting.task.id, now()).await.unwrap().unwrap();
        assert_eq!((outcome.status, outcome.reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
        assert!(store.cancel_waiting(&waiting.task.id, now()).await.unwrap().is_none(), "twice");
        assert!(store.cancel_waiting(&working.task.id, now()).await.unwrap().is_none(), "being worked on");
        assert_eq!(claim_any(&store, &owner()).await, None, "a cancelled turn is not handed out");
    }

    async fn owners_are_remembered_until_they_leave(place) {
        let store = place.open().await;
        let me = Owner { id: owner(), kind: OwnerKind::Run, pid: 42, holding: None };
        store.register_owner(me.clone()).await.unwrap();
        assert_eq!(store.owners().await.unwrap(), std::slice::from_ref(&me));
        store.remove_owner(&me.id).await.unwrap();
        assert_eq!(store.owners().await.unwrap(), []);
    }
}
