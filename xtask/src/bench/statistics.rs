//! Medians and the like.

use std::time::Duration;

/// The value below which `share` of the samples lie, rounded up to a sample.
pub fn quantile(samples: &[Duration], share: f64) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

pub fn median(samples: &[Duration]) -> Duration {
    quantile(samples, 0.5)
}

/// The middle one of some rates.
pub fn median_rate(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let samples: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(median(&samples), Duration::from_millis(50));
        assert_eq!(quantile(&samples, 0.99), Duration::from_millis(99));
        assert_eq!(quantile(&samples, 1.0), Duration::from_millis(100));
        assert_eq!(median(&samples[..1]), Duration::from_millis(100));
        assert_eq!(median(&[]), Duration::ZERO);
        assert_eq!(median_rate(&[3.0, 1.0, 2.0]), 2.0);
    }
}
