//! Rate limits. A bucket fills at a steady rate, and a request takes a drop: one bucket for each token, each person and each
//! team, and before anyone is known one for each address that signs in or sends webhooks.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::Code;

use crate::auth::{Principal, is_safe};
use crate::problem::Problem;
use crate::state::App;

const WINDOW: Duration = Duration::from_secs(60);
const MOST_BUCKETS: usize = 10_000;
/// A team may ask for so many times what one person may.
const TEAM: u32 = 5;
/// Of one address in a minute. Behind a proxy that is everyone together.
const SIGN_INS: u32 = 120;
const WEBHOOKS: u32 = 1_200;

/// Requests in a minute, for each token and for each person.
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

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

#[derive(Debug)]
pub struct Limiter {
    pace: Pace,
    buckets: Mutex<HashMap<(String, &'static str), Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    drops: f64,
    at: Instant,
}

/// A bucket that a request takes from.
#[derive(Debug)]
struct Share {
    /// For the refusal: `this token`.
    holder: String,
    key: String,
    /// `reads` or `writes`.
    name: &'static str,
    quota: u32,
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

    /// Of the token, its person and their teams: all of them have room, or nothing is taken. Tells of the token's.
    pub fn take(&self, principal: &Principal, teams: &[String], method: &Method) -> Result<Standing, Problem> {
        self.take_at(&self.shares(principal, teams, is_safe(method)), Instant::now())
    }

    fn shares(&self, principal: &Principal, teams: &[String], reads: bool) -> Vec<Share> {
        let (name, quota) = if reads { ("reads", self.pace.reads) } else { ("writes", self.pace.writes) };
        let share = |holder: String, key: String, quota: u32| Share { holder, key, name, quota };
        let mut shares = vec![
            share("this token".to_owned(), format!("token:{}", principal.token), quota),
            share(format!("user {}", principal.user), format!("user:{}", principal.user), quota),
        ];
        shares.extend(
            teams.iter().map(|team| share(format!("team {team}"), format!("team:{team}"), quota.saturating_mul(TEAM))),
        );
        shares
    }

    /// Before anyone is known.
    fn knock(&self, peer: IpAddr, name: &'static str, quota: u32) -> Result<(), Problem> {
        let share = Share { holder: "this address".to_owned(), key: network(peer), name, quota };
        self.take_at(&[share], Instant::now()).map(drop)
    }

    fn take_at(&self, shares: &[Share], now: Instant) -> Result<Standing, Problem> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_BUCKETS {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| now.duration_since(bucket.at) < WINDOW);
        }
        for Share { holder, key, name, quota } in shares {
            let rate = f64::from(*quota) / WINDOW.as_secs_f64();
            let full = Bucket { drops: f64::from(*quota), at: now };
            let bucket = buckets.entry((key.clone(), name)).or_insert(full);
            let filled = bucket.drops + rate * now.duration_since(bucket.at).as_secs_f64();
            *bucket = Bucket { drops: filled.min(f64::from(*quota)), at: now };
            if bucket.drops < 1.0 {
                let wait = ((1.0 - bucket.drops) / rate).ceil() as u64;
                let detail = format!("{holder}: more than {quota} {name} in a minute");
                let help = "wait as long as Retry-After says";
                return Err(Problem::new(Code::TooMany, detail).help(help).retry_after(wait.max(1)));
            }
        }
        let mut first = None;
        for Share { key, name, quota, .. } in shares {
            let Some(bucket) = buckets.get_mut(&(key.clone(), *name)) else { continue };
            bucket.drops -= 1.0;
            let rate = f64::from(*quota) / WINDOW.as_secs_f64();
            let full_in = ((f64::from(*quota) - bucket.drops) / rate).ceil() as u64;
            first.get_or_insert(Standing { name, quota: *quota, left: bucket.drops as u32, full_in });
        }
        first.ok_or_else(|| Problem::new(Code::Internal, "a request without a rate limit"))
    }
}

/// An address; of IPv6 the network that one customer has.
fn network(peer: IpAddr) -> String {
    match peer.to_canonical() {
        IpAddr::V4(address) => format!("address:{address}"),
        IpAddr::V6(address) => {
            format!("address:{}", Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
        }
    }
}

/// In front of everything that signs someone in.
pub async fn sign_ins(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    knock(&app, &request, "sign-ins", SIGN_INS)?;
    Ok(next.run(request).await)
}

/// In front of webhooks, whose signature is checked over all of the body.
pub async fn webhooks(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    knock(&app, &request, "webhooks", WEBHOOKS)?;
    Ok(next.run(request).await)
}

fn knock(app: &App, request: &Request, name: &'static str, quota: u32) -> Result<(), Problem> {
    match request.extensions().get::<Peer>() {
        Some(Peer(peer)) => app.pace.knock(*peer, name, quota),
        None => Ok(()),
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

    fn share(key: &str, name: &'static str, quota: u32) -> Share {
        Share { holder: key.to_owned(), key: key.to_owned(), name, quota }
    }

    #[test]
    fn a_bucket_empties_and_fills() {
        let limiter = Limiter::new(Pace::default());
        let start = Instant::now();
        let write = |after: u64| limiter.take_at(&[share("a", "writes", 2)], start + Duration::from_secs(after));
        assert_eq!(write(0).unwrap().left, 1);
        assert_eq!(write(0).unwrap().left, 0);
        assert!(write(10).is_err());
        assert_eq!(write(30).unwrap().left, 0);
        assert!(limiter.take_at(&[share("b", "writes", 2)], start).is_ok(), "everyone has their own");
        assert!(limiter.take_at(&[share("a", "reads", 120)], start).is_ok(), "reads are counted apart");
    }

    #[test]
    fn several_tokens_of_one_person_share_what_the_person_may() {
        let limiter = Limiter::new(Pace::default());
        let start = Instant::now();
        let ask = |token: &str| limiter.take_at(&[share(token, "writes", 2), share("user:ada", "writes", 2)], start);
        ask("one").unwrap();
        ask("two").unwrap();
        assert!(ask("three").is_err(), "a new token is no new rate");
        // What is refused for one reason takes nothing from the others.
        assert_eq!(limiter.take_at(&[share("three", "writes", 2)], start).unwrap().left, 1);
    }

    #[test]
    fn an_address_may_knock_so_often() {
        let limiter = Limiter::new(Pace::default());
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:1::1"].map(|text| text.parse::<IpAddr>().unwrap());
        for _ in 0..2 {
            limiter.knock(one, "sign-ins", 2).unwrap();
        }
        assert!(limiter.knock(same, "sign-ins", 2).is_err(), "one network, one bucket");
        limiter.knock(other, "sign-ins", 2).unwrap();
        limiter.knock("::ffff:192.0.2.1".parse().unwrap(), "sign-ins", 1).unwrap();
        assert!(limiter.knock("192.0.2.1".parse().unwrap(), "sign-ins", 1).is_err());
    }
}
