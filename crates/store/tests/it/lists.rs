//! Lists, prefixes, details.

use harvest_core::{
    Attempt, AttemptId, Awaited, Move, SandboxId, SandboxPurpose, TaskId, TaskStatus, TurnStatus, Waiting,
};
use harvest_store::{AttemptUpdate, Error, NewTask, SandboxRecord, Step, TaskQuery};

use crate::support::make::*;
use crate::support::on_both;

on_both! {
    async fn pages_are_complete_and_newest_first(place) {
        let store = place.open().await;
        let mut made = Vec::new();
        for _ in 0..7 {
            made.push(submit(&store).await.task.id);
        }
        made.reverse();
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.tasks(TaskQuery { limit: 3, cursor, ..TaskQuery::default() }).await.unwrap();
            listed.extend(page.items.into_iter().map(|task| task.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, made);
        let none = TaskQuery { status: Some(TaskStatus::Completed), limit: 10, ..TaskQuery::default() };
        assert_eq!(store.tasks(none).await.unwrap().items, []);
        let bad = TaskQuery { cursor: Some("x'; DROP TABLE tasks".into()), limit: 10, ..TaskQuery::default() };
        assert!(store.tasks(bad).await.is_err());
    }

    async fn a_list_says_what_pending_tasks_wait_for(place) {
        let store = place.open().await;
        let (done, first) = (submit(&store).await, submit(&store).await);
        complete(&store, &claim(&store, &done.turn).await).await;
        let running = submit(&store).await;
        claim(&store, &running.turn).await;
        let after = vec![done.task.id.clone(), first.task.id.clone()];
        let blocked = create(&store, NewTask { after, ..new_task("later") }).await;
        let all = |among| TaskQuery { limit: 10, among, ..TaskQuery::default() };
        let waits = |turn, after: &[(&TaskId, Option<TaskStatus>)]| {
            let awaited = |(id, status): &(&TaskId, Option<TaskStatus>)| Awaited { id: (*id).clone(), status: *status };
            Some(Waiting { turn, after: after.iter().map(awaited).collect() })
        };
        let listed = store.list(all(None)).await.unwrap().items;
        let waiting: Vec<_> = listed.iter().map(|listed| (&listed.task.id, listed.waiting.clone())).collect();
        let pending = Some(TaskStatus::Pending);
        let expected = [
            (&blocked.task.id, waits(TurnStatus::Blocked, &[(&first.task.id, pending)])),
            (&running.task.id, None),
            (&first.task.id, waits(TurnStatus::Ready, &[])),
            (&done.task.id, None),
        ];
        assert_eq!(waiting, expected);
        // The status of a task that the reader may not see is not told.
        let told = store.waiting(vec![blocked.task.id.clone()], Some(vec!["elsewhere".into()])).await.unwrap();
        assert_eq!(told.get(&blocked.task.id).cloned(), waits(TurnStatus::Blocked, &[(&first.task.id, None)]));
    }

    async fn a_prefix_finds_its_one_task(place) {
        let store = place.open().await;
        let task = submit(&store).await.task.id;
        assert_eq!(store.find_task(&task.as_str()[..6], None).await.unwrap(), task);
        assert_eq!(store.find_task(&task.as_str().to_uppercase(), None).await.unwrap(), task);
        for unknown in ["zzzz", "", "%", "_", "a' OR 1=1", "日本"] {
            assert!(matches!(store.find_task(unknown, None).await, Err(Error::UnknownTask(_))), "{unknown}");
        }
        let mut twin = new_task("Again");
        twin.id = format!("{}{}", &task.as_str()[..15], if task.as_str().ends_with('0') { '1' } else { '0' }).parse().unwrap();
        create(&store, twin).await;
        let shared = store.find_task(&task.as_str()[..15], None).await;
        assert!(matches!(shared, Err(Error::AmbiguousId { count: 2, .. })), "{shared:?}");
        assert_eq!(store.find_task(task.as_str(), None).await.unwrap(), task);
        // Of repositories that the reader may not see there is not even a number.
        let elsewhere = Some(vec!["elsewhere".to_owned()]);
        let unseen = store.find_task(&task.as_str()[..15], elsewhere.clone()).await;
        assert!(matches!(unseen, Err(Error::UnknownTask(_))), "{unseen:?}");
        let mut seen = new_task("Mine");
        seen.repository = "elsewhere".to_owned();
        seen.id = format!("{}{}", &task.as_str()[..15], if task.as_str().ends_with('2') { '3' } else { '2' }).parse().unwrap();
        let seen = create(&store, seen).await;
        assert_eq!(store.find_task(&task.as_str()[..15], elsewhere.clone()).await.unwrap(), seen.task.id);
        let session = store.task(&task).await.unwrap().sessions[0].id.clone();
        let unseen = store.find_session(session.as_str(), elsewhere.clone()).await;
        assert!(matches!(unseen, Err(Error::UnknownSession(_))), "{unseen:?}");
        let session = store.task(&seen.task.id).await.unwrap().sessions[0].id.clone();
        assert_eq!(store.find_session(session.as_str(), elsewhere).await.unwrap(), session);
    }

    async fn details_hold_turns_and_attempts(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let lease = claim(&store, &submitted.turn).await;
        let attempt = Attempt {
            id: AttemptId::generate(&Counter),
            turn_id: submitted.turn.clone(),
            agent: "builtin".into(),
            command: vec!["agent".into(), "--model".into(), "x y".into()],
            exit_code: Some(1),
            stderr_tail: "it broke".into(),
            started_at: now(),
            finished_at: Some(now()),
        };
        let id = attempt.id.clone();
        let step = |update| Step::new(now(), Vec::new()).with_attempt(update);
        store.append(&lease, step(AttemptUpdate::Started(attempt.clone())).moving(Move::Start)).await.unwrap();
        store.append(&lease, step(AttemptUpdate::Journaled { attempt: id.clone(), offset: 12 })).await.unwrap();
        let finished = AttemptUpdate::Finished { attempt: id, exit_code: Some(1), stderr_tail: "it broke".into() };
        store.append(&lease, step(finished)).await.unwrap();
        let detail = store.task(&submitted.task.id).await.unwrap();
        assert_eq!(detail.sessions[0].turns[0].attempts, [attempt]);
        assert_eq!(detail.task.settings, submitted.task.settings);
    }

    async fn sandboxes_are_known_until_forgotten(place) {
        let store = place.open().await;
        let submitted = submit(&store).await;
        let record = SandboxRecord {
            id: SandboxId::generate(&Counter),
            owner: owner(),
            session: submitted.session,
            purpose: SandboxPurpose::Verify,
            provider: "local".into(),
        };
        store.record_sandbox(record.clone()).await.unwrap();
        assert_eq!(store.sandboxes().await.unwrap(), std::slice::from_ref(&record));
        // One that was made ahead gets its session later.
        let claimed = SandboxRecord { purpose: SandboxPurpose::Execute, ..record.clone() };
        store.record_sandbox(claimed.clone()).await.unwrap();
        assert_eq!(store.sandboxes().await.unwrap(), [claimed]);
        store.forget_sandbox(&record.id).await.unwrap();
        assert_eq!(store.sandboxes().await.unwrap(), []);
    }
}
