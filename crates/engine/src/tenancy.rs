//! Who belongs to what, and what they may spend in a day.

use std::collections::BTreeSet;

use harvest_core::budget::Account;
use harvest_core::repository::Place;
use harvest_core::{Cost, Identity, Task, is_automatic};

use crate::Quotas;
use crate::actor::Actor;

/// The people, teams and projects of an installation, as far as its settings name them.
#[derive(Debug, Clone, Default)]
pub struct Tenancy {
    /// What each person may spend in a day; `None`: no limit beside the tasks' own.
    pub user_daily: Option<Cost>,
    /// What the members of each team may spend in a day, all together.
    pub team_daily: Option<Cost>,
    /// What may be spent in a day on tasks that were asked for with one token.
    pub token_daily: Option<Cost>,
    pub teams: Vec<Team>,
    pub projects: Vec<Project>,
    pub quotas: Quotas,
    /// The host of the GitHub that people sign in with.
    pub sign_in_host: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    pub name: String,
    pub members: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub name: String,
    pub repositories: Vec<String>,
    /// What its tasks may spend in a day, all together.
    pub daily: Option<Cost>,
}

impl Tenancy {
    /// On whose behalf a task of `user` for `repository` is worked on.
    pub fn identity(&self, user: &str, repository: &str) -> Identity {
        let teams = self.teams.iter().filter(|team| team.members.iter().any(|member| member == user));
        Identity {
            user: user.to_owned(),
            teams: teams.map(|team| team.name.clone()).collect(),
            project: self.project_of(repository).map(|project| project.name.clone()),
        }
    }

    /// The name that someone is counted under: whoever asks in an issue and signs in with the same login is one person. Nothing
    /// but counting follows from it, since a login may have got another owner.
    pub(crate) fn counted_as(&self, user: &str) -> String {
        let login = user.strip_prefix("github:").filter(|login| !is_automatic(login));
        match (login, &self.sign_in_host) {
            (Some(login), Some(host)) => format!("{}@{host}", login.to_ascii_lowercase()),
            _ => user.to_owned(),
        }
    }

    /// The teams that someone is counted for.
    pub(crate) fn teams_counted_for(&self, user: &str) -> impl Iterator<Item = &Team> {
        let counted_as = self.counted_as(user);
        self.teams.iter().filter(move |team| team.members.iter().any(|member| self.counted_as(member) == counted_as))
    }

    /// Their names.
    pub fn teams_of(&self, user: &str) -> Vec<String> {
        self.teams_counted_for(user).map(|team| team.name.clone()).collect()
    }

    /// All names of the person who is called `user`.
    pub(crate) fn names_of(&self, user: &str) -> BTreeSet<String> {
        let counted_as = self.counted_as(user);
        let at_host = |host: &String| counted_as.strip_suffix(host.as_str())?.strip_suffix('@').map(str::to_owned);
        let login = self.sign_in_host.as_ref().and_then(at_host);
        let on_github = login.map(|login| format!("github:{login}"));
        [user.to_owned(), counted_as].into_iter().chain(on_github).collect()
    }

    /// The caps on how much of a person's is worked on at a time: they hold under each of their names.
    pub(crate) fn caps_of(&self, user: &str) -> Vec<String> {
        self.names_of(user).into_iter().map(|name| format!("user:{name}")).collect()
    }

    /// The accounts that a turn is booked on which acts for `actor`. The token that they asked with is among them, whoever
    /// asked for the task, and no other.
    pub(crate) fn accounts_of(&self, task: &Task, actor: &Actor) -> Vec<(Account, Option<Cost>)> {
        self.accounts(&actor.person, &task.repository, actor.token.as_deref())
    }

    /// Whom such a task is counted for, each with its limit for a day.
    /// Teams and tokens without a limit are not counted.
    fn accounts(&self, user: &str, repository: &str, token: Option<&str>) -> Vec<(Account, Option<Cost>)> {
        let mut accounts = vec![(Account::User(self.counted_as(user)), self.user_daily)];
        if self.team_daily.is_some() {
            accounts
                .extend(self.teams_counted_for(user).map(|team| (Account::Team(team.name.clone()), self.team_daily)));
        }
        if let (Some(token), Some(_)) = (token, self.token_daily) {
            accounts.push((Account::Token(token.to_owned()), self.token_daily));
        }
        accounts
            .extend(self.project_of(repository).map(|project| (Account::Project(project.name.clone()), project.daily)));
        accounts
    }

    /// What an account, as it is written down, may spend in a day.
    pub fn daily(&self, account: &str) -> Option<Cost> {
        match account.split_once(':')? {
            ("user", _) => self.user_daily,
            ("team", _) => self.team_daily,
            ("token", _) => self.token_daily,
            ("project", name) => self.projects.iter().find(|project| project.name == name)?.daily,
            _ => None,
        }
    }

    /// The first project that lists the repository, by whichever of its addresses.
    pub fn project_of(&self, repository: &str) -> Option<&Project> {
        let place = Place::of(repository);
        self.projects.iter().find(|project| project.lists(&place))
    }
}

impl Project {
    pub fn lists(&self, place: &Place) -> bool {
        self.repositories.iter().any(|listed| Place::of(listed) == *place)
    }
}

#[cfg(test)]
mod tests {
    use harvest_core::repository::normal;
    use harvest_store::Asker;

    use super::*;
    use crate::Quota;

    #[test]
    fn a_project_counts_the_tasks_of_its_repositories_under_every_address_that_they_are_kept_with() {
        let listed = ["https://github.com/Ada/Shop.git", "/srv/shop", "https://git.test/ada/till"];
        let project = Project { name: "shop".into(), repositories: listed.map(String::from).to_vec(), daily: None };
        let quotas = Quotas { project: Quota { sessions: Some(1), daily: None }, ..Quotas::default() };
        let tenancy = Tenancy { projects: vec![project], quotas, ..Tenancy::default() };
        let admission = tenancy.admission("ada", "git@git.test:ada/till.git", None);
        let limit = admission.limits.iter().find(|limit| limit.holder == "project shop").unwrap();
        let Asker::Repositories(counted) = &limit.asker else { panic!("{limit:?}") };
        for address in [
            "https://github.com/ada/shop",
            "git@github.com:ada/shop.git",
            "/srv/shop/",
            "file:///srv/shop",
            "git@git.test:ada/till",
            "ssh://git@git.test/ada/till.git",
        ] {
            assert!(counted.contains(&normal(address)), "{address}: {counted:?}");
        }
        assert!(tenancy.admission("ada", "/srv/other", None).limits.is_empty());
    }

    #[test]
    fn a_team_pays_for_its_members_under_each_of_their_names() {
        let team = Team { name: "fruit".into(), members: vec!["github:Ada".into(), "bob@github.com".into()] };
        let tenancy = Tenancy {
            team_daily: Some(Cost::from_nanos(1)),
            teams: vec![team],
            sign_in_host: Some("github.com".into()),
            ..Tenancy::default()
        };
        let paying = |user: &str| {
            let accounts = tenancy.accounts(user, "/srv/shop", None);
            accounts.iter().any(|(account, _)| *account == Account::Team("fruit".into()))
        };
        for user in ["github:Ada", "github:ada", "ada@github.com", "github:Bob", "bob@github.com"] {
            assert!(paying(user), "{user}");
        }
        for user in ["ada", "github:eve", "ada@example.com"] {
            assert!(!paying(user), "{user}");
        }
    }
}
