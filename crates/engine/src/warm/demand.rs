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

#[cfg(test)]
mod tests {
    use harvest_gateway::egress::Policy;
    use harvest_workspace::Mirrors;

    use super::*;
    use crate::ModelChoice;

    async fn seed(repository: &str, person: &str) -> Seed {
        let folder = tempfile::tempdir().unwrap();
        Seed {
            repository: repository.to_owned(),
            person: person.to_owned(),
            mirror: Mirrors::new(folder.path().to_owned()).open(repository.as_bytes(), "sha1").await.unwrap(),
            base: "0".repeat(40),
            agent: "builtin".to_owned(),
            choice: ModelChoice { provider: harvest_agents::Provider::Anthropic, model: None },
            max_turns: 1,
            limits: harvest_sandbox::Limits::default(),
            policy: Policy::default(),
            waits: super::super::seed::Waits::Agent,
        }
    }

    fn told(expected: &[(Seed, usize)]) -> Vec<(&str, &str, usize)> {
        expected.iter().map(|(seed, count)| (seed.repository.as_str(), seed.person.as_str(), *count)).collect()
    }

    #[tokio::test]
    async fn who_asks_the_most_comes_first_and_who_asked_long_ago_not_at_all() {
        let (mut demand, begun) = (Demand::default(), Instant::now());
        demand.note(seed("old", "ada").await, begun);
        let now = begun + RECENT;
        demand.note(seed("shop", "ada").await, now);
        demand.note(seed("shop", "ben").await, now);
        demand.note(seed("shop", "ben").await, now);
        assert_eq!(told(&demand.expected(now, Duration::ZERO)), [("shop", "ben", 1), ("shop", "ada", 1)]);
    }

    #[tokio::test]
    async fn as_many_are_kept_as_come_while_one_is_made() {
        let (mut demand, begun) = (Demand::default(), Instant::now());
        let shop = seed("shop", "ada").await;
        for number in 0..3600 {
            demand.note(shop.clone(), begun + Duration::from_secs(number));
        }
        let now = begun + Duration::from_secs(3600);
        let count = |making| demand.expected(now, Duration::from_secs(making))[0].1;
        // One a second for an hour: half of the weight that it would come to at last.
        assert_eq!((count(1), count(20)), (1, 10));
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let (mut demand, now) = (Demand::default(), Instant::now());
        let shop = seed("shop", "ada").await;
        for number in 0..2 * MOST {
            demand.note(Seed { person: number.to_string(), ..shop.clone() }, now);
        }
        assert_eq!(demand.expected(now, Duration::ZERO).len(), MOST);
    }
}
