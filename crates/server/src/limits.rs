//! Rate limits. A bucket fills at a steady rate, and a request takes a drop: one bucket for each token, each person and each
//! team, and before anyone is known one for each address that signs in or sends webhooks.
//!
//! The buckets of writes are in the database, so that several servers together allow no more than one. A server takes a
//! second's worth at a time and keeps it in a pocket, so few writes ask the database. Reads and addresses are what keeps one
//! server busy: each server counts them for itself.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use harvest_core::{Code, Timestamp};
use harvest_store::{Draw, Drawn, Store};

use crate::auth::{Principal, is_safe};
use crate::problem::Problem;
use crate::state::App;

/// In which a bucket fills.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Of one generation: more addresses than that in a minute drop the generation before.
const MOST_BUCKETS: usize = 50_000;
/// A team may ask for so many times what one person may.
const TEAM: u32 = 5;
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
    reads: Mutex<Generations<Bucket>>,
    writes: Mutex<Generations<Pocket>>,
    /// Apart from the others: strangers with many addresses cannot make the server forget what its users have taken.
    addresses: Mutex<Generations<Bucket>>,
}

type Key = (String, &'static str);

/// Two generations of buckets or pockets. One that is used moves into the recent generation; the older one is dropped after a
/// window, when every bucket in it is full again. So no request ever pays for looking at all of them.
#[derive(Debug)]
struct Generations<T> {
    recent: HashMap<Key, T>,
    older: HashMap<Key, T>,
    begun: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    drops: f64,
    at: Instant,
}

/// What this server has taken out of a bucket in the database, and not yet used.
#[derive(Debug, Clone, Copy, Default)]
struct Pocket {
    drops: u32,
    /// In the bucket, when it was last looked at.
    behind: u32,
    /// The bucket is empty until then.
    empty_until: Option<Instant>,
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

impl<T> Generations<T> {
    fn new() -> Self {
        Self { recent: HashMap::new(), older: HashMap::new(), begun: None }
    }

    fn get(&mut self, share: &Share, now: Instant, new: impl FnOnce() -> T) -> &mut T {
        let begun = *self.begun.get_or_insert(now);
        if now.duration_since(begun) >= WINDOW || self.recent.len() >= MOST_BUCKETS {
            self.older = std::mem::take(&mut self.recent);
            self.begun = Some(now);
        }
        let key = (share.key.clone(), share.name);
        let older = self.older.remove(&key);
        self.recent.entry(key).or_insert_with(|| older.unwrap_or_else(new))
    }
}

impl Generations<Bucket> {
    /// The bucket as it is now.
    fn filled(&mut self, share: &Share, now: Instant) -> &mut Bucket {
        let most = f64::from(share.quota);
        let bucket = self.get(share, now, || Bucket { drops: most, at: now });
        let filled = bucket.drops + share.rate() * now.duration_since(bucket.at).as_secs_f64();
        *bucket = Bucket { drops: filled.min(most), at: now };
        bucket
    }

    /// Of all buckets, or of none.
    fn take(&mut self, shares: &[Share], now: Instant) -> Result<Standing, Problem> {
        for share in shares {
            let bucket = self.filled(share, now);
            if bucket.drops < 1.0 {
                return Err(share.refusal(Duration::from_secs_f64((1.0 - bucket.drops) / share.rate())));
            }
        }
        let mut first = None;
        for share in shares {
            let bucket = self.filled(share, now);
            bucket.drops -= 1.0;
            first.get_or_insert(share.standing(bucket.drops));
        }
        first.ok_or_else(no_limit)
    }
}

impl Generations<Pocket> {
    /// Of all pockets, or of none: then the first one that is empty has to be filled.
    fn take<'s>(&mut self, shares: &'s [Share], now: Instant) -> Result<Result<Standing, &'s Share>, Problem> {
        for share in shares {
            let pocket = self.get(share, now, Pocket::default);
            match pocket.empty_until {
                _ if pocket.drops > 0 => {}
                Some(end) if end > now => return Err(share.refusal(end - now)),
                _ => return Ok(Err(share)),
            }
        }
        let mut first = None;
        for share in shares {
            let pocket = self.get(share, now, Pocket::default);
            pocket.drops -= 1;
            first.get_or_insert(share.standing(f64::from(pocket.drops) + f64::from(pocket.behind)));
        }
        first.map(Ok).ok_or_else(no_limit)
    }

    fn fill(&mut self, share: &Share, drawn: Drawn, now: Instant) {
        let pocket = self.get(share, now, Pocket::default);
        pocket.drops = pocket.drops.saturating_add(drawn.given);
        pocket.behind = drawn.left;
        pocket.empty_until = (drawn.given == 0).then(|| now + drawn.wait);
    }
}

impl Share {
    /// Drops in a second.
    fn rate(&self) -> f64 {
        f64::from(self.quota) / WINDOW.as_secs_f64()
    }

    fn refusal(&self, wait: Duration) -> Problem {
        let Self { holder, name, quota, .. } = self;
        let detail = format!("{holder}: more than {quota} {name} in a minute");
        let seconds = wait.as_secs_f64().ceil() as u64;
        Problem::new(Code::TooMany, detail).help("wait as long as Retry-After says").retry_after(seconds.max(1))
    }

    fn standing(&self, drops: f64) -> Standing {
        let full_in = ((f64::from(self.quota) - drops) / self.rate()).ceil() as u64;
        Standing { name: self.name, quota: self.quota, left: drops as u32, full_in }
    }

    /// A second's worth.
    fn draw(&self) -> Draw {
        Draw { key: self.key.clone(), quota: self.quota, most: (self.quota / WINDOW.as_secs() as u32).max(1) }
    }
}

fn no_limit() -> Problem {
    Problem::new(Code::Internal, "a request without a rate limit")
}

impl Limiter {
    pub fn new(pace: Pace) -> Self {
        let (reads, writes, addresses) = (Generations::new(), Generations::new(), Generations::new());
        Self { pace, reads: Mutex::new(reads), writes: Mutex::new(writes), addresses: Mutex::new(addresses) }
    }

    /// Of the token, its person and their teams: all of them have room, or nothing is taken. Tells of the token's.
    pub async fn take(
        &self,
        store: &dyn Store,
        principal: &Principal,
        teams: &[String],
        method: &Method,
        at: Timestamp,
    ) -> Result<Standing, Problem> {
        let shares = self.shares(principal, teams, is_safe(method));
        if is_safe(method) {
            return lock(&self.reads).take(&shares, Instant::now());
        }
        self.take_writes(store, &shares, at).await
    }

    async fn take_writes(&self, store: &dyn Store, shares: &[Share], at: Timestamp) -> Result<Standing, Problem> {
        loop {
            let empty = match lock(&self.writes).take(shares, Instant::now())? {
                Ok(standing) => return Ok(standing),
                Err(share) => share,
            };
            // Either there is something in the pocket afterwards, or it is known to be empty for a while.
            let drawn = store.draw(&empty.draw(), at).await?;
            lock(&self.writes).fill(empty, drawn, Instant::now());
        }
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
        lock(&self.addresses).take(&[share], Instant::now()).map(drop)
    }
}

fn lock<T>(generations: &Mutex<Generations<T>>) -> MutexGuard<'_, Generations<T>> {
    generations.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut buckets = Generations::<Bucket>::new();
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
        let mut buckets = Generations::<Bucket>::new();
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
        let mut buckets = Generations::<Bucket>::new();
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
        lock(&limiter.reads).take(&[share("user:ada", "writes", 1)], Instant::now()).unwrap();
        for number in 0..3 * MOST_BUCKETS as u32 {
            limiter.knock(IpAddr::from(number.to_be_bytes()), "sign-ins", 1).unwrap();
        }
        let addresses = lock(&limiter.addresses);
        assert!(addresses.recent.len() + addresses.older.len() <= 2 * MOST_BUCKETS);
        assert!(lock(&limiter.reads).take(&[share("user:ada", "writes", 1)], Instant::now()).is_err());
    }

    #[test]
    fn a_pocket_is_filled_when_it_is_empty_and_not_asked_for_while_nothing_is_there() {
        let mut pockets = Generations::<Pocket>::new();
        let start = Instant::now();
        let shares = [share("token:1", "writes", 120), share("user:ada", "writes", 120)];
        let drawn = |given, left, seconds| Drawn { given, left, wait: Duration::from_secs(seconds) };
        assert_eq!(shares[0].draw(), Draw { key: "token:1".into(), quota: 120, most: 2 }, "a second's worth");
        for share in &shares {
            assert_eq!(pockets.take(&shares, start).unwrap().unwrap_err().key, share.key);
            pockets.fill(share, drawn(2, 118, 0), start);
        }
        for left in [119, 118] {
            assert_eq!(pockets.take(&shares, start).unwrap().unwrap().left, left);
        }
        pockets.fill(&shares[0], drawn(1, 0, 0), start);
        pockets.fill(&shares[1], drawn(0, 0, 3), start);
        let refused = pockets.take(&shares, start + Duration::from_secs(1)).unwrap_err();
        assert!(format!("{refused:?}").contains("user:ada: more than 120 writes in a minute"), "{refused:?}");
        assert_eq!(pockets.take(&shares, start + Duration::from_secs(3)).unwrap().unwrap_err().key, "user:ada");
        assert_eq!(pockets.take(&shares[..1], start).unwrap().unwrap().left, 0, "nothing was taken of the other");
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
