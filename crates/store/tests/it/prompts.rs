//! Sessions that go on: prompts keep their order and their authors, and nothing else goes before the last of them is done.

use harvest_core::{EventBody, FailureReason, Move, Prompt, TaskId, TaskStatus, TokenId, TurnId, TurnStatus};
use harvest_store::{Admission, Error, IdempotencyKey, NewTask, NewTurn, PlanDecision, PlanVerdict, Step};

use crate::support::make::*;
use crate::support::on_both;

fn cancelling(lease: &harvest_store::Lease) -> Step {
    let outcome = outcome(lease, TaskStatus::Cancelled, Some(FailureReason::Cancelled));
    Step::new(now(), vec![EventBody::TaskFinished(outcome.clone())]).moving(Move::Cancel).ending(outcome)
}

on_both! {
    async fn a_prompt_after_the_end_is_worked_on(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        complete(&store, &claim(&store, &first.turn).await).await;
        let asked = NewTurn { agent: Some("codex".into()), model: Some("gpt-5".into()), delivers: true, ..new_turn(&first.session, "And now?") };
        let turn = store.prompt(asked.clone()).await.unwrap();
        assert_eq!((turn.number, turn.author.as_str(), turn.status), (2, "grace", TurnStatus::Ready));
        assert_eq!((turn.agent.as_deref(), turn.model.as_deref()), (Some("codex"), Some("gpt-5")));
        let detail = store.task(&first.task.id).await.unwrap();
        assert_eq!((detail.task.status, detail.task.finished_at), (TaskStatus::Pending, None));
        assert_eq!(detail.task.commit, Some("c".repeat(40)), "what there is already stays known");
        assert_eq!(store.session(&first.session).await.unwrap(), detail.sessions[0]);
        assert_eq!(detail.sessions[0].turns[1], turn);
        let told = store.events(&first.session, 0, 100).await.unwrap().pop().unwrap();
        let expected = EventBody::TurnQueued {
            turn_id: turn.id.clone(), number: 2, author: "grace".into(), prompt: asked.prompt, agent: asked.agent, model: asked.model,
            delivers: true,
        };
        assert_eq!(told.body, expected);
        let lease = claim_any(&store, &owner()).await.unwrap();
        assert_eq!((lease.turn, lease.session), (turn.id, first.session));
    }

    async fn prompts_wait_for_those_before_them(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let behind = create(&store, NewTask { after: vec![first.task.id.clone()], ..new_task("behind") }).await;
        let lease = claim(&store, &first.turn).await;
        let second = store.prompt(new_turn(&first.session, "second")).await.unwrap();
        let third = store.prompt(NewTurn { author: "lin".into(), ..new_turn(&first.session, "third") }).await.unwrap();
        assert_eq!([second.status, third.status], [TurnStatus::Queued; 2]);
        let me = owner();
        assert_eq!(claim_any(&store, &me).await, None);
        complete(&store, &lease).await;
        for expected in [&second, &third] {
            assert_eq!(store.queue().await.unwrap().turns.blocked, 1, "there is more to come before anyone else may go");
            let lease = claim_any(&store, &me).await.unwrap();
            assert_eq!(lease.turn, expected.id);
            assert_eq!(claim_any(&store, &me).await, None);
            // A turn that fails does not keep the next prompt from being tried.
            if *expected == second { fail(&store, &lease).await } else { complete(&store, &lease).await }
        }
        let detail = store.task(&first.task.id).await.unwrap();
        assert_eq!((detail.task.status, detail.task.reason), (TaskStatus::Completed, None));
        let authors: Vec<&str> = detail.sessions[0].turns.iter().map(|turn| turn.author.as_str()).collect();
        assert_eq!(authors, ["ada", "grace", "lin"]);
        assert_eq!(claim_any(&store, &me).await.unwrap().task, behind.task.id);
    }

    async fn prompts_that_come_together_are_put_in_an_order(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let asking: Vec<_> = (0..16).map(|number| {
            let (store, new) = (store.clone(), new_turn(&first.session, &format!("prompt {number}")));
            tokio::spawn(async move { store.prompt(new).await.unwrap() })
        }).collect();
        let mut turns = Vec::new();
        for asked in asking {
            turns.push(asked.await.unwrap());
        }
        turns.sort_by_key(|turn| turn.number);
        let me = owner();
        let mut worked = Vec::new();
        while let Some(lease) = claim_any(&store, &me).await {
            worked.push(lease.turn.clone());
            complete(&store, &lease).await;
        }
        let expected: Vec<_> = std::iter::once(first.turn).chain(turns.into_iter().map(|turn| turn.id)).collect();
        assert_eq!(worked, expected);
    }

    async fn a_turn_that_is_tried_again_keeps_its_place(place) {
        let store = place.open().await;
        let first = create(&store, NewTask { retries: 1, ..new_task("x") }).await;
        let lease = claim(&store, &first.turn).await;
        let second = store.prompt(new_turn(&first.session, "second")).await.unwrap();
        store.append(&lease, Step::new(now(), Vec::new()).retrying(later(10))).await.unwrap();
        assert_eq!(claim_any(&store, &owner()).await, None);
        store.reclaim(later(20)).await.unwrap();
        let again = claim_any(&store, &owner()).await.unwrap();
        assert_eq!(again.turn, first.turn);
        complete(&store, &again).await;
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, second.id);
    }

    async fn cancelling_ends_the_task_and_keeps_what_is_in_line(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let lease = claim(&store, &first.turn).await;
        let second = store.prompt(new_turn(&first.session, "second")).await.unwrap();
        store.append(&lease, cancelling(&lease)).await.unwrap();
        assert_eq!(store.task(&first.task.id).await.unwrap().task.status, TaskStatus::Cancelled);
        assert_eq!(claim_any(&store, &owner()).await, None);
        // A retry begins with the turn that was cancelled; what was in line follows.
        store.retry(&first.task.id, Admission::default(), now()).await.unwrap();
        let again = claim_any(&store, &owner()).await.unwrap();
        assert_eq!(again.turn, first.turn);
        store.append(&again, cancelling(&again)).await.unwrap();
        // So does another prompt, behind those that were there before it.
        let third = store.prompt(new_turn(&first.session, "third")).await.unwrap();
        assert_eq!(third.status, TurnStatus::Queued);
        for expected in [second, third] {
            let lease = claim_any(&store, &owner()).await.unwrap();
            assert_eq!(lease.turn, expected.id);
            complete(&store, &lease).await;
        }
    }

    async fn those_that_were_let_go_are_not_taken_back(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let behind = NewTask { after: vec![first.task.id.clone()], on_failed_dependency: harvest_core::OnFailedDependency::Cancel, ..new_task("behind") };
        let behind = create(&store, behind).await;
        complete(&store, &claim(&store, &first.turn).await).await;
        let second = store.prompt(new_turn(&first.session, "second")).await.unwrap();
        fail(&store, &claim(&store, &second.id).await).await;
        assert_eq!(store.task(&behind.task.id).await.unwrap().task.status, TaskStatus::Pending);
        assert_eq!(claim_all(&store).await, [behind.task.id]);
    }

    async fn a_follow_up_counts_under_its_caps(place) {
        let store = place.open().await;
        store.set_cap("user:grace", Some(1)).await.unwrap();
        let (one, two) = (submit(&store).await, submit(&store).await);
        for task in [&one, &two] {
            complete(&store, &claim(&store, &task.turn).await).await;
        }
        let capped = |session| NewTurn { caps: vec!["user:grace".into()], ..new_turn(session, "more") };
        let first = store.prompt(capped(&one.session)).await.unwrap();
        let second = store.prompt(capped(&two.session)).await.unwrap();
        assert_eq!([first.status, second.status], [TurnStatus::Ready, TurnStatus::Parked]);
        complete(&store, &claim(&store, &first.id).await).await;
        assert_eq!(claim_any(&store, &owner()).await.unwrap().turn, second.id);
    }

    async fn asking_twice_is_asking_once(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let key = |digest: &str| Some(IdempotencyKey { key: "delivery-7".into(), digest: digest.into() });
        let once = store.prompt(NewTurn { key: key("d"), ..new_turn(&first.session, "more") }).await.unwrap();
        let twice = store.prompt(NewTurn { key: key("d"), ..new_turn(&first.session, "more") }).await.unwrap();
        assert_eq!(once, twice);
        let other = store.prompt(NewTurn { key: key("e"), ..new_turn(&first.session, "else") }).await;
        assert!(matches!(other, Err(Error::KeyReused(_))), "{other:?}");
        assert_eq!(store.session(&first.session).await.unwrap().turns.len(), 2);
    }

    async fn sessions_are_found_by_the_beginning_of_their_id(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        assert_eq!(store.find_session(&first.session.short().to_ascii_uppercase(), None).await.unwrap(), first.session);
        for unknown in ["zzzzzzzz", "", "%", first.task.id.as_str()] {
            let found = store.find_session(unknown, None).await;
            assert!(matches!(found, Err(Error::UnknownSession(_))), "{found:?}");
        }
        let nowhere = store.prompt(new_turn(&new_task("never made").session, "x")).await;
        assert!(matches!(nowhere, Err(Error::UnknownSession(_))), "{nowhere:?}");
    }

    async fn a_turn_keeps_the_token_it_came_with_and_acts_for_whoever_told_it_something_or_retried_it_last(place) {
        let store = place.open().await;
        let [one, two, three, four] = std::array::from_fn(|_| TokenId::generate(&Counter));
        let asked = |person: &str, token: &TokenId| {
            Admission { person: Some(person.into()), token: Some(token.clone()), ..Admission::default() }
        };
        let known = async |task: &TaskId, number: usize| {
            let turn = store.task(task).await.unwrap().sessions[0].turns[number - 1].clone();
            (turn.acts_for, turn.token)
        };
        let begun = async |turn: &TurnId| {
            let lease = claim(&store, turn).await;
            store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
            lease
        };
        let first = create(&store, NewTask { admission: asked("ada", &one), ..new_task("x") }).await;
        let task = first.task.id.clone();
        assert_eq!(known(&task, 1).await, (None, Some(one.clone())));
        let admission = asked("bob", &two);
        store.prompt(NewTurn { author: "bob".into(), admission, ..new_turn(&first.session, "more") }).await.unwrap();
        assert_eq!(known(&task, 2).await, (None, Some(two.clone())));
        // A retry, by someone else than whoever asked.
        let cancelled = create(&store, NewTask { admission: asked("ada", &one), ..new_task("y") }).await;
        store.cancel_waiting(&cancelled.task.id, now()).await.unwrap().unwrap();
        store.retry(&cancelled.task.id, asked("cyd", &three), now()).await.unwrap();
        assert_eq!(known(&cancelled.task.id, 1).await, (Some("cyd".into()), Some(three.clone())));
        // Someone resumes it, with and without something to say.
        let lease = begun(&cancelled.turn).await;
        store.interrupt(&lease, now(), Vec::new()).await.unwrap();
        store.resume(&lease.task, requester("dan", Some(four.clone())), None, now()).await.unwrap();
        assert_eq!(known(&lease.task, 1).await, (Some("cyd".into()), Some(three)));
        let lease = begun(&cancelled.turn).await;
        store.interrupt(&lease, now(), Vec::new()).await.unwrap();
        let prompt = Some(Prompt::new("Use tabs").unwrap());
        store.resume(&lease.task, requester("dan", Some(four.clone())), prompt, now()).await.unwrap();
        assert_eq!(known(&lease.task, 1).await, (Some("dan".into()), Some(four)));
        // Someone approves its plan, and another changes it.
        for (changed, acts_for) in [(None, "dan"), (Some("Other steps".to_owned()), "eve")] {
            let lease = begun(&cancelled.turn).await;
            store.ask_approval(&lease, now(), Vec::new()).await.unwrap();
            let verdict = PlanVerdict::Approved { changed };
            let decision = PlanDecision { by: requester("eve", None), verdict };
            store.decide(&lease.task, decision, now()).await.unwrap();
            assert_eq!(known(&lease.task, 1).await.0.as_deref(), Some(acts_for));
        }
        assert_eq!(known(&cancelled.task.id, 1).await, (Some("eve".into()), None));
    }

}
