//! Caps: no more turns at a time than they allow, the rest parked and let in one by one, whatever happens to the others.

use harvest_core::{Move, Prompt, TaskId, TurnStatus};
use harvest_store::{Admission, Cap, NewTask, Requester, Step, Store};

use crate::support::make::*;
use crate::support::on_both;

fn under(caps: &[&str]) -> NewTask {
    NewTask { caps: caps.iter().map(|cap| (*cap).to_owned()).collect(), ..new_task("capped") }
}

async fn parked(store: &std::sync::Arc<dyn Store>) -> (u64, u64) {
    let turns = store.queue().await.unwrap().turns;
    (turns.ready, turns.parked)
}

async fn status(store: &std::sync::Arc<dyn Store>, task: &TaskId) -> TurnStatus {
    store.task(task).await.unwrap().sessions[0].turns[0].status
}

on_both! {
    async fn the_rest_is_parked_and_let_in_one_by_one(place) {
        let store = place.open().await;
        store.set_cap("repo", Some(2)).await.unwrap();
        let made = store.create_tasks((0..5).map(|_| under(&["repo", "unknown"])).collect()).await.unwrap();
        let free = submit(&store).await.task.id;
        assert_eq!(parked(&store).await, (3, 3));
        let me = owner();
        let leases = store.claim(a_claim(&me, 10)).await.unwrap();
        assert_eq!(leases.iter().map(|lease| &lease.task).collect::<Vec<_>>(), [&made[0].task.id, &made[1].task.id, &free]);
        complete(&store, &leases[0]).await;
        assert_eq!(status(&store, &made[2].task.id).await, TurnStatus::Ready);
        fail(&store, &leases[1]).await;
        assert_eq!(parked(&store).await, (2, 1));
        // A ready one that is cancelled gives its place away as well.
        store.cancel_waiting(&made[2].task.id, now()).await.unwrap().unwrap();
        assert_eq!(parked(&store).await, (2, 0));
        let cap = |used| Cap { name: "repo".into(), size: 2, used };
        assert_eq!(store.queue().await.unwrap().caps, [cap(0)], "ready ones do not work yet");
        store.claim(a_claim(&me, 1)).await.unwrap();
        assert_eq!(store.queue().await.unwrap().caps, [cap(1)]);
    }

    async fn a_turn_that_is_begun_again_counts_against_the_caps_of_who_asks(place) {
        let store = place.open().await;
        for cap in ["user:bob", "user:eve"] {
            store.set_cap(cap, Some(1)).await.unwrap();
        }
        let used = async |cap: &str| {
            let caps = store.queue().await.unwrap().caps;
            caps.iter().find(|known| known.name == cap).unwrap().used
        };
        let mut failed = Vec::new();
        for _ in 0..3 {
            let made = create(&store, under(&["repo", "user:bob"])).await;
            fail(&store, &claim(&store, &made.turn).await).await;
            failed.push(made.task.id);
        }
        let eve = || Admission { person: Some("eve".into()), caps: vec!["user:eve".into()], ..Admission::default() };
        for task in &failed[..2] {
            store.retry(task, eve(), now()).await.unwrap();
        }
        assert_eq!(parked(&store).await, (1, 1), "one of hers at a time");
        store.retry(&failed[2], Admission::default(), now()).await.unwrap();
        assert_eq!(parked(&store).await, (2, 1), "she takes no place of his");
        let leases = store.claim(a_claim(&owner(), 10)).await.unwrap();
        assert_eq!((leases.len(), used("user:eve").await, used("user:bob").await), (2, 1, 1));
        for lease in &leases {
            complete(&store, lease).await;
        }
        assert_eq!(parked(&store).await, (1, 0));
        complete(&store, &claim_any(&store, &owner()).await.unwrap()).await;
        assert_eq!((used("user:eve").await, used("user:bob").await), (0, 0));
        // Whoever tells a waiting turn something new.
        let interrupted = create(&store, under(&["repo", "user:bob"])).await;
        let lease = claim(&store, &interrupted.turn).await;
        store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
        store.interrupt(&lease, now(), Vec::new()).await.unwrap();
        let by = Requester { caps: vec!["user:eve".into()], ..requester("eve", None) };
        store.resume(&lease.task, by, Some(Prompt::new("Use tabs").unwrap()), now()).await.unwrap();
        claim_any(&store, &owner()).await.unwrap();
        assert_eq!((used("user:eve").await, used("user:bob").await), (1, 0));
    }

    async fn the_best_parked_one_goes_first(place) {
        let store = place.open().await;
        store.set_cap("user", Some(1)).await.unwrap();
        let first = create(&store, under(&["user"])).await;
        let second = create(&store, under(&["user"])).await;
        let lease = claim(&store, &first.turn).await;
        let urgent = create(&store, NewTask { priority: harvest_core::Priority::Urgent, ..under(&["user"]) }).await;
        assert_eq!(status(&store, &urgent.task.id).await, TurnStatus::Parked, "nobody who works is interrupted");
        complete(&store, &lease).await;
        assert_eq!(status(&store, &urgent.task.id).await, TurnStatus::Ready);
        assert_eq!(status(&store, &second.task.id).await, TurnStatus::Parked);
    }

    async fn a_cap_that_has_become_smaller_holds_when_many_turns_come_back_at_once(place) {
        let store = place.open().await;
        let lost = owner();
        store.create_tasks((0..3).map(|_| under(&["repo"])).collect()).await.unwrap();
        for (size, left) in [(0, (0, 3)), (1, (1, 2)), (2, (2, 1))] {
            store.set_cap("repo", None).await.unwrap();
            assert_eq!(store.claim(a_claim(&lost, 3)).await.unwrap().len(), 3);
            store.set_cap("repo", Some(size)).await.unwrap();
            store.release(&lost, now()).await.unwrap();
            assert_eq!(parked(&store).await, left, "a cap of {size}");
        }
    }

    async fn a_turn_that_took_a_place_on_the_way_counts_once(place) {
        let store = place.open().await;
        for (cap, size) in [("user:ada", 1), ("repository:shop", 1), ("credential:anthropic", 2)] {
            store.set_cap(cap, Some(size)).await.unwrap();
        }
        create(&store, under(&["user:ada"])).await;
        assert_eq!(store.claim(a_claim(&owner(), 1)).await.unwrap().len(), 1);
        create(&store, under(&["user:ada", "repository:shop"])).await;
        create(&store, under(&["user:ada", "credential:anthropic"])).await;
        create(&store, under(&["repository:shop", "credential:anthropic"])).await;
        let last = create(&store, under(&["credential:anthropic"])).await;
        assert_eq!(parked(&store).await, (2, 2));
        // The first displaces the third, whose other place is free for the second; the last keeps its own.
        store.set_cap("user:ada", Some(5)).await.unwrap();
        assert_eq!(parked(&store).await, (3, 1));
        assert_eq!(status(&store, &last.task.id).await, TurnStatus::Ready);
        let me = owner();
        assert_eq!(store.claim(a_claim(&me, 9)).await.unwrap().len(), 3);
        let used = |cap: &Cap| (cap.name.clone(), cap.used);
        let caps: Vec<_> = store.queue().await.unwrap().caps.iter().map(used).collect();
        let expected = [("credential:anthropic", 2), ("repository:shop", 1), ("user:ada", 3)];
        assert_eq!(caps, expected.map(|(cap, used)| (cap.to_owned(), used)));
    }

    async fn an_urgent_one_takes_the_place_of_one_that_nobody_works_on(place) {
        let store = place.open().await;
        let urgent = |caps: &[&str]| NewTask { priority: harvest_core::Priority::Urgent, ..under(caps) };
        store.set_cap("user", Some(1)).await.unwrap();
        store.set_cap("repo", Some(1)).await.unwrap();
        let first = create(&store, under(&["user", "repo"])).await;
        let other = create(&store, under(&["repo"])).await;
        assert_eq!(status(&store, &first.task.id).await, TurnStatus::Ready);
        let second = create(&store, urgent(&["user"])).await;
        assert_eq!(status(&store, &second.task.id).await, TurnStatus::Ready);
        assert_eq!(status(&store, &first.task.id).await, TurnStatus::Parked);
        assert_eq!(status(&store, &other.task.id).await, TurnStatus::Ready, "the other place of the displaced one is free");
        let me = owner();
        let leases = store.claim(a_claim(&me, 10)).await.unwrap();
        assert_eq!(leases.iter().map(|lease| &lease.task).collect::<Vec<_>>(), [&second.task.id, &other.task.id]);
        // One whose worker was lost is behind an urgent one as well.
        let third = create(&store, urgent(&["repo"])).await;
        assert_eq!(status(&store, &third.task.id).await, TurnStatus::Parked);
        store.release(&me, now()).await.unwrap();
        assert_eq!(status(&store, &third.task.id).await, TurnStatus::Ready);
        assert_eq!(status(&store, &other.task.id).await, TurnStatus::Parked);
    }

    async fn one_that_another_cap_holds_does_not_block_it(place) {
        let store = place.open().await;
        store.set_cap("a", Some(1)).await.unwrap();
        store.set_cap("b", Some(1)).await.unwrap();
        let of_a = create(&store, under(&["a"])).await;
        let of_b = create(&store, under(&["b"])).await;
        let of_both = create(&store, under(&["a", "b"])).await;
        let next_a = create(&store, under(&["a"])).await;
        assert_eq!(parked(&store).await, (2, 2));
        complete(&store, &claim(&store, &of_a.turn).await).await;
        assert_eq!(status(&store, &next_a.task.id).await, TurnStatus::Ready);
        assert_eq!(status(&store, &of_both.task.id).await, TurnStatus::Parked);
        complete(&store, &claim(&store, &next_a.turn).await).await;
        complete(&store, &claim(&store, &of_b.turn).await).await;
        assert_eq!(status(&store, &of_both.task.id).await, TurnStatus::Ready);
    }

    async fn caps_are_resized_and_lifted(place) {
        let store = place.open().await;
        let made = store.create_tasks((0..4).map(|_| under(&["repo"])).collect()).await.unwrap();
        assert_eq!(parked(&store).await, (4, 0), "there is no such cap yet");
        claim(&store, &made[0].turn).await;
        store.set_cap("repo", Some(2)).await.unwrap();
        assert_eq!(parked(&store).await, (1, 2), "the claimed one counts");
        store.set_cap("repo", Some(0)).await.unwrap();
        assert_eq!(parked(&store).await, (0, 3), "claimed ones go on");
        store.set_cap("repo", Some(3)).await.unwrap();
        assert_eq!(parked(&store).await, (2, 1));
        store.set_cap("repo", None).await.unwrap();
        assert_eq!(parked(&store).await, (3, 0));
        assert_eq!(store.queue().await.unwrap().caps, []);
    }

    async fn what_a_smaller_cap_parks_frees_its_other_places(place) {
        let store = place.open().await;
        store.set_cap("a", Some(1)).await.unwrap();
        let of_both = create(&store, under(&["a", "b"])).await;
        let of_a = create(&store, under(&["a"])).await;
        store.set_cap("b", Some(0)).await.unwrap();
        assert_eq!(status(&store, &of_both.task.id).await, TurnStatus::Parked);
        assert_eq!(status(&store, &of_a.task.id).await, TurnStatus::Ready);
    }

    async fn places_are_kept_over_lost_leases_and_given_up_while_waiting(place) {
        let store = place.open().await;
        store.set_cap("repo", Some(1)).await.unwrap();
        let first = create(&store, under(&["repo"])).await;
        let second = create(&store, under(&["repo"])).await;
        let me = owner();
        store.claim(a_claim(&me, 1)).await.unwrap();
        store.release(&me, now()).await.unwrap();
        assert_eq!(parked(&store).await, (1, 1), "it is ready again and still has its place");
        let lease = claim(&store, &first.turn).await;
        store.append(&lease, Step::new(now(), Vec::new()).retrying(later(60))).await.unwrap();
        assert_eq!(status(&store, &second.task.id).await, TurnStatus::Ready);
        let reclaimed = store.reclaim(later(61)).await.unwrap();
        assert_eq!(reclaimed.due, 1);
        assert_eq!(status(&store, &first.task.id).await, TurnStatus::Ready, "it came first, and nobody works on the other");
        assert_eq!(status(&store, &second.task.id).await, TurnStatus::Parked);
    }
}
