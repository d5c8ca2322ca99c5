//! Rates that all servers on a database share.

use std::time::Duration;

use harvest_store::{Draw, Drawn};

use crate::support::make::*;
use crate::support::on_both;

fn draw(key: &str, quota: u32, most: u32) -> Draw {
    Draw { key: key.into(), quota, most }
}

on_both! {
    async fn a_rate_empties_and_fills_and_is_the_same_for_all(place) {
        let (one, other) = (place.open().await, place.open().await);
        let six = draw("user:ada", 6, 4);
        let drawn = |given, left, seconds| Drawn { given, left, wait: Duration::from_secs(seconds) };
        assert_eq!(one.draw(&six, now()).await.unwrap(), drawn(4, 2, 0));
        assert_eq!(other.draw(&six, now()).await.unwrap(), drawn(2, 0, 10));
        assert_eq!(one.draw(&six, later(4)).await.unwrap(), drawn(0, 0, 6));
        // A server whose clock is behind neither fills it nor empties it.
        assert_eq!(other.draw(&six, now()).await.unwrap(), drawn(0, 0, 6));
        assert_eq!(other.draw(&six, later(31)).await.unwrap(), drawn(3, 0, 9));
        assert_eq!(one.draw(&draw("user:eve", 6, 9), later(31)).await.unwrap(), drawn(6, 0, 10));
        assert_eq!(one.draw(&six, later(600)).await.unwrap(), drawn(4, 2, 0), "never more than a minute's worth");
        // One that has become smaller holds at once.
        assert_eq!(one.draw(&draw("user:ada", 1, 4), later(600)).await.unwrap(), drawn(1, 0, 60));
    }

    async fn of_many_that_draw_at_once_no_more_get_something_than_the_rate_allows(place) {
        let stores = [place.open().await, place.open().await];
        let draws: Vec<_> = (0..24).map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move { store.draw(&draw("team:fruit", 10, 1), now()).await.unwrap().given })
        }).collect();
        let mut given = 0;
        for drawing in draws {
            given += drawing.await.unwrap();
        }
        assert_eq!(given, 10);
    }

    async fn rates_that_nobody_uses_are_forgotten(place) {
        let store = place.open().await;
        store.draw(&draw("user:ada", 1, 1), now()).await.unwrap();
        store.draw(&draw("user:eve", 1, 1), later(90)).await.unwrap();
        assert_eq!(store.forget_rates(later(60)).await.unwrap(), 1);
        assert_eq!(store.draw(&draw("user:eve", 1, 1), later(90)).await.unwrap().given, 0, "still counted");
    }
}
