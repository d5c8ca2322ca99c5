//! The journal's vocabulary. Every step of a session is one of these; screens, recovery and replay read nothing else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AttemptId, BranchName, CallId, Cost, Evidence, FailureReason, HookStage, Outcome, Prompt, SandboxId, SessionId,
    TaskId, TestNames, Timestamp, TurnId, Usage,
};

/// One entry of a session's journal, numbered 1, 2, 3 … without gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    pub seq: u64,
    pub at: Timestamp,
    pub session_id: SessionId,
    #[serde(flatten)]
    pub body: EventBody,
}

/// The `type` and `data` of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "data")]
pub enum EventBody {
    #[serde(rename = "task.created")]
    TaskCreated {
        task_id: TaskId,
        prompt: Prompt,
        repository: String,
        base: String,
        agent: String,
        model: Option<String>,
    },
    /// A follow-up prompt, queued behind the earlier prompts of the session; `turn.started` marks its start.
    #[serde(rename = "turn.queued")]
    TurnQueued {
        turn_id: TurnId,
        number: u32,
        author: String,
        prompt: Prompt,
        /// The agent, if it differs from that of the previous turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The work is tested and delivered as it is; no agent runs.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        delivers: bool,
    },
    #[serde(rename = "turn.started")]
    TurnStarted { turn_id: TurnId, number: u32, author: String },
    /// Something the user should know; the work continues.
    #[serde(rename = "warning")]
    Warning { message: String },
    #[serde(rename = "sandbox.ready")]
    SandboxReady {
        sandbox_id: SandboxId,
        purpose: SandboxPurpose,
        provider: String,
        workspace: WorkspaceKind,
        duration_ms: u64,
        /// The sandbox was prepared in advance; `age_ms` says how long ago.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        warm: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        age_ms: Option<u64>,
    },
    #[serde(rename = "agent.started")]
    AgentStarted { attempt_id: AttemptId, agent: String, model: Option<String> },
    /// The worker was lost or replaced while the agent was running; another worker has taken over the same process and
    /// continues after the journaled output.
    #[serde(rename = "agent.reattached")]
    AgentReattached {
        attempt_id: AttemptId,
        sandbox_id: SandboxId,
        /// The offset in the agent's output up to which it had been journaled.
        offset: u64,
    },
    /// A complete message; the `message.delta` events before it carried the same text in parts.
    #[serde(rename = "message")]
    Message { role: MessageRole, text: String },
    #[serde(rename = "message.delta")]
    MessageDelta { text: String },
    #[serde(rename = "tool.call")]
    ToolCall { id: String, name: String, input: Value },
    #[serde(rename = "tool.result")]
    ToolResult { id: String, output: String, is_error: bool },
    /// A tool of an MCP server behind the gateway was called, or the call was refused.
    #[serde(rename = "mcp.called")]
    McpCalled { server: String, tool: String, outcome: McpOutcome, duration_ms: u64 },
    #[serde(rename = "file.changed")]
    FileChanged { path: String, change: FileChange },
    /// One model call, metered on the wire.
    #[serde(rename = "usage")]
    Usage {
        provider: String,
        model: String,
        #[serde(flatten)]
        usage: Usage,
        cost_usd: Cost,
        /// True if the vendor reported no token counts, the price is unknown, or Harvest died during the call.
        estimated: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
        /// From the request to the end of the response.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// Half or 80 % of a budget is spent; written once for each threshold.
    #[serde(rename = "budget.reached")]
    BudgetReached {
        /// `task:ID`, or, for a daily budget, `user:NAME` or `project:NAME`.
        account: String,
        percent: u8,
        spent_usd: Cost,
        limit_usd: Cost,
    },
    /// A request to a model's host failed; `remedy` says how that was handled. Written at the first failure of a kind,
    /// and again with the total count at the end of the turn.
    #[serde(rename = "model.trouble")]
    ModelTrouble {
        provider: String,
        model: String,
        /// The id of the credential, or its source, such as `environment`; never the secret.
        credential: String,
        /// `429`, `connect`, `stalled`, `cut`, …
        problem: String,
        remedy: Remedy,
        count: u64,
    },
    /// The agent exceeded a limit and is being stopped.
    #[serde(rename = "limit.reached")]
    LimitReached { limit: SupervisedLimit, message: String },
    #[serde(rename = "hook.finished")]
    HookFinished {
        stage: HookStage,
        run: String,
        required: bool,
        exit_code: i32,
        duration_ms: u64,
        /// The end of its output.
        output_tail: String,
    },
    #[serde(rename = "checkpoint.created")]
    CheckpointCreated { number: u32, commit: String },
    #[serde(rename = "commit.created")]
    CommitCreated { commit: String, subject: String },
    #[serde(rename = "agent.finished")]
    AgentFinished { attempt_id: AttemptId, exit_code: Option<i32>, reason: Option<FailureReason> },
    /// The agent's own record of the conversation was saved with the session, for its next turn.
    #[serde(rename = "conversation.kept")]
    ConversationKept {
        agent: String,
        /// The agent's name for the conversation, if it has one.
        name: Option<String>,
        commit: String,
    },
    /// Someone interrupted the session; its work is kept, and it continues when it is resumed.
    #[serde(rename = "session.interrupted")]
    SessionInterrupted {
        turn_id: TurnId,
        author: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The commit with the work so far.
        commit: String,
    },
    #[serde(rename = "session.resumed")]
    SessionResumed {
        turn_id: TurnId,
        author: String,
        /// The new instruction; without one, the agent is told to continue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Prompt>,
    },
    /// The agent has proposed a plan, which a person must approve or reject.
    #[serde(rename = "plan.proposed")]
    PlanProposed { text: String },
    /// Another agent has reviewed the proposed plan.
    #[serde(rename = "plan.reviewed")]
    PlanReviewed { agent: String, text: String },
    /// The work is done and tested; a person must approve or reject its delivery.
    #[serde(rename = "delivery.proposed")]
    DeliveryProposed {
        branch: BranchName,
        commit: String,
        base: String,
        /// Paths that differ between `base` and `commit`.
        files: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Evidence>,
    },
    /// A person has approved or rejected the latest proposal: a plan or a delivery.
    #[serde(rename = "plan.decided")]
    PlanDecided {
        approved: bool,
        author: String,
        /// The edited plan, if the person changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
        /// The comment of a rejection. The agent then makes another plan, or continues its work if a delivery was
        /// rejected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
    },
    /// The work has passed its tests and waits for the verdict of its race.
    #[serde(rename = "race.placed")]
    RacePlaced {
        cost_usd: Cost,
        /// The number of lines added and removed.
        changed_lines: u64,
    },
    /// The judge of a race has picked the best result. Written to the journal of the entrant that asked the judge.
    #[serde(rename = "race.judged")]
    RaceJudged { race: String, winner: TaskId, reason: String, agent: String },
    /// The race is decided. Written to the journal of the winner.
    #[serde(rename = "race.decided")]
    RaceDecided { race: String, winner: TaskId },
    #[serde(rename = "tests.finished")]
    TestsFinished(TestRun),
    /// A stage has recorded its outcome; after a crash, the next worker resumes after it.
    #[serde(rename = "stage.finished")]
    StageFinished { stage: StageName, result: Value },
    /// The session's branch was delivered and is available to the user.
    #[serde(rename = "branch.delivered")]
    BranchDelivered { branch: BranchName, commit: String },
    /// The target branch has moved. `commit` is the rebased work, or null if the files in `conflicts` prevented the
    /// rebase.
    #[serde(rename = "base.moved")]
    BaseMoved { from: String, to: String, commit: Option<String>, conflicts: Vec<String> },
    /// The pull request was opened or updated.
    #[serde(rename = "pull_request.delivered")]
    PullRequestDelivered { number: u64, url: String, draft: bool },
    /// A host that a sandbox connected to or was refused. Written at the first connection, and again with the totals
    /// when the sandbox ends.
    #[serde(rename = "egress")]
    Egress {
        host: String,
        port: u16,
        verdict: EgressVerdict,
        reason: Option<String>,
        connections: u64,
        sent_bytes: u64,
        received_bytes: u64,
    },
    /// A line of the agent's output that could not be parsed, unchanged.
    #[serde(rename = "raw")]
    Raw { stream: OutputStream, line: String },
    #[serde(rename = "turn.finished")]
    TurnFinished { turn_id: TurnId, reason: Option<FailureReason> },
    /// The turn failed and will be retried, automatically or on request.
    #[serde(rename = "task.retried")]
    TaskRetried { reason: FailureReason, error: String, tries: u32, delay_ms: u64 },
    #[serde(rename = "task.finished")]
    TaskFinished(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SandboxPurpose {
    Execute,
    Baseline,
    Verify,
    /// Dependencies are installed for a snapshot; belongs to no session.
    Prepare,
    /// Made ahead; belongs to no session until it is claimed.
    Warm,
    /// An MCP server with a credential runs there, away from the agent that uses it.
    Mcp,
    /// An agent is asked what it thinks of others' work; nothing leaves it but what it says.
    Opinion,
}

/// How the private copy of the repository was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    Overlay,
    Reflink,
    Copy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    Assistant,
    User,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// Whether the connection to a host was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EgressVerdict {
    Allowed,
    Refused,
}

/// The outcome of a call to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum McpOutcome {
    Answered,
    /// The server said so, or did not answer.
    Failed,
    /// The tool is not among those that are allowed.
    Refused,
}

/// How a failed request to a model's host was handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Asked again after a while.
    Retried,
    /// Asked with the next credential.
    FailedOver,
    /// Asked for another model.
    FellBack,
    /// The credential is left alone for a while.
    Rested,
    /// The client has to live with it.
    GaveUp,
}

/// A limit that is enforced while an agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SupervisedLimit {
    /// How long it may be silent.
    Stall,
    /// How often it may do the same with the same outcome.
    Loop,
    /// How often it may call the model.
    Turns,
    /// How long it may work.
    Wall,
}

/// The stages of a turn that record an outcome, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    Execute,
    Verify,
    Deliver,
}

/// One run of the test command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TestRun {
    pub purpose: SandboxPurpose,
    pub commit: String,
    pub command: String,
    pub exit_code: i32,
    pub passed: Option<u64>,
    pub failed: Option<u64>,
    pub skipped: Option<u64>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// The end of the test output.
    pub output_tail: String,
    #[serde(default, skip_serializing_if = "TestNames::is_empty")]
    pub names: TestNames,
}

impl EventBody {
    /// The `type` of the event on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TaskCreated { .. } => "task.created",
            Self::TurnQueued { .. } => "turn.queued",
            Self::TurnStarted { .. } => "turn.started",
            Self::Warning { .. } => "warning",
            Self::SandboxReady { .. } => "sandbox.ready",
            Self::AgentStarted { .. } => "agent.started",
            Self::AgentReattached { .. } => "agent.reattached",
            Self::Message { .. } => "message",
            Self::MessageDelta { .. } => "message.delta",
            Self::ToolCall { .. } => "tool.call",
            Self::ToolResult { .. } => "tool.result",
            Self::McpCalled { .. } => "mcp.called",
            Self::FileChanged { .. } => "file.changed",
            Self::Usage { .. } => "usage",
            Self::BudgetReached { .. } => "budget.reached",
            Self::ModelTrouble { .. } => "model.trouble",
            Self::LimitReached { .. } => "limit.reached",
            Self::HookFinished { .. } => "hook.finished",
            Self::CheckpointCreated { .. } => "checkpoint.created",
            Self::CommitCreated { .. } => "commit.created",
            Self::AgentFinished { .. } => "agent.finished",
            Self::ConversationKept { .. } => "conversation.kept",
            Self::SessionInterrupted { .. } => "session.interrupted",
            Self::SessionResumed { .. } => "session.resumed",
            Self::PlanProposed { .. } => "plan.proposed",
            Self::PlanReviewed { .. } => "plan.reviewed",
            Self::DeliveryProposed { .. } => "delivery.proposed",
            Self::PlanDecided { .. } => "plan.decided",
            Self::RacePlaced { .. } => "race.placed",
            Self::RaceJudged { .. } => "race.judged",
            Self::RaceDecided { .. } => "race.decided",
            Self::TestsFinished(_) => "tests.finished",
            Self::StageFinished { .. } => "stage.finished",
            Self::BranchDelivered { .. } => "branch.delivered",
            Self::BaseMoved { .. } => "base.moved",
            Self::PullRequestDelivered { .. } => "pull_request.delivered",
            Self::Egress { .. } => "egress",
            Self::Raw { .. } => "raw",
            Self::TurnFinished { .. } => "turn.finished",
            Self::TaskRetried { .. } => "task.retried",
            Self::TaskFinished(_) => "task.finished",
        }
    }
}
