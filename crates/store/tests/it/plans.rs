//! Turns that wait for a person: no one holds them, and they go on or end as the person says.

use harvest_core::{EventBody, FailureReason, Move, TaskStatus, TurnStatus};
use harvest_store::{Error, NewTask, PlanDecision, PlanVerdict, Step};

use crate::support::make::*;
use crate::support::on_both;

fn decision(verdict: PlanVerdict) -> PlanDecision {
    PlanDecision { by: requester("lin", None), verdict }
}

fn plan() -> Vec<EventBody> {
    vec![EventBody::PlanProposed { text: "First this, then that.".into() }]
}

on_both! {
    async fn waiting_for_a_person_holds_nothing(place) {
        let store = place.open().await;
        store.set_cap("a", Some(1)).await.unwrap();
        let capped = || NewTask { caps: vec!["a".into()], ..new_task("x") };
        let (first, second) = (create(&store, capped()).await, create(&store, capped()).await);
        let lease = claim(&store, &first.turn).await;
        let early = store.ask_approval(&lease, now(), plan()).await;
        assert!(matches!(early, Err(Error::IllegalMove(_))), "no agent has worked on it: {early:?}");
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        store.ask_approval(&lease, now(), plan()).await.unwrap();
        let detail = store.task(&first.task.id).await.unwrap();
        assert_eq!(detail.task.status, TaskStatus::AwaitingApproval);
        assert_eq!(detail.sessions[0].turns[0].status, TurnStatus::Held);
        assert!(matches!(store.append(&lease, warning("late")).await, Err(Error::StaleLease { .. })));
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, second.turn, "its place is free");
        // A worker that comes and goes changes nothing, and a prompt waits.
        store.reclaim(later(100_000)).await.unwrap();
        let more = store.prompt(new_turn(&first.session, "more")).await.unwrap();
        assert_eq!(more.status, TurnStatus::Queued);
        let approved = decision(PlanVerdict::Approved { changed: Some("Only this.".into()) });
        store.decide(&first.task.id, approved, now()).await.unwrap();
        let told = store.events(&first.session, 0, 100).await.unwrap().pop().unwrap().body;
        let expected = EventBody::PlanDecided { approved: true, author: "lin".into(), plan: Some("Only this.".into()), comment: None };
        assert_eq!(told, expected);
        let detail = store.task(&first.task.id).await.unwrap();
        assert_eq!((detail.task.status, detail.sessions[0].turns[0].status), (TaskStatus::Pending, TurnStatus::Parked));
        let twice = store.decide(&first.task.id, decision(PlanVerdict::Rejected), now()).await;
        assert!(matches!(twice, Err(Error::IllegalMove(_))), "{twice:?}");
    }

    async fn a_plan_can_be_made_again_or_be_the_end(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        for _ in 0..2 {
            let lease = claim(&store, &first.turn).await;
            store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
            store.ask_approval(&lease, now(), plan()).await.unwrap();
            store.decide(&first.task.id, decision(PlanVerdict::Again { comment: "Shorter.".into() }), now()).await.unwrap();
        }
        let lease = claim(&store, &first.turn).await;
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        store.ask_approval(&lease, now(), plan()).await.unwrap();
        store.decide(&first.task.id, decision(PlanVerdict::Rejected), now()).await.unwrap();
        let task = store.task(&first.task.id).await.unwrap().task;
        assert_eq!((task.status, task.reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
        assert_eq!(task.error.as_deref(), Some("what it proposed was rejected"));
        assert_eq!(store.queue().await.unwrap().turns, Default::default());
        let unknown = store.decide(&new_task("never made").id, decision(PlanVerdict::Rejected), now()).await;
        assert!(matches!(unknown, Err(Error::UnknownTask(_))), "{unknown:?}");
    }

    async fn a_task_that_waits_for_a_person_can_be_cancelled(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let lease = claim(&store, &first.turn).await;
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        store.ask_approval(&lease, now(), plan()).await.unwrap();
        let outcome = store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        assert_eq!(outcome.status, TaskStatus::Cancelled);
    }
}
