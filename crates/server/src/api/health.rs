//! For those who watch over the process.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use harvest_api_types::Health;
use harvest_core::Code;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::state::App;

/// The process lives.
pub async fn alive() -> Json<Health> {
    Json(Health::new("ok"))
}

/// It can do something: its database answers, and it is not about to end. Where its own agents take no work for the moment,
/// it says why.
pub async fn ready(State(app): State<App>) -> (StatusCode, Json<Health>) {
    if app.closing.is_requested() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(Health::new("closing")));
    }
    if app.draining.is_requested() {
        // The API answers until the last turn is over; new requests are better off elsewhere.
        return (StatusCode::SERVICE_UNAVAILABLE, Json(Health::new("draining")));
    }
    let asked = async || match app.store.queue_settings().await {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "the database does not answer");
            Err(error.code())
        }
    };
    match app.readiness.answer(Instant::now, asked).await {
        Ok(()) => match app.engine.vitals().holding() {
            Some(why) => (StatusCode::OK, Json(Health { holding: Some(why), ..Health::new("ok") })),
            None => (StatusCode::OK, Json(Health::new("ok"))),
        },
        Err(code) => (
            StatusCode::SERVICE_UNAVAILABLE,
            Json(Health { code: Some(code.as_str().to_owned()), ..Health::new("no database") }),
        ),
    }
}

/// What the database answered last. Strangers may ask whether the server is ready, as often as they like, and the database is
/// asked once in a while.
#[derive(Debug, Default)]
pub struct Readiness(Mutex<Option<(Instant, Result<(), Code>)>>);

impl Readiness {
    /// So long an answer counts for those who ask after it.
    const HOLDS: Duration = Duration::from_millis(500);
    /// A database that takes longer does not answer.
    const PATIENCE: Duration = Duration::from_secs(2);

    async fn answer(&self, now: impl Fn() -> Instant, ask: impl AsyncFnOnce() -> Result<(), Code>) -> Result<(), Code> {
        let arrived = now();
        // Held while it is asked. Those who come meanwhile arrived before the answer, and get it too.
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = *last
            && arrived.saturating_duration_since(at) < Self::HOLDS
        {
            return answer;
        }
        let answer = timeout(Self::PATIENCE, ask()).await.unwrap_or_else(|_| {
            tracing::warn!("the database does not answer within {:?}", Self::PATIENCE);
            Err(Code::DatabaseUnreachable)
        });
        *last = Some((now(), answer));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const AWAY: Result<(), Code> = Err(Code::DatabaseUnreachable);

    /// Goes on only when it is told to.
    struct Clock(Cell<Instant>);

    impl Clock {
        fn new() -> Self {
            Self(Cell::new(Instant::now()))
        }

        fn now(&self) -> Instant {
            self.0.get()
        }

        fn pass(&self, millis: u64) {
            self.0.set(self.now() + Duration::from_millis(millis));
        }
    }

    #[tokio::test]
    async fn the_database_is_asked_once_in_a_while_however_many_ask_whether_the_server_is_ready() {
        let (readiness, clock) = (Readiness::default(), Clock::new());
        let now = || clock.now();
        assert_eq!(readiness.answer(now, async || AWAY).await, AWAY);
        for millis in [0, 499] {
            clock.pass(millis);
            assert_eq!(readiness.answer(now, async || panic!("it is not asked again")).await, AWAY);
        }
        clock.pass(1);
        assert_eq!(readiness.answer(now, async || Ok(())).await, Ok(()));
        clock.pass(499);
        assert_eq!(readiness.answer(now, async || AWAY).await, Ok(()));
    }

    #[tokio::test]
    async fn all_who_wait_for_a_slow_answer_get_that_one() {
        let (readiness, clock, asked) = (Readiness::default(), Clock::new(), Cell::new(0));
        let now = || clock.now();
        let slow = async || {
            asked.set(asked.get() + 1);
            // All others arrive meanwhile.
            tokio::task::yield_now().await;
            clock.pass(1500);
            Ok(())
        };
        let one = || readiness.answer(now, slow);
        let (a, b, c, d, e, f, g, h, i, j) =
            tokio::join!(one(), one(), one(), one(), one(), one(), one(), one(), one(), one());
        assert_eq!(([a, b, c, d, e, f, g, h, i, j], asked.get()), ([Ok(()); 10], 1));
    }

    #[tokio::test]
    async fn a_database_that_never_answers_is_away_and_the_next_who_ask_are_told_at_once() {
        let (readiness, clock) = (Readiness::default(), Clock::new());
        let now = || clock.now();
        assert_eq!(readiness.answer(now, async || std::future::pending().await).await, AWAY);
        assert_eq!(readiness.answer(now, async || panic!("it is not asked again")).await, AWAY);
    }
}
