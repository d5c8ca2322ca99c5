//! What became of tasks, by day, repository, agent, model or person.

use axum::extract::State;
use axum::{Extension, Json};
use harvest_api_types::{PullRequestStats, PullRequestSums, StatFilter, Stats, StatsBy, Sums};
use harvest_engine::day_of;
use harvest_store::{PullRequestStat, Stat, StatKey, StatQuery};

use crate::auth::Principal;
use crate::extract::Params;
use crate::problem::Problem;
use crate::state::App;

/// The key that the store groups by.
pub fn stat_key(by: StatsBy) -> StatKey {
    match by {
        StatsBy::Day => StatKey::Day,
        StatsBy::Repository => StatKey::Repository,
        StatsBy::Agent => StatKey::Agent,
        StatsBy::Model => StatKey::Model,
        StatsBy::Person => StatKey::Person,
    }
}

fn query(filter: StatFilter, by: StatsBy, app: &App, principal: &Principal) -> Result<StatQuery, Problem> {
    let day = |field: &str, given: Option<String>, otherwise: String| match given {
        Some(text) if !is_day(&text) => Err(Problem::bad(field, "a day is written like 2026-01-31")),
        given => Ok(given.unwrap_or(otherwise)),
    };
    Ok(StatQuery {
        by: stat_key(by),
        from: day("from", filter.from, "0000-00-00".to_owned())?,
        to: day("to", filter.to, day_of(app.clock.now()))?,
        among: principal.repositories(),
    })
}

fn sums(stat: Stat) -> Sums {
    let Stat { key, completed, failed, cancelled, delivered, cost, time_ms, races, wins } = stat;
    let share = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
    Sums {
        success_rate: share(completed as f64, completed + failed),
        win_rate: share(wins as f64, races),
        mean_seconds: share(time_ms as f64 / 1000.0, completed + failed + cancelled),
        key,
        completed,
        failed,
        cancelled,
        delivered,
        cost_usd: cost,
        races,
        wins,
    }
}

/// Each by itself, and all together.
pub fn describe_stats(by: StatsBy, items: Vec<Stat>) -> Stats {
    let total = items.iter().fold(Stat::default(), |sum, one| Stat {
        key: String::new(),
        completed: sum.completed + one.completed,
        failed: sum.failed + one.failed,
        cancelled: sum.cancelled + one.cancelled,
        delivered: sum.delivered + one.delivered,
        cost: sum.cost + one.cost,
        time_ms: sum.time_ms + one.time_ms,
        races: sum.races + one.races,
        wins: sum.wins + one.wins,
    });
    Stats { by, total: sums(total), items: items.into_iter().map(sums).collect() }
}

/// Show statistics of finished tasks
#[utoipa::path(
    get, path = "/api/stats", tag = "stats", operation_id = "stats.get", params(StatFilter),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = Stats), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn get(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Params(filter): Params<StatFilter>,
) -> Result<Json<Stats>, Problem> {
    let by = filter.by.unwrap_or_default();
    let query = query(filter, by, &app, &principal)?;
    Ok(Json(describe_stats(by, app.store.statistics(query).await?)))
}

fn pull_request_sums(stat: PullRequestStat) -> PullRequestSums {
    let PullRequestStat { key, opened, merged, closed, to_open_ms, to_merge_ms } = stat;
    let share = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
    PullRequestSums {
        merge_rate: share(merged as f64, merged + closed),
        mean_seconds_to_open: share(to_open_ms as f64 / 1000.0, opened),
        mean_seconds_to_merge: share(to_merge_ms as f64 / 1000.0, merged),
        key,
        opened,
        merged,
        closed,
    }
}

/// Each by itself, and all together.
fn describe_pull_requests(by: StatsBy, items: Vec<PullRequestStat>) -> PullRequestStats {
    let total = items.iter().fold(PullRequestStat::default(), |sum, one| PullRequestStat {
        key: String::new(),
        opened: sum.opened + one.opened,
        merged: sum.merged + one.merged,
        closed: sum.closed + one.closed,
        to_open_ms: sum.to_open_ms + one.to_open_ms,
        to_merge_ms: sum.to_merge_ms + one.to_merge_ms,
    });
    let items = items.into_iter().map(pull_request_sums).collect();
    PullRequestStats { by, total: pull_request_sums(total), items }
}

/// Show statistics of pull requests, by the day they were opened, repository, agent, model or person
#[utoipa::path(
    get, path = "/api/stats/pull-requests", tag = "stats", operation_id = "stats.pull_requests", params(StatFilter),
    security(("token" = ["viewer"]), ("cookie" = ["viewer"])),
    responses((status = 200, body = PullRequestStats), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub async fn pull_requests(
    State(app): State<App>,
    Extension(principal): Extension<Principal>,
    Params(filter): Params<StatFilter>,
) -> Result<Json<PullRequestStats>, Problem> {
    let by = filter.by.unwrap_or(StatsBy::Repository);
    let query = query(filter, by, &app, &principal)?;
    Ok(Json(describe_pull_requests(by, app.store.pull_requests(query).await?)))
}

/// Whether a text is written like a day; whether there is one like it is nobody's concern.
pub fn is_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape =
        |(place, byte): (usize, &u8)| if [4, 7].contains(&place) { *byte == b'-' } else { byte.is_ascii_digit() };
    bytes.len() == 10 && bytes.iter().enumerate().all(shape)
}
