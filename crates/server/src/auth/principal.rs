//! Someone the server knows.

use std::collections::BTreeMap;

use harvest_core::repository::Place;
use harvest_core::{Code, Role, Source, Timestamp, TokenId};
use harvest_engine::Tenancy;
use harvest_store::{AccessToken, OwnerRight, ScheduleOwner, TokenKind};

use crate::problem::Problem;
use crate::state::App;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    Token,
    Cookie,
}

/// Who asks, and for what operation: where it takes a role, they have it only in some projects, perhaps.
#[derive(Debug, Clone)]
pub struct Principal {
    pub token: TokenId,
    pub way: Way,
    kind: TokenKind,
    pub user: String,
    /// In all of the installation; `None`: they have their projects alone.
    everywhere: Option<Role>,
    projects: BTreeMap<String, Role>,
    /// The repositories of these projects.
    repositories: BTreeMap<Place, Role>,
    /// What the operation takes.
    needs: Role,
    /// Of a cookie: what our own page sent along.
    pub csrf: Option<String>,
    /// The end of what they show to be let in.
    pub expires_at: Option<Timestamp>,
}

impl Principal {
    pub fn new(app: &App, token: &AccessToken, way: Way, csrf: Option<String>) -> Self {
        let desk = app.desk.as_ref();
        // What a person made for themselves is held to what they may everywhere now.
        let most = app.sign_in.as_ref().filter(|_| token.kind == TokenKind::Personal);
        let most = most.and_then(|sign_in| sign_in.role_everywhere(&token.user));
        let everywhere = match (&token.projects, token.kind) {
            (Some(_), _) => None,
            (None, TokenKind::Personal) => most.map(|most| most.min(token.role)),
            (None, _) => Some(token.role),
        };
        let mut projects: BTreeMap<String, Role> =
            token.projects.iter().flatten().map(|name| (name.clone(), token.role)).collect();
        match token.kind {
            TokenKind::Person => projects.extend(desk.memberships(&token.user)),
            TokenKind::Personal => {
                let now = desk.memberships(&token.user);
                projects.retain(|name, role| {
                    now.get(name).copied().max(most).is_some_and(|most| {
                        *role = (*role).min(most);
                        true
                    })
                });
            }
            TokenKind::Api | TokenKind::Login | TokenKind::Link => {}
        }
        // Most are confined to nothing, and then nobody needs to know.
        let tenancy = if projects.is_empty() { Tenancy::default() } else { desk.tenancy() };
        let listed = tenancy.projects.iter().filter_map(|project| Some((project, projects.get(&project.name)?)));
        let repositories =
            listed.flat_map(|(project, role)| project.repositories.iter().map(|one| (Place::of(one), *role)));
        Self {
            token: token.id.clone(),
            way,
            kind: token.kind,
            user: token.user.clone(),
            everywhere,
            repositories: repositories.collect(),
            projects,
            needs: Role::Viewer,
            csrf,
            expires_at: token.expires_at,
        }
    }

    /// Whether a person is signed in by name, who may make tokens for themselves.
    pub fn is_person(&self) -> bool {
        self.kind == TokenKind::Person
    }

    /// Whether they show a token that holds in some projects alone.
    pub fn is_confined(&self) -> bool {
        self.kind != TokenKind::Person && self.everywhere.is_none()
    }

    /// Whether they show a token that a person made for themselves. It makes no others: those would not be held to what the
    /// person may at the time.
    pub fn is_personal_token(&self) -> bool {
        self.kind == TokenKind::Personal
    }

    /// Themselves, as the owner of what comes later by the clock.
    pub fn schedule_owner(&self) -> ScheduleOwner {
        let right = match self.kind {
            TokenKind::Api | TokenKind::Personal => OwnerRight::Token { id: self.token.clone() },
            TokenKind::Person => OwnerRight::Person,
            TokenKind::Login | TokenKind::Link => OwnerRight::Installation,
        };
        ScheduleOwner { user: self.user.clone(), right }
    }

    /// The way their tasks are asked for.
    pub fn source(&self) -> Source {
        match self.way {
            Way::Cookie => Source::Web,
            Way::Token => Source::Api,
        }
    }

    /// The token whose quota counts; a browser's session has none of its own.
    pub fn counted_token(&self) -> Option<TokenId> {
        (self.way == Way::Token).then(|| self.token.clone())
    }

    /// Asked for an operation that takes this role.
    pub fn needing(mut self, role: Role) -> Self {
        self.needs = role;
        self
    }

    /// The most they may do anywhere.
    pub fn role(&self) -> Role {
        self.everywhere.into_iter().chain(self.projects.values().copied()).max().unwrap_or(Role::Viewer)
    }

    pub fn role_everywhere(&self) -> Option<Role> {
        self.everywhere
    }

    /// Their projects with their role in each, when they are confined to them.
    pub fn projects(&self) -> Option<&BTreeMap<String, Role>> {
        self.everywhere.is_none().then_some(&self.projects)
    }

    /// Those of them in which they may do what they ask for; `None`: in all.
    pub fn projects_to_act_on(&self) -> Option<Vec<String>> {
        let enough = self.projects.iter().filter(|(_, role)| **role >= self.needs);
        (self.everywhere < Some(self.needs)).then(|| enough.map(|(name, _)| name.clone()).collect())
    }

    /// Only of the repositories with these addresses may they see anything; `None`: of all.
    pub fn repositories(&self) -> Option<Vec<String>> {
        self.everywhere.is_none().then(|| self.repositories.keys().flat_map(Place::spellings).collect())
    }

    pub fn sees_repository(&self, repository: &str) -> bool {
        self.everywhere.is_some() || self.repositories.contains_key(&Place::of(repository))
    }

    pub fn sees_project(&self, project: &str) -> bool {
        self.role_in(project).is_some()
    }

    pub fn role_in(&self, project: &str) -> Option<Role> {
        self.everywhere.max(self.projects.get(project).copied())
    }

    /// In the project of a repository.
    pub fn role_for(&self, repository: &str) -> Option<Role> {
        self.everywhere.max(self.repositories.get(&Place::of(repository)).copied())
    }

    /// Whether they have no lower role anywhere than someone has, or they themselves had before.
    pub fn may_as_much_as(&self, other: &Self) -> bool {
        self.everywhere >= other.everywhere
            && other.projects.iter().all(|(name, role)| self.role_in(name) >= Some(*role))
    }

    /// For what belongs to no project.
    pub fn sees_everything(&self) -> bool {
        self.everywhere.is_some()
    }

    /// Whether they may do what they ask for to something that belongs to no project. A role in a project does not count.
    pub fn may_act_everywhere(&self) -> bool {
        self.everywhere >= Some(self.needs)
    }

    /// Whether they may do what they ask for to something of this repository. What they cannot see is `unknown`.
    pub fn check(&self, repository: &str, unknown: impl FnOnce() -> Problem) -> Result<(), Problem> {
        self.enough(self.role_for(repository).ok_or_else(unknown)?)
    }

    pub fn may_act_on(&self, repository: &str) -> bool {
        self.role_for(repository) >= Some(self.needs)
    }

    /// The same for a project.
    pub fn check_project(&self, project: &str, unknown: impl FnOnce() -> Problem) -> Result<(), Problem> {
        self.enough(self.role_in(project).ok_or_else(unknown)?)
    }

    pub fn must_see_repository(&self, repository: &str) -> Result<(), Problem> {
        self.check(repository, || {
            let detail = "the repository belongs to none of your projects";
            let help = "name one of their repositories, or use another token";
            Problem::new(Code::NotAllowed, detail).about("repository").help(help)
        })
    }

    fn enough(&self, role: Role) -> Result<(), Problem> {
        if role >= self.needs {
            return Ok(());
        }
        let detail = format!("this takes the role {} in its project; yours is {role}", self.needs);
        Err(Problem::new(Code::NotAllowed, detail).help("ask an admin of the project"))
    }
}
