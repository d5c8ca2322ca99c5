//! An outage of whoever hosts a repository is waited out: work that is tested is not lost for it, and no agent works twice. What
//! is refused for good is told at once. Each step that is repeated looks first whether it was done.

use std::time::Duration;

use harvest_core::EventBody;
use tokio::time::Instant;

use crate::Error;
use crate::error::Halt;
use crate::turn::Turn;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// So long an outage may be.
const WHOLE: Duration = Duration::from_secs(60 * 60);

/// How long to wait before the next try, and for how long there is one.
#[derive(Debug)]
struct Patience {
    next: Duration,
    ends: Instant,
}

impl Patience {
    fn new(now: Instant) -> Self {
        Self { next: FIRST, ends: now + WHOLE }
    }

    /// `random` is from 0 to 1, so that those who wait for the same do not all come at once. `None` when it has ended.
    fn delay(&mut self, now: Instant, error: &Error, random: f64) -> Option<Duration> {
        let asked = match error {
            Error::Forge(harvest_forge::Error::RateLimited { seconds }) => Duration::from_secs(*seconds),
            _ => Duration::ZERO,
        };
        let delay = self.next.max(asked).mul_f64(1.0 + random / 4.0);
        self.next = (self.next * 2).min(LONGEST);
        (now + delay <= self.ends).then_some(delay)
    }
}

impl Turn {
    /// Does something at the forge, again and again while there is an outage, unless someone wants the turn stopped.
    pub(super) async fn patiently<T, Doing>(&self, step: impl Fn() -> Doing) -> Result<T, Halt>
    where
        Doing: Future<Output = Result<T, Error>>,
    {
        let mut patience = Patience::new(Instant::now());
        loop {
            // Who has lost the lease must not do anything.
            self.journal.write(Vec::new()).await?;
            let error = match step().await {
                Ok(done) => return Ok(done),
                Err(error) if is_outage(&error) => error,
                Err(error) => return Err(error.into()),
            };
            let [random, ..] = self.engine.options.entropy.bytes();
            let Some(delay) = patience.delay(Instant::now(), &error, f64::from(random) / 255.0) else {
                return Err(error.into());
            };
            tracing::info!(task = %self.task.id, %error, ?delay, "delivery is tried again");
            let message = "GitHub cannot be reached; the delivery will be retried".to_owned();
            self.journal.tell_once(EventBody::Warning { message }).await?;
            tokio::select! {
                biased;
                () = self.stop.requested() => return Err(self.stopped().into()),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }
}

fn is_outage(error: &Error) -> bool {
    matches!(error, Error::Forge(error) if error.is_outage())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        harvest_forge::Error::Unreachable { reason: "connection refused".into() }.into()
    }

    fn limited(seconds: u64) -> Error {
        harvest_forge::Error::RateLimited { seconds }.into()
    }

    #[tokio::test]
    async fn it_waits_longer_each_time_and_about_an_hour_in_all() {
        let begun = Instant::now();
        let (mut patience, mut now, mut delays) = (Patience::new(begun), begun, Vec::new());
        while let Some(delay) = patience.delay(now, &away(), 0.0) {
            delays.push(delay.as_secs());
            now += delay;
        }
        assert_eq!(delays[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let waited = now - begun;
        assert!(waited <= WHOLE && waited > WHOLE - LONGEST, "{waited:?}");
    }

    #[tokio::test]
    async fn whoever_asks_to_be_left_alone_is() {
        let now = Instant::now();
        let mut patience = Patience::new(now);
        assert_eq!(patience.delay(now, &limited(90), 0.0), Some(Duration::from_secs(90)));
        let delay = patience.delay(now, &away(), 1.0).unwrap();
        assert_eq!(delay, Duration::from_millis(2500));
        assert_eq!(patience.delay(now, &limited(4000), 0.0), None);
    }
}
