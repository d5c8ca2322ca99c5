//! Asking twice, batches that fail as one, convoys, filters, schedules, templates.

use harvest_core::{Cost, EventBody, TaskStatus};
use harvest_store::{
    Convoy, Error, IdempotencyKey, MissedRuns, NewTask, OwnerRight, Repository, Schedule, ScheduleOwner, Step,
    TaskQuery, Template,
};

use crate::support::make::*;
use crate::support::on_both;

fn keyed(key: &str, digest: &str) -> NewTask {
    NewTask { key: Some(IdempotencyKey { key: key.into(), digest: digest.into() }), ..new_task("once") }
}

fn all() -> TaskQuery {
    TaskQuery { limit: 100, ..TaskQuery::default() }
}

fn schedule(id: &str) -> Schedule {
    Schedule {
        id: id.into(),
        cron: "0 3 * * 1-5".into(),
        time_zone: "Europe/Vienna".into(),
        missed: MissedRuns::Skip,
        request: serde_json::json!({ "prompt": "Update the dependencies\u{0}", "n": 1.5 }),
        next: Some(later(60)),
        last: None,
        owner: Some(ScheduleOwner { user: "ada".into(), right: OwnerRight::Person }),
        problem: None,
        created_at: now(),
    }
}

on_both! {
    async fn asking_twice_is_asking_once(place) {
        let store = place.open().await;
        let first = create(&store, keyed("k", "d")).await;
        let again = create(&store, keyed("k", "d")).await;
        assert_eq!((&again.task, &again.session, &again.turn), (&first.task, &first.session, &first.turn));
        let refused = store.create_tasks(vec![new_task("not made either"), keyed("k", "other")]).await;
        assert!(matches!(&refused, Err(Error::KeyReused(key)) if key == "k"), "{refused:?}");
        assert_eq!(store.tasks(all()).await.unwrap().items, [first.task]);
        // Also inside one batch.
        let twins = store.create_tasks(vec![keyed("t", "d"), keyed("t", "d")]).await.unwrap();
        assert_eq!(twins[0].task.id, twins[1].task.id);
        let refused = store.create_tasks(vec![keyed("u", "d"), keyed("u", "e")]).await;
        assert!(matches!(refused, Err(Error::KeyReused(_))), "{refused:?}");
        assert_eq!(store.tasks(all()).await.unwrap().items.len(), 2);
    }

    async fn asking_twice_at_the_same_time_is_asking_once(place) {
        let stores = [place.open().await, place.open().await];
        let asking: Vec<_> = (0..12).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move { create(&store, keyed("k", "d")).await.task.id })
        }).collect();
        let mut ids = Vec::new();
        for asked in asking {
            ids.push(asked.await.unwrap());
        }
        ids.dedup();
        assert_eq!(ids.len(), 1);
        assert_eq!(stores[0].tasks(all()).await.unwrap().items.len(), 1);
    }

    async fn a_batch_that_cannot_be_made_leaves_nothing(place) {
        let store = place.open().await;
        let first = submit(&store).await;
        let mut twin = new_task("the same id");
        twin.id = first.task.id.clone();
        store.create_tasks(vec![new_task("fine"), twin]).await.unwrap_err();
        assert_eq!(store.tasks(all()).await.unwrap().items, [first.task]);
        assert_eq!(claim_all(&store).await.len(), 1);
        assert_eq!(store.create_tasks(Vec::new()).await.unwrap().len(), 0);
    }

    async fn everything_about_a_task_comes_back(place) {
        let store = place.open().await;
        let new = NewTask {
            source_url: Some("https://example.com/1".into()),
            extra: Some(serde_json::json!({ "labels": ["a", "\u{0}"] })),
            convoy: Some("spring".into()),
            warnings: vec!["mind\u{0} the gap".into()],
            priority: harvest_core::Priority::High,
            retries: 3,
            model: None,
            ..new_task("Überprüfe \"alles\" 'genau' \\ 𝄞")
        };
        let task = create(&store, new.clone()).await;
        let read = store.task(&new.id).await.unwrap();
        assert_eq!(read.task, task.task);
        assert_eq!((&read.task.extra, &read.task.prompt, &read.task.convoy), (&new.extra, &new.prompt, &new.convoy));
        assert_eq!((read.task.priority, read.task.retries_left, &read.task.source_url), (new.priority, 3, &new.source_url));
        assert_eq!((&read.sessions[0].id, &read.sessions[0].turns[0].id), (&new.session, &new.turn));
        let journal = store.events(&new.session, 0, 10).await.unwrap();
        assert_eq!(journal[1].body, EventBody::Warning { message: new.warnings[0].clone() });
        assert_eq!(journal.len(), 2);
    }

    async fn convoys_add_up(place) {
        let store = place.open().await;
        let of = |convoy: &str| NewTask { convoy: Some(convoy.into()), ..new_task("x") };
        let made = store.create_tasks(vec![of("spring"), of("spring"), of("autumn"), new_task("alone")]).await.unwrap();
        let lease = claim(&store, &made[0].turn).await;
        let usage = EventBody::Usage {
            provider: "p".into(),
            model: "m".into(),
            usage: Default::default(),
            cost_usd: Cost::from_nanos(5),
            estimated: false,
                call_id: None,
                duration_ms: None,
        };
        store.append(&lease, Step::new(now(), vec![usage.clone(), usage])).await.unwrap();
        fail(&store, &lease).await;
        let expected = [
            Convoy { name: "autumn".into(), tasks: [("pending".to_owned(), 1)].into(), cost_usd: Cost::ZERO },
            Convoy { name: "spring".into(), tasks: [("failed".to_owned(), 1), ("pending".to_owned(), 1)].into(), cost_usd: Cost::from_nanos(10) },
        ];
        assert_eq!(store.convoys().await.unwrap(), expected);
        let state = store.queue().await.unwrap();
        assert_eq!((state.cost_usd.nanos(), state.tasks["pending"], state.failures["agent"]), (10, 3, 1));
    }

    async fn filters_and_cursors_go_together(place) {
        let store = place.open().await;
        let of = |repository: &str, convoy: Option<&str>| NewTask {
            repository: repository.into(),
            convoy: convoy.map(str::to_owned),
            ..new_task("x")
        };
        let made = store
            .create_tasks((0..12).map(|n| of(if n % 2 == 0 { "a" } else { "b" }, (n % 3 == 0).then_some("c"))).collect())
            .await
            .unwrap();
        for made in &made[..6] {
            fail(&store, &claim(&store, &made.turn).await).await;
        }
        let query = TaskQuery { status: Some(TaskStatus::Failed), repository: Some("a".into()), ..all() };
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.tasks(TaskQuery { limit: 2, cursor, ..query.clone() }).await.unwrap();
            listed.extend(page.items.into_iter().map(|task| task.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, [4, 2, 0].map(|n: usize| made[n].task.id.clone()));
        let count = async |query: TaskQuery| store.tasks(query).await.unwrap().items.len();
        assert_eq!(count(TaskQuery { convoy: Some("c".into()), ..all() }).await, 4);
        assert_eq!(count(TaskQuery { convoy: Some("c".into()), ..query }).await, 1);
        assert_eq!(count(TaskQuery { repository: Some("%".into()), ..all() }).await, 0);
        let whole = store.tasks(TaskQuery { limit: 12, ..all() }).await.unwrap();
        assert_eq!((whole.items.len(), whole.next_cursor), (12, None));
    }

    async fn schedules_are_kept_until_removed(place) {
        let store = place.open().await;
        store.save_schedule(schedule("nightly")).await.unwrap();
        assert_eq!(store.schedules().await.unwrap(), [schedule("nightly")]);
        let owner = Some(ScheduleOwner { user: "bob".into(), right: OwnerRight::Person });
        let given = Schedule { owner: owner.clone(), cron: "* * * * *".into(), next: None, ..schedule("nightly") };
        store.save_schedule(given).await.unwrap();
        assert_eq!(store.schedules().await.unwrap(), [Schedule { owner, ..schedule("nightly") }]);
        assert!(store.remove_schedule("nightly").await.unwrap());
        assert!(!store.remove_schedule("nightly").await.unwrap());
        assert_eq!(store.schedules().await.unwrap(), []);
    }

    async fn a_schedule_fires_once_however_many_try(place) {
        let stores = [place.open().await, place.open().await];
        stores[0].save_schedule(schedule("nightly")).await.unwrap();
        let firing: Vec<_> = (0..10).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move {
                store.fire_schedule("nightly", later(60), Some(later(120)), vec![new_task("x"), new_task("y")], None).await.unwrap()
            })
        }).collect();
        let mut fired = 0;
        for firing in firing {
            fired += u32::from(firing.await.unwrap());
        }
        assert_eq!(fired, 1);
        assert_eq!(stores[0].tasks(all()).await.unwrap().items.len(), 2);
        let expected = Schedule { next: Some(later(120)), last: Some(later(60)), ..schedule("nightly") };
        assert_eq!(stores[1].schedules().await.unwrap(), std::slice::from_ref(&expected));
        // When its tasks cannot be made, it has not fired.
        let impossible = NewTask { after: vec![new_task("never made").id], ..new_task("x") };
        let refused = stores[0].fire_schedule("nightly", later(120), None, vec![impossible], None).await;
        assert!(matches!(refused, Err(Error::UnknownDependency(_))), "{refused:?}");
        assert_eq!(stores[0].schedules().await.unwrap(), [expected]);
        let why = Some("its owner is no longer a member");
        assert!(stores[0].fire_schedule("nightly", later(120), None, Vec::new(), why).await.unwrap());
        assert_eq!(stores[1].schedules().await.unwrap()[0].problem.as_deref(), why);
        assert!(!stores[0].fire_schedule("unknown", later(120), None, Vec::new(), None).await.unwrap());
    }

    async fn templates_are_replaced_by_name(place) {
        let store = place.open().await;
        let template = |name: &str, prompt: &str| Template {
            name: name.into(),
            prompt: prompt.into(),
            options: serde_json::json!({ "priority": "high" }),
            created_at: now(),
        };
        store.save_template(template("b", "{{ what }}")).await.unwrap();
        store.save_template(template("A", "x")).await.unwrap();
        store.save_template(template("b", "better {{ what }}")).await.unwrap();
        assert_eq!(store.templates().await.unwrap(), [template("A", "x"), template("b", "better {{ what }}")]);
        assert!(store.remove_template("A").await.unwrap());
        assert!(!store.remove_template("A").await.unwrap());
    }

    async fn repositories_are_replaced_by_name_and_seen_by_others(place) {
        let (store, other) = (place.open().await, place.open().await);
        let repository = |name: &str, every: &str| Repository {
            name: name.into(),
            source: "/srv/shop".into(),
            settings: serde_json::json!({ "every": every }),
            created_at: now(),
            pushed_at: None,
        };
        store.save_repository(repository("shop", "30m")).await.unwrap();
        store.save_repository(repository("Barn", "1h")).await.unwrap();
        store.save_repository(repository("shop", "2h")).await.unwrap();
        assert_eq!(other.repositories().await.unwrap(), [repository("Barn", "1h"), repository("shop", "2h")]);
        assert!(other.remove_repository("Barn").await.unwrap());
        assert!(!store.remove_repository("Barn").await.unwrap());
        assert_eq!(store.repositories().await.unwrap(), [repository("shop", "2h")]);
    }
}
