//! What forges tell is kept once and acted on by one; issues and pull requests find their sessions.

use harvest_store::{Delivery, Link, LinkEnd, LinkKind, PullRequestStat, StatKey, StatQuery, day_of};

use crate::support::make::*;
use crate::support::on_both;

fn delivery(id: &str) -> Delivery {
    Delivery { id: id.into(), event: "issues".into(), payload: "{\"a\":\"ü\"}".into(), received_at: now(), tries: 0 }
}

fn taken(id: &str, tries: u32) -> Option<Delivery> {
    Some(Delivery { tries, ..delivery(id) })
}

fn link(url: &str, kind: LinkKind, session: &harvest_core::SessionId) -> Link {
    Link { url: url.into(), kind, session: session.clone(), repository: "r".into(), opened_at: later(10), end: None }
}

on_both! {
    async fn a_delivery_that_comes_often_at_once_is_kept_once(place) {
        let store = place.open().await;
        let mut woken = store.watch_queue();
        woken.mark_unchanged();
        let all = (0..50).map(|_| store.receive(delivery("d1")));
        let kept = futures_util::future::join_all(all).await.into_iter().map(Result::unwrap).filter(|kept| *kept).count();
        assert_eq!(kept, 1);
        tokio::time::timeout(std::time::Duration::from_secs(10), woken.changed()).await.unwrap().unwrap();
        assert_eq!(store.take_delivery(now(), later(60)).await.unwrap(), taken("d1", 1));
        assert_eq!(store.take_delivery(now(), later(60)).await.unwrap(), None);
        store.settle_delivery("d1", "ignored", later(1)).await.unwrap();
        assert!(!place.open().await.receive(delivery("d1")).await.unwrap(), "it came before");
        assert_eq!(store.take_delivery(later(1000), later(2000)).await.unwrap(), None);
    }

    async fn of_many_who_act_on_deliveries_one_gets_each_and_the_next_when_that_one_dies(place) {
        let (one, other) = (place.open().await, place.open().await);
        for id in ["d1", "d2"] {
            one.receive(delivery(id)).await.unwrap();
        }
        assert_eq!(one.take_delivery(now(), later(60)).await.unwrap(), taken("d1", 1));
        assert_eq!(other.take_delivery(now(), later(60)).await.unwrap(), taken("d2", 1));
        assert_eq!(other.take_delivery(later(59), later(120)).await.unwrap(), None);
        assert_eq!(other.take_delivery(later(60), later(120)).await.unwrap(), taken("d1", 2));
    }

    async fn settled_deliveries_are_forgotten_and_others_are_not(place) {
        let store = place.open().await;
        for id in ["d1", "d2"] {
            store.receive(delivery(id)).await.unwrap();
        }
        store.settle_delivery("d1", "task", now()).await.unwrap();
        assert_eq!(store.forget_deliveries(now()).await.unwrap(), 0);
        assert_eq!(store.forget_deliveries(later(1)).await.unwrap(), 1);
        assert_eq!(store.take_delivery(later(1), later(2)).await.unwrap(), taken("d2", 1));
    }

    async fn an_issue_belongs_to_the_first_session_that_takes_it(place) {
        let store = place.open().await;
        let sessions = [new_task("a").session, new_task("b").session];
        let first = store.link(link("u", LinkKind::Issue, &sessions[0])).await.unwrap();
        let second = store.link(link("u", LinkKind::Issue, &sessions[1])).await.unwrap();
        assert_eq!((&first, &second.session), (&second, &sessions[0]));
        assert_eq!(store.linked("u").await.unwrap(), Some(first));
        assert_eq!(store.linked("v").await.unwrap(), None);
        assert_eq!(store.pull_request_of(&sessions[0]).await.unwrap(), None);
    }

    async fn pull_requests_are_counted_by_how_they_ended_and_how_long_they_took(place) {
        let store = place.open().await;
        let made = store.create_tasks(vec![new_task("a"), new_task("b"), new_task("c")]).await.unwrap();
        for (made, url) in made.iter().zip(["p1", "p2", "p3"]) {
            store.link(link(url, LinkKind::PullRequest, &made.session)).await.unwrap();
        }
        assert!(store.close_link("p1", LinkEnd::Merged, later(40)).await.unwrap());
        assert!(!store.close_link("p1", LinkEnd::Closed, later(50)).await.unwrap(), "it was over");
        assert!(store.close_link("p2", LinkEnd::Closed, later(50)).await.unwrap());
        assert!(!store.close_link("p9", LinkEnd::Closed, later(50)).await.unwrap(), "none of ours");
        let expected = PullRequestStat {
            key: "r".into(), opened: 3, merged: 1, closed: 1, to_open_ms: 30_000, to_merge_ms: 30_000,
        };
        let by = |by| StatQuery { by, from: "0000-00-00".into(), to: "9999-12-31".into(), among: None };
        let all = by(StatKey::Repository);
        assert_eq!(store.pull_requests(all.clone()).await.unwrap(), std::slice::from_ref(&expected));
        let among = |repository: &str| StatQuery { among: Some(vec![repository.into()]), ..all.clone() };
        assert_eq!(store.pull_requests(among("r")).await.unwrap(), std::slice::from_ref(&expected));
        assert_eq!(store.pull_requests(among("s")).await.unwrap(), []);
        let day = day_of(later(10));
        let task = &made[0].task;
        let keys = [
            (StatKey::Day, day.clone()),
            (StatKey::Agent, task.agent.clone()),
            (StatKey::Model, task.model.clone().unwrap_or_default()),
            (StatKey::Person, task.requested_by.clone()),
        ];
        for (key, value) in keys {
            let expected = PullRequestStat { key: value, ..expected.clone() };
            assert_eq!(store.pull_requests(by(key)).await.unwrap(), [expected], "{key:?}");
        }
        let on = |from: &str, to: &str| StatQuery { from: from.into(), to: to.into(), ..all.clone() };
        assert_eq!(store.pull_requests(on(&day, &day)).await.unwrap(), [expected]);
        assert_eq!(store.pull_requests(on("0000-00-00", "1999-12-31")).await.unwrap(), []);
        let of = store.pull_request_of(&made[0].session).await.unwrap().unwrap();
        assert_eq!((of.url.as_str(), of.end), ("p1", Some((LinkEnd::Merged, later(40)))));
    }
}
