//! What only a database on the other side of a socket can do: be unreachable, go away and come back, tell other processes.

use harvest_core::{Code, EventBody, Move, Role, TaskStatus, TokenId};
use harvest_store::{AccessToken, Error, Postgres, Step, Store, TokenKind};

use crate::support::cluster::Cluster;
use crate::support::make::*;
use crate::support::place::Place;

#[tokio::test]
async fn an_unreachable_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for url in [
        format!("host={} user=harvest dbname=orchard", folder.path().display()),
        "postgres://ada:secret@127.0.0.1:1/orchard".to_owned(),
    ] {
        let refused = Postgres::connect(&url).await.unwrap_err();
        assert!(matches!(&refused, Error::Unreachable { place, .. } if place.ends_with("/orchard")), "{refused:?}");
        assert_eq!(refused.code(), Code::DatabaseUnreachable);
        assert!(!format!("{refused} {refused:?}").contains("secret"));
    }
}

/// The moves of the database are the moves of the core, all of them and no others.
#[tokio::test(flavor = "multi_thread")]
async fn the_moves_are_the_same_in_the_database() {
    let Some(place) = Place::postgres().await else {
        return harvest_testing::skip(crate::support::cluster::WITHOUT);
    };
    place.open().await;
    let Place::Postgres { url } = &place else { return };
    let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(driver);
    let word = |by: Move| serde_json::to_value(by).unwrap().as_str().unwrap().to_owned();
    for from in TaskStatus::ALL {
        for by in Move::ALL {
            let row = client.query_one("SELECT harvest_after($1, $2)", &[&from.as_str(), &word(by)]).await.unwrap();
            let after: Option<&str> = row.get(0);
            assert_eq!(after, from.after(by).ok().map(TaskStatus::as_str), "{from} {by:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_are_followed_across_handles() {
    let Some(place) = Place::postgres().await else {
        return harvest_testing::skip(crate::support::cluster::WITHOUT);
    };
    let (here, there) = (place.open().await, place.open().await);
    let submitted = submit(&here).await;
    let mut grown = there.watch(&submitted.session);
    let lease = claim(&here, &submitted.turn).await;
    let writer = tokio::spawn(async move {
        for number in 0..50 {
            let event = EventBody::MessageDelta { text: number.to_string() };
            here.append(&lease, Step::new(now(), vec![event])).await.unwrap();
        }
    });
    let mut seen = 0;
    while seen < 52 {
        grown.mark_unchanged();
        let page = there.events(&submitted.session, seen, 100).await.unwrap();
        seen += page.len() as u64;
        if page.is_empty() {
            within(grown.changed()).await.unwrap();
        }
    }
    writer.await.unwrap();
    while *grown.borrow_and_update() < 52 {
        within(grown.changed()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_everything_works_again_without_a_restart() {
    let Some(cluster) = tokio::task::spawn_blocking(Cluster::private).await.unwrap() else {
        return harvest_testing::skip(crate::support::cluster::WITHOUT);
    };
    let place = Place::in_cluster(&cluster).await;
    let store = place.open().await;
    let submitted = submit(&store).await;
    let lease = claim(&store, &submitted.turn).await;
    store.append(&lease, warning("before")).await.unwrap();
    let mut heard = store.watch_queue();
    let mut grown = store.watch(&submitted.session);

    // Gone at once and without a word, as after a power cut; what was acknowledged is there afterwards.
    cluster.down();
    let refused = within(store.append(&lease, warning("during"))).await.unwrap_err();
    assert_eq!(refused.code(), Code::DatabaseUnreachable, "{refused:?}");
    let refused = within(store.task(&submitted.task.id)).await.unwrap_err();
    assert_eq!(refused.code(), Code::DatabaseUnreachable, "{refused:?}");
    heard.mark_unchanged();
    grown.mark_unchanged();
    cluster.up();

    // Whoever waits is woken once, since no one knows what was missed.
    within(heard.changed()).await.unwrap();
    within(grown.changed()).await.unwrap();
    let seq = within(store.append(&lease, warning("after"))).await.unwrap();
    let journal = store.events(&submitted.session, 0, 100).await.unwrap();
    assert_eq!((journal.len() as u64, seq), (4, 4));
    heard.mark_unchanged();
    submit(&store).await;
    within(heard.changed()).await.unwrap();
}

/// The server takes no connection by TCP that is not encrypted, and its certificate is for `localhost`.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_to_someone_trusted() {
    let Some((cluster, port)) = tokio::task::spawn_blocking(Cluster::encrypted).await.unwrap() else {
        return harvest_testing::skip(crate::support::cluster::WITHOUT);
    };
    let url = |host: &str, security: &str| format!("postgres://harvest@{host}:{port}/postgres?{security}");
    let signed_by = |name: &str| format!("sslrootcert={}", cluster.folder().join(name).display());

    let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(
        Postgres::connect(&url("localhost", &format!("sslmode=verify-full&{}", signed_by("ca.pem")))).await.unwrap(),
    );
    let submitted = submit(&store).await;
    let mut grown = store.watch(&submitted.session);
    let lease = claim(&store, &submitted.turn).await;
    store.append(&lease, warning("it is damp")).await.unwrap();
    grown.wait_for(|seq| *seq >= 3).await.unwrap();

    for (host, security, why) in [
        ("localhost", "sslmode=disable".to_owned(), "no encryption"),
        ("localhost", format!("sslmode=require&{}", signed_by("other.pem")), "certificate"),
        ("127.0.0.1", format!("sslmode=require&{}", signed_by("ca.pem")), "certificate"),
    ] {
        let refused = Postgres::connect(&url(host, &security)).await.unwrap_err();
        let mut told = String::new();
        let mut cause: Option<&dyn std::error::Error> = Some(&refused);
        while let Some(error) = cause {
            told.push_str(&format!("{error}: "));
            cause = error.source();
        }
        assert!(told.contains(why), "{security}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_being_made_while_its_makers_maker_is_revoked_is_revoked_as_well() {
    let Some(place) = Place::postgres().await else {
        return harvest_testing::skip(crate::support::cluster::WITHOUT);
    };
    let store = place.open().await;
    let [root, maker, made] = std::array::from_fn(|_| TokenId::generate(&Counter));
    let token = |id: &TokenId, made_by: Option<&TokenId>| AccessToken {
        id: id.clone(),
        kind: TokenKind::Api,
        name: "ci".into(),
        user: "ada".into(),
        role: Role::Admin,
        projects: None,
        digest: id.to_string(),
        created_at: now(),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        made_by: made_by.cloned(),
    };
    store.add_token(token(&root, None)).await.unwrap();
    store.add_token(token(&maker, Some(&root))).await.unwrap();
    let Place::Postgres { url } = &place else { return };
    let [making, looking] = [connected(url).await, connected(url).await];
    // What the store does to make a token, halted before it commits.
    making.batch_execute("BEGIN").await.unwrap();
    making.query("SELECT revoked_at FROM tokens WHERE id = $1 FOR SHARE", &[&maker.as_str()]).await.unwrap();
    let sql = "INSERT INTO tokens (id, kind, name, \"user\", role, digest, created_at, made_by)
         VALUES ($1, 'api', 'ci', 'ada', 'admin', $1, $2, $3)";
    making.execute(sql, &[&made.as_str(), &now().to_string(), &maker.as_str()]).await.unwrap();
    let (revoker, id) = (store.clone(), root.clone());
    let revoking = tokio::spawn(async move { revoker.revoke_token(&id, now()).await });
    let waits = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%tokens%'";
    within(async {
        while looking.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    making.batch_execute("COMMIT").await.unwrap();
    assert!(within(revoking).await.unwrap().unwrap());
    for token in store.tokens_by_id(&[root, maker, made]).await.unwrap() {
        assert!(token.revoked_at.is_some(), "{token:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_days_tasks_of_strangers_have_an_index_of_their_own() {
    let Some(place) = Place::postgres().await else {
        return harvest_testing::skip(crate::support::cluster::WITHOUT);
    };
    place.open().await;
    let Place::Postgres { url } = &place else { return };
    let client = connected(url).await;
    // Of an empty table anything is read as fast.
    client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.unwrap();
    for filter in ["(repository = 'x' AND stranger_day IS NOT NULL)", "requested_by = ANY('{eve}')"] {
        let sql = format!("EXPLAIN SELECT count(*) FROM tasks WHERE stranger_day = '2026-01-02' AND {filter}");
        let plan: Vec<String> = client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert!(plan.iter().any(|step| step.contains("using tasks_of_strangers")), "{plan:#?}");
    }
}

async fn connected(url: &str) -> tokio_postgres::Client {
    let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}
