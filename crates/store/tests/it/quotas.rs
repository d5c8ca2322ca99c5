//! How much someone has asked for, and what is left of a session that was forgotten: nothing.

use harvest_core::{SessionId, TokenId};
use harvest_store::{Answer, AnswerKey, Asker, Error, Forgotten, StatKey, StatQuery};

use crate::support::make::*;
use crate::support::on_both;

fn by_day() -> StatQuery {
    StatQuery { by: StatKey::Day, from: "0000-00-00".into(), to: "9999-12-31".into(), among: None }
}

on_both! {
    async fn tasks_that_have_not_ended_are_counted_for_whoever_asked(place) {
        let store = place.open().await;
        let (one, two) = (submit(&store).await, submit(&store).await);
        let (person, repository) = (one.task.requested_by.clone(), one.task.repository.clone());
        let token = TokenId::generate(&Counter);
        store.note_asked(&token, &one.task.id, "2026-01-31").await.unwrap();
        store.note_asked(&token, &one.task.id, "2026-01-31").await.unwrap();
        let count = async |asker: Asker| store.unfinished(&asker).await.unwrap();
        assert_eq!(count(Asker::Token(token.clone())).await, 1);
        assert_eq!(count(Asker::Token(TokenId::generate(&Counter))).await, 0);
        assert_eq!(count(Asker::People(vec!["nobody".into(), person])).await, 2);
        assert_eq!(count(Asker::Repositories(vec![repository.clone()])).await, 2);
        assert_eq!(count(Asker::Repositories(Vec::new())).await, 0);
        store.cancel_waiting(&two.task.id, now()).await.unwrap().unwrap();
        assert_eq!(count(Asker::Repositories(vec![repository])).await, 1);
        assert_eq!(store.spent_with(&token, "2026-01-31").await.unwrap(), harvest_core::Cost::ZERO);
    }

    async fn of_a_forgotten_session_nothing_is_left_but_what_it_cost(place) {
        let store = place.open().await;
        let (gone, stays) = (submit(&store).await, submit(&store).await);
        assert_eq!(store.forget_session(&gone.session).await.unwrap(), Forgotten::Busy);
        let lease = claim(&store, &gone.turn).await;
        assert_eq!(store.forget_session(&gone.session).await.unwrap(), Forgotten::Busy);
        complete(&store, &lease).await;
        let key = AnswerKey { key: "ada 1".into(), digest: "d".into() };
        store.begin_answer(&key, now(), now()).await.unwrap();
        let answer = Answer { status: 201, body: format!("{{\"id\":\"{}\"}}", gone.task.id) };
        store.finish_answer(&key, answer).await.unwrap();
        let sums = store.statistics(by_day()).await.unwrap();
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
        assert_eq!((state.tasks.get("completed"), state.turns.ready), (None, 1), "{state:?}");
        // Its place in the queue is nobody's, and the other one is worked on as ever.
        let lease = claim(&store, &stays.turn).await;
        complete(&store, &lease).await;
    }
}
