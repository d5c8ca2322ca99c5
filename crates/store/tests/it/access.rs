//! Tokens, idempotent answers, the audit log, sessions, and hearing of every journal.

use harvest_core::{Role, SessionId, TaskStatus, TokenId};
use harvest_store::{
    AccessToken, Admission, Answer, AnswerKey, AuditEntry, AuditQuery, Begun, BrokenChain, Error, Grown, NewAudit,
    Order, SessionQuery, StatKey, StatQuery, TaskQuery, TokenKind,
};
use serde_json::json;

use crate::support::make::*;
use crate::support::on_both;

fn token(kind: TokenKind, digest: &str) -> AccessToken {
    AccessToken {
        id: TokenId::generate(&Counter),
        kind,
        name: "ci".into(),
        user: "ada".into(),
        role: Role::Member,
        projects: Some(vec!["shop".into(), "o'range \"x\"".into()]),
        digest: digest.into(),
        created_at: now(),
        expires_at: Some(later(60)),
        revoked_at: None,
        last_used_at: None,
        made_by: None,
    }
}

fn key(key: &str, digest: &str) -> AnswerKey {
    AnswerKey { key: key.into(), digest: digest.into() }
}

fn entry(action: &str, project: Option<&str>) -> NewAudit {
    NewAudit {
        at: now(),
        actor: "user:ada".into(),
        action: action.into(),
        target: "task:1".into(),
        project: project.map(str::to_owned),
        detail: json!({ "text": "Grüße \u{1f33e}", "n": 1 }),
    }
}

fn everything() -> AuditQuery {
    AuditQuery { limit: 1000, ..AuditQuery::default() }
}

on_both! {
    async fn a_token_is_found_by_its_digest_until_long_after_it_was_revoked(place) {
        let store = place.open().await;
        let (api, login) = (token(TokenKind::Api, "d1"), AccessToken { projects: None, ..token(TokenKind::Login, "d2") });
        for token in [&api, &login] {
            store.add_token(token.clone()).await.unwrap();
        }
        assert_eq!(place.open().await.token("d1").await.unwrap(), Some(api.clone()));
        assert_eq!(store.token("d3").await.unwrap(), None);
        assert_eq!(store.tokens(TokenKind::Api).await.unwrap(), std::slice::from_ref(&api));
        assert_eq!(store.tokens(TokenKind::Login).await.unwrap(), [login]);
        store.token_used(&api.id, later(1)).await.unwrap();
        let mut woken = store.watch_queue();
        woken.mark_unchanged();
        assert!(store.revoke_token(&api.id, later(2)).await.unwrap());
        within(woken.changed()).await.unwrap();
        assert!(!store.revoke_token(&api.id, later(3)).await.unwrap(), "once is enough");
        let gone = store.token("d1").await.unwrap().unwrap();
        assert_eq!((gone.revoked_at, gone.last_used_at), (Some(later(2)), Some(later(1))));
        assert!(store.add_token(token(TokenKind::Api, "d1")).await.is_err(), "no two with one secret");
    }

    async fn a_token_that_is_revoked_takes_along_all_that_were_made_with_it(place) {
        let store = place.open().await;
        let first = token(TokenKind::Api, "m1");
        let child = AccessToken { made_by: Some(first.id.clone()), ..token(TokenKind::Api, "m2") };
        let grandchild = AccessToken { made_by: Some(child.id.clone()), ..token(TokenKind::Api, "m3") };
        let other = token(TokenKind::Api, "m4");
        for token in [&first, &child, &grandchild, &other] {
            store.add_token(token.clone()).await.unwrap();
        }
        assert_eq!(store.token("m2").await.unwrap(), Some(child.clone()));
        assert!(store.revoke_token(&grandchild.id, later(1)).await.unwrap());
        assert!(store.revoke_token(&first.id, later(2)).await.unwrap());
        let mut ended = Vec::new();
        for digest in ["m1", "m2", "m3", "m4"] {
            ended.push(store.token(digest).await.unwrap().unwrap().revoked_at);
        }
        assert_eq!(ended, [Some(later(2)), Some(later(2)), Some(later(1)), None]);
        let late = AccessToken { made_by: Some(first.id.clone()), ..token(TokenKind::Api, "m5") };
        store.add_token(late).await.unwrap();
        assert_eq!(store.token("m5").await.unwrap().unwrap().revoked_at, Some(later(2)), "made while it was revoked");
    }

    async fn a_link_opens_once_whoever_is_first(place) {
        let store = place.open().await;
        store.add_token(token(TokenKind::Link, "once")).await.unwrap();
        let tries: Vec<_> = (0..8).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.redeem_token("once", later(1)).await.unwrap().is_some() })
        }).collect();
        let mut opened = 0;
        for tried in tries {
            opened += usize::from(tried.await.unwrap());
        }
        assert_eq!(opened, 1);
        assert_eq!(store.redeem_token("never", later(1)).await.unwrap(), None);
    }

    async fn a_request_is_carried_out_once(place) {
        let store = place.open().await;
        let (first, other) = (key("ada k", "a"), key("ada k", "b"));
        let begin = async |key: &AnswerKey, at| store.begin_answer(key, later(at), later(at - 60)).await.unwrap();
        assert_eq!(begin(&first, 0).await, Begun::New);
        assert_eq!(begin(&first, 1).await, Begun::UnderWay);
        assert_eq!(begin(&other, 1).await, Begun::Reused);
        assert_eq!(begin(&first, 90).await, Begun::New, "whoever began is dead");
        assert_eq!(begin(&first, 91).await, Begun::UnderWay);
        store.abandon_answer(&first).await.unwrap();
        assert_eq!(begin(&first, 92).await, Begun::New);
        let answer = Answer { status: 201, body: "{\"id\":\"1\"}".into() };
        store.finish_answer(&first, answer.clone()).await.unwrap();
        store.abandon_answer(&first).await.unwrap();
        assert_eq!(begin(&first, 500).await, Begun::Answered(answer));
        assert_eq!(begin(&other, 500).await, Begun::Reused);
        assert_eq!(store.forget_answers(later(93)).await.unwrap(), 1);
        assert_eq!(begin(&other, 500).await, Begun::New);
    }

    async fn the_audit_log_is_a_chain_that_shows_where_it_was_broken(place) {
        let store = place.open().await;
        let writing: Vec<_> = (0..20).map(|number| {
            let store = store.clone();
            let project = (number % 2 == 0).then_some("shop");
            tokio::spawn(async move { store.audit(entry(&format!("a{number}"), project)).await.unwrap() })
        }).collect();
        for written in writing {
            written.await.unwrap();
        }
        let log = store.audit_log(everything()).await.unwrap();
        assert_eq!(log.iter().map(|entry| entry.number).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        let verify = |log: &[AuditEntry]| {
            let mut last = None;
            log.iter().try_for_each(|entry| { entry.check(last)?; last = Some(entry); Ok(()) })
        };
        assert_eq!(verify(&log), Ok(()));
        let mut changed = log.clone();
        changed[6].actor = "user:eve".into();
        assert_eq!(verify(&changed), Err(BrokenChain::Changed { number: 7 }));
        let mut removed = log.clone();
        removed.remove(3);
        assert_eq!(verify(&removed), Err(BrokenChain::Gap { expected: 4, found: 5 }));
        let mut forged = log.clone();
        forged[9].previous = AuditEntry::ROOT.into();
        assert_eq!(verify(&forged), Err(BrokenChain::Torn { number: 10 }));
        let few = AuditQuery { after: 5, limit: 3, projects: Some(vec!["shop".into()]), ..everything() };
        assert_eq!(store.audit_log(few).await.unwrap().len(), 3);
        let one = AuditQuery { action: Some("a3".into()), actor: Some("user:ada".into()), ..everything() };
        assert_eq!(store.audit_log(one).await.unwrap().len(), 1);
        assert_eq!(store.audit_log(AuditQuery { after: u64::MAX, ..everything() }).await.unwrap(), []);
        let none = AuditQuery { projects: Some(vec![]), ..everything() };
        assert_eq!(store.audit_log(none).await.unwrap(), []);
    }

    async fn the_audit_log_cannot_be_changed(place) {
        let store = place.open().await;
        store.audit(entry("a", None)).await.unwrap();
        for sql in ["UPDATE audit SET actor = 'user:eve'", "DELETE FROM audit"] {
            assert!(place.try_sql(sql).await.is_err(), "{sql}");
        }
        assert_eq!(store.audit_log(everything()).await.unwrap().len(), 1);
    }

    async fn sessions_are_found_and_listed(place) {
        let store = place.open().await;
        let (first, second) = (submit(&store).await, submit(&store).await);
        let mut other = new_task("Elsewhere");
        other.repository = "/srv/other".into();
        let other = create(&store, other).await;
        assert_eq!(store.last_event(&first.session).await.unwrap(), (first.task.id.clone(), 1));
        assert_eq!(store.events(&first.session, u64::MAX, 10).await.unwrap(), []);
        let unknown = store.last_event(&SessionId::generate(&Counter)).await;
        assert!(matches!(unknown, Err(Error::UnknownSession(_))), "{unknown:?}");
        let ids = async |query: SessionQuery| {
            let page = store.sessions(SessionQuery { limit: 10, ..query }).await.unwrap();
            page.items.into_iter().map(|item| item.id).collect::<Vec<_>>()
        };
        let [a, b, c] = [&first, &second, &other].map(|submitted| submitted.session.clone());
        assert_eq!(ids(SessionQuery::default()).await, [c.clone(), b.clone(), a.clone()]);
        assert_eq!(ids(SessionQuery { order: Order::OldestFirst, ..Default::default() }).await, [a.clone(), b.clone(), c.clone()]);
        assert_eq!(ids(SessionQuery { task: Some(second.task.id), ..Default::default() }).await, [b]);
        assert_eq!(ids(SessionQuery { among: Some(vec!["/srv/other".into()]), ..Default::default() }).await, [c]);
        assert_eq!(ids(SessionQuery { status: Some(TaskStatus::Failed), ..Default::default() }).await, []);
        let page = store.sessions(SessionQuery { limit: 2, ..Default::default() }).await.unwrap();
        let rest = store.sessions(SessionQuery { limit: 2, cursor: page.next_cursor, ..Default::default() }).await.unwrap();
        assert_eq!((rest.items[0].id.clone(), rest.next_cursor), (a, None));
        assert_eq!(rest.items[0].title, "Make the failing test pass");
    }

    async fn lists_of_tasks_are_filtered_and_turned_round(place) {
        let store = place.open().await;
        let mut made = Vec::new();
        for (prompt, agent, person, repository) in
            [("Mend the Fence", "builtin", "ada", "/a"), ("Paint", "codex", "bob", "/b"), ("mend it", "codex", "ada", "/c")]
        {
            let mut task = new_task(prompt);
            (task.agent, task.requested_by, task.repository) = (agent.into(), person.into(), repository.into());
            made.push(create(&store, task).await.task.id);
        }
        let ids = async |query: TaskQuery| {
            let page = store.tasks(TaskQuery { limit: 10, ..query }).await.unwrap();
            page.items.into_iter().map(|task| task.id).collect::<Vec<_>>()
        };
        let oldest = TaskQuery { order: Order::OldestFirst, ..Default::default() };
        assert_eq!(ids(oldest.clone()).await, made);
        assert_eq!(ids(TaskQuery { status: Some(TaskStatus::Pending), ..oldest.clone() }).await, made);
        assert_eq!(ids(TaskQuery { search: Some("MEND".into()), ..oldest.clone() }).await, [made[0].clone(), made[2].clone()]);
        assert_eq!(ids(TaskQuery { search: Some("%".into()), ..oldest.clone() }).await, []);
        assert_eq!(ids(TaskQuery { agent: Some("codex".into()), ..oldest.clone() }).await, [made[1].clone(), made[2].clone()]);
        assert_eq!(ids(TaskQuery { requested_by: Some("bob".into()), ..oldest.clone() }).await, [made[1].clone()]);
        let some = TaskQuery { among: Some(vec!["/a".into(), "/c".into()]), ..oldest.clone() };
        assert_eq!(ids(some).await, [made[0].clone(), made[2].clone()]);
        assert_eq!(ids(TaskQuery { among: Some(vec![]), ..oldest }).await, []);
        let first = store.tasks(TaskQuery { limit: 2, order: Order::OldestFirst, ..Default::default() }).await.unwrap();
        let rest = TaskQuery { limit: 2, order: Order::OldestFirst, cursor: first.next_cursor, ..Default::default() };
        assert_eq!(store.tasks(rest).await.unwrap().items[0].id, made[2]);
    }

    async fn statistics_follow_what_becomes_of_tasks(place) {
        let store = place.open().await;
        let by = |by, among: Option<&[&str]>| StatQuery {
            by,
            from: "2026-01-01".into(),
            to: "2026-12-31".into(),
            among: among.map(|names| names.iter().map(ToString::to_string).collect()),
        };
        assert_eq!(store.statistics(by(StatKey::Day, None)).await.unwrap(), []);
        let mut other = new_task("Paint");
        (other.agent, other.repository, other.model) = ("codex".into(), "/srv/other".into(), None);
        let (first, second) = (submit(&store).await, create(&store, other).await);
        let lease = claim(&store, &first.turn).await;
        complete(&store, &lease).await;
        let lease = claim(&store, &second.turn).await;
        fail(&store, &lease).await;
        let day = store.statistics(by(StatKey::Day, None)).await.unwrap();
        assert_eq!((day.len(), day[0].key.as_str()), (1, "2026-01-02"));
        assert_eq!((day[0].completed, day[0].failed, day[0].cancelled), (1, 1, 0));
        // Asked again it is the same, and so it is for another process.
        assert_eq!(place.open().await.statistics(by(StatKey::Day, None)).await.unwrap(), day);
        let agents = store.statistics(by(StatKey::Agent, None)).await.unwrap();
        let counts: Vec<_> = agents.iter().map(|stat| (stat.key.as_str(), stat.completed, stat.failed)).collect();
        assert_eq!(counts, [("builtin", 1, 0), ("codex", 0, 1)]);
        // A failure that is tried again and goes well is no failure any more.
        store.retry(&second.task.id, Admission::default(), later(60)).await.unwrap();
        assert_eq!(store.statistics(by(StatKey::Agent, None)).await.unwrap().len(), 1);
        let lease = claim(&store, &second.turn).await;
        complete(&store, &lease).await;
        let repositories = store.statistics(by(StatKey::Repository, Some(&["/srv/other"]))).await.unwrap();
        assert_eq!(repositories.len(), 1);
        assert_eq!((repositories[0].completed, repositories[0].failed), (1, 0));
        assert_eq!(store.statistics(by(StatKey::Person, Some(&[]))).await.unwrap(), []);
        let past = StatQuery { to: "2026-01-01".into(), ..by(StatKey::Model, None) };
        assert_eq!(store.statistics(past).await.unwrap(), []);
    }

    async fn every_journal_that_grows_is_told(place) {
        let store = place.open().await;
        let mut heard = store.watch_journals();
        // PostgreSQL begins to listen a moment after it was opened, and says so.
        let submitted = loop {
            let submitted = submit(&store).await;
            let told = tokio::time::timeout(std::time::Duration::from_millis(200), async {
                loop {
                    if let Ok(Grown::Session { id, last }) = heard.recv().await && id == submitted.session {
                        return last;
                    }
                }
            });
            if let Ok(last) = told.await {
                assert_eq!(last, 1);
                break submitted;
            }
        };
        let lease = claim(&store, &submitted.turn).await;
        let last = store.append(&lease, warning("more")).await.unwrap();
        within(async {
            loop {
                if heard.recv().await.unwrap() == (Grown::Session { id: submitted.session.clone(), last }) {
                    return;
                }
            }
        }).await;
    }
}
