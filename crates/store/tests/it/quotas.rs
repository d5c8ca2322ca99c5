//! How much someone has asked for, and what is left of a session that was forgotten: nothing.

use harvest_core::{CHECKS_AUTHOR, FailureReason, Move, Prompt, SessionId, Settings, TaskStatus, TokenId, Trust};
use harvest_store::{
    Admission, Answer, AnswerKey, Asker, Error, Forgotten, IdempotencyKey, Limit, MissedRuns, NewTask, NewTurn,
    PlanDecision, PlanVerdict, QuotaExceeded, Requester, Schedule, StatKey, StatQuery, Step, Submitted,
};

use crate::support::make::*;
use crate::support::on_both;

fn by_day() -> StatQuery {
    StatQuery { by: StatKey::Day, from: "0000-00-00".into(), to: "9999-12-31".into(), among: None }
}

fn at_most(most: u64, asker: Asker) -> Limit {
    Limit { holder: "someone".into(), asker, unfinished: Some(most), begun: None, daily: None, accounts: Vec::new() }
}

fn schedule() -> Schedule {
    Schedule {
        id: "nightly".into(),
        cron: "0 3 * * *".into(),
        time_zone: "UTC".into(),
        missed: MissedRuns::Skip,
        request: serde_json::json!({}),
        next: Some(later(60)),
        last: None,
        owner: None,
        problem: None,
        created_at: now(),
    }
}

on_both! {
    async fn tasks_that_have_not_ended_are_counted_for_whoever_asked(place) {
        let store = place.open().await;
        let token = TokenId::generate(&Counter);
        let admission = Admission { token: Some(token.clone()), limits: Vec::new(), ..Default::default() };
        let one = create(&store, NewTask { admission, ..new_task("x") }).await;
        let two = submit(&store).await;
        let (person, repository) = (one.task.requested_by.clone(), one.task.repository.clone());
        let count = async |asker: Asker| store.unfinished(&asker).await.unwrap();
        assert_eq!(count(Asker::Token(token.clone())).await, 1);
        assert_eq!(count(Asker::Token(TokenId::generate(&Counter))).await, 0);
        assert_eq!(count(Asker::People(vec!["nobody".into(), person])).await, 2);
        assert_eq!(count(Asker::Repositories(vec![repository.clone()])).await, 2);
        assert_eq!(count(Asker::Repositories(Vec::new())).await, 0);
        store.cancel_waiting(&two.task.id, now()).await.unwrap().unwrap();
        assert_eq!(count(Asker::Repositories(vec![repository])).await, 1);
    }

    async fn of_twelve_that_come_together_a_quota_of_two_lets_in_two(place) {
        let stores = [place.open().await, place.open().await];
        let token = TokenId::generate(&Counter);
        let askers = [
            Asker::People(vec!["ada".into()]),
            Asker::Repositories(vec!["/srv/orchard".into()]),
            Asker::Token(token.clone()),
        ];
        for asker in askers {
            let asking: Vec<_> = (0..12).map(|number| {
                let store = stores[number % 2].clone();
                let admission = Admission { token: Some(token.clone()), limits: vec![at_most(2, asker.clone())], ..Default::default() };
                let task = NewTask { admission, caps: Vec::new(), ..new_task("x") };
                tokio::spawn(async move { store.create_tasks(vec![task]).await })
            }).collect();
            let mut made = Vec::new();
            for asking in asking {
                match asking.await.unwrap() {
                    Ok(mut tasks) => made.push(tasks.pop().unwrap()),
                    Err(Error::Quota(exceeded)) => assert_eq!(
                        exceeded,
                        QuotaExceeded::Unfinished { holder: "someone".into(), unfinished: 2, most: 2 }
                    ),
                    Err(other) => panic!("{other:?}"),
                }
            }
            assert_eq!(made.len(), 2, "{asker:?}");
            assert_eq!(stores[0].unfinished(&asker).await.unwrap(), 2, "nothing is left of those that were refused");
            for task in made {
                stores[0].cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
            }
        }
    }

    async fn a_batch_is_let_in_whole_or_not_at_all(place) {
        let store = place.open().await;
        let batch = |count: usize| {
            let admission = Admission { token: None, limits: vec![at_most(3, Asker::People(vec!["ada".into()]))], ..Default::default() };
            (0..count).map(|_| NewTask { admission: admission.clone(), ..new_task("x") }).collect::<Vec<_>>()
        };
        store.create_tasks(batch(2)).await.unwrap();
        let refused = store.create_tasks(batch(2)).await;
        assert!(matches!(refused, Err(Error::Quota(QuotaExceeded::Unfinished { unfinished: 2, .. }))), "{refused:?}");
        store.create_tasks(batch(1)).await.unwrap();
        // A key that is known asks for nothing new.
        let key = Some(IdempotencyKey { key: "k".into(), digest: "d".into() });
        let known = NewTask { key: key.clone(), ..new_task("x") };
        store.create_tasks(vec![known]).await.unwrap();
        let again = NewTask { key, ..batch(1).remove(0) };
        store.create_tasks(vec![again]).await.unwrap();
    }

    async fn schedules_prompts_and_retries_are_held_to_quotas_too(place) {
        let store = place.open().await;
        let one = || Admission { token: None, limits: vec![at_most(1, Asker::People(vec!["ada".into()]))], ..Default::default() };
        let exceeded = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Quota(_))), "{result:?}");
        let ended = submit(&store).await;
        store.cancel_waiting(&ended.task.id, now()).await.unwrap().unwrap();
        let under_way = create(&store, NewTask { admission: one(), ..new_task("x") }).await;
        exceeded(store.create_tasks(vec![NewTask { admission: one(), ..new_task("x") }]).await.map(drop));
        exceeded(store.retry(&ended.task.id, one(), now()).await);
        let ada = || NewTurn { admission: one(), author: "ada".into(), ..new_turn(&ended.session, "more") };
        exceeded(store.prompt(ada()).await.map(drop));
        assert_eq!(store.session(&ended.session).await.unwrap().turns.len(), 1, "nothing of the prompt is left");
        // What is under way goes on.
        store.prompt(NewTurn { session: under_way.session.clone(), ..ada() }).await.unwrap();
        store.save_schedule(schedule()).await.unwrap();
        let run = NewTask { admission: one(), ..new_task("x") };
        exceeded(store.fire_schedule("nightly", later(60), None, vec![run], None).await.map(drop));
        assert_eq!(store.schedules().await.unwrap(), [schedule()], "it has not fired");
    }

    async fn work_on_other_peoples_tasks_counts_for_whoever_asks_for_it(place) {
        let store = place.open().await;
        let token = TokenId::generate(&Counter);
        let eve = || vec![at_most(1, Asker::People(vec!["eve".into()])), at_most(1, Asker::Token(token.clone()))];
        let admission = || Admission { person: Some("eve".into()), token: Some(token.clone()), limits: eve(), ..Default::default() };
        let by_eve = || Requester { limits: eve(), ..requester("eve", Some(token.clone())) };
        let exceeded = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Quota(_))), "{result:?}");
        let of = async |who: &str| store.unfinished(&Asker::People(vec![who.into()])).await.unwrap();
        let ended = async || {
            let task = submit(&store).await;
            store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
            task
        };
        let prompt = |task: &Submitted| NewTurn { admission: admission(), author: "eve".into(), ..new_turn(&task.session, "more") };
        let (first, second, interrupted, proposing) = (ended().await, ended().await, submit(&store).await, submit(&store).await);
        for task in [&interrupted, &proposing] {
            let lease = claim(&store, &task.turn).await;
            store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
            if task.turn == interrupted.turn {
                store.interrupt(&lease, now(), Vec::new()).await.unwrap();
            } else {
                store.ask_approval(&lease, now(), Vec::new()).await.unwrap();
            }
        }
        let under_way = submit(&store).await;
        assert_eq!((of("eve").await, of("ada").await), (0, 3));
        // The only place that she has is taken by someone else's task, and it is not theirs while they ask for nothing.
        store.prompt(prompt(&first)).await.unwrap();
        assert_eq!((of("eve").await, of("ada").await), (1, 3));
        exceeded(store.prompt(prompt(&second)).await.map(drop));
        exceeded(store.retry(&second.task.id, admission(), now()).await);
        exceeded(store.prompt(prompt(&under_way)).await.map(drop));
        let words = || Some(Prompt::new("Use tabs").unwrap());
        exceeded(store.resume(&interrupted.task.id, by_eve(), words(), now()).await);
        let again = || PlanVerdict::Again { comment: "Use tabs".into() };
        exceeded(store.decide(&proposing.task.id, PlanDecision { by: by_eve(), verdict: again() }, now()).await);
        assert_eq!((of("eve").await, of("ada").await), (1, 3), "nothing is left of what was refused");
        // What is hers already goes on, and what says nothing new to an agent is not work of hers.
        store.prompt(prompt(&first)).await.unwrap();
        store.resume(&interrupted.task.id, by_eve(), None, now()).await.unwrap();
        let approved = PlanVerdict::Approved { changed: None };
        store.decide(&proposing.task.id, PlanDecision { by: by_eve(), verdict: approved }, now()).await.unwrap();
        assert_eq!((of("eve").await, of("ada").await), (1, 3));
        // With the place free again, each of these doors gives it away.
        store.cancel_waiting(&first.task.id, now()).await.unwrap();
        assert_eq!(of("eve").await, 0);
        store.prompt(prompt(&under_way)).await.unwrap();
        assert_eq!((of("eve").await, of("ada").await), (1, 3));
    }

    async fn what_waits_in_line_of_a_task_that_has_ended_takes_no_place(place) {
        let store = place.open().await;
        let token = TokenId::generate(&Counter);
        let limits = || vec![at_most(1, Asker::People(vec!["ada".into()])), at_most(1, Asker::Token(token.clone()))];
        let admission = || Admission { person: Some("ada".into()), token: Some(token.clone()), limits: limits(), ..Default::default() };
        let more = |task: &Submitted| NewTurn { admission: admission(), author: "ada".into(), ..new_turn(&task.session, "more") };
        for stage in ["waits", "runs", "proposes"] {
            let task = create(&store, NewTask { admission: admission(), ..new_task("x") }).await;
            let lease = async || {
                let lease = claim(&store, &task.turn).await;
                store.append(&lease, Step::new(now(), Vec::new()).moving(Move::Start)).await.unwrap();
                lease
            };
            let lease = match stage {
                "waits" => None,
                "runs" => Some(lease().await),
                _ => {
                    store.ask_approval(&lease().await, now(), Vec::new()).await.unwrap();
                    None
                }
            };
            store.prompt(more(&task)).await.unwrap();
            match (stage, lease) {
                (_, Some(lease)) => {
                    let cancelled = outcome(&lease, TaskStatus::Cancelled, Some(FailureReason::Cancelled));
                    let step = Step::new(now(), Vec::new()).moving(Move::Cancel).ending(cancelled);
                    store.append(&lease, step).await.unwrap();
                }
                ("proposes", None) => {
                    let by = requester("ada", None);
                    store.decide(&task.task.id, PlanDecision { by, verdict: PlanVerdict::Rejected }, now()).await.unwrap();
                }
                _ => drop(store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap()),
            }
            assert!(store.task(&task.task.id).await.unwrap().task.status.is_finished(), "{stage}");
            for asker in [Asker::People(vec!["ada".into()]), Asker::Token(token.clone())] {
                assert_eq!(store.unfinished(&asker).await.unwrap(), 0, "{stage}: {asker:?}");
            }
            // Whoever lets the task continue answers for what is in its line.
            let eve = Admission { person: Some("eve".into()), ..Default::default() };
            store.retry(&task.task.id, eve, now()).await.unwrap();
            let of = async |who: &str| store.unfinished(&Asker::People(vec![who.into()])).await.unwrap();
            assert_eq!((of("ada").await, of("eve").await), (0, 1), "{stage}");
            store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
        }
    }

    async fn what_someone_else_asks_of_a_task_takes_no_place_of_the_token_that_made_it(place) {
        let store = place.open().await;
        let [adas, eves] = [TokenId::generate(&Counter), TokenId::generate(&Counter)];
        let with = |token: &TokenId| Admission { token: Some(token.clone()), ..Default::default() };
        let of = async |token: &TokenId| store.unfinished(&Asker::Token(token.clone())).await.unwrap();
        let task = create(&store, NewTask { admission: with(&adas), ..new_task("x") }).await;
        assert_eq!((of(&adas).await, of(&eves).await), (1, 0));
        store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
        let more = NewTurn { admission: with(&eves), author: "eve".into(), ..new_turn(&task.session, "more") };
        store.prompt(more).await.unwrap();
        assert_eq!((of(&adas).await, of(&eves).await), (0, 1));
    }

    async fn a_turn_that_no_person_asked_for_counts_for_the_requester_of_its_task(place) {
        let store = place.open().await;
        let task = submit(&store).await;
        store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
        let one = Admission { person: Some("ada".into()), limits: vec![at_most(1, Asker::People(vec!["ada".into()]))], ..Default::default() };
        let checks = NewTurn { admission: one, author: CHECKS_AUTHOR.into(), ..new_turn(&task.session, "more") };
        store.prompt(checks).await.unwrap();
        let of = async |who: &str| store.unfinished(&Asker::People(vec![who.into()])).await.unwrap();
        assert_eq!((of("ada").await, of(CHECKS_AUTHOR).await), (1, 0));
    }

    async fn a_task_that_goes_on_has_ended_all_the_same(place) {
        let store = place.open().await;
        let task = submit(&store).await;
        store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
        assert_eq!(store.queue().await.unwrap().ever.finished, 1);
        store.retry(&task.task.id, Admission::default(), now()).await.unwrap();
        assert_eq!(store.queue().await.unwrap().ever.finished, 1);
        store.cancel_waiting(&task.task.id, now()).await.unwrap().unwrap();
        assert_eq!(store.queue().await.unwrap().ever.finished, 2);
    }

    async fn what_was_spent_today_counts_in_the_same_transaction(place) {
        let store = place.open().await;
        let limit = |most| Limit {
            unfinished: None,
            daily: Some(harvest_core::Cost::from_nanos(most)),
            accounts: vec!["user:ada".into()],
            ..at_most(0, Asker::People(vec!["ada".into()]))
        };
        let asking = |most| NewTask { admission: Admission { token: None, limits: vec![limit(most)], ..Default::default() }, ..new_task("x") };
        let refused = store.create_tasks(vec![asking(0)]).await;
        assert!(matches!(refused, Err(Error::Quota(QuotaExceeded::Daily { .. }))), "{refused:?}");
        store.create_tasks(vec![asking(1)]).await.unwrap();
    }

    async fn of_strangers_so_many_tasks_are_begun_in_a_day_whether_they_have_ended_or_not(place) {
        let store = place.open().await;
        let asking = |who: &str, trust, at| {
            let begun = |begun, asker| Limit { unfinished: None, begun: Some(begun), ..at_most(0, asker) };
            let own = begun(1, Asker::People(vec![who.to_owned()]));
            let all = begun(2, Asker::StrangersOf("/srv/orchard".into()));
            let settings = Settings { trust, ..Settings::default() };
            let admission = Admission { is_stranger: true, token: None, limits: vec![own, all], ..Default::default() };
            NewTask { admission, settings, requested_by: who.to_owned(), at, ..new_task("x") }
        };
        let ask = async |who: &str, at| store.create_tasks(vec![asking(who, Trust::Stranger, at)]).await;
        // What members ask for is not counted here, be it about what a stranger wrote.
        for trust in [Trust::Member, Trust::Stranger, Trust::Stranger] {
            let member = NewTask { admission: Admission::default(), ..asking("ada", trust, now()) };
            store.create_tasks(vec![member]).await.unwrap();
        }
        let strangers = Asker::StrangersOf("/srv/orchard".into());
        assert_eq!(store.unfinished(&strangers).await.unwrap(), 0);
        let first = ask("eve", now()).await.unwrap().pop().unwrap();
        store.cancel_waiting(&first.task.id, now()).await.unwrap().unwrap();
        let refused = ask("eve", later(60)).await;
        let expected = |begun, most| QuotaExceeded::Begun { holder: "someone".into(), begun, most, renewed_in_s: 75_296 };
        assert!(matches!(&refused, Err(Error::Quota(exceeded)) if *exceeded == expected(1, 1)), "{refused:?}");
        ask("mallory", now()).await.unwrap();
        let refused = ask("trudy", later(60)).await;
        assert!(matches!(&refused, Err(Error::Quota(exceeded)) if *exceeded == expected(2, 2)), "{refused:?}");
        ask("eve", later(24 * 60 * 60)).await.unwrap();
    }

    async fn of_a_forgotten_session_nothing_is_left_but_what_it_cost(place) {
        let store = place.open().await;
        let (gone, stays) = (submit(&store).await, submit(&store).await);
        assert_eq!(store.forget_session(&gone.session).await.unwrap(), Forgotten::Busy);
        let lease = claim(&store, &gone.turn).await;
        assert_eq!(store.forget_session(&gone.session).await.unwrap(), Forgotten::Busy);
        let call = crate::ledger::reservation(&owner(), 900);
        store.reserve(&lease, call.clone()).await.unwrap();
        store.append(&lease, crate::ledger::settling(&call, 700)).await.unwrap();
        complete(&store, &lease).await;
        let key = AnswerKey { key: "ada 1".into(), digest: "d".into() };
        store.begin_answer(&key, now(), now()).await.unwrap();
        let answer = Answer { status: 201, body: format!("{{\"id\":\"{}\"}}", gone.task.id) };
        store.finish_answer(&key, answer).await.unwrap();
        let sums = store.statistics(by_day()).await.unwrap();
        let before = store.queue().await.unwrap();
        let ever = before.ever;
        assert_eq!((ever.finished, before.cost_usd.nanos(), sums[0].cost.nanos()), (1, 700, 700));
        assert_eq!(store.forget_session(&gone.session).await.unwrap(), Forgotten::Session);
        assert!(matches!(store.session(&gone.session).await, Err(Error::UnknownSession(_))));
        assert!(matches!(store.task(&gone.task.id).await, Err(Error::UnknownTask(_))));
        assert_eq!(store.events(&gone.session, 0, 100).await.unwrap_or_default(), []);
        assert_eq!(store.begin_answer(&key, now(), now()).await.unwrap(), harvest_store::Begun::New);
        assert_eq!(store.statistics(by_day()).await.unwrap(), sums);
        assert!(matches!(store.forget_session(&gone.session).await, Err(Error::UnknownSession(_))));
        assert!(matches!(store.forget_session(&SessionId::generate(&Counter)).await, Err(Error::UnknownSession(_))));
        assert_eq!(store.task(&stays.task.id).await.unwrap().sessions.len(), 1);
        let state = store.queue().await.unwrap();
        assert_eq!(state.ever, ever, "what is counted for good does not fall with what is forgotten");
        assert_eq!(state.cost_usd.nanos(), 700, "what it cost is spent all the same");
        assert_eq!((state.tasks.get("completed"), state.turns.ready), (None, 1), "{state:?}");
        // Its place in the queue is nobody's, and the other one is worked on as ever.
        let lease = claim(&store, &stays.turn).await;
        complete(&store, &lease).await;
    }
}
