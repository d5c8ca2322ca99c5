//! Projects are changed by one at a time, and their members go with them.

use harvest_core::Role;
use harvest_store::{Member, Project};
use serde_json::json;

use crate::support::make::*;
use crate::support::on_both;

fn project(name: &str, version: u64) -> Project {
    Project {
        name: name.into(),
        repositories: vec!["/srv/shop".into(), "https://example.com/shop.git".into()],
        settings: json!({ "budget_usd": 5, "egress": { "allow": ["example.com"] } }),
        version,
        created_at: now(),
        updated_at: now(),
    }
}

fn member(project: &str, user: &str, role: Role) -> Member {
    Member { project: project.into(), user: user.into(), role, since: now() }
}

on_both! {
    async fn of_two_who_change_the_same_version_one_does(place) {
        let store = place.open().await;
        let shop = project("shop", 1);
        assert!(store.add_project(shop.clone()).await.unwrap());
        assert!(!store.add_project(project("shop", 1)).await.unwrap(), "there is one of that name");
        assert!(store.add_project(project("garden", 1)).await.unwrap());
        assert_eq!(place.open().await.projects().await.unwrap(), [project("garden", 1), shop.clone()]);
        let one = Project { settings: json!({ "agent": "a" }), version: 2, ..shop.clone() };
        let other = Project { settings: json!({ "agent": "b" }), version: 2, ..shop };
        let (first, second) = tokio::join!(store.change_project(one.clone()), store.change_project(other.clone()));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(first ^ second);
        let kept = store.projects().await.unwrap().into_iter().find(|project| project.name == "shop").unwrap();
        assert_eq!(kept, if first { one } else { other });
        assert!(!store.change_project(project("nothing", 2)).await.unwrap());
    }

    async fn members_have_one_role_in_each_project(place) {
        let store = place.open().await;
        store.add_project(project("shop", 1)).await.unwrap();
        for (project, user, role) in
            [("shop", "bob", Role::Viewer), ("shop", "ada", Role::Admin), ("file", "ada", Role::Viewer), ("shop", "bob", Role::Member)]
        {
            store.set_member(member(project, user, role)).await.unwrap();
        }
        let file = member("file", "ada", Role::Viewer);
        let all = [file.clone(), member("shop", "ada", Role::Admin), member("shop", "bob", Role::Member)];
        assert_eq!(store.members().await.unwrap(), all);
        assert!(store.remove_member("shop", "ada").await.unwrap());
        assert!(!store.remove_member("shop", "ada").await.unwrap());
        assert!(store.remove_project("shop").await.unwrap());
        assert!(!store.remove_project("shop").await.unwrap());
        assert_eq!(store.members().await.unwrap(), [file]);
    }

    async fn whoever_waits_is_woken_when_a_project_changes(place) {
        let (here, there) = (place.open().await, place.open().await);
        let mut woken = there.watch_queue();
        woken.mark_unchanged();
        here.set_member(member("shop", "ada", Role::Viewer)).await.unwrap();
        tokio::time::timeout(std::time::Duration::from_secs(60), woken.changed()).await.unwrap().unwrap();
    }
}
