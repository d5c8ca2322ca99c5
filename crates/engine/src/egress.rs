//! What a sandbox may reach, and what it is told so that its package managers know: the session's policy, the journal of
//! what was reached, and the environment of every process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use harvest_core::repository::Place;
use harvest_core::{EventBody, Task, Trust};
use harvest_gateway::ServerTools;
use harvest_gateway::egress::{Access, Policy, Record, Recorder};
use harvest_gateway::registry::{Ecosystem, Environment, Trouble, environment};
use harvest_sandbox::{File, Sandbox};

use crate::Engine;
use crate::journal::Journal;
use crate::turn::Turn;

/// What sandboxes may reach, by the repository they work on.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Where nothing else is said.
    pub any: Policy,
    pub repositories: HashMap<Place, Policy>,
    /// What model vendors may do outside of the sandboxes, where nothing else is said.
    pub any_server_tools: ServerTools,
    pub server_tools: HashMap<Place, ServerTools>,
}

impl Hosts {
    pub(crate) fn of(&self, repository: &str) -> &Policy {
        self.repositories.get(&Place::of(repository)).unwrap_or(&self.any)
    }

    /// What model vendors may do for a task outside of its sandbox. A task without egress, like every task of a stranger, has
    /// no way out through a vendor either.
    fn server_tools_of(&self, repository: &str, egress: Option<&[String]>, trust: Trust) -> ServerTools {
        if egress.is_some_and(<[_]>::is_empty) || trust == Trust::Stranger {
            return ServerTools::none();
        }
        self.server_tools.get(&Place::of(repository)).unwrap_or(&self.any_server_tools).clone()
    }
}

/// Troubles with registries that one sandbox is told of.
const MOST_TROUBLES: usize = 20;
const NO_PACKAGES: &str = "no packages from a registry";

#[derive(Debug)]
struct Journaled {
    journal: Journal,
    /// The registries that could not be used, each with its reason.
    troubles: Mutex<BTreeSet<(Ecosystem, String)>>,
}

#[async_trait]
impl Recorder for Journaled {
    async fn record(&self, record: Record) {
        let Record { host, port, verdict, reason, connections, sent_bytes, received_bytes } = record;
        let event = EventBody::Egress { host, port, verdict, reason, connections, sent_bytes, received_bytes };
        if let Err(error) = self.journal.write(vec![event]).await {
            tracing::error!(%error, "what a sandbox reached could not be recorded");
        }
    }

    async fn registry_failed(&self, trouble: Trouble) {
        if self.is_new(&trouble, |(ecosystem, reason)| *ecosystem == trouble.ecosystem && *reason == trouble.reason) {
            self.tell(&trouble).await;
        }
    }

    async fn registry_paused(&self, trouble: Trouble) {
        // After the failure itself, a pause says nothing new. Another sandbox of the same try may have met it.
        if self.is_new(&trouble, |(ecosystem, _)| *ecosystem == trouble.ecosystem) {
            let begins = format!("{NO_PACKAGES}: {}:", trouble.ecosystem);
            match self.journal.has_warned(&begins).await {
                Ok(true) => {}
                Ok(false) => self.tell(&trouble).await,
                Err(error) => tracing::error!(%error, "trouble with a registry could not be recorded"),
            }
        }
    }
}

impl Journaled {
    /// Notes a trouble, unless one like it was told or there were too many.
    fn is_new(&self, trouble: &Trouble, is_alike: impl Fn(&(Ecosystem, String)) -> bool) -> bool {
        let mut told = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MOST_TROUBLES
            && !told.iter().any(is_alike)
            && told.insert((trouble.ecosystem, trouble.reason.clone()))
    }

    /// Another sandbox of the same try may have told it before.
    async fn tell(&self, trouble: &Trouble) {
        let message = format!("{NO_PACKAGES}: {trouble}{}", way_out(trouble));
        if let Err(error) = self.journal.tell_once(EventBody::Warning { message }).await {
            tracing::error!(%error, "trouble with a registry could not be recorded");
        }
    }
}

/// What a person can do about a registry, unless its trouble says so.
fn way_out(trouble: &Trouble) -> &'static str {
    match trouble.reason.contains("[registries]") {
        true => "",
        false => "; `harvest doctor --reach` tries all hosts; name a mirror under [registries] in harvest.toml",
    }
}

/// A stranger's words lead nowhere before a member has approved the plan that was made of them: a package of the right name is
/// a way out as good as a host.
pub(crate) fn is_closed(task: &Task, plans: bool) -> bool {
    task.settings.trust == Trust::Stranger && plans
}

/// Who writes down what was reached.
pub(crate) fn recorder(journal: &Journal) -> Arc<dyn Recorder> {
    Arc::new(Journaled { journal: journal.clone(), troubles: Mutex::default() })
}

impl Turn {
    /// For every process in the sandbox.
    pub(crate) fn network_environment(&self, sandbox: &Sandbox) -> Environment {
        match is_closed(&self.task, self.plan.is_wanted()) {
            true => Environment::default(),
            false => self.engine.network_environment(&self.engine.policy_of(&self.task), sandbox),
        }
    }
}

impl Engine {
    pub(crate) fn egress(&self, task: &Task, journal: &Journal, plans: bool) -> Access {
        let recorder = recorder(journal);
        match is_closed(task, plans) {
            true => Access { policy: Policy::default(), registries: false, recorder },
            false => Access { policy: self.policy_of(task), registries: true, recorder },
        }
    }

    pub(crate) fn server_tools(&self, task: &Task) -> ServerTools {
        let settings = &task.settings;
        self.options.egress.now().server_tools_of(&task.repository, settings.egress.as_deref(), settings.trust)
    }

    /// What this worker allows, less what the repository does without.
    pub(crate) fn policy_of(&self, task: &Task) -> Policy {
        let hosts = self.options.egress.now();
        let allowed = hosts.of(&task.repository);
        match &task.settings.egress {
            None => allowed.clone(),
            // A rule that cannot be read allows nothing.
            Some(rules) => {
                let narrower = Policy::new(rules.iter().filter_map(|rule| rule.parse().ok()));
                allowed.intersection(&narrower)
            }
        }
    }

    /// For every process in a sandbox with this policy.
    pub(crate) fn network_environment(&self, policy: &Policy, sandbox: &Sandbox) -> Environment {
        let base = format!("http://127.0.0.1:{}", sandbox.gateway_port());
        let registries = self.options.gateway.has_registries();
        let packages = if registries { environment(&base, &sandbox.paths().home) } else { Environment::default() };
        if policy.allows_nothing() { packages } else { packages.with_proxy(&base) }
    }
}

/// The files of an environment, where they belong in a sandbox.
pub(crate) fn files(environment: Environment, sandbox: &Sandbox) -> Vec<File> {
    let home = &sandbox.paths().home;
    let file = |(path, content): (String, String)| File {
        path: home.join(path).to_string_lossy().into_owned(),
        content,
        executable: false,
    };
    environment.files.into_iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_task_and_one_without_egress_get_no_tool_of_a_vendor_whatever_the_project_opens() {
        let tools = |name| ServerTools::new([name]).unwrap();
        let hosts = Hosts {
            any_server_tools: tools("web_search"),
            server_tools: HashMap::from([(Place::of("shop"), tools("web_fetch"))]),
            ..Hosts::default()
        };
        let none: &[String] = &[];
        let some = ["example.com".to_owned()];
        assert_eq!(hosts.server_tools_of("shop", None, Trust::Member), tools("web_fetch"));
        assert_eq!(hosts.server_tools_of("other", Some(&some), Trust::Member), tools("web_search"));
        assert_eq!(hosts.server_tools_of("shop", Some(none), Trust::Member), ServerTools::none());
        assert_eq!(hosts.server_tools_of("shop", None, Trust::Stranger), ServerTools::none());
        assert_eq!(hosts.server_tools_of("shop", Some(&some), Trust::Stranger), ServerTools::none());
    }
}
