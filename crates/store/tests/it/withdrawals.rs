//! Follow-ups and retries that are cancelled before anyone works on them: the task has its former result again.

use harvest_core::{
    EventBody, Evidence, FailureReason, Move, OnFailedDependency, Outcome, TaskStatus, TurnEnd, TurnStatus,
};
use harvest_store::{Admission, NewTask, NewTurn, PlanDecision, PlanVerdict, Step, Store};

use crate::support::make::*;
use crate::support::on_both;

fn evidence() -> Evidence {
    serde_json::from_value(serde_json::json!({
        "commit": "c".repeat(40), "command": "make test", "exit_code": 0, "passed": 3, "failed": 0, "duration_ms": 5,
        "environment": "e", "baseline": { "exit_code": 1, "passed": 2, "failed": 1 }, "flags": [],
    }))
    .unwrap()
}

/// Completes a turn with evidence and a branch.
async fn verify(store: &std::sync::Arc<dyn Store>, lease: &harvest_store::Lease) {
    let mut outcome = outcome(lease, TaskStatus::Completed, None);
    outcome.evidence = Some(evidence());
    outcome.branch = Some(serde_json::from_value("harvest/mend-it-00000000".into()).unwrap());
    store.append(lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
    let end = Step::new(now(), vec![EventBody::TaskFinished(outcome.clone())]).moving(Move::Complete).ending(outcome);
    store.append(lease, end).await.unwrap();
}

on_both! {
    async fn a_follow_up_that_is_cancelled_while_it_waits_leaves_the_task_as_it_was(place) {
        let store = place.open().await;
        store.set_cap("repo", Some(1)).await.unwrap();
        let first = submit(&store).await;
        verify(&store, &claim(&store, &first.turn).await).await;
        let before = store.task(&first.task.id).await.unwrap().task;
        assert!(before.evidence.is_some() && before.branch.is_some());
        let asked = NewTurn { agent: Some("codex".into()), caps: vec!["repo".into()], ..new_turn(&first.session, "more") };
        let turn = store.prompt(asked).await.unwrap();
        let in_line = store.prompt(new_turn(&first.session, "and more")).await.unwrap();
        assert_eq!([turn.status, in_line.status], [TurnStatus::Ready, TurnStatus::Queued]);
        let outcome = store.cancel_waiting(&first.task.id, later(60)).await.unwrap().unwrap();
        let detail = store.task(&first.task.id).await.unwrap();
        assert_eq!(detail.task, before);
        assert_eq!((outcome.status, outcome.reason, outcome.evidence), (TaskStatus::Completed, None, before.evidence));
        assert_eq!((outcome.branch, Some(outcome.commit)), (before.branch, before.commit));
        let turns = &detail.sessions[0].turns;
        assert!(turns.iter().all(|turn| turn.status == TurnStatus::Done && turn.agent.is_none()), "{turns:?}");
        let ends: Vec<_> = turns.iter().map(|turn| turn.ended.unwrap()).collect();
        assert_eq!(ends, [TurnEnd::Completed, TurnEnd::Withdrawn, TurnEnd::Withdrawn]);
        let events = store.events(&first.session, 0, 100).await.unwrap();
        let last: Vec<&EventBody> = events.iter().rev().take(3).map(|event| &event.body).collect();
        let cancelled = |turn_id| EventBody::TurnFinished { turn_id, reason: Some(FailureReason::Cancelled) };
        assert_eq!(last[1..], [&cancelled(in_line.id), &cancelled(turn.id)]);
        assert!(matches!(last[0], EventBody::TaskFinished(outcome) if outcome.status == TaskStatus::Completed));
        assert_eq!(store.cancel_waiting(&first.task.id, now()).await.unwrap(), None, "it has ended");
        assert_eq!(claim_any(&store, &owner()).await, None);
        // The session goes on with whatever is asked next.
        let next = store.prompt(new_turn(&first.session, "something else")).await.unwrap();
        assert_eq!((next.number, next.status), (4, TurnStatus::Ready));
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, next.id);
    }

    async fn the_withdrawn_follow_up_gives_its_place_to_others_and_lets_those_go_that_waited(place) {
        let store = place.open().await;
        store.set_cap("repo", Some(1)).await.unwrap();
        let first = submit(&store).await;
        let lease = claim(&store, &first.turn).await;
        store.prompt(NewTurn { caps: vec!["repo".into()], ..new_turn(&first.session, "more") }).await.unwrap();
        let behind = create(&store, NewTask { after: vec![first.task.id.clone()], ..new_task("behind") }).await;
        complete(&store, &lease).await;
        let parked = create(&store, NewTask { caps: vec!["repo".into()], ..new_task("parked") }).await;
        assert_eq!(store.queue().await.unwrap().turns.parked, 1);
        store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        let mut expected = [behind.task.id, parked.task.id];
        let mut taken = claim_all(&store).await;
        expected.sort();
        taken.sort();
        assert_eq!(taken, expected);
    }

    async fn a_failed_task_is_failed_again_and_its_own_turn_is_what_a_retry_begins(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        fail(&store, &claim(&store, &first.turn).await).await;
        let before = store.task(&first.task.id).await.unwrap().task;
        let dependent = NewTask { after: vec![first.task.id.clone()], on_failed_dependency: OnFailedDependency::Cancel, ..new_task("behind") };
        store.prompt(new_turn(&first.session, "more")).await.unwrap();
        let dependent = create(&store, dependent).await;
        store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        assert_eq!(store.task(&first.task.id).await.unwrap().task, before);
        assert_eq!(store.task(&dependent.task.id).await.unwrap().task.status, TaskStatus::Cancelled);
        let asker = Admission { person: Some("lin".into()), ..Admission::default() };
        store.retry(&first.task.id, asker, now()).await.unwrap();
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, first.turn);
        assert_eq!(store.session(&first.session).await.unwrap().turns[0].acts_for.as_deref(), Some("lin"));
    }

    async fn a_retry_that_is_cancelled_while_it_waits_leaves_the_task_as_it_was(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let asked = NewTurn { agent: Some("codex".into()), ..new_turn(&first.session, "more") };
        verify(&store, &claim(&store, &first.turn).await).await;
        let second = store.prompt(asked).await.unwrap();
        let lease = claim(&store, &second.id).await;
        let branch = store.task(&first.task.id).await.unwrap().task.branch;
        let failed = Outcome {
            evidence: Some(evidence()),
            branch,
            error: Some("2 tests fail".into()),
            ..outcome(&lease, TaskStatus::Failed, Some(FailureReason::Tests))
        };
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Fail).ending(failed)).await.unwrap();
        let before = store.task(&first.task.id).await.unwrap();
        assert!(before.task.evidence.is_some() && before.task.branch.is_some() && before.task.error.is_some());
        for _ in 0..2 {
            store.retry(&first.task.id, Admission::default(), now()).await.unwrap();
            let in_line = store.prompt(new_turn(&first.session, "and more")).await.unwrap();
            assert_eq!(in_line.status, TurnStatus::Queued);
            let outcome = store.cancel_waiting(&first.task.id, later(60)).await.unwrap().unwrap();
            assert_eq!((outcome.status, outcome.reason), (TaskStatus::Failed, Some(FailureReason::Tests)));
            assert_eq!((outcome.error, outcome.evidence), (before.task.error.clone(), before.task.evidence.clone()));
            let after = store.task(&first.task.id).await.unwrap();
            assert_eq!(after.task, before.task);
            assert_eq!(after.sessions[0].turns[..2], before.sessions[0].turns[..2], "the agent that was asked for stays");
            assert!(after.sessions[0].turns.iter().all(|turn| turn.status == TurnStatus::Done));
            let events = store.events(&first.session, 0, 100).await.unwrap();
            let last: Vec<&EventBody> = events.iter().rev().take(2).map(|event| &event.body).collect();
            assert_eq!(last[1], &EventBody::TurnFinished { turn_id: in_line.id, reason: Some(FailureReason::Cancelled) });
            assert!(matches!(last[0], EventBody::TaskFinished(outcome) if outcome.status == TaskStatus::Failed));
            assert_eq!(claim_any(&store, &owner()).await, None);
        }
        // It can be tried again, and what was begun ends as cancelled.
        store.retry(&first.task.id, Admission::default(), now()).await.unwrap();
        let me = owner();
        assert_eq!(claim_any(&store, &me).await.unwrap().turn, second.id);
        store.release(&me, now()).await.unwrap();
        let outcome = store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        assert_eq!((outcome.status, outcome.reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
    }

    async fn a_cancelled_task_whose_retry_is_cancelled_keeps_why_it_was_cancelled(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        let before = store.task(&first.task.id).await.unwrap().task;
        store.retry(&first.task.id, Admission::default(), later(5)).await.unwrap();
        store.cancel_waiting(&first.task.id, later(60)).await.unwrap().unwrap();
        assert_eq!(store.task(&first.task.id).await.unwrap().task, before);
        store.retry(&first.task.id, Admission::default(), later(65)).await.unwrap();
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, first.turn);
    }

    async fn a_follow_up_that_was_begun_ends_as_cancelled(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        complete(&store, &claim(&store, &first.turn).await).await;
        store.prompt(new_turn(&first.session, "more")).await.unwrap();
        let me = owner();
        claim_any(&store, &me).await.unwrap();
        store.release(&me, now()).await.unwrap();
        let outcome = store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        assert_eq!((outcome.status, outcome.reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
    }

    async fn a_turn_tells_how_it_ended_until_it_is_tried_again(place) {
        let store = place.open().await;
        let ended = async |task: &harvest_store::Submitted| store.session(&task.session).await.unwrap().turns[0].ended;
        let failed = submit(&store).await;
        assert_eq!(ended(&failed).await, None);
        fail(&store, &claim(&store, &failed.turn).await).await;
        assert_eq!(ended(&failed).await, Some(TurnEnd::Failed));
        store.retry(&failed.task.id, Admission::default(), now()).await.unwrap();
        assert_eq!(ended(&failed).await, None);
        store.cancel_waiting(&failed.task.id, now()).await.unwrap().unwrap();
        assert_eq!(ended(&failed).await, Some(TurnEnd::Failed));
        let cancelled = submit(&store).await;
        store.cancel_waiting(&cancelled.task.id, now()).await.unwrap().unwrap();
        assert_eq!(ended(&cancelled).await, Some(TurnEnd::Cancelled));
    }

    async fn a_follow_up_has_tries_of_its_own(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        complete(&store, &claim(&store, &first.turn).await).await;
        for _ in 0..2 {
            store.prompt(new_turn(&first.session, "more")).await.unwrap();
            complete(&store, &claim_any(&store, &owner()).await.unwrap()).await;
            assert_eq!(store.task(&first.task.id).await.unwrap().task.tries, 1);
        }
    }

    async fn what_continues_after_a_person_has_decided_is_no_new_try(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let begun = async || {
            let lease = claim(&store, &first.turn).await;
            store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
            assert_eq!(store.task(&first.task.id).await.unwrap().task.tries, 1);
            lease
        };
        store.interrupt(&begun().await, now(), Vec::new()).await.unwrap();
        store.resume(&first.task.id, requester("ada", None), None, now()).await.unwrap();
        store.ask_approval(&begun().await, now(), Vec::new()).await.unwrap();
        let verdict = PlanVerdict::Approved { changed: None };
        let decision = PlanDecision { by: requester("ada", None), verdict };
        store.decide(&first.task.id, decision, now()).await.unwrap();
        begun().await;
    }
}
