//! Rates that the servers on one database share.

use std::time::Duration;

use harvest_store::{Rate, Taken};

use crate::support::cluster::WITHOUT;
use crate::support::place::Place;

fn rate(key: &str, quota: u32) -> Rate {
    Rate { key: key.into(), quota }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_requests_at_once_no_more_pass_than_the_rate_allows() {
    let Some(place) = Place::postgres().await else { return harvest_testing::skip(WITHOUT) };
    let servers = [place.open().await, place.open().await];
    let asking: Vec<_> = (0..24)
        .map(|number| {
            let server = servers[number % 2].clone();
            let rates = [rate(&format!("token:{number}"), 9), rate("user:ada", 1), rate("team:fruit", 5)];
            tokio::spawn(async move { server.take_rates(&rates).await.unwrap().unwrap() })
        })
        .collect();
    let mut passed = 0;
    for request in asking {
        match request.await.unwrap() {
            Taken::Left(left) => passed += usize::from(left[1] < 1.0),
            Taken::Refused { rate, wait } => assert!(rate == 1 && wait <= Rate::WINDOW, "{rate} {wait:?}"),
        }
    }
    assert_eq!(passed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_rate_refuses_is_taken_from_no_other() {
    let Some(place) = Place::postgres().await else { return harvest_testing::skip(WITHOUT) };
    let store = place.open().await;
    let (user, token) = (rate("user:ada", 1), rate("token:1", 1));
    assert!(matches!(store.take_rates(std::slice::from_ref(&user)).await.unwrap(), Some(Taken::Left(_))));
    let refused = store.take_rates(&[token.clone(), user.clone()]).await.unwrap();
    assert!(matches!(refused, Some(Taken::Refused { rate: 1, wait }) if wait > Duration::ZERO), "{refused:?}");
    assert!(matches!(store.take_rates(&[token]).await.unwrap(), Some(Taken::Left(_))));
    assert_eq!(store.forget_rates().await.unwrap(), 0, "they are in use");
    assert!(matches!(store.take_rates(&[user]).await.unwrap(), Some(Taken::Refused { rate: 0, .. })));
}

/// The clock of the database was a day ahead, or the database was not used for a day.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_locks_nobody_out() {
    let Some(place) = Place::postgres().await else { return harvest_testing::skip(WITHOUT) };
    let store = place.open().await;
    let Place::Postgres { url } = &place else { return };
    let (client, driver) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(driver);
    let ada = [rate("user:ada", 6_000)];
    store.take_rates(&ada).await.unwrap();
    client.execute("UPDATE rates SET drops = 0, at_ms = at_ms + 86400000", &[]).await.unwrap();
    assert!(matches!(store.take_rates(&ada).await.unwrap(), Some(Taken::Refused { .. })));
    // A hundred fill in a second.
    while matches!(store.take_rates(&ada).await.unwrap(), Some(Taken::Refused { .. })) {
        tokio::task::yield_now().await;
    }
    client.execute("UPDATE rates SET at_ms = at_ms - 86400000", &[]).await.unwrap();
    assert_eq!(store.forget_rates().await.unwrap(), 1);
}
