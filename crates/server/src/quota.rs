//! How much each may have under way and spend in a day: a token, a person, a team, a project.
//!
//! Asked before something new begins. What is under way is held to its own budget and to the daily limits of its person and
//! project, call by call; see `docs/gateway.md`.

use harvest_core::{Code, Cost};
use harvest_engine::{Tenancy, day_of};
use harvest_store::{Asker, Spending};

use crate::auth::{Principal, Way};
use crate::problem::Problem;
use crate::state::App;

/// When something that is under way may have ended.
const SOON: u64 = 30;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What the settings allow; `None`: any amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Tasks that have not ended.
    pub sessions: Option<u64>,
    pub daily: Option<Cost>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Quotas {
    pub token: Quota,
    pub user: Quota,
    pub team: Quota,
    pub project: Quota,
}

/// Someone who has a quota.
struct Holder {
    /// `user ada`, as people read it.
    name: String,
    quota: Quota,
    asker: Asker,
    /// The accounts whose spending counts; of a token there is none.
    accounts: Vec<String>,
}

/// Refuses what would go beyond with so many new tasks.
pub async fn admit(app: &App, principal: &Principal, repository: &str, new: u64) -> Result<(), Problem> {
    let quotas = app.desk.quotas();
    let tenancy = app.desk.tenancy();
    let holders: Vec<Holder> = holders(&quotas, &tenancy, principal, repository)
        .into_iter()
        .filter(|one| one.quota != Quota::default())
        .collect();
    let now = app.clock.now();
    let day = day_of(now);
    let mut spending: Option<Vec<Spending>> = None;
    for holder in holders {
        if let Some(most) = holder.quota.sessions {
            let unfinished = app.store.unfinished(&holder.asker).await?;
            if unfinished.saturating_add(new) > most {
                let detail = format!("{} has {unfinished} tasks that have not ended, and may have {most}", holder.name);
                let problem = Problem::new(Code::Quota, detail).retry_after(SOON);
                return Err(problem.help("wait until one of them has ended, or cancel one"));
            }
        }
        if let Some(most) = holder.quota.daily {
            let spent = match &holder.asker {
                Asker::Token(token) => app.store.spent_with(token, &day).await?,
                _ => {
                    if spending.is_none() {
                        spending = Some(app.store.spending(&day).await?);
                    }
                    let all = spending.iter().flatten();
                    let theirs = all.filter(|one| holder.accounts.contains(&one.account));
                    Cost::from_nanos(theirs.map(|one| one.cost_usd.nanos() + one.reserved_usd.nanos()).sum())
                }
            };
            if spent >= most {
                let detail = format!("{} has spent {spent} today, and may spend {most}", holder.name);
                let tomorrow = (DAY_MS - now.as_millisecond().rem_euclid(DAY_MS)) / 1000 + 1;
                let problem = Problem::new(Code::Quota, detail).retry_after(tomorrow.unsigned_abs());
                return Err(problem.help("wait until tomorrow (UTC), or ask an admin for more"));
            }
        }
    }
    Ok(())
}

/// What is asked for with a token is counted for it.
pub async fn note(app: &App, principal: &Principal, task: &harvest_core::TaskId) -> Result<(), Problem> {
    if principal.way == Way::Token && app.desk.quotas().token != Quota::default() {
        app.store.note_asked(&principal.token, task, &day_of(app.clock.now())).await?;
    }
    Ok(())
}

fn holders(quotas: &Quotas, tenancy: &Tenancy, principal: &Principal, repository: &str) -> Vec<Holder> {
    let user = &principal.user;
    let identity = tenancy.identity(user, repository);
    let account = |name: &String| format!("user:{name}");
    let mut holders = Vec::new();
    if principal.way == Way::Token {
        let (name, asker) = ("this token".to_owned(), Asker::Token(principal.token.clone()));
        holders.push(Holder { name, quota: quotas.token, asker, accounts: Vec::new() });
    }
    let asker = Asker::People(vec![user.clone()]);
    holders.push(Holder { name: format!("user {user}"), quota: quotas.user, asker, accounts: vec![account(user)] });
    for team in tenancy.teams.iter().filter(|team| identity.teams.contains(&team.name)) {
        holders.push(Holder {
            name: format!("team {}", team.name),
            quota: quotas.team,
            asker: Asker::People(team.members.clone()),
            accounts: team.members.iter().map(account).collect(),
        });
    }
    let project = tenancy.projects.iter().find(|project| Some(&project.name) == identity.project.as_ref());
    holders.extend(project.map(|project| Holder {
        name: format!("project {}", project.name),
        quota: Quota { sessions: quotas.project.sessions, daily: project.daily.or(quotas.project.daily) },
        asker: Asker::Repositories(project.repositories.clone()),
        accounts: vec![format!("project:{}", project.name)],
    }));
    holders
}
