//! The queue: how many turns a second are claimed and finished by many workers, whether any is handed out twice, and what a
//! long queue costs. The store's example `claims` does the work, in processes of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::graphile::{Graphile, Rates};
use super::place::Place;
use super::postgres::Cluster;
use super::programs::{build, program};
use super::statistics::median_rate;
use super::table::{Amount, Bound, Row};
use super::{Findings, Size};

const PROCESSES: usize = 4;
const WORKERS: usize = 64;
const LEAST_SQLITE: f64 = 10_000.0;
const LEAST_POSTGRES: f64 = 5_000.0;
/// Turns that are measured beside a short and a long queue.
const BESIDE: usize = 20_000;
const SHORT: usize = 1_000;
const TIMES_SHORT: f64 = 1.3;

pub async fn measure(place: &Place, size: Size) -> anyhow::Result<Findings> {
    let claims = build(&["-p", "harvest-store", "--example", "claims"]).await?;
    let cluster = Cluster::start().await?;
    let sqlite = Bench { claims: claims.clone(), database: Database::Sqlite(place.folder("queue")?) };
    let postgres = Bench { claims, database: Database::Postgres(&cluster) };

    let turns = size.pick(100_000, 20_000);
    let (sqlite_rate, postgres_rate) = (sqlite.rate(turns).await?, postgres.rate(turns).await?);
    let graphile = match Graphile::install(place).await {
        Ok(graphile) => Ok(graphile.rates(&cluster, size.pick(50_000, 20_000)).await?),
        Err(error) => Err(error),
    };
    let long = size.pick(1_000_000, 50_000);
    let (in_sqlite, in_postgres) = (sqlite.run(long, 0).await?, postgres.run(long, 0).await?);
    let (sqlite_flat, postgres_flat) = (sqlite.flatness(long).await?, postgres.flatness(long).await?);

    let mut rows = vec![
        rate("SQLite, claims + finishes, 64 workers", sqlite_rate, LEAST_SQLITE),
        rate("PostgreSQL, claims + finishes, 64 workers", postgres_rate, LEAST_POSTGRES),
        doubled("SQLite, turns handed out twice", &in_sqlite),
        doubled("PostgreSQL, turns handed out twice", &in_postgres),
        flat(size.pick("SQLite, a turn beside 1,000,000", "SQLite, a turn beside 50,000"), sqlite_flat),
        flat(size.pick("PostgreSQL, a turn beside 1,000,000", "PostgreSQL, a turn beside 50,000"), postgres_flat),
    ];
    if let Ok(Rates { plain, batched }) = graphile {
        rows[1].theirs = Some(Amount::PerSecond(plain));
        rows[1].against = "graphile-worker 0.17.3 as it comes";
        let beside = Row {
            theirs: Some(Amount::PerSecond(batched)),
            against: "graphile-worker with localQueue and completeJobBatchDelay",
            bound: Bound::Open,
            ..rows[1].clone()
        };
        rows.insert(2, beside);
    }
    let mut notes = vec![
        format!("queue: rates are medians of three times {turns} turns; until the queue was empty:"),
        format!("  {} in SQLite, {} in PostgreSQL;", in_sqlite.told(), in_postgres.told()),
        format!("  {WORKERS} workers in {PROCESSES} processes, each turn finished by a step of two events, fsync on"),
    ];
    notes.push(match graphile {
        Ok(_) => format!("  graphile-worker: {WORKERS} workers in {PROCESSES} processes too; its jobs leave no record"),
        Err(error) => format!("  graphile-worker: not measured, since it cannot be installed: {error:#}"),
    });
    Ok(Findings { rows, notes })
}

fn rate(name: &'static str, rate: f64, least: f64) -> Row {
    Row { name, ours: Amount::PerSecond(rate), theirs: None, against: "", bound: Bound::AtLeast(least) }
}

fn doubled(name: &'static str, counted: &Counted) -> Row {
    Row { name, ours: Amount::Count(counted.doubled), theirs: None, against: "", bound: Bound::AtMost(0) }
}

fn flat(name: &'static str, (long, short): (f64, f64)) -> Row {
    let each = |rate: f64| Amount::Time(std::time::Duration::try_from_secs_f64(1.0 / rate).unwrap_or_default());
    let (ours, theirs) = (each(long), Some(each(short)));
    Row { name, ours, theirs, against: "the same beside 1,000 that stay queued", bound: Bound::Times(TIMES_SHORT) }
}

#[derive(Debug)]
enum Database<'a> {
    /// The folder for its files.
    Sqlite(PathBuf),
    Postgres(&'a Cluster),
}

#[derive(Debug)]
struct Bench<'a> {
    claims: PathBuf,
    database: Database<'a>,
}

impl Bench<'_> {
    /// In a new database, which is removed afterwards.
    async fn run(&self, turns: usize, queued: usize) -> anyhow::Result<Counted> {
        const NAME: &str = "claims";
        match &self.database {
            Database::Sqlite(folder) => {
                let folder = tempfile::tempdir_in(folder)?;
                run(&self.claims, &format!("sqlite:{}", folder.path().join(NAME).display()), turns, queued).await
            }
            Database::Postgres(cluster) => {
                cluster.create(NAME)?;
                let counted = run(&self.claims, &format!("postgres:{}", cluster.url(NAME)), turns, queued).await;
                cluster.remove(NAME)?;
                counted
            }
        }
    }

    /// Of three runs, the one in the middle.
    async fn rate(&self, turns: usize) -> anyhow::Result<f64> {
        let mut rates = Vec::new();
        for _ in 0..3 {
            rates.push(self.run(turns, 0).await?.rate);
        }
        Ok(median_rate(&rates))
    }

    /// The rates beside a long queue and beside a short one, which is measured before and after.
    async fn flatness(&self, long: usize) -> anyhow::Result<(f64, f64)> {
        let before = [self.run(BESIDE, SHORT).await?.rate, self.run(BESIDE, SHORT).await?.rate];
        let long = self.run(BESIDE, long).await?.rate;
        let after = self.run(BESIDE, SHORT).await?.rate;
        Ok((long, median_rate(&[before[0], before[1], after])))
    }
}

async fn run(claims: &Path, store: &str, turns: usize, queued: usize) -> anyhow::Result<Counted> {
    let mut command = program(claims);
    for (name, number) in [("turns", turns), ("queued", queued), ("processes", PROCESSES), ("workers", WORKERS)] {
        command.arg(format!("--{name}")).arg(number.to_string());
    }
    let ran = command.args(["--store", store]).output().await.context("claims cannot be started")?;
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    match told.lines().find_map(Counted::parse) {
        // One that counted doubled turns fails too, and is judged.
        Some(counted) if ran.status.success() || counted.doubled > 0 => Ok(counted),
        _ => bail!("claims: {}: {told}{}", ran.status, String::from_utf8_lossy(&ran.stderr)),
    }
}

/// What `claims` prints.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counted {
    rate: f64,
    turns: u64,
    doubled: u64,
}

impl Counted {
    fn parse(line: &str) -> Option<Self> {
        let (rate, rest) = line.split_once(" claims and finishes a second: ")?;
        let (turns, rest) = rest.split_once(" turns ")?;
        let doubled = rest.split("; ").find_map(|part| part.strip_suffix(" doubled"))?;
        Some(Self { rate: rate.parse().ok()?, turns: turns.parse().ok()?, doubled: doubled.parse().ok()? })
    }

    fn told(&self) -> String {
        format!("{} doubled of {} claims", self.doubled, self.turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_prints_is_understood() {
        let line = "14822 claims and finishes a second: 20000 turns in 1.35 s, 4 processes, 64 workers, 0 more queued; 3 doubled; made at 51234/s";
        assert_eq!(Counted::parse(line), Some(Counted { rate: 14_822.0, turns: 20_000, doubled: 3 }));
        assert_eq!(Counted::parse("ready"), None);
    }
}
