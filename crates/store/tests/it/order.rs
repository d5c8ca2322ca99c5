//! The order of work: priorities that age, first come first served inside, warm repositories, a paused queue.

use harvest_core::Priority;
use harvest_store::{Claim, QueueChange, QueueSettings, WorkerAgents};

use crate::support::make::*;
use crate::support::on_both;

on_both! {
    async fn priorities_go_first_and_age(place) {
        let store = place.open().await;
        let at = |priority, hours: i64| harvest_store::NewTask { priority, at: later(hours * 3600), ..new_task("x") };
        let low_first = create(&store, at(Priority::Low, 0)).await.task.id;
        let normal = create(&store, at(Priority::Normal, 1)).await.task.id;
        let high = create(&store, at(Priority::High, 2)).await.task.id;
        let urgent = create(&store, at(Priority::Urgent, 3)).await.task.id;
        let high_much_later = create(&store, at(Priority::High, 30)).await.task.id;
        let twin = create(&store, at(Priority::High, 2)).await.task.id;
        assert_eq!(claim_all(&store).await, [urgent, high, twin, normal, low_first, high_much_later]);
    }

    async fn upcoming_tasks_are_the_ones_that_are_claimed_next(place) {
        let store = place.open().await;
        let at = |priority, hours: i64| harvest_store::NewTask { priority, at: later(hours * 3600), ..new_task("x") };
        for hour in 0..70 {
            create(&store, at(Priority::Low, hour + 200)).await;
        }
        let old = create(&store, at(Priority::Low, 0)).await.task.id;
        let urgent = create(&store, at(Priority::Urgent, 100)).await.task.id;
        let dependent = harvest_store::NewTask { after: vec![old.clone()], ..at(Priority::Urgent, 0) };
        create(&store, dependent).await;
        let upcoming = store.upcoming(5).await.unwrap();
        assert_eq!(upcoming[..2], [urgent, old]);
        let claimed = store.claim(a_claim(&owner(), 5)).await.unwrap();
        assert_eq!(claimed.into_iter().map(|lease| lease.task).collect::<Vec<_>>(), upcoming);
    }

    async fn a_batch_is_handed_out_in_the_order_it_came_in(place) {
        let store = place.open().await;
        let new: Vec<_> = (0..50).map(|number| new_task(&format!("number {number}"))).collect();
        let asked: Vec<_> = new.iter().map(|task| task.id.clone()).collect();
        let made: Vec<_> = store.create_tasks(new).await.unwrap().into_iter().map(|made| made.task.id).collect();
        assert_eq!(made, asked);
        let me = owner();
        let mut taken = Vec::new();
        loop {
            let leases = store.claim(a_claim(&me, 7)).await.unwrap();
            taken.extend(leases.iter().map(|lease| lease.task.clone()));
            if leases.len() < 7 {
                break;
            }
        }
        assert_eq!(taken, asked);
    }

    async fn warm_repositories_have_a_small_head_start(place) {
        let store = place.open().await;
        let of = |repository: &str, seconds| harvest_store::NewTask { repository: repository.into(), at: later(seconds), ..new_task("x") };
        let cold = create(&store, of("cold", 0)).await.task.id;
        let warm = create(&store, of("warm", 60)).await.task.id;
        let hot = create(&store, of("hot", 30)).await.task.id;
        let too_late = create(&store, of("warm", 3600)).await.task.id;
        let claim = Claim { warm: vec!["warm".into(), "hot".into()], ..a_claim(&owner(), 1) };
        let next = || async { store.claim(claim.clone()).await.unwrap().pop().map(|lease| lease.task) };
        assert_eq!(next().await, Some(hot));
        assert_eq!(next().await, Some(warm));
        assert_eq!(next().await, Some(cold), "an hour is more than the head start");
        assert_eq!(next().await, Some(too_late));
        assert_eq!(next().await, None);
    }

    async fn one_claim_may_mix_warm_and_cold(place) {
        let store = place.open().await;
        let of = |repository: &str| harvest_store::NewTask { repository: repository.into(), ..new_task("x") };
        let mut made = Vec::new();
        for repository in ["a", "b", "c", "b"] {
            made.push(create(&store, of(repository)).await.task.id);
        }
        let claim = Claim { warm: vec!["b".into()], ..a_claim(&owner(), 3) };
        let taken: Vec<_> = store.claim(claim).await.unwrap().into_iter().map(|lease| lease.task).collect();
        assert_eq!(taken, [made[1].clone(), made[3].clone(), made[0].clone()]);
    }

    async fn nothing_is_taken_from_a_paused_queue_but_what_is_asked_for(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        assert_eq!(store.queue_settings().await.unwrap(), QueueSettings::default());
        let paused = QueueSettings { paused: true, agents: Some(5) };
        // Each of two that change different settings at once is heard.
        let pause = QueueChange { paused: Some(true), agents: None };
        let resize = QueueChange { paused: None, agents: Some(WorkerAgents::Exactly(5)) };
        let (paused_it, resized) = tokio::join!(store.change_queue(pause), store.change_queue(resize));
        paused_it.and(resized).unwrap();
        assert_eq!(store.queue_settings().await.unwrap(), paused);
        assert_eq!(claim_all(&store).await, []);
        assert_eq!(claim(&store, &submitted.turn).await.turn, submitted.turn);
        let other = submit(&store).await;
        let as_before = QueueChange { paused: Some(false), agents: Some(WorkerAgents::AsStarted) };
        store.change_queue(as_before).await.unwrap();
        assert_eq!(claim_all(&store).await, [other.task.id]);
        assert_eq!(store.queue().await.unwrap().settings, QueueSettings::default());
    }

    async fn other_handles_hear_of_work_and_of_settings(place) {
        let (here, there) = (place.open().await, place.open().await);
        let mut heard = there.watch_queue();
        let soon = tokio::spawn({
            let here = here.clone();
            async move { submit(&here).await }
        });
        while there.queue().await.unwrap().turns.ready == 0 {
            within(heard.changed()).await.unwrap();
        }
        soon.await.unwrap();
        let soon = tokio::spawn(async move { here.change_queue(QueueChange { paused: Some(true), agents: None }).await.unwrap() });
        while !there.queue_settings().await.unwrap().paused {
            within(heard.changed()).await.unwrap();
        }
        soon.await.unwrap();
    }
}
