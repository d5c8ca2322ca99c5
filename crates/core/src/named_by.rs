//! Who may name a host, and which secrets may go there: the one rule for every host that Harvest calls with a credential.
//!
//! Only an admin of the whole installation names hosts: over the API, on the command line, or in `harvest.toml`. What belongs to a
//! project (its settings, its credentials) may be written by people who administer that project and nothing else. So whatever a
//! project brings along reaches public addresses only, which is checked when a connection is made, and gets no credential but
//! the project's own.

use serde::{Deserialize, Serialize};

use crate::{Role, Scope};

/// Who named a host, which determines the addresses and credentials that it may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NamedBy {
    /// The installation's: its hosts may have any address, and get the credentials of the person, their teams and the project.
    #[default]
    Installation,
    /// A project's: its hosts must have public addresses, and get credentials of the project only.
    Project,
}

impl NamedBy {
    /// The host of a credential is named by whoever the credential is kept for.
    pub fn of(scope: &Scope) -> Self {
        match scope {
            Scope::Project(_) => Self::Project,
            Scope::User(_) | Scope::Team(_) => Self::Installation,
        }
    }

    pub fn is_installation(&self) -> bool {
        *self == Self::Installation
    }

    /// Whether a host may be called at an address that is not public.
    pub fn reaches_private_addresses(self) -> bool {
        self == Self::Installation
    }

    /// Whether a host may be sent a credential of this scope.
    pub fn may_use(self, scope: &Scope) -> bool {
        self == Self::Installation || matches!(scope, Scope::Project(_))
    }
}

/// Whether someone may name a host. `everywhere` is their role in the whole installation; one in a project does not count.
pub fn may_name_hosts(everywhere: Option<Role>) -> bool {
    everywhere == Some(Role::Admin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_project_names_gets_the_projects_credentials_and_reaches_public_addresses() {
        let scopes = ["user:ada", "team:fruit", "project:shop"].map(|scope| scope.parse::<Scope>().unwrap());
        assert_eq!(scopes.each_ref().map(|scope| NamedBy::Project.may_use(scope)), [false, false, true]);
        assert_eq!(scopes.each_ref().map(|scope| NamedBy::Installation.may_use(scope)), [true; 3]);
        let reach = scopes.each_ref().map(|scope| NamedBy::of(scope).reaches_private_addresses());
        assert_eq!(reach, [true, true, false]);
    }

    #[test]
    fn only_an_admin_of_the_installation_names_hosts() {
        assert!(may_name_hosts(Some(Role::Admin)));
        assert!(!may_name_hosts(Some(Role::Member)) && !may_name_hosts(None));
    }
}
