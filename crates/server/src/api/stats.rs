//! What became of tasks, by day, repository, agent, model or person.

use axum::extract::State;
use axum::{Extension, Json};
use harvest_core::Cost;
use harvest_engine::day_of;
use harvest_store::{PullRequestStat, Stat, StatKey, StatQuery};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Principal;
use crate::extract::Params;
use crate::problem::Problem;
use crate::state::App;

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The day they ended, in UTC.
    #[default]
    Day,
    Repository,
    Agent,
    Model,
    Person,
}

impl From<By> for StatKey {
    fn from(by: By) -> Self {
        match by {
            By::Day => Self::Day,
            By::Repository => Self::Repository,
            By::Agent => Self::Agent,
            By::Model => Self::Model,
            By::Person => Self::Person,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StatFilter {
    /// What to group by; default: the day, for pull requests the repository.
    #[param(inline)]
    by: Option<By>,
    /// The first day; default: the day of the first task.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", example = "2026-01-31")]
    from: Option<String>,
    /// The last day; default: today.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    to: Option<String>,
}

impl StatFilter {
    fn query(self, by: By, app: &App, principal: &Principal) -> Result<StatQuery, Problem> {
        let day = |field: &str, given: Option<String>, otherwise: String| match given {
            Some(text) if !is_day(&text) => Err(Problem::bad(field, "a day is written like 2026-01-31")),
            given => Ok(given.unwrap_or(otherwise)),
        };
        Ok(StatQuery {
            by: by.into(),
            from: day("from", self.from, "0000-00-00".to_owned())?,
            to: day("to", self.to, day_of(app.clock.now()))?,
            among: principal.repositories(),
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Stats {
    by: By,
    total: Sums,
    items: Vec<Sums>,
}

/// Statistics of finished tasks.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sums {
    /// The day, repository, agent, model or person; empty for the total and for tasks that named no model.
    key: String,
    completed: u64,
    failed: u64,
    cancelled: u64,
    /// Tasks that left a branch.
    delivered: u64,
    /// The share of completed tasks among completed and failed ones; absent if there are none.
    success_rate: Option<f64>,
    cost_usd: Cost,
    /// The mean time from the creation of a task to its end; absent if there are none.
    mean_seconds: Option<f64>,
    /// Tasks that took part in a race; each entrant counts.
    races: u64,
    /// Tasks that won their race.
    wins: u64,
    /// The share of tasks in races that won; absent if there are none.
    win_rate: Option<f64>,
}

impl From<Stat> for Sums {
    fn from(stat: Stat) -> Self {
        let Stat { key, completed, failed, cancelled, delivered, cost, time_ms, races, wins } = stat;
        let share = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
        Self {
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
}

impl Stats {
    /// Each by itself, and all together.
    pub fn new(by: By, items: Vec<Stat>) -> Self {
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
        Self { by, total: total.into(), items: items.into_iter().map(Sums::from).collect() }
    }
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
    let query = filter.query(by, &app, &principal)?;
    Ok(Json(Stats::new(by, app.store.statistics(query).await?)))
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PullRequestStats {
    by: By,
    total: PullRequestSums,
    items: Vec<PullRequestSums>,
}

/// Statistics of pull requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct PullRequestSums {
    /// The day, repository, agent, model or person; empty for the total and for tasks that named no model.
    key: String,
    opened: u64,
    merged: u64,
    /// Closed without being merged.
    closed: u64,
    /// The share of merged pull requests among merged and closed ones; absent if there are none.
    merge_rate: Option<f64>,
    /// The mean time from the creation of a task to its pull request; absent if there are none.
    mean_seconds_to_open: Option<f64>,
    /// The mean time from the pull request to its merge; absent while none is merged.
    mean_seconds_to_merge: Option<f64>,
}

impl From<PullRequestStat> for PullRequestSums {
    fn from(stat: PullRequestStat) -> Self {
        let PullRequestStat { key, opened, merged, closed, to_open_ms, to_merge_ms } = stat;
        let share = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
        Self {
            merge_rate: share(merged as f64, merged + closed),
            mean_seconds_to_open: share(to_open_ms as f64 / 1000.0, opened),
            mean_seconds_to_merge: share(to_merge_ms as f64 / 1000.0, merged),
            key,
            opened,
            merged,
            closed,
        }
    }
}

impl PullRequestStats {
    /// Each by itself, and all together.
    pub fn new(by: By, items: Vec<PullRequestStat>) -> Self {
        let total = items.iter().fold(PullRequestStat::default(), |sum, one| PullRequestStat {
            key: String::new(),
            opened: sum.opened + one.opened,
            merged: sum.merged + one.merged,
            closed: sum.closed + one.closed,
            to_open_ms: sum.to_open_ms + one.to_open_ms,
            to_merge_ms: sum.to_merge_ms + one.to_merge_ms,
        });
        Self { by, total: total.into(), items: items.into_iter().map(PullRequestSums::from).collect() }
    }
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
    let by = filter.by.unwrap_or(By::Repository);
    let query = filter.query(by, &app, &principal)?;
    Ok(Json(PullRequestStats::new(by, app.store.pull_requests(query).await?)))
}

/// Whether a text is written like a day; whether there is one like it is nobody's concern.
pub fn is_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape =
        |(place, byte): (usize, &u8)| if [4, 7].contains(&place) { *byte == b'-' } else { byte.is_ascii_digit() };
    bytes.len() == 10 && bytes.iter().enumerate().all(shape)
}
