//! Tasks, sessions, turns and attempts as they are stored and shown.

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, BranchName, Cost, Evidence, FailureReason, McpServer, OnFailedDependency, Priority, Prompt, Race,
    SessionId, TaskId, TaskStatus, Timestamp, TokenId, TurnId, Usage,
};

/// A task: the prompt, the settings, the status and the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Task {
    pub id: TaskId,
    pub kind: TaskKind,
    pub source: Source,
    pub status: TaskStatus,
    pub reason: Option<FailureReason>,
    /// Why the task did not complete, in one sentence.
    pub error: Option<String>,
    pub prompt: Prompt,
    pub agent: String,
    pub model: Option<String>,
    /// The path or URL of the repository, as it was given.
    pub repository: String,
    /// The full hash of the commit that the work starts from.
    pub base: String,
    pub settings: Settings,
    pub priority: Priority,
    /// The tasks that this one waits for.
    pub after: Vec<TaskId>,
    pub on_failed_dependency: OnFailedDependency,
    /// The convoy (batch of tasks) that it belongs to.
    pub convoy: Option<String>,
    /// The number of automatic retries left.
    pub retries_left: u32,
    /// How often the current turn has been tried; reset by a follow-up, an approval or a resumption.
    pub tries: u32,
    /// The URL of the issue, thread or message that it came from.
    pub source_url: Option<String>,
    /// Data of the issue tracker that it was imported from, kept for the export.
    pub extra: Option<serde_json::Value>,
    pub budget_usd: Cost,
    pub branch: Option<BranchName>,
    pub commit: Option<String>,
    pub evidence: Option<Evidence>,
    pub usage: Usage,
    pub cost_usd: Cost,
    pub requested_by: String,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// The settings of a task, fixed when it is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Settings {
    /// The test command; absent when none was given and none was found.
    pub test: Option<String>,
    /// Whether the task fails if there is no test command.
    pub require_tests: bool,
    /// Whether work passes if the only failing tests already failed at the base.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_unchanged: bool,
    /// The time limit of the agent for a turn.
    pub timeout_ms: u64,
    /// The maximum number of model calls in a turn.
    pub max_turns: u32,
    /// The vendor whose wire format the agent uses; default: the choice of the worker.
    pub provider: Option<String>,
    /// The branch that was given as the base and that the pull request targets; default: the repository's default
    /// branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    /// True if no base was given: the work starts from the results of the tasks that it waits for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub base_of_dependencies: bool,
    /// The author of the commits.
    pub author_name: String,
    pub author_email: String,
    /// The hosts that the repository's own settings limit its sandboxes to; default: those that the worker allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<String>>,
    #[serde(default)]
    pub supervision: Supervision,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The starting point of the session, if it is not the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The agents that continue, in this order, when the quota of an agent's model is exhausted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_quota: Vec<String>,
    /// Whether a plan is made first, which a person approves or rejects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
    /// The race that the task is part of; its work is delivered only if it wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub race: Option<Race>,
    /// The agent that reviews the plan before a person decides on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_review: Option<String>,
    #[serde(default, skip_serializing_if = "Workflow::is_direct")]
    pub workflow: Workflow,
    /// Whether the tested result is held until a person approves its delivery.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// The trust level of the text that the task was created from; absent: `member`.
    #[serde(default, skip_serializing_if = "Trust::is_member")]
    pub trust: Trust,
    /// The MCP servers that offer tools to the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp: Vec<McpServer>,
    /// The id of the API token that the task was created with and whose budget it counts against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The sequence of steps of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Workflow {
    #[default]
    Direct,
    /// The agent looks around, makes a plan of what it found, and the plan is delivered as a branch of its own before a
    /// person decides on it.
    ResearchPlanImplement,
}

/// The trust level of the text that a task was created from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Everyone who wrote them may write to the repository, or gives tasks here.
    #[default]
    Member,
    /// Someone had a part in them who may not write. Until a member has approved a plan, the agent reaches neither hosts nor
    /// package registries; from then on what the project allows.
    Stranger,
}

impl Trust {
    pub fn is_member(&self) -> bool {
        *self == Self::Member
    }
}

impl Workflow {
    pub fn is_direct(&self) -> bool {
        *self == Self::Direct
    }
}

/// What holds where nobody says otherwise.
impl Default for Settings {
    fn default() -> Self {
        Self {
            test: None,
            require_tests: false,
            accept_unchanged: false,
            timeout_ms: 30 * 60 * 1000,
            max_turns: 50,
            provider: None,
            base_branch: None,
            base_of_dependencies: false,
            author_name: "Harvest".to_owned(),
            author_email: "harvest@localhost".to_owned(),
            egress: None,
            supervision: Supervision::default(),
            hooks: Vec::new(),
            origin: None,
            on_quota: Vec::new(),
            plan: false,
            race: None,
            plan_review: None,
            workflow: Workflow::Direct,
            trust: Trust::Member,
            gate: false,
            mcp: Vec::new(),
            token: None,
        }
    }
}

/// The event of another session that a forked session starts from, with the commit of the workspace at that event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Origin {
    pub session: SessionId,
    pub seq: u64,
    pub commit: String,
}

/// A command that runs in a sandbox at a stage of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hook {
    pub stage: HookStage,
    /// A shell command, or the name of a built-in hook.
    pub run: String,
    /// Whether the turn fails if the hook fails.
    pub required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HookStage {
    /// In the agent's workspace, before the agent.
    BeforeExecute,
    /// There, after it; what it changes is delivered.
    AfterExecute,
    /// In a clean sandbox at the result, as all that follow.
    BeforeVerify,
    AfterVerify,
    BeforeDeliver,
    /// The branch has left: nothing can be taken back any more.
    AfterDeliver,
}

impl HookStage {
    pub const ALL: [Self; 6] = [
        Self::BeforeExecute,
        Self::AfterExecute,
        Self::BeforeVerify,
        Self::AfterVerify,
        Self::BeforeDeliver,
        Self::AfterDeliver,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeExecute => "before_execute",
            Self::AfterExecute => "after_execute",
            Self::BeforeVerify => "before_verify",
            Self::AfterVerify => "after_verify",
            Self::BeforeDeliver => "before_deliver",
            Self::AfterDeliver => "after_deliver",
        }
    }
}

impl Hook {
    /// Looks for keys in what is about to be delivered.
    pub const SECRET_SCAN: &str = "secret-scan";
    /// Looks for dangerous constructs in the lines that would be new.
    pub const SECURITY_LINT: &str = "security-lint";

    /// Whether Harvest has it ready. Such a one reads the result's diff, and so belongs behind the work.
    pub fn is_ready_made(&self) -> bool {
        self.run == Self::SECRET_SCAN || self.run == Self::SECURITY_LINT
    }

    /// Whether it can run at its stage.
    pub fn fits_its_stage(&self) -> bool {
        let has_result =
            matches!(self.stage, HookStage::BeforeVerify | HookStage::AfterVerify | HookStage::BeforeDeliver);
        !self.is_ready_made() || has_result
    }
}

/// When a running agent is considered stuck, and how it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Supervision {
    /// How long it may produce no output.
    pub stall_ms: u64,
    /// How often it may repeat the same tool call, or the same sequence of calls, with the same outcome.
    pub max_repeats: u32,
    /// How long it has to exit after it was interrupted, and again after it was asked to terminate.
    pub grace_ms: u64,
}

impl Default for Supervision {
    fn default() -> Self {
        Self { stall_ms: 600_000, max_repeats: 10, grace_ms: 5_000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    Prompt,
    Issue,
    PrReview,
    CodeFix,
}

/// Where a task came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Cli,
    Api,
    Web,
    Slack,
    GithubIssue,
    GithubPr,
    Mcp,
    Schedule,
    Agent,
}

/// A conversation with an agent about a task, on one branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Session {
    pub id: SessionId,
    pub task_id: TaskId,
    pub branch: BranchName,
    pub created_at: Timestamp,
    pub turns: Vec<Turn>,
}

/// One prompt to a session; the unit of work of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Turn {
    pub id: TurnId,
    pub session_id: SessionId,
    pub number: u32,
    pub author: String,
    pub prompt: Prompt,
    /// The agent from this turn on; default: that of the previous turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub status: TurnStatus,
    /// How a turn that is done ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<TurnEnd>,
    pub created_at: Timestamp,
    pub attempts: Vec<Attempt>,
    /// The person it acts for since they retried it or told its agent something new; `None`: its author.
    #[serde(skip)]
    pub acts_for: Option<String>,
    /// The token that its last instruction came with, which pays for it as well.
    #[serde(skip)]
    pub token: Option<TokenId>,
}

/// The author of turns that failed checks of a pull request ask for. No person on GitHub can have this name.
pub const CHECKS_AUTHOR: &str = "github:checks[bot]";

/// Whether an author is a program: a turn by one has not been asked for by a person.
pub fn is_automatic(author: &str) -> bool {
    author.ends_with("[bot]")
}

/// Whether only what happens on GitHub may give this name: of it follow rights, and whose quota counts.
pub fn belongs_to_github(user: &str) -> bool {
    user.starts_with("github:") || is_automatic(user)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Anyone may take it.
    Ready,
    /// It waits for other tasks.
    Blocked,
    /// It waits for its next try.
    Waiting,
    /// It waits for a place under a cap.
    Parked,
    /// It waits for the turns before it in its session.
    Queued,
    /// It waits for a person to decide on its plan.
    Held,
    Claimed,
    Done,
}

/// A task in a list. It says what a pending task waits for, so that no list needs a second request for each of its tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ListedTask {
    #[serde(flatten)]
    pub task: Task,
    /// Absent unless the task is pending.
    #[serde(default)]
    pub waiting: Option<Waiting>,
}

/// What a pending task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Waiting {
    /// The status of its first turn that is not done.
    pub turn: TurnStatus,
    /// The tasks in `after` that have not completed.
    pub after: Vec<Awaited>,
}

/// A task that another one waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Awaited {
    pub id: TaskId,
    /// Absent where the reader may not see that task.
    pub status: Option<TaskStatus>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    Completed,
    Failed,
    Cancelled,
    /// It was cancelled while it waited, and the task kept its earlier result.
    Withdrawn,
}

impl TurnEnd {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// What someone wants of a task that is being worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stopping {
    /// It is over; the agent is asked to end, and has a while to do so.
    Cancel,
    /// It is over, and the agent is killed.
    Terminate,
    /// It goes on when someone resumes it.
    Interrupt { author: String, reason: Option<String> },
    /// Another task of its race has won.
    Lose { to: TaskId },
}

impl Stopping {
    /// Nobody waits for what the agent still has to say.
    pub fn is_at_once(&self) -> bool {
        matches!(self, Self::Terminate | Self::Lose { .. })
    }

    /// Of several wishes the weightiest counts, and of the same weight the last: who is cancelled stays so.
    pub fn weight(&self) -> u8 {
        match self {
            Self::Interrupt { .. } => 0,
            Self::Lose { .. } => 1,
            Self::Cancel => 2,
            Self::Terminate => 3,
        }
    }

    /// It does not go on.
    pub fn is_for_good(&self) -> bool {
        !matches!(self, Self::Interrupt { .. })
    }
}

/// One run of an agent for a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attempt {
    pub id: AttemptId,
    pub turn_id: TurnId,
    pub agent: String,
    pub command: Vec<String>,
    pub exit_code: Option<i32>,
    /// The end of the agent's standard error output.
    pub stderr_tail: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

impl Attempt {
    pub const TAIL_BYTES: usize = 16 * 1024;
}

impl Task {
    /// Whether it changed something that is on no branch: Harvest keeps the work, and `harvest task diff` shows it.
    pub fn has_undelivered_work(&self) -> bool {
        let is_changed = self.commit.as_ref().is_some_and(|commit| *commit != self.base);
        self.branch.is_none() && is_changed && self.kind != TaskKind::PrReview
    }
}

/// How a task ended; the `data` of `task.finished`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Outcome {
    pub task_id: TaskId,
    pub session_id: SessionId,
    pub status: TaskStatus,
    pub reason: Option<FailureReason>,
    /// Why the task did not complete, in one sentence.
    pub error: Option<String>,
    pub branch: Option<BranchName>,
    pub commit: String,
    pub base: String,
    pub evidence: Option<Evidence>,
    pub usage: Usage,
    pub cost_usd: Cost,
}
