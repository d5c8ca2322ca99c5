//! Races: one winner whoever asks, and nobody held up by those who wait for it.

use harvest_core::{JudgedBy, Race, Settings, TaskStatus, TurnStatus};
use harvest_store::{Admission, Error, NewTask, StatKey, StatQuery, Store, Submitted};

use crate::support::make::*;
use crate::support::on_both;

fn entrant(agent: &str) -> NewTask {
    let task = new_task("Mend it");
    let race = Race { id: "race-x".into(), judged_by: JudgedBy::Cost, judge: None };
    NewTask {
        agent: agent.into(),
        convoy: Some(race.id.clone()),
        settings: Settings { race: Some(race), ..task.settings.clone() },
        caps: vec!["repo".into()],
        ..task
    }
}

async fn status(store: &std::sync::Arc<dyn Store>, of: &Submitted) -> TurnStatus {
    store.task(&of.task.id).await.unwrap().sessions[0].turns[0].status
}

/// The places under the only cap that are taken, by turns that are worked on or may be claimed.
async fn used(store: &std::sync::Arc<dyn Store>) -> u64 {
    let queue = store.queue().await.unwrap();
    u64::from(queue.caps[0].used) + queue.turns.ready
}

on_both! {
    async fn whoever_is_first_has_won_for_good(place) {
        let (store, other) = (place.open().await, place.open().await);
        let (one, two) = (create(&store, entrant("a")).await, create(&store, entrant("b")).await);
        let (first, second) = (claim(&store, &one.turn).await, claim(&store, &two.turn).await);
        assert_eq!(store.winner("race-x").await.unwrap(), None);
        let both = tokio::join!(store.win(&first, "race-x", &one.task.id), other.win(&second, "race-x", &two.task.id));
        let (here, there) = (both.0.unwrap(), both.1.unwrap());
        assert_eq!(here, there);
        assert_eq!(place.open().await.winner("race-x").await.unwrap(), Some(here.clone()));
        // Also when it is asked for another one, and long after.
        complete(&store, &first).await;
        assert_eq!(other.win(&second, "race-x", &two.task.id).await.unwrap(), here);
        assert_eq!(other.win(&second, "race-y", &one.task.id).await.unwrap(), one.task.id, "another race");
    }

    async fn who_has_lost_its_lease_decides_nothing(place) {
        let store = place.open().await;
        let one = create(&store, entrant("a")).await;
        let me = owner();
        let lease = claim_any(&store, &me).await.unwrap();
        store.release(&me, now()).await.unwrap();
        assert!(matches!(store.win(&lease, "race-x", &one.task.id).await, Err(Error::StaleLease { .. })));
        assert!(matches!(store.step_aside(&lease).await, Err(Error::StaleLease { .. })));
        assert!(matches!(store.let_go(&lease, now()).await, Err(Error::StaleLease { .. })));
        assert_eq!(store.winner("race-x").await.unwrap(), None);
        assert_eq!(status(&store, &one).await, TurnStatus::Ready);
    }

    async fn who_steps_aside_leaves_its_place_to_others(place) {
        let store = place.open().await;
        store.set_cap("repo", Some(1)).await.unwrap();
        let (one, two) = (create(&store, entrant("a")).await, create(&store, entrant("b")).await);
        let first = claim(&store, &one.turn).await;
        assert_eq!(status(&store, &two).await, TurnStatus::Parked);
        store.step_aside(&first).await.unwrap();
        store.step_aside(&first).await.unwrap();
        assert_eq!((status(&store, &one).await, status(&store, &two).await), (TurnStatus::Claimed, TurnStatus::Ready));
        assert_eq!(used(&store).await, 1);
        store.set_cap("repo", Some(1)).await.unwrap();
        assert_eq!((used(&store).await, status(&store, &two).await), (1, TurnStatus::Ready), "it does not count");
        // It has no place to give back when it ends, and has to find one when it begins again.
        let second = claim(&store, &two.turn).await;
        fail(&store, &first).await;
        assert_eq!(used(&store).await, 1);
        store.retry(&one.task.id, Admission::default(), now()).await.unwrap();
        assert_eq!(status(&store, &one).await, TurnStatus::Parked);
        complete(&store, &second).await;
        assert_eq!((status(&store, &one).await, used(&store).await), (TurnStatus::Ready, 1));
        complete(&store, &claim(&store, &one.turn).await).await;
        assert_eq!(used(&store).await, 0);
    }

    async fn who_stepped_aside_under_no_cap_counts_when_there_is_one(place) {
        let store = place.open().await;
        let one = create(&store, entrant("a")).await;
        let lease = claim(&store, &one.turn).await;
        store.step_aside(&lease).await.unwrap();
        fail(&store, &lease).await;
        store.set_cap("repo", Some(1)).await.unwrap();
        store.retry(&one.task.id, Admission::default(), now()).await.unwrap();
        assert_eq!(used(&store).await, 1);
        complete(&store, &claim(&store, &one.turn).await).await;
        assert_eq!(used(&store).await, 0);
    }

    async fn a_turn_that_is_let_go_is_anyones(place) {
        let store = place.open().await;
        store.set_cap("repo", Some(1)).await.unwrap();
        let (one, two) = (create(&store, entrant("a")).await, create(&store, entrant("b")).await);
        let me = owner();
        let first = claim_any(&store, &me).await.unwrap();
        store.step_aside(&first).await.unwrap();
        let second = claim(&store, &two.turn).await;
        store.let_go(&first, now()).await.unwrap();
        assert_eq!(store.turns_of(&me).await.unwrap(), []);
        assert_eq!(store.task(&one.task.id).await.unwrap().task.status, TaskStatus::Pending);
        assert_eq!(status(&store, &one).await, TurnStatus::Parked, "the other has the place");
        let said = store.events(&one.session, 0, 100).await.unwrap().pop().unwrap();
        assert!(format!("{said:?}").contains("takes no more work"), "{said:?}");
        store.let_go(&second, now()).await.unwrap();
        assert_eq!((status(&store, &one).await, status(&store, &two).await), (TurnStatus::Ready, TurnStatus::Parked), "in their order");
        let again = claim(&store, &one.turn).await;
        assert!(again.fence > first.fence);
        complete(&store, &again).await;
        complete(&store, &claim(&store, &two.turn).await).await;
        assert_eq!(used(&store).await, 0);
    }

    async fn an_owner_that_dies_aside_leaves_a_turn_that_needs_a_place(place) {
        let store = place.open().await;
        store.set_cap("repo", Some(1)).await.unwrap();
        let (one, two) = (create(&store, entrant("a")).await, create(&store, entrant("b")).await);
        let me = owner();
        let first = claim_any(&store, &me).await.unwrap();
        store.step_aside(&first).await.unwrap();
        store.release(&me, now()).await.unwrap();
        assert_eq!((status(&store, &one).await, status(&store, &two).await), (TurnStatus::Ready, TurnStatus::Parked));
        complete(&store, &claim(&store, &one.turn).await).await;
        assert_eq!((status(&store, &two).await, used(&store).await), (TurnStatus::Ready, 1));
    }

    async fn races_and_wins_are_counted_for_whoever_took_part(place) {
        let store = place.open().await;
        let (one, two) = (create(&store, entrant("a")).await, create(&store, entrant("b")).await);
        let alone = submit(&store).await;
        let (first, second) = (claim(&store, &one.turn).await, claim(&store, &two.turn).await);
        fail(&store, &second).await;
        store.win(&first, "race-x", &one.task.id).await.unwrap();
        complete(&store, &first).await;
        complete(&store, &claim(&store, &alone.turn).await).await;
        let query = |by| StatQuery { by, from: "2026-01-01".into(), to: "2026-12-31".into(), among: None };
        let agents = store.statistics(query(StatKey::Agent)).await.unwrap();
        let counts: Vec<_> = agents.iter().map(|stat| (stat.key.as_str(), stat.races, stat.wins)).collect();
        assert_eq!(counts, [("a", 1, 1), ("b", 1, 0), ("builtin", 0, 0)]);
        // Asked again, and after one of them has been tried again, nobody is counted twice.
        store.retry(&two.task.id, Admission::default(), now()).await.unwrap();
        assert_eq!(store.statistics(query(StatKey::Model)).await.unwrap()[0].races, 1);
        fail(&store, &claim(&store, &two.turn).await).await;
        let models = store.statistics(query(StatKey::Model)).await.unwrap();
        assert_eq!((models[0].races, models[0].wins), (2, 1));
    }
}
