//! Rate limits. A bucket fills at a steady rate, and a request takes a drop: one bucket for each token, each person and each
//! team, and before anyone is known one for each address that signs in or sends webhooks.
//!
//! Servers on one database share the buckets of writes, which are kept there. Each counts reads and addresses for itself. A
//! server remembers which buckets the database called empty and for how long, so that refused writes cost the database nothing.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::{Code, Role};
use harvest_store::{Rate, Store, Taken};

use crate::auth::{Principal, is_safe};
use crate::problem::Problem;
use crate::state::App;

const WINDOW: Duration = Rate::WINDOW;
/// Of one generation: more addresses than that in a minute drop the generation before.
const MOST_BUCKETS: usize = 50_000;
/// Of one generation of refusals. The database is asked again about those that are dropped.
const MOST_REFUSALS: usize = 10_000;
/// The database counts whole milliseconds, so a bucket may have a drop so much earlier than it said.
const ROUNDING: Duration = Duration::from_millis(1);
/// A team may ask for so many times what one person may.
const TEAM: u32 = 5;
/// Operations that store a secret, and how many a person may ask for in a minute who is no admin of the installation: every secret
/// is looked for, in all that the server writes, as long as it runs.
const SECRETS: [&str; 2] = ["credential.create", "credential.rotate"];
const MOST_SECRETS: u32 = 10;
/// Of one address in a minute.
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
    known: Mutex<Buckets>,
    /// Apart from the others: strangers with many addresses cannot make the server forget what its users have taken.
    addresses: Mutex<Buckets>,
    refusals: Mutex<Refusals>,
}

/// Buckets that the database called empty, and until when none of them can have a drop again. Two generations, as in [`Buckets`].
#[derive(Debug, Default)]
struct Refusals {
    recent: HashMap<String, Refusal>,
    older: HashMap<String, Refusal>,
}

#[derive(Debug, Clone, Copy)]
struct Refusal {
    /// The wait holds for a bucket that fills at this rate.
    quota: u32,
    until: Instant,
}

/// Two generations of buckets. A bucket that is used moves into the recent generation; the older one is dropped after a window,
/// when every bucket in it is full again. So no request ever pays for looking at all of them.
#[derive(Debug)]
struct Buckets {
    recent: HashMap<(String, &'static str), Bucket>,
    older: HashMap<(String, &'static str), Bucket>,
    begun: Option<Instant>,
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
    /// `reads` or `writes`.
    name: &'static str,
    rate: Rate,
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

impl Buckets {
    fn new() -> Self {
        Self { recent: HashMap::new(), older: HashMap::new(), begun: None }
    }

    /// The bucket as it is now.
    fn get(&mut self, share: &Share, now: Instant) -> &mut Bucket {
        let begun = *self.begun.get_or_insert(now);
        if now.duration_since(begun) >= WINDOW || self.recent.len() >= MOST_BUCKETS {
            self.older = std::mem::take(&mut self.recent);
            self.begun = Some(now);
        }
        let (key, most) = ((share.rate.key.clone(), share.name), f64::from(share.rate.quota));
        let older = self.older.remove(&key);
        let bucket = self.recent.entry(key).or_insert_with(|| older.unwrap_or(Bucket { drops: most, at: now }));
        *bucket = Bucket { drops: share.rate.filled(bucket.drops, now.duration_since(bucket.at)), at: now };
        bucket
    }

    /// Of all buckets, or of none.
    fn take(&mut self, shares: &[Share], now: Instant) -> Result<Standing, Problem> {
        let filled: Vec<f64> = shares.iter().map(|share| self.get(share, now).drops).collect();
        let rates: Vec<Rate> = shares.iter().map(|share| share.rate.clone()).collect();
        let taken = Taken::of(&rates, &filled);
        if let Taken::Left(left) = &taken {
            for (share, left) in shares.iter().zip(left) {
                self.get(share, now).drops = *left;
            }
        }
        standing(shares, &taken)
    }
}

impl Refusals {
    /// The refusal that the database would repeat now for one of these rates.
    fn find(&self, rates: &[Rate], now: Instant) -> Option<Taken> {
        rates.iter().enumerate().find_map(|(index, rate)| {
            let refusal = self.recent.get(&rate.key).or_else(|| self.older.get(&rate.key))?;
            let wait = refusal.until.saturating_duration_since(now);
            let holds = refusal.quota == rate.quota && !wait.is_zero();
            holds.then_some(Taken::Refused { rate: index, wait })
        })
    }

    /// Remembers what the database answered to a question that was asked at `asked`, from when the wait is counted: the database
    /// counted it from a later moment.
    fn remember(&mut self, rates: &[Rate], taken: &Taken, asked: Instant) {
        let Taken::Refused { rate, wait } = taken else { return };
        let (Some(rate), Some(until)) = (rates.get(*rate), asked.checked_add(wait.saturating_sub(ROUNDING))) else {
            return;
        };
        if self.recent.len() >= MOST_REFUSALS {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(rate.key.clone(), Refusal { quota: rate.quota, until });
    }
}

/// Where the holder of the first share stands, or why the request is refused.
fn standing(shares: &[Share], taken: &Taken) -> Result<Standing, Problem> {
    let no_limit = || Problem::new(Code::Internal, "a request without a rate limit");
    match taken {
        Taken::Left(left) => {
            let (share, left) = shares.first().zip(left.first()).ok_or_else(no_limit)?;
            let full_in = ((f64::from(share.rate.quota) - left) / share.rate.per_second()).ceil() as u64;
            Ok(Standing { name: share.name, quota: share.rate.quota, left: *left as u32, full_in })
        }
        Taken::Refused { rate, wait } => {
            let Share { holder, name, rate } = shares.get(*rate).ok_or_else(no_limit)?;
            let detail = format!("{holder}: more than {} {name} in a minute", rate.quota);
            let wait = wait.as_secs_f64().ceil() as u64;
            Err(Problem::new(Code::TooMany, detail).help("wait as long as Retry-After says").retry_after(wait.max(1)))
        }
    }
}

impl Limiter {
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            known: Mutex::new(Buckets::new()),
            addresses: Mutex::new(Buckets::new()),
            refusals: Mutex::default(),
        }
    }

    /// Of the token, its person and their teams: all of them have room, or nothing is taken. Without `teams` of the token
    /// alone. Tells of the token's.
    pub async fn take(
        &self,
        store: &dyn Store,
        principal: &Principal,
        teams: Option<&[String]>,
        method: &Method,
        operation: &str,
    ) -> Result<Standing, Problem> {
        let is_read = is_safe(method);
        let mut shares = self.shares(principal, teams, is_read);
        if SECRETS.contains(&operation) && principal.role_everywhere() != Some(Role::Admin) {
            shares.push(of_secrets(&principal.user));
        }
        if !is_read {
            let rates: Vec<Rate> = shares.iter().map(|share| share.rate.clone()).collect();
            let asked = Instant::now();
            if let Some(refused) = self.refusals().find(&rates, asked) {
                return standing(&shares, &refused);
            }
            if let Some(taken) = store.take_rates(&rates).await? {
                self.refusals().remember(&rates, &taken, asked);
                return standing(&shares, &taken);
            }
        }
        self.known().take(&shares, Instant::now())
    }

    fn shares(&self, principal: &Principal, teams: Option<&[String]>, is_read: bool) -> Vec<Share> {
        let (name, quota) = if is_read { ("reads", self.pace.reads) } else { ("writes", self.pace.writes) };
        let share = |holder: String, key: String, quota: u32| Share { holder, name, rate: Rate { key, quota } };
        let mut shares = vec![share("this token".to_owned(), format!("token:{}", principal.token), quota)];
        if let Some(teams) = teams {
            shares.push(share(format!("user {}", principal.user), format!("user:{}", principal.user), quota));
            let most = quota.saturating_mul(TEAM);
            shares.extend(teams.iter().map(|team| share(format!("team {team}"), format!("team:{team}"), most)));
        }
        shares
    }

    /// Before anyone is known.
    fn knock(&self, peer: IpAddr, name: &'static str, quota: u32) -> Result<(), Problem> {
        let share = Share { holder: "this address".to_owned(), name, rate: Rate { key: network(peer), quota } };
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.take(&[share], Instant::now()).map(drop)
    }

    fn known(&self) -> MutexGuard<'_, Buckets> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of the secrets that a person stores.
fn of_secrets(user: &str) -> Share {
    let rate = Rate { key: format!("secrets:{user}"), quota: MOST_SECRETS };
    Share { holder: format!("user {user}"), name: "new secrets", rate }
}

/// An address; of IPv6 the network that one customer has.
pub fn network(peer: IpAddr) -> String {
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
        Share { holder: key.to_owned(), name, rate: Rate { key: key.to_owned(), quota } }
    }

    #[test]
    fn a_bucket_empties_and_fills() {
        let mut buckets = Buckets::new();
        let start = Instant::now();
        let mut ask = |who: &str, name, quota, after: u64| {
            buckets.take(&[share(who, name, quota)], start + Duration::from_secs(after)).map(|standing| standing.left)
        };
        assert_eq!(ask("a", "writes", 2, 0).unwrap(), 1);
        assert_eq!(ask("a", "writes", 2, 0).unwrap(), 0);
        assert!(ask("a", "writes", 2, 10).is_err());
        assert_eq!(ask("a", "writes", 2, 30).unwrap(), 0);
        assert!(ask("b", "writes", 2, 30).is_ok(), "everyone has their own");
        assert!(ask("a", "reads", 120, 30).is_ok(), "reads are counted apart");
    }

    #[test]
    fn several_tokens_of_one_person_share_what_the_person_may() {
        let mut buckets = Buckets::new();
        let start = Instant::now();
        let mut ask = |token: &str| buckets.take(&[share(token, "writes", 2), share("user:ada", "writes", 2)], start);
        ask("one").unwrap();
        ask("two").unwrap();
        assert!(ask("three").is_err(), "a new token is no new rate");
        // What is refused for one reason takes nothing from the others.
        assert_eq!(buckets.take(&[share("three", "writes", 2)], start).unwrap().left, 1);
    }

    #[test]
    fn an_empty_bucket_stays_empty_when_generations_change_and_full_ones_are_forgotten() {
        let mut buckets = Buckets::new();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        buckets.take(&[share("other", "writes", 2)], start).unwrap();
        for _ in 0..2 {
            buckets.take(&[share("busy", "writes", 2)], after(50)).unwrap();
        }
        // The first generation ends ten seconds after `busy` has emptied its bucket.
        buckets.take(&[share("other", "writes", 2)], after(61)).unwrap();
        assert!(buckets.older.contains_key(&("busy".to_owned(), "writes")));
        assert!(buckets.take(&[share("busy", "writes", 2)], after(61)).is_err());
        for seconds in [300, 400] {
            buckets.take(&[share("other", "writes", 2)], after(seconds)).unwrap();
        }
        assert_eq!(buckets.recent.len() + buckets.older.len(), 1);
    }

    #[test]
    fn many_addresses_do_not_make_the_server_forget_its_users() {
        let limiter = Limiter::new(Pace { reads: 1, writes: 1 });
        limiter.known().take(&[share("user:ada", "writes", 1)], Instant::now()).unwrap();
        for number in 0..3 * MOST_BUCKETS as u32 {
            limiter.knock(IpAddr::from(number.to_be_bytes()), "sign-ins", 1).unwrap();
        }
        let addresses = limiter.addresses.lock().unwrap();
        assert!(addresses.recent.len() + addresses.older.len() <= 2 * MOST_BUCKETS);
        assert!(limiter.known().take(&[share("user:ada", "writes", 1)], Instant::now()).is_err());
    }

    #[test]
    fn a_refusal_of_the_database_is_repeated_as_long_as_it_says_and_no_longer() {
        let mut refusals = Refusals::default();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let rate = |key: &str, quota| Rate { key: key.to_owned(), quota };
        let (token, user) = (rate("token:1", 6), rate("user:ada", 6));
        let wait = Duration::from_millis(10_000);
        refusals.remember(&[token.clone(), user.clone()], &Taken::Refused { rate: 1, wait }, start);
        let other = [rate("token:2", 6), user.clone()];
        let left = |millis: u64| Duration::from_millis(9_999 - millis);
        assert_eq!(refusals.find(&other, after(0)), Some(Taken::Refused { rate: 1, wait: left(0) }));
        assert_eq!(refusals.find(&other, after(9_000)), Some(Taken::Refused { rate: 1, wait: left(9_000) }));
        assert_eq!(refusals.find(&other, after(9_999)), None, "the bucket may have a drop again");
        assert_eq!(refusals.find(std::slice::from_ref(&token), after(0)), None, "the token's own bucket was not empty");
        assert_eq!(refusals.find(&[rate("user:ada", 60)], after(0)), None, "at another rate it fills sooner");
        refusals.remember(std::slice::from_ref(&user), &Taken::Left(vec![0.0]), after(9_999));
        assert_eq!(refusals.find(&[user], after(9_999)), None);
    }

    #[test]
    fn many_refusals_take_bounded_room() {
        let mut refusals = Refusals::default();
        let start = Instant::now();
        let wait = Duration::from_secs(10);
        for number in 0..3 * MOST_REFUSALS {
            let rates = [Rate { key: format!("token:{number}"), quota: 6 }];
            refusals.remember(&rates, &Taken::Refused { rate: 0, wait }, start);
            assert!(refusals.find(&rates, start).is_some());
        }
        assert!(refusals.recent.len() + refusals.older.len() <= 2 * MOST_REFUSALS);
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
