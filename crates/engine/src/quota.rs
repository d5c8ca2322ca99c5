//! How much a token, a person, a team and a project may have under way and spend in a day.
//!
//! Whatever begins work carries an [`Admission`], and the store holds it against these limits in the transaction that begins
//! the work. Work that is under way is held to its own budget and to the daily limits of its person and project, call by call;
//! see `docs/gateway.md`.

use std::collections::BTreeSet;

use harvest_core::budget::Account;
use harvest_core::repository::Place;
use harvest_core::{Cost, TokenId};
use harvest_store::{Admission, Asker, Limit, Requester};

use crate::Tenancy;

/// What the settings allow; `None`: any amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Tasks that have not ended.
    pub sessions: Option<u64>,
    pub daily: Option<Cost>,
}

/// How many tasks people without a role may begin in a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StrangerQuota {
    /// Each of them, and each program that asks by itself; `None`: any number.
    pub person: Option<u64>,
    /// All of them together in one repository; `None`: any number.
    pub repository: Option<u64>,
}

/// What each holder may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quotas {
    pub token: Quota,
    pub user: Quota,
    pub team: Quota,
    pub project: Quota,
    pub strangers: StrangerQuota,
}

impl Tenancy {
    /// The limits that hold for work that `user` begins on `repository`, with the token that it was asked for with.
    pub fn admission(&self, user: &str, repository: &str, token: Option<TokenId>) -> Admission {
        let Quotas { token: of_token, user: of_user, team: of_team, project: of_project, .. } = self.quotas;
        let identity = self.identity(user, repository);
        let account = |name: &String| format!("user:{name}");
        let mut limits = Vec::new();
        if let Some(token) = &token {
            let account = Account::Token(token.to_string()).to_string();
            limits.push(limit("this token".to_owned(), of_token, Asker::Token(token.clone()), vec![account]));
        }
        let names = self.names_of(user);
        let accounts = names.iter().map(account).collect();
        limits.push(limit(format!("user {user}"), of_user, Asker::People(names.iter().cloned().collect()), accounts));
        for team in self.teams_counted_for(user) {
            let members: BTreeSet<String> = team.members.iter().flat_map(|member| self.names_of(member)).collect();
            let accounts = members.iter().map(account).collect();
            let members = Asker::People(members.into_iter().collect());
            limits.push(limit(format!("team {}", team.name), of_team, members, accounts));
        }
        let project = self.projects.iter().find(|project| Some(&project.name) == identity.project.as_ref());
        limits.extend(project.map(|project| {
            let quota = Quota { sessions: of_project.sessions, daily: project.daily.or(of_project.daily) };
            let places = project.repositories.iter().map(|listed| Place::of(listed));
            let asker = Asker::Repositories(places.flat_map(|place| place.spellings()).collect());
            limit(format!("project {}", project.name), quota, asker, vec![format!("project:{}", project.name)])
        }));
        limits.retain(|limit| limit.unfinished.is_some() || limit.daily.is_some());
        Admission { person: Some(user.to_owned()), token, is_stranger: false, limits, caps: self.caps_of(user) }
    }
}

impl Tenancy {
    /// Someone who tells the agent of a task of `repository` something new, with the limits that hold for them.
    pub fn requester(&self, user: &str, repository: &str, token: Option<TokenId>) -> Requester {
        let Admission { limits, caps, .. } = self.admission(user, repository, token.clone());
        Requester { person: user.to_owned(), token, limits, caps }
    }

    /// The limits that hold beside those of [`Self::admission`] for someone who has no role.
    pub fn stranger_limits(&self, user: &str, repository: &str) -> Vec<Limit> {
        let StrangerQuota { person, repository: of_repository } = self.quotas.strangers;
        let names = Asker::People(self.names_of(user).into_iter().collect());
        let own = limit(format!("user {user}"), Quota::default(), names, Vec::new());
        let asker = Asker::StrangersOf(repository.to_owned());
        let all = limit(format!("strangers in {repository}"), Quota::default(), asker, Vec::new());
        let limits = [Limit { begun: person, ..own }, Limit { begun: of_repository, ..all }];
        limits.into_iter().filter(|limit| limit.begun.is_some()).collect()
    }
}

fn limit(holder: String, quota: Quota, asker: Asker, accounts: Vec<String>) -> Limit {
    Limit { holder, asker, unfinished: quota.sessions, begun: None, daily: quota.daily, accounts }
}
