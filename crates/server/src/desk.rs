//! What the server asks the installation it is part of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use harvest_api_types::{AgentCheck, AgentInfo, Ask, Merge, NewCredential, NewRepository, NewSchedule, NewTemplate};
use harvest_core::{Code, Cost, Credential, CredentialId, Role, Scope, TaskId};
use harvest_engine::{Request, Tenancy};
use harvest_store::{Repository, Schedule, ScheduleOwner, Template};
use serde_json::Value;

use crate::Webhooks;

/// Answers what depends on settings, keys and programs of this machine, the same as on the command line.
#[async_trait]
pub trait Desk: Send + Sync + std::fmt::Debug {
    /// What a person asks for, checked one by one and resolved; nothing is written yet.
    async fn request(&self, ask: &Ask, person: &str) -> Result<Request, Refusal>;

    /// What a task of a repository may cost at most when it is asked for over the network; `None`: any amount. Settings that
    /// cannot be read are an error, since no limit could be told from one that is unknown.
    fn budget_of(&self, repository: &str) -> Result<Option<Cost>, Refusal>;

    /// Who belongs to what, as the settings say now.
    fn tenancy(&self) -> Tenancy;

    /// What someone may do in which project, as the projects' admins say now.
    fn memberships(&self, user: &str) -> BTreeMap<String, Role>;

    /// Whether a project can set this over the API. What reaches beyond the project takes an admin of the whole
    /// installation.
    fn check_settings(&self, project: &str, before: &Value, settings: &Value, by: Reach) -> Result<(), Refusal>;

    /// Whether the settings can be read at the moment.
    fn check_readable(&self) -> Result<(), Refusal>;

    /// Every setting as it holds for a project, and where each comes from; `None` when there is no such project.
    fn settings_of(&self, project: &str) -> Option<Vec<Value>>;

    /// How webhooks of GitHub are taken at the moment; `None` where there is no account, or no secret to know them by.
    async fn webhooks(&self) -> Option<Arc<Webhooks>>;

    /// Someone changed a project or its members.
    async fn projects_changed(&self) -> Result<(), Refusal>;

    async fn agents(&self) -> Result<Vec<AgentInfo>, Refusal>;

    /// What a rehearsal of an agent shows. It may take minutes, and goes on to its end when nobody waits for it any more.
    async fn check_agent(&self, id: &str) -> Result<AgentCheck, Refusal>;

    async fn add_repository(&self, new: &NewRepository) -> Result<Repository, Refusal>;

    /// Keeps a schedule that runs as its owner.
    async fn add_schedule(&self, new: &NewSchedule, owner: ScheduleOwner) -> Result<Schedule, Refusal>;

    async fn add_template(&self, new: &NewTemplate, person: &str) -> Result<Template, Refusal>;

    /// The parameters of a template's prompt.
    fn parameters(&self, prompt: &str) -> Vec<String>;

    /// What a template asks for with these values and options. The repository is empty where neither names one.
    fn fill(&self, template: &Template, values: BTreeMap<String, String>, options: &Ask) -> Result<Ask, Refusal>;

    async fn add_credential(&self, new: NewCredential, scope: Scope) -> Result<Credential, Refusal>;

    /// Those of all credentials whose secrets can be read with the master key.
    async fn usable_credentials(&self) -> Result<BTreeSet<CredentialId>, Refusal>;

    async fn rotate_credential(&self, credential: Credential, secret: String) -> Result<Credential, Refusal>;

    /// Keeps, sealed, what lets us act as a person at GitHub; in place of what was kept before.
    async fn keep_person_token(&self, person: &str, token: String) -> Result<(), Refusal>;

    async fn person_token(&self, person: &str) -> Result<Option<String>, Refusal>;

    /// Merges the work of a task into the current branch of its repository, which lies on this machine. Work that failed or is
    /// not verified takes `force`.
    async fn apply(&self, task: &TaskId, force: bool) -> Result<Merge, Refusal>;

    /// The evidence of a task as a signed statement, a DSSE envelope.
    async fn signed_evidence(&self, task: &TaskId) -> Result<Value, Refusal>;

    /// The public key that signed evidence is checked with.
    fn evidence_key(&self) -> Result<String, Refusal>;

    /// The tasks of the demo, on a sample repository that is made where it is missing.
    async fn demo(&self) -> Result<Vec<Request>, Refusal>;

    /// Whom the one-time link signs in: the person who started the server.
    fn owner(&self) -> String;

    /// Says something to whoever looks at the server's output.
    fn notice(&self, text: &str);
}

/// Where someone is an admin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Project,
    Installation,
}

/// Why something is not done, and what to do about it.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub help: Option<String>,
}
