//! Who has been asking, and how often: each arrival counts less the longer it is ago.

use std::time::Duration;

use tokio::time::Instant;

use super::seed::Seed;

/// Whoever asked this recently gets at least one.
pub(crate) const RECENT: Duration = Duration::from_secs(30 * 60);
/// After an hour an arrival counts half.
const HALF_LIFE: Duration = Duration::from_secs(60 * 60);
/// So many repositories and people are told apart.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// The latest last.
    known: Vec<Asker>,
}

/// One person in one repository.
#[derive(Debug)]
struct Asker {
    /// As it was asked for last.
    seed: Seed,
    /// Arrivals, weighed by age.
    weight: f64,
    at: Instant,
}

impl Demand {
    pub(crate) fn note(&mut self, seed: Seed, at: Instant) {
        let same = |known: &Asker| known.seed.repository == seed.repository && known.seed.person == seed.person;
        let before = self.known.iter().position(same).map(|position| self.known.remove(position));
        let weight = before.map_or(0.0, |before| before.weight_at(at)) + 1.0;
        if self.known.len() >= MOST {
            self.known.remove(0);
        }
        self.known.push(Asker { seed, weight, at });
    }

    /// How many of which, for as many as will come while one is being made; who asks the most comes first.
    pub(crate) fn expected(&self, now: Instant, making: Duration) -> Vec<(Seed, usize)> {
        let mut recent: Vec<&Asker> = self.known.iter().filter(|asker| now - asker.at < RECENT).collect();
        recent.sort_by(|a, b| b.weight_at(now).total_cmp(&a.weight_at(now)));
        recent.into_iter().map(|asker| (asker.seed.clone(), asker.arrivals(now, making))).collect()
    }
}

impl Asker {
    fn weight_at(&self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.at).as_secs_f64();
        self.weight * 0.5_f64.powf(age / HALF_LIFE.as_secs_f64())
    }

    fn arrivals(&self, now: Instant, during: Duration) -> usize {
        // In equilibrium so many arrivals per half-life keep the weight where it is.
        let per_second = self.weight_at(now) * std::f64::consts::LN_2 / HALF_LIFE.as_secs_f64();
        let expected = (per_second * during.as_secs_f64()).ceil();
        if expected > 1.0 { expected as usize } else { 1 }
    }
}
