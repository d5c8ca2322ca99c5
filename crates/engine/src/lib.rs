//! The life of a turn: claim → provision → execute → verify → deliver → record, one module per stage.
//!
//! Each stage is a function of the journal so far: it looks whether its outcome is there, does the work if not, and writes
//! the outcome. After a crash whoever holds the lease runs the stages again. The engine knows no SQL, no HTTP and no agent's
//! dialect; it speaks to the store, the sandbox provider, the gateway and the forge through their contracts.

mod actor;
mod authorship;
mod breakdown;
mod breaker;
mod cancel;
mod caps;
mod carry;
mod checkpoint;
mod confined_git;
mod contest;
mod conversation;
mod deliver;
mod dependency_base;
mod egress;
mod error;
mod execute;
pub mod failpoint;
mod forecast;
mod forget;
mod fork;
mod gate;
mod guard;
mod hooks;
mod interruption;
mod interrupts;
mod journal;
mod judging;
mod keyring;
mod left;
mod limit;
mod lint;
mod live;
mod mcp;
pub mod meter;
mod names;
mod notices;
mod opinion;
mod owner;
mod people;
mod place;
mod plan;
mod pool;
pub mod prepare;
mod prompting;
mod quota;
mod race;
mod reattach;
mod record;
mod recover;
mod retention;
mod schedule;
mod shepherd;
#[cfg(test)]
mod simulation;
mod stop;
#[cfg(test)]
mod story;
mod submit;
mod supervise;
mod tenancy;
mod till;
mod timetable;
mod turn;
mod unserved;
mod verify;
mod vitals;
pub mod warm;
mod watch;
mod work;
mod workshop;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harvest_agents::Registry;
use harvest_core::{Clock, Entropy, OwnerId};
use harvest_forge::Forges;
use harvest_gateway::Gateway;
use harvest_sandbox::Provider;
use harvest_store::{Lease, Store};
use harvest_vault::Redactor;
use harvest_workspace::{Mirrors, Prepared, Snapshots};
use tokio::sync::Semaphore;

pub use breaker::Options as Breaking;
pub use caps::{UnknownCap, set_cap, unknown_repository};
pub use confined_git::ConfinedGit;
pub use contest::{enter_race, race_table, racing};
pub use deliver::{Change, DeliveryPolicy, REVIEW, evidence_statement, issue_number};
pub use egress::Hosts;
pub use error::{Error, Failure};
pub use fork::Fork;
pub use guard::no_room;
pub use harvest_store::day_of;
pub use interrupts::Interrupts;
pub use keyring::Keyring;
pub use live::Live;
pub use names::{
    KeyInName, USE_A_PLAIN_NAME, address_holds_access, check_address, check_name, check_name_in_file, could_hide_words,
    looks_like_a_key, may_change_cap,
};
pub use owner::Ownership;
pub use people::{Attests, People};
pub use pool::{Limits, Notice, Pool, Summary};
pub use prompting::{FailedCheck, Found, PromptBook, Remark, Situation};
pub use quota::{Quota, Quotas, StrangerQuota};
pub use recover::{Orphans, Recovered, Recovery};
pub use retention::{Collected, Item, Kind, Retention};
pub use schedule::{Planner, Run, Scheduler};
pub use stop::Stop;
pub use submit::{BaseChoice, DeliveryRequest, FollowUp, Queueing, Request};
pub use tenancy::{Project, Team, Tenancy};
pub use timetable::{BadTimetable, Decision, Timetable, decide};
pub use turn::Worked;
pub use verify::{Trial, find_test_command, read_counts, telling_lines};

/// The text without secrets that this process knows of, for whatever is shown or written down outside of a journal.
pub fn redact(text: &str) -> std::borrow::Cow<'_, str> {
    match Redactor::of_process() {
        Ok(redactor) => std::borrow::Cow::Owned(redactor.redact(text).into_owned()),
        Err(_) => std::borrow::Cow::Borrowed(harvest_vault::MARK),
    }
}

/// The same for a prompt, which stays within its limit.
pub fn redact_prompt(prompt: harvest_core::Prompt) -> Result<harvest_core::Prompt, harvest_vault::Error> {
    Ok(submit::clean_prompt(&Redactor::of_process()?, prompt))
}

/// The same for every string of a document.
pub fn redact_json(value: &mut serde_json::Value) {
    match Redactor::of_process() {
        Ok(redactor) => redactor.redact_json(value),
        Err(_) => *value = serde_json::Value::Null,
    }
}

pub use vitals::{Histogram, Reading, Vitals};
pub use warm::Warm;
pub use work::NewestWork;

/// What an engine is made of.
#[derive(Debug, Clone)]
pub struct Options {
    pub data: DataFolder,
    pub store: Arc<dyn Store>,
    pub provider: Arc<dyn Provider>,
    pub gateway: Gateway,
    /// Whose keys are used for whom.
    pub keyring: Arc<dyn Keyring>,
    /// Who belongs to what, as it is when it is asked for.
    pub tenancy: Live<Tenancy>,
    pub registry: Arc<Registry>,
    /// What agents are told.
    pub prompts: PromptBook,
    pub redactor: Arc<Redactor>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub toolchain: Toolchain,
    /// Where repositories come from and branches go.
    pub forges: Forges,
    pub delivery: DeliveryPolicy,
    /// For tasks that leave the choice to whoever works on them.
    pub model: ModelChoice,
    /// What sandboxes may reach; a task can have less.
    pub egress: Live<Hosts>,
    /// What each sandbox may use. How long it may take is up to the task.
    pub limits: harvest_sandbox::Limits,
}

/// Which vendor and which of its models; `None`: the agent's own choice.
#[derive(Debug, Clone)]
pub struct ModelChoice {
    pub provider: harvest_agents::Provider,
    pub model: Option<String>,
}

/// Where everything of an installation lives.
#[derive(Debug, Clone)]
pub struct DataFolder(PathBuf);

impl DataFolder {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn database(&self) -> PathBuf {
        self.0.join("harvest.db")
    }

    pub fn mirrors(&self) -> PathBuf {
        self.0.join("mirrors")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.0.join("snapshots")
    }

    pub fn prepared(&self) -> PathBuf {
        self.0.join("prepared")
    }

    /// What registries have been asked for.
    pub fn registries(&self) -> PathBuf {
        self.0.join("registries")
    }

    pub fn sandboxes(&self) -> PathBuf {
        self.0.join("sandboxes")
    }

    pub fn owners(&self) -> PathBuf {
        self.0.join("owners")
    }

    pub fn interrupts(&self) -> PathBuf {
        self.0.join("interrupts")
    }

    pub fn workspaces(&self) -> PathBuf {
        self.0.join("workspaces")
    }

    /// The private copy for a sandbox that cannot overlay.
    pub(crate) fn workspace(&self, sandbox: &harvest_core::SandboxId) -> PathBuf {
        self.workspaces().join(sandbox.as_str())
    }

    pub fn sessions(&self) -> PathBuf {
        self.0.join("sessions")
    }

    pub fn session_repository(&self, session: &harvest_core::SessionId) -> PathBuf {
        self.sessions().join(session.as_str()).join("repository.git")
    }

    /// Says that the only copy of a session's work was removed from here.
    pub(crate) fn removed_work(&self, session: &harvest_core::SessionId) -> PathBuf {
        self.sessions().join(format!("{session}.removed"))
    }

    /// The repository of a session whose work arrived here.
    pub fn existing_repository(
        &self,
        session: &harvest_core::SessionId,
    ) -> Option<harvest_workspace::SessionRepository> {
        harvest_workspace::SessionRepository::existing(self.session_repository(session), &self.mirrors())
    }
}

/// What processes in a sandbox get to run: their search path and the variables that toolchains need.
#[derive(Debug, Clone, Default)]
pub struct Toolchain {
    pub path: String,
    pub env: Vec<(String, String)>,
    /// Where the programs of agents are, by name; `None` when sandboxes bring their own.
    pub programs: Option<BTreeMap<String, PathBuf>>,
}

/// Works on turns. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    options: Arc<Options>,
    mirrors: Mirrors,
    snapshots: Snapshots,
    prepared: Prepared,
    stops: stop::Stops,
    warm: Arc<warm::Shelf>,
    till: Arc<till::Till>,
    vitals: Arc<Vitals>,
    finish: Arc<race::Finish>,
    /// Sandboxes are made one after the other, a few at a time: of many that are wanted at once, say after a restart, the first
    /// is ready when it would be alone, and not only with the last.
    making: Arc<Semaphore>,
}

impl Engine {
    pub fn new(options: Options) -> Self {
        let (mirrors, snapshots) = (Mirrors::new(options.data.mirrors()), Snapshots::new(options.data.snapshots()));
        let prepared = Prepared::new(options.data.prepared());
        let (stops, warm, till) = (stop::Stops::default(), Arc::default(), Arc::default());
        let (vitals, finish) = (Arc::default(), Arc::default());
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let making = Arc::new(Semaphore::new(2 * cores));
        Self { options: Arc::new(options), mirrors, snapshots, prepared, stops, warm, till, vitals, finish, making }
    }

    /// The flag that stops a turn while this engine holds it.
    pub fn stop_of(&self, lease: &Lease) -> Stop {
        self.stops.of(lease)
    }

    pub(crate) fn forget_stop(&self, lease: &Lease) {
        self.stops.forget(lease);
    }

    /// What was asked of a turn before there was anyone here to hear it.
    pub(crate) async fn heed(&self, owner: &OwnerId, lease: &Lease, stop: &Stop) -> Result<(), Error> {
        for (asked, how) in self.options.store.stops(owner).await? {
            if asked.turn == lease.turn && asked.fence == lease.fence {
                stop.request_as(how);
            }
        }
        Ok(())
    }

    /// How the work of this process goes.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.options.store
    }

    /// Who belongs to what, as it is now.
    pub fn tenancy(&self) -> Arc<Tenancy> {
        self.options.tenancy.now()
    }

    pub fn forges(&self) -> &Forges {
        &self.options.forges
    }
}
