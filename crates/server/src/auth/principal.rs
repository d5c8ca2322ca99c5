//! Someone the server knows.

use harvest_core::{Code, Role, TokenId};
use harvest_engine::Tenancy;
use harvest_store::AccessToken;

use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    Token,
    Cookie,
}

#[derive(Debug, Clone)]
pub struct Principal {
    pub token: TokenId,
    pub way: Way,
    pub user: String,
    pub role: Role,
    /// `None`: all of them.
    pub projects: Option<Vec<String>>,
    /// Of a cookie: what our own page sends along.
    pub csrf: Option<String>,
    /// The repositories of these projects.
    repositories: Option<Vec<String>>,
}

impl Principal {
    /// `tenancy` is asked only for those who are confined to some projects.
    pub fn new(token: &AccessToken, way: Way, csrf: Option<String>, tenancy: impl FnOnce() -> Tenancy) -> Self {
        let repositories = token.projects.as_ref().map(|names| {
            let tenancy = tenancy();
            let theirs = tenancy.projects.iter().filter(|project| names.contains(&project.name));
            theirs.flat_map(|project| project.repositories.iter().cloned()).collect()
        });
        Self {
            token: token.id.clone(),
            way,
            user: token.user.clone(),
            role: token.role,
            projects: token.projects.clone(),
            csrf,
            repositories,
        }
    }

    /// Only of these repositories may they see anything; `None`: of all.
    pub fn repositories(&self) -> Option<Vec<String>> {
        self.repositories.clone()
    }

    pub fn sees_repository(&self, repository: &str) -> bool {
        self.repositories.as_ref().is_none_or(|theirs| theirs.iter().any(|one| one == repository))
    }

    pub fn sees_project(&self, project: &str) -> bool {
        self.projects.as_ref().is_none_or(|theirs| theirs.iter().any(|one| one == project))
    }

    /// For what belongs to no project.
    pub fn sees_everything(&self) -> bool {
        self.projects.is_none()
    }

    pub fn must_see_repository(&self, repository: &str) -> Result<(), Problem> {
        if self.sees_repository(repository) {
            return Ok(());
        }
        let detail = "the repository belongs to none of the projects that this token is for";
        let help = "name one of their repositories, or use another token";
        Err(Problem::new(Code::NotAllowed, detail).about("repository").help(help))
    }
}
