//! How much each may ask for. A bucket for each token fills at a steady rate; a request takes a drop.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, Method};
use harvest_core::Code;

use crate::auth::{Principal, is_safe};
use crate::problem::Problem;

const WINDOW: Duration = Duration::from_secs(60);
const MOST_BUCKETS: usize = 10_000;

/// Requests in a minute, for each token.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub reads: u32,
    pub writes: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { reads: 600_000, writes: 1_200 }
    }
}

#[derive(Debug)]
pub struct Limiter {
    pace: Pace,
    buckets: Mutex<HashMap<(String, bool), Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    drops: f64,
    at: Instant,
}

/// Where someone stands after a request.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    name: &'static str,
    quota: u32,
    left: u32,
    /// Seconds until the bucket is full.
    full_in: u64,
}

impl Limiter {
    pub fn new(pace: Pace) -> Self {
        Self { pace, buckets: Mutex::default() }
    }

    pub fn take(&self, principal: &Principal, method: &Method) -> Result<Standing, Problem> {
        self.take_at(principal.token.as_str(), is_safe(method), Instant::now())
    }

    fn take_at(&self, who: &str, reads: bool, now: Instant) -> Result<Standing, Problem> {
        let (name, quota) = if reads { ("reads", self.pace.reads) } else { ("writes", self.pace.writes) };
        let rate = f64::from(quota) / WINDOW.as_secs_f64();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_BUCKETS {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| now.duration_since(bucket.at) < WINDOW);
        }
        let bucket = buckets.entry((who.to_owned(), reads)).or_insert(Bucket { drops: f64::from(quota), at: now });
        let filled = bucket.drops + rate * now.duration_since(bucket.at).as_secs_f64();
        *bucket = Bucket { drops: filled.min(f64::from(quota)), at: now };
        if bucket.drops < 1.0 {
            let wait = ((1.0 - bucket.drops) / rate).ceil() as u64;
            let detail = format!("more than {quota} {name} in a minute");
            let help = "wait as long as Retry-After says";
            return Err(Problem::new(Code::TooMany, detail).help(help).retry_after(wait.max(1)));
        }
        bucket.drops -= 1.0;
        let full_in = ((f64::from(quota) - bucket.drops) / rate).ceil() as u64;
        Ok(Standing { name, quota, left: bucket.drops as u32, full_in })
    }
}

impl Standing {
    /// As in draft-ietf-httpapi-ratelimit-headers.
    pub fn describe(self, headers: &mut HeaderMap) {
        let Self { name, quota, left, full_in } = self;
        let policy = format!("\"{name}\";q={quota};w={}", WINDOW.as_secs());
        for (header, text) in [("ratelimit-policy", policy), ("ratelimit", format!("\"{name}\";r={left};t={full_in}"))]
        {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(header, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills() {
        let limiter = Limiter::new(Pace { reads: 120, writes: 2 });
        let start = Instant::now();
        let write = |after: u64| limiter.take_at("a", false, start + Duration::from_secs(after));
        assert_eq!(write(0).unwrap().left, 1);
        assert_eq!(write(0).unwrap().left, 0);
        assert!(write(10).is_err());
        assert_eq!(write(30).unwrap().left, 0);
        assert!(limiter.take_at("b", false, start).is_ok(), "everyone has their own");
        assert!(limiter.take_at("a", true, start).is_ok(), "reads are counted apart");
    }
}
