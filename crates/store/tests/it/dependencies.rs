//! Tasks that wait for others: held back until these complete, refused when they never could, taken along when asked to.

use harvest_core::{EventBody, FailureReason, OnFailedDependency, TaskId, TaskStatus, TurnStatus};
use harvest_store::{Admission, Error, NewTask};

use crate::support::make::*;
use crate::support::on_both;

fn after(others: &[&TaskId]) -> NewTask {
    NewTask { after: others.iter().map(|other| (*other).clone()).collect(), ..new_task("later") }
}

fn or_cancel(task: NewTask) -> NewTask {
    NewTask { on_failed_dependency: OnFailedDependency::Cancel, ..task }
}

on_both! {
    async fn a_task_waits_for_all_of_its_dependencies(place) {
        let store = place.open().await;
        let (first, second) = (submit(&store).await, submit(&store).await);
        // Named twice is waited for once.
        let waiting = create(&store, after(&[&first.task.id, &second.task.id, &first.task.id])).await;
        assert_eq!(waiting.task.after.len(), 2);
        assert_eq!(store.queue().await.unwrap().turns.blocked, 1);
        let me = owner();
        let leases = store.claim(a_claim(&me, 10)).await.unwrap();
        assert_eq!(leases.len(), 2);
        complete(&store, &leases[0]).await;
        assert_eq!(claim_any(&store, &me).await, None);
        complete(&store, &leases[1]).await;
        assert_eq!(claim_any(&store, &me).await.unwrap().task, waiting.task.id);
    }

    async fn whoever_holds_a_task_may_change_its_base_and_no_one_else(place) {
        let store = place.open().await;
        let task = submit(&store).await;
        let lease = claim(&store, &task.turn).await;
        store.set_base(&lease, "b2").await.unwrap();
        assert_eq!(store.task(&task.task.id).await.unwrap().task.base, "b2");
        complete(&store, &lease).await;
        let late = store.set_base(&lease, "c3").await;
        assert!(matches!(late, Err(Error::StaleLease { .. })), "{late:?}");
        assert_eq!(store.task(&task.task.id).await.unwrap().task.base, "b2");
    }

    async fn what_is_done_already_holds_no_one_up(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        complete(&store, &claim(&store, &first.turn).await).await;
        let next = create(&store, after(&[&first.task.id])).await;
        assert_eq!(claim_all(&store).await, [next.task.id]);
    }

    async fn a_batch_may_wait_for_itself_in_any_order(place) {
        let store = place.open().await;
        let last = new_task("last");
        let (mut first, middle) = (new_task("first"), after(&[&last.id]));
        first.after = vec![middle.id.clone()];
        let order = [last.id.clone(), middle.id.clone(), first.id.clone()];
        store.create_tasks(vec![first, middle, last]).await.unwrap();
        for expected in order {
            let lease = claim_any(&store, &owner()).await.unwrap();
            assert_eq!(lease.task, expected);
            complete(&store, &lease).await;
        }
    }

    async fn what_could_never_run_is_refused_and_nothing_is_made(place) {
        let store = place.open().await;
        let unknown = store.create_tasks(vec![new_task("fine"), after(&[&new_task("never made").id])]).await;
        assert!(matches!(unknown, Err(Error::UnknownDependency(_))), "{unknown:?}");

        let mut alone = new_task("alone");
        alone.after = vec![alone.id.clone()];
        let circle = format!("{} → {}", alone.id, alone.id);
        let refused = store.create_tasks(vec![alone]).await;
        assert!(matches!(&refused, Err(Error::Cycle(path)) if *path == circle), "{refused:?}");

        let (mut one, two) = (new_task("one"), new_task("two"));
        let three = after(&[&one.id]);
        one.after = vec![two.id.clone()];
        let two = NewTask { after: vec![three.id.clone()], ..two };
        let names = [&one.id, &two.id, &three.id, &one.id].map(TaskId::to_string);
        let refused = store.create_tasks(vec![one, two, three]).await;
        assert!(matches!(&refused, Err(Error::Cycle(path)) if *path == names.join(" → ")), "{refused:?}");
        assert_eq!(store.tasks(harvest_store::TaskQuery { limit: 10, ..Default::default() }).await.unwrap().items, []);
    }

    async fn it_is_held_until_someone_retries_the_failed_one(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let held = create(&store, after(&[&first.task.id])).await;
        fail(&store, &claim(&store, &first.turn).await).await;
        assert_eq!(claim_all(&store).await, []);
        assert_eq!(store.task(&held.task.id).await.unwrap().task.status, TaskStatus::Pending);
        let also_held = create(&store, after(&[&first.task.id])).await;
        store.retry(&first.task.id, Admission::default(), now()).await.unwrap();
        complete(&store, &claim(&store, &first.turn).await).await;
        assert_eq!(claim_all(&store).await, [held.task.id, also_held.task.id]);
    }

    async fn it_goes_with_the_failed_one_when_asked_to(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let second = create(&store, or_cancel(after(&[&first.task.id]))).await;
        let third = create(&store, or_cancel(after(&[&second.task.id]))).await;
        let held = create(&store, after(&[&second.task.id])).await;
        let lease = claim(&store, &first.turn).await;
        fail(&store, &lease).await;
        for gone in [&second, &third] {
            let detail = store.task(&gone.task.id).await.unwrap();
            assert_eq!((detail.task.status, detail.task.reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
            assert_eq!(detail.task.error.as_deref(), Some("a task that it waits for did not complete"));
            assert_eq!(detail.sessions[0].turns[0].status, TurnStatus::Done);
            let journal = store.events(&gone.session, 0, 100).await.unwrap();
            let Some(EventBody::TaskFinished(outcome)) = journal.last().map(|event| &event.body) else { panic!("{journal:?}") };
            assert_eq!((&outcome.task_id, outcome.status), (&gone.task.id, TaskStatus::Cancelled));
            assert!(matches!(&journal[journal.len() - 2].body, EventBody::TurnFinished { .. }));
        }
        assert_eq!(store.task(&held.task.id).await.unwrap().task.status, TaskStatus::Pending);
        let late = create(&store, or_cancel(after(&[&first.task.id]))).await;
        assert_eq!(late.task.status, TaskStatus::Cancelled, "it waits for one that has failed already");
    }

    async fn a_cancelled_task_takes_its_followers_along(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let second = create(&store, or_cancel(after(&[&first.task.id]))).await;
        let outcome = store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        let journal = store.events(&first.session, 0, 100).await.unwrap();
        assert_eq!(journal.last().unwrap().body, EventBody::TaskFinished(outcome));
        assert_eq!(store.task(&second.task.id).await.unwrap().task.status, TaskStatus::Cancelled);
        assert_eq!(store.queue().await.unwrap().turns, Default::default());
    }

    async fn a_long_chain_falls_as_one(place) {
        let store = place.open().await;
        let mut chain = vec![new_task("first")];
        for _ in 0..1500 {
            chain.push(or_cancel(after(&[&chain[chain.len() - 1].id])));
        }
        let (first, length) = (chain[0].id.clone(), chain.len() as u64);
        store.create_tasks(chain).await.unwrap();
        store.cancel_waiting(&first, now()).await.unwrap().unwrap();
        assert_eq!(store.queue().await.unwrap().tasks, [("cancelled".to_owned(), length)].into());
    }
}
