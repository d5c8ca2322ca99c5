//! Sessions that work on the same repository know of each other, and of the places that both change.

use harvest_core::Move;
use harvest_store::{Link, LinkEnd, LinkKind, Repository, Step, Submitted};

use crate::support::make::*;
use crate::support::on_both;

fn paths(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

on_both! {
    async fn neighbours_are_at_work_or_have_an_open_pull_request(place) {
        let store = place.open().await;
        let mut made: Vec<Submitted> = Vec::new();
        for prompt in ["mine", "working", "waiting", "proposed", "elsewhere"] {
            let mut task = new_task(prompt);
            if prompt == "elsewhere" {
                task.repository = "/srv/other".into();
            }
            made.push(create(&store, task).await);
        }
        let session = |number: usize| made[number].session.clone();
        let neighbours = || async {
            let found = store.neighbours("/srv/orchard", &made[0].session).await.unwrap();
            let mut sessions: Vec<_> = found.into_iter().map(|neighbour| neighbour.session).collect();
            sessions.sort_by_key(ToString::to_string);
            sessions
        };
        assert_eq!(neighbours().await, []);
        let mut leases = Vec::new();
        for number in [0, 1, 3, 4] {
            let lease = claim(&store, &made[number].turn).await;
            store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
            leases.push(lease);
        }
        let mut both = vec![session(1), session(3)];
        both.sort_by_key(ToString::to_string);
        assert_eq!(neighbours().await, both);
        // One is delivered: its work lives on as a pull request, until that is over.
        let link = Link {
            url: "p".into(), kind: LinkKind::PullRequest, session: session(3), repository: "/srv/orchard".into(),
            opened_at: now(), end: None,
        };
        store.link(link).await.unwrap();
        store.append(&leases[2], ending(&leases[2], harvest_core::TaskStatus::Completed, None)).await.unwrap();
        store.append(&leases[1], ending(&leases[1], harvest_core::TaskStatus::Completed, None)).await.unwrap();
        assert_eq!(neighbours().await, [session(3)]);
        store.close_link("p", LinkEnd::Merged, now()).await.unwrap();
        assert_eq!(neighbours().await, []);
    }

    async fn overlaps_are_told_to_both_while_they_last(place) {
        let store = place.open().await;
        let (one, other) = (submit(&store).await, submit(&store).await);
        let between = [&one.session, &other.session];
        assert!(!store.note_overlap(between, &[], now()).await.unwrap(), "there was none before");
        assert!(store.note_overlap(between, &paths(&["a.rs", "ü b"]), now()).await.unwrap());
        assert!(!store.note_overlap([between[1], between[0]], &paths(&["a.rs", "ü b"]), later(1)).await.unwrap(), "known");
        assert!(store.note_overlap(between, &paths(&["a.rs"]), later(2)).await.unwrap());
        for (mine, theirs) in [(&one, &other), (&other, &one)] {
            let found = place.open().await.overlaps(&mine.task.id).await.unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!((&found[0].session_id, &found[0].with_session), (&mine.session, &theirs.session));
            assert_eq!((&found[0].with_task, &found[0].paths), (&theirs.task.id, &paths(&["a.rs"])));
            assert_eq!(found[0].found_at, later(2));
        }
        let lease = claim(&store, &other.turn).await;
        complete(&store, &lease).await;
        assert_eq!(store.overlaps(&one.task.id).await.unwrap(), [], "the other has ended");
        assert_eq!(store.overlaps(&other.task.id).await.unwrap().len(), 1);
        assert!(store.note_overlap(between, &[], later(3)).await.unwrap());
        assert_eq!(store.overlaps(&other.task.id).await.unwrap(), []);
    }

    async fn a_push_wakes_whoever_prepares_snapshots(place) {
        let (store, other) = (place.open().await, place.open().await);
        let shop = Repository {
            name: "shop".into(), source: "/srv/shop".into(), settings: serde_json::json!({}), created_at: now(), pushed_at: None,
        };
        store.save_repository(shop.clone()).await.unwrap();
        let mut woken = store.watch_queue();
        woken.mark_unchanged();
        assert!(store.repository_pushed("shop", later(5)).await.unwrap());
        within(woken.changed()).await.unwrap();
        assert!(!store.repository_pushed("barn", later(5)).await.unwrap());
        assert_eq!(other.repositories().await.unwrap(), [Repository { pushed_at: Some(later(5)), ..shop.clone() }]);
        // Saving it again changes what was asked for, not what happened.
        store.save_repository(shop.clone()).await.unwrap();
        assert_eq!(other.repositories().await.unwrap(), [Repository { pushed_at: Some(later(5)), ..shop }]);
    }
}
