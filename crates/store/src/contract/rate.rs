//! Rates that the servers on one database share.

use std::time::Duration;

use async_trait::async_trait;

use crate::Error;

#[async_trait]
pub trait Rates {
    /// Takes one request from each of these rates, or from none of them when one has nothing left. `None`: the database has
    /// one server, which counts for itself.
    async fn take_rates(&self, rates: &[Rate]) -> Result<Option<Taken>, Error>;

    /// Forgets rates that have been full for a while.
    async fn forget_rates(&self) -> Result<u64, Error>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// `token:ID`, `user:ada` or `team:fruit`.
    pub key: String,
    /// Requests in a window; as many may come at once after a window without any.
    pub quota: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// What is left of each.
    Left(Vec<f64>),
    /// `rate` is the index of one that has nothing left.
    Refused { rate: usize, wait: Duration },
}

impl Rate {
    /// In which a rate fills.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// Requests in a second.
    pub fn per_second(&self) -> f64 {
        f64::from(self.quota) / Self::WINDOW.as_secs_f64()
    }

    /// What there is of it after a while, of what there was before.
    pub fn filled(&self, before: f64, since: Duration) -> f64 {
        (before + self.per_second() * since.as_secs_f64()).clamp(0.0, f64::from(self.quota))
    }

    /// How long until there is one, if there is none.
    fn wait(&self, filled: f64) -> Option<Duration> {
        (filled < 1.0).then(|| Duration::from_secs_f64((1.0 - filled) / self.per_second()))
    }
}

impl Taken {
    /// One of each, of what there is of them.
    pub fn of(rates: &[Rate], filled: &[f64]) -> Self {
        let mut waits = rates.iter().zip(filled).map(|(rate, filled)| rate.wait(*filled)).enumerate();
        match waits.find_map(|(rate, wait)| Some((rate, wait?))) {
            Some((rate, wait)) => Self::Refused { rate, wait },
            None => Self::Left(filled.iter().map(|filled| filled - 1.0).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_fills_steadily_and_never_beyond_its_quota() {
        let rate = Rate { key: "user:ada".into(), quota: 6 };
        let seconds = Duration::from_secs;
        assert_eq!(rate.filled(0.0, seconds(31)), 3.1);
        assert_eq!(rate.filled(4.0, seconds(600)), 6.0);
        let rates = [rate.clone(), rate.clone()];
        assert_eq!(Taken::of(&rates, &[1.0, 2.5]), Taken::Left(vec![0.0, 1.5]));
        assert_eq!(Taken::of(&rates, &[1.0, 0.5]), Taken::Refused { rate: 1, wait: seconds(5) });
        // One that has become smaller holds at once.
        assert_eq!(Rate { quota: 1, ..rate }.filled(6.0, seconds(0)), 1.0);
    }
}
