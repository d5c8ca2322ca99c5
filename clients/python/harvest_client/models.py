"""What is sent and received. Written by generate.py from openapi.json: do not change it by hand."""

from typing import Any, Literal, NotRequired, TypedDict


class AgentCheck(TypedDict):
    """The result of an agent's test."""
    agent: str
    checks: list["Check"]
    works: bool
    """True when nothing failed."""


class AgentInfo(TypedDict):
    """An agent and what there is of it."""
    default: bool
    """The agent of tasks that name none."""
    features: dict[str, bool]
    """What it can do beyond taking a prompt."""
    id: str
    install_hint: str
    installed: bool
    key_hint: NotRequired[str | None]
    name: str
    providers: list[str]
    """The vendors whose formats it speaks."""
    usable_providers: list[str]
    """The vendors with an available key."""
    version: NotRequired[str | None]


class Application(TypedDict):
    """Options of a merge."""
    force: NotRequired[bool]
    """Also merge work that failed or is not verified."""


class Approval(TypedDict):
    """An approval, which may edit the plan."""
    plan: NotRequired[str | None]
    """The edited plan; default: the plan as it was proposed."""


class Ask(TypedDict):
    """A task to create. The settings of the repository, its project and the server decide what is left out."""
    after: NotRequired[list[str]]
    """Ids of tasks that have to complete first; a unique prefix is enough."""
    agent: NotRequired[str | None]
    """An id from `/api/agents`."""
    base: NotRequired[str | None]
    """The branch, tag or commit to start from; default: the repository's own branch."""
    budget_usd: NotRequired["Cost | None"]
    convoy: NotRequired[str | None]
    """The convoy it belongs to."""
    fallback_agents: NotRequired[list[str]]
    """Agents that continue, in this order, when a model's quota is exhausted."""
    gate: NotRequired[bool]
    """The tested result is held until a person approves it."""
    mcp: NotRequired[list[str]]
    """Names of MCP servers that the agent gets."""
    model: NotRequired[str | None]
    """A model of the agent; default: the agent's own."""
    on_failed_dependency: NotRequired["OnFailedDependency"]
    plan: NotRequired[bool]
    """Make a plan first, which a person approves or rejects."""
    plan_review: NotRequired[str | None]
    """An agent that reviews the plan before a person decides, as `AGENT` or `AGENT:MODEL`."""
    priority: NotRequired["Priority | None"]
    prompt: str
    """What to do, in plain words."""
    race: NotRequired["AskRace | None"]
    repository: str
    """A name from `/api/repositories`, or the path or URL of one that is known. Admins of the installation may name
    any other."""
    require_tests: NotRequired[bool]
    """Fail rather than deliver without a test command."""
    retries: NotRequired[int | None]
    """How often to retry automatically after a temporary failure."""
    source_url: NotRequired[str | None]
    """The issue, thread or message it came from."""
    test: NotRequired[str | None]
    """The test command; default: the one found in the repository."""
    timeout: NotRequired[int | None]
    """Seconds that the agent may work on a turn."""
    workflow: NotRequired["Workflow | None"]


class AskFork(TypedDict):
    """The event to fork at, and what to do from there."""
    agent: NotRequired[str | None]
    """An id from `/api/agents`; default: as before."""
    at: int
    """The number of an event."""
    model: NotRequired[str | None]
    """A model of the agent; default: as before."""
    prompt: str
    """What to do from there."""


class AskInterrupt(TypedDict):
    """The reason for an interruption."""
    reason: NotRequired[str | None]
    """Shown to the people who follow the session."""


class AskMember(TypedDict):
    role: "Role"


class AskMore(TypedDict):
    """Another prompt."""
    agent: NotRequired[str | None]
    """The agent from here on; default: as before."""
    model: NotRequired[str | None]
    """The model from here on; default: as before."""
    prompt: str
    """What to do next."""


class AskProject(TypedDict):
    """A project to create."""
    name: str
    """The name of the project."""
    repositories: NotRequired[list[str]]
    """Names from `/api/repositories`, paths on the server's machine, or URLs."""


class AskRace(TypedDict):
    """Agents that work on the same task in parallel; the best result is delivered."""
    agents: NotRequired[list[str]]
    """Ids from `/api/agents`, each as `AGENT` or `AGENT:MODEL`."""
    judge: NotRequired[str | None]
    """An agent that chooses among several that pass, as `AGENT` or `AGENT:MODEL`; when it does not decide, `judged_by`
    does."""
    judged_by: NotRequired["JudgedBy"]
    number: NotRequired[int | None]
    """Instead of `agents`: how many runs of the task's own agent."""


class AskResume(TypedDict):
    """A prompt for the agent that resumes."""
    prompt: NotRequired[str | None]
    """Default: continue with what it was doing."""


class AskSettings(TypedDict):
    settings: dict[str, Any]
    """Everything that is to be set, by the names that `harvest config show` has; what is left out is not set any more."""


class AskToken(TypedDict):
    expires_in_days: NotRequired[int | None]
    """Days until it expires; default: never."""
    name: str
    """What it is for."""
    projects: NotRequired[list[str] | None]
    """The projects that it is limited to; default: none, so that it holds everywhere."""
    role: "Role"
    user: NotRequired[str | None]
    """The user it acts for; default: you."""


class Attempt(TypedDict):
    """One run of an agent for a turn."""
    agent: str
    command: list[str]
    exit_code: NotRequired[int | None]
    finished_at: NotRequired[str | None]
    id: "AttemptId"
    started_at: str
    stderr_tail: str
    """The last [`Attempt::TAIL_BYTES`] of what the agent wrote to standard error."""
    turn_id: "TurnId"


# One run of an agent for a turn.
AttemptId = str


class AuditEntry(TypedDict):
    """What someone did. Each entry carries the digest of the one before it."""
    action: str
    """The operation, as this document names it."""
    actor: str
    """`user:NAME`, with the token in the detail."""
    at: str
    detail: Any
    digest: str
    number: int
    previous: str
    project: NotRequired[str | None]
    target: str


class Baseline(TypedDict):
    """The same command at the base commit."""
    exit_code: int
    failed: NotRequired[int | None]
    passed: NotRequired[int | None]
    skipped: NotRequired[int | None]


# The session's own branch, without `refs/heads/`. Always a valid ref name: it is made here and nowhere else.
BranchName = str


By = Literal["day", "repository", "agent", "model", "person"]


# One request to a model.
CallId = str


class Cap(TypedDict):
    """At most so many turns with this name are worked on at a time."""
    name: str
    """`repository:…`, `user:…` or `credential:…`."""
    size: int
    used: int


class CapChange(TypedDict):
    """A limit for the queue."""
    name: str
    """`repository:…`, `user:…` or `credential:…`."""
    size: NotRequired[int | None]
    """The highest number of turns at a time; `null`: no limit."""


class ChangedFile(TypedDict):
    """A file that the session changed."""
    change: "FileChange"
    path: str


class ChangedFiles(TypedDict):
    """Changed files that decide how much a green run is worth."""
    ci: list[str]
    settings: list[str]
    tests: list[str]


class Check(TypedDict):
    detail: str
    name: str
    state: "CheckState"


CheckState = Literal["works", "fails", "absent"]


class Comment(TypedDict):
    about: "CommentPlace"
    at: str
    author: str
    id: "CommentId"
    session_id: "SessionId"
    text: str


# What someone said about a session.
CommentId = str


# What a comment is about.
CommentPlace = dict[str, Any]


class Convoy(TypedDict):
    cost_usd: "Cost"
    name: str
    tasks: dict[str, int]
    """Tasks by status."""


# US dollars
Cost = float


class Credential(TypedDict):
    """A key or token for a provider, kept in the vault."""
    base_url: NotRequired[str | None]
    """Where to use it, when not at the provider's own host."""
    created_at: str
    id: "CredentialId"
    last4: str
    """The end of the secret, to tell it from others."""
    last_used_at: NotRequired[str | None]
    name: str
    """Extras for failover have names of their own."""
    provider: str
    """`anthropic`, `openai`, …"""
    rotated_at: NotRequired[str | None]
    scope: "Scope"


# A key or token in the vault.
CredentialId = str


class Demo(TypedDict):
    """What was made."""
    repository: str
    """The path of the sample repository."""
    tasks: list["TaskId"]


class Diff(TypedDict):
    """What a session changed."""
    base: str
    commit: NotRequired[str | None]
    """The newest state that has left the sandbox; absent when nothing has."""
    diff: str
    """A unified diff; bytes that are not UTF-8 are replaced."""


# Before or after the change.
DiffSide = Literal["old", "new"]


# Whether a host could be reached.
EgressVerdict = Literal["allowed", "refused"]


class Envelope(TypedDict):
    """A signed statement, as of the Dead Simple Signing Envelope."""
    payload: str
    """The statement in Base64."""
    payloadType: str
    signatures: list["EnvelopeSignature"]


class EnvelopeSignature(TypedDict):
    keyid: str
    sig: str


class Event(TypedDict):
    """One entry of a session's journal, numbered 1, 2, 3 … without gaps."""
    seq: int
    at: str
    session_id: str
    type: Literal["task.created", "turn.queued", "turn.started", "warning", "sandbox.ready", "agent.started", "agent.reattached", "message", "message.delta", "tool.call", "tool.result", "mcp.called", "file.changed", "usage", "budget.reached", "model.trouble", "limit.reached", "hook.finished", "checkpoint.created", "commit.created", "agent.finished", "conversation.kept", "session.interrupted", "session.resumed", "plan.proposed", "plan.reviewed", "delivery.proposed", "plan.decided", "race.placed", "race.judged", "race.decided", "tests.finished", "stage.finished", "branch.delivered", "base.moved", "pull_request.delivered", "egress", "raw", "turn.finished", "task.retried", "task.finished"]
    data: NotRequired[dict[str, Any]]


class EventPage(TypedDict):
    """A part of a journal."""
    items: list["Event"]
    next_cursor: NotRequired[int | None]
    """Give it as `after`; absent at the end of what there is now."""


class Evidence(TypedDict):
    """The outcome of verification. The command comes from the base commit or the project, never from what the agent
    produced."""
    baseline: "Baseline"
    changed: NotRequired["ChangedFiles"]
    command: str
    commit: str
    """The verified commit."""
    duration_ms: int
    environment: str
    """Digest of what the tests ran in: provider, system, tools and limits."""
    exit_code: int
    failed: NotRequired[int | None]
    flags: list["Flag"]
    hint: NotRequired[str | None]
    """Why the tests could not run, if the cause is known, and the way out."""
    output: NotRequired[str]
    """The last lines that the tests printed at the result, unless they passed."""
    passed: NotRequired[int | None]
    """Counts are `None` when the test runner's output cannot be read."""
    skipped: NotRequired[int | None]
    tests: NotRequired["TestChanges"]
    """How single tests differ between the base and the result."""
    verdict: NotRequired["TestVerdict | None"]


class EvidenceKey(TypedDict):
    """What signed evidence is checked with."""
    public_key: str


FailureReason = Literal["agent", "tests", "sandbox", "model_quota", "timeout", "stall", "loop", "turns", "hook", "budget", "cancelled", "interrupted", "internal"]


FileChange = Literal["added", "modified", "deleted"]


class Filling(TypedDict):
    """Values for the parameters of a template."""
    values: NotRequired[dict[str, str]]
    """A value for each parameter."""


# What a reader of the evidence should know before believing it.
Flag = Literal["test_command_changed", "tests_changed", "tests_deleted", "fewer_tests", "tests_skipped", "ci_changed", "settings_changed", "tests_timed_out", "not_isolated"]


class Hook(TypedDict):
    """Something to run at a stage of a turn, in a sandbox."""
    required: bool
    """The turn fails where it does not succeed."""
    run: str
    """A shell command, or the name of one that Harvest has ready."""
    stage: "HookStage"


HookStage = Literal["before_execute", "after_execute", "before_verify", "after_verify", "before_deliver", "after_deliver"]


# What decides among those whose work passes its tests.
JudgedBy = Literal["cost", "time"]


class Judgement(TypedDict):
    agent: str
    reason: str


# Where a server is.
McpAddress = dict[str, Any]


class McpCredential(TypedDict):
    """Which secret a server needs, and where it looks for it."""
    name: str
    """The name under which it is kept, as a credential for `mcp`."""
    sent_as: str
    """The variable of a program, or the header of a request."""


# What came of a call to an MCP server.
McpOutcome = Literal["answered", "failed", "refused"]


class McpServer(TypedDict):
    """A server as a task may use it. Holds the name of a credential, never the secret."""
    at: "McpAddress"
    credential: NotRequired["McpCredential | None"]
    environment: NotRequired[dict[str, str]]
    """Only for a program."""
    hosts: NotRequired[list[str]]
    """What a program with a credential may reach."""
    name: str
    """What agents and events call it."""
    named_by: NotRequired["NamedBy"]
    """Whose word all of this is taken on."""
    tools: NotRequired[list[str] | None]
    """The tools that agents may use; `None`: all."""


class Me(TypedDict):
    csrf: NotRequired[str | None]
    """For pages: what they showed as `X-Harvest-CSRF`, the half of the session's secret that is not in the cookie."""
    projects: NotRequired[list[str] | None]
    """The projects that the token is limited to; absent: all of them."""
    role: "Role"
    roles: NotRequired[dict[str, "Role"] | None]
    """The role in each of them."""
    user: str
    version: str


class Member(TypedDict):
    role: "Role"
    since: str
    user: str


class Merge(TypedDict):
    """A branch that became part of another."""
    before: str
    """Where that branch was before; the same as `commit` when it had the work already."""
    branch: str
    """The task's branch."""
    commit: str
    """Where that branch is now."""
    into: str
    """The branch of the repository that it was merged into."""


class Message(TypedDict):
    """A message in a session."""
    at: str
    author: NotRequired[str | None]
    """Who wrote it; absent for the agent."""
    role: "MessageRole"
    seq: int
    """The number of the event it comes from."""
    text: str


MessageRole = Literal["assistant", "user"]


# What happens to runs that fell due while no one was there.
Missed = Literal["skip", "run_once"]


ModelProvider = Literal["anthropic", "openai", "gemini", "ollama", "github", "mcp"]


# Whose word a host is taken on.
NamedBy = Literal["installation", "project"]


class NewComment(TypedDict):
    """A comment to add."""
    about: "CommentPlace"
    text: str
    """The comment itself."""


class NewCredential(TypedDict):
    """A credential to add. Members add their own; those of teams and projects take an admin."""
    base_url: NotRequired[str | None]
    """A host that speaks the same format; for admins of the whole installation. A project's must have a public
    address."""
    name: NotRequired[str | None]
    """Credentials with other names are fallbacks for `default`, used when it is refused."""
    provider: "ModelProvider"
    """The vendor that the credential is for."""
    scope: NotRequired["Scope | None"]
    secret: str
    """The secret itself. It cannot be read again."""


class NewRepository(TypedDict):
    """A repository to add."""
    branch: NotRequired[str | None]
    """The branch to follow."""
    build: NotRequired[str | None]
    """The command that builds it, in a sandbox; it may fail."""
    name: NotRequired[str | None]
    """Default: the last part of its path."""
    setup: NotRequired[str | None]
    """The command that installs dependencies, in a sandbox; default: the one found in the repository."""
    source: str
    """Its path on the server's machine, or its URL."""


class NewSchedule(TypedDict):
    """A schedule to add."""
    cron: str
    """Minute, hour, day of month, month, day of week."""
    missed: NotRequired["Missed"]
    task: "Ask"
    time_zone: NotRequired[str | None]
    """Default: the server's."""


class NewSecret(TypedDict):
    """A new secret for a credential."""
    secret: str
    """The new secret. It cannot be read again."""


class NewTemplate(TypedDict):
    """A template to add."""
    name: str
    """The name of the template."""
    task: "Ask"
    """The prompt may have parameters, `Upgrade {{ package }}`; the rest is for all tasks made from it."""


# What becomes of a task when one that it waits for does not complete.
OnFailedDependency = Literal["hold", "cancel"]


class Origin(TypedDict):
    """The event of another session that a session goes on from, and what its workspace was like then."""
    commit: str
    seq: int
    session: "SessionId"


class Outcome(TypedDict):
    """How a task ended; the `data` of `task.finished`."""
    base: str
    branch: NotRequired["BranchName | None"]
    commit: str
    cost_usd: "Cost"
    error: NotRequired[str | None]
    """One sentence for people when the task did not complete."""
    evidence: NotRequired["Evidence | None"]
    reason: NotRequired["FailureReason | None"]
    session_id: "SessionId"
    status: "TaskStatus"
    task_id: "TaskId"
    usage: "Usage"


OutputStream = Literal["stdout", "stderr"]


class Overlap(TypedDict):
    """Another task's work changes the same places, so that the two cannot simply be merged."""
    found_at: str
    paths: list[str]
    """The files in which they meet."""
    session_id: "SessionId"
    """The session of the task that was asked about."""
    with_session: "SessionId"
    with_task: "TaskId"


class PageAgentInfo(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageAttempt(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageAuditEntry(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageChangedFile(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageComment(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageConvoy(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageCredential(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageMember(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageMessage(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageNamedSnapshot(TypedDict):
    """One page of a list."""
    items: list[Any]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PagePerson(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageProject(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PagePullRequestSums(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageRepository(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageSchedule(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageSessionSummary(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageTask(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageTemplate(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class PageToken(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Give it as `cursor` for the next page; absent on the last."""


class Person(TypedDict):
    """Someone who looks at a session."""
    user: str
    windows: int
    """In how many windows."""


Priority = Literal["low", "normal", "high", "urgent"]


class Problem(TypedDict):
    """A problem on the wire."""
    code: str
    """`harvest explain HV-0604` tells more."""
    detail: str
    """What happened this time."""
    field: NotRequired[str | None]
    """What the problem is about: a field of the body, a parameter, a header."""
    help: NotRequired[str | None]
    """What to do."""
    status: int
    title: str
    type: str
    """`urn:harvest:HV-0604`; the page of the code explains it."""


class Process(TypedDict):
    """A process that works on tasks."""
    holding: NotRequired[str | None]
    """Why it takes no work at the moment."""
    id: str
    kind: str
    """`worker`, or `run` for a command in the foreground."""
    pid: int
    """Its number on its machine."""


class Project(TypedDict):
    daily_usd: NotRequired["Cost | None"]
    name: str
    repositories: list[str]


class ProjectChange(TypedDict):
    """Changes to a project."""
    repositories: list[str]
    """All that were listed over the API from now on; those of `harvest.toml` stay."""


class ProjectSettings(TypedDict):
    """What is set, and what holds."""
    in_force: list["SettingInForce"]
    """Every setting as it holds for tasks of the project, unless their repository or whoever asks says otherwise. What
    the installation itself sets is shown to those who are not confined to projects."""
    settings: dict[str, Any]
    """What was set here."""


# A prompt that is neither blank nor larger than [`MAX_PROMPT_BYTES`].
Prompt = str


class PullRequestSums(TypedDict):
    """The pull requests of a repository."""
    closed: int
    """Closed without being merged."""
    mean_seconds_to_merge: NotRequired[float | None]
    """From the pull request to its merge, on average; absent while none is merged."""
    mean_seconds_to_open: NotRequired[float | None]
    """From being asked to the pull request, on average."""
    merged: int
    opened: int
    repository: str


class Queue(TypedDict):
    agents: NotRequired[int | None]
    """How many agents each worker runs; absent: what it was started with."""
    caps: list["Cap"]
    cost_usd: "Cost"
    """What all tasks have cost, with those that were deleted."""
    failures: dict[str, int]
    """Failed tasks by reason."""
    holding: list[str]
    """Why some of them take no work at the moment."""
    paused: bool
    """Workers take no tasks."""
    processes: list["Process"]
    """The same, one by one, and commands that run a task in the foreground."""
    tasks: dict[str, int]
    """Tasks by status."""
    turns: "Turns"
    workers: int
    """Processes that work on the queue."""


class QueueChange(TypedDict):
    """Changes to the queue; fields that are left out keep their values."""
    agents: NotRequired[int | None]
    """`0`: what each worker was started with."""
    paused: NotRequired[bool | None]
    """While it is true, workers take no tasks; running tasks continue."""


class Race(TypedDict):
    """The race that a task is part of."""
    id: str
    """The convoy of everyone in it."""
    judge: NotRequired[str | None]
    """Who is asked which is the best when several pass: an agent, perhaps with a model behind a colon."""
    judged_by: NotRequired["JudgedBy"]


class RaceRow(TypedDict):
    agent: str
    changed_lines: NotRequired[int | None]
    """Added and removed; of those that passed."""
    cost_usd: "Cost"
    duration_ms: NotRequired[int | None]
    """From the question to the end."""
    error: NotRequired[str | None]
    model: NotRequired[str | None]
    passed: bool
    """Its work passed its tests in a clean sandbox."""
    session_id: NotRequired["SessionId | None"]
    status: "TaskStatus"
    task_id: "TaskId"
    verdict: str
    """Where it stands in the race and why, in a few words."""


class RaceTable(TypedDict):
    """A race with everyone in it."""
    id: str
    """Also the convoy of everyone in it."""
    items: list["RaceRow"]
    judged_by: "JudgedBy"
    judgement: NotRequired["Judgement | None"]
    next_cursor: NotRequired[str | None]
    winner: NotRequired["TaskId | None"]


class Rejection(TypedDict):
    """A rejection, with or without a comment."""
    comment: NotRequired[str | None]
    """A new plan is made that takes the comment into account; without one the task is cancelled."""


# What was done about a model's host that gave trouble.
Remedy = Literal["retried", "failed_over", "fell_back", "rested", "gave_up"]


class Repository(TypedDict):
    created_at: str
    name: str
    settings: Any
    snapshot: "Snapshot"
    source: str
    """Its path or URL."""


# Each may do whatever the ones before it may.
Role = Literal["viewer", "member", "admin"]


# One place where an attempt runs.
SandboxId = str


SandboxPurpose = Literal["execute", "baseline", "verify", "prepare", "warm", "mcp", "opinion"]


class Schedule(TypedDict):
    created_at: str
    cron: str
    id: str
    last: NotRequired[str | None]
    missed: "Missed"
    next: NotRequired[str | None]
    owner: NotRequired[str | None]
    """The person it runs as, within their rights and quotas at the time of the run."""
    problem: NotRequired[str | None]
    """Why the last run made no task."""
    request: Any
    """What is asked for each time."""
    time_zone: str


# Whose it is: `user:NAME`, `team:NAME` or `project:NAME`
Scope = str


class Session(TypedDict):
    """One conversation working on a task, on one branch."""
    branch: "BranchName"
    created_at: str
    id: "SessionId"
    task_id: "TaskId"
    turns: list["Turn"]


class SessionDetail(TypedDict):
    """A session with its turns and the task it is about."""
    branch: "BranchName"
    created_at: str
    id: "SessionId"
    last_seq: int
    """The number of the last event in its journal."""
    task: "Task"
    task_id: "TaskId"
    turns: list["Turn"]


# One conversation about a task.
SessionId = str


class SessionSummary(TypedDict):
    """A session as it is listed."""
    agent: str
    branch: "BranchName"
    created_at: str
    id: "SessionId"
    repository: str
    requested_by: str
    status: "TaskStatus"
    """The status of its task."""
    task_id: "TaskId"
    title: str
    """The first line of what was asked."""
    trust: "Trust"
    """`stranger`: someone had a part in what is asked who may not write to the repository."""


class SettingInForce(TypedDict):
    """A setting, and where its value comes from."""
    key: str
    origin: str
    """`default`, `file`, `project` or `project_settings`."""
    source: str
    """The same in words."""
    value: NotRequired[Any]


class Settings(TypedDict):
    """How a task is to be worked on; fixed when it is created."""
    accept_unchanged: NotRequired[bool]
    """Work passes when tests fail that failed at the base already, and no other."""
    author_email: str
    author_name: str
    """Who the commits are by."""
    base_branch: NotRequired[str | None]
    """The branch that the base was named by, which the result is proposed for; `None`: the repository's default
    branch."""
    base_of_dependencies: NotRequired[bool]
    """No base was named, and the work begins with the results of the tasks that it waits for."""
    egress: NotRequired[list[str] | None]
    """The hosts that the repository's own settings narrow its sandboxes to; `None`: whatever its worker allows."""
    gate: NotRequired[bool]
    """A person decides on the tested result before anything leaves."""
    hooks: NotRequired[list["Hook"]]
    max_turns: int
    """How often the agent may call the model in a turn."""
    mcp: NotRequired[list["McpServer"]]
    """What offers tools to the agent."""
    on_quota: NotRequired[list[str]]
    """Who goes on, one after the other, when an agent's model has no more quota."""
    origin: NotRequired["Origin | None"]
    plan: NotRequired[bool]
    """First a plan is made, and a person decides on it."""
    plan_review: NotRequired[str | None]
    """The agent that looks for what is wrong with a plan before a person decides on it."""
    provider: NotRequired[str | None]
    """Which vendor's wire format the agent speaks; `None`: whoever works on it decides."""
    race: NotRequired["Race | None"]
    require_tests: bool
    """Without a test command the task fails."""
    supervision: NotRequired["Supervision"]
    test: NotRequired[str | None]
    """The test command; `None` when none was given and none was found."""
    timeout_ms: int
    """How long the agent may work on a turn."""
    token: NotRequired[str | None]
    """The id of the API token that it was asked for with, whose budget it counts for."""
    trust: NotRequired["Trust"]
    """How far the words that it began with are trusted; absent: those of a member."""
    workflow: NotRequired["Workflow"]


class Snapshot(TypedDict):
    """What sessions start from."""
    built_at: NotRequired[str | None]
    bytes: NotRequired[int | None]
    commit: NotRequired[str | None]
    last_build: NotRequired[Any]
    """What came of the last build."""
    next_at: NotRequired[str | None]
    state: str
    """`none`, `building`, `ready`, `outdated` or `failed`."""


# Where a task came from.
Source = Literal["cli", "api", "web", "slack", "github_issue", "github_pr", "mcp", "schedule", "agent"]


# The stages of a turn that leave an outcome behind, in their order.
StageName = Literal["execute", "verify", "deliver"]


class Stats(TypedDict):
    by: "By"
    items: list["Sums"]
    total: "Sums"


class Sums(TypedDict):
    """Tasks that have ended."""
    cancelled: int
    completed: int
    cost_usd: "Cost"
    delivered: int
    """Those that left a branch."""
    failed: int
    key: str
    """The day, repository, agent, model or person; empty in the total, and for tasks that named no model."""
    mean_seconds: NotRequired[float | None]
    """From being asked to their end, on average; absent when there are none."""
    races: int
    """Those that took part in a race."""
    success_rate: NotRequired[float | None]
    """The share of completed tasks among completed and failed ones; absent when there are none."""
    win_rate: NotRequired[float | None]
    """The share of races that were won; absent when there are none."""
    wins: int
    """Those that won it."""


# What an agent is held to while it works.
SupervisedLimit = Literal["stall", "loop", "turns", "wall"]


class Supervision(TypedDict):
    """When an agent at work is no longer believed to get anywhere, and how it is ended then."""
    grace_ms: NotRequired[int]
    """How long it has to end by itself after it was interrupted, and again after it was asked to terminate."""
    max_repeats: NotRequired[int]
    """How often it may make the same tool call, or the same few in turn, with the same outcome."""
    stall_ms: NotRequired[int]
    """How long it may be silent."""


class Task(TypedDict):
    """What is asked."""
    after: list["TaskId"]
    """The tasks this one waits for."""
    agent: str
    base: str
    """The full hash the work starts from."""
    branch: NotRequired["BranchName | None"]
    budget_usd: "Cost"
    commit: NotRequired[str | None]
    convoy: NotRequired[str | None]
    """The batch it belongs to."""
    cost_usd: "Cost"
    created_at: str
    error: NotRequired[str | None]
    """One sentence for people when the task did not complete."""
    evidence: NotRequired["Evidence | None"]
    extra: NotRequired[Any]
    """What another tracker says about it, kept for writing back."""
    finished_at: NotRequired[str | None]
    id: "TaskId"
    kind: "TaskKind"
    model: NotRequired[str | None]
    on_failed_dependency: "OnFailedDependency"
    priority: "Priority"
    prompt: "Prompt"
    reason: NotRequired["FailureReason | None"]
    repository: str
    """The repository as the person named it: a path or a URL."""
    requested_by: str
    retries_left: int
    """How often it may still be tried again by itself."""
    settings: "Settings"
    source: "Source"
    source_url: NotRequired[str | None]
    """Where it came from: the issue, the thread, the message."""
    status: "TaskStatus"
    tries: int
    """How often it was worked on."""
    usage: "Usage"


# What is asked.
TaskId = str


TaskKind = Literal["prompt", "issue", "pr_review", "code_fix"]


TaskStatus = Literal["pending", "provisioning", "running", "awaiting_approval", "interrupted", "completed", "failed", "cancelled"]


class Template(TypedDict):
    created_at: str
    name: str
    options: Any
    """Options of the tasks made from it."""
    parameters: list[str]
    prompt: str
    """Text with `{{ parameter }}`."""


class TestChanges(TypedDict):
    """How tests differ between the base and the result, by name."""
    added: NotRequired[list[str]]
    """Pass at the result and were not there at the base."""
    broken: NotRequired[list[str]]
    """Fail at the result and did not at the base."""
    fixed: NotRequired[list[str]]
    """Failed at the base and pass at the result."""
    left_off: NotRequired[int]
    """So many names are left off."""
    still_failing: NotRequired[list[str]]
    """Fail at both."""
    vanished: NotRequired[list[str]]
    """Ran at the base and are not there at the result."""


class TestNames(TypedDict):
    """Which tests a runner named, in one run."""
    cut: NotRequired[bool]
    """There are more than are kept."""
    failed: NotRequired[list[str]]
    passed: NotRequired[list[str]]
    skipped: NotRequired[list[str]]


class TestRun(TypedDict):
    """One run of the test command."""
    command: str
    commit: str
    duration_ms: int
    exit_code: int
    failed: NotRequired[int | None]
    names: NotRequired["TestNames"]
    output_tail: str
    """The end of what the tests printed."""
    passed: NotRequired[int | None]
    purpose: "SandboxPurpose"
    skipped: NotRequired[int | None]
    timed_out: bool


# What the runs at the base and at the result come to.
TestVerdict = Literal["verified", "unchanged", "no_tests", "cannot_run", "doubtful", "failed"]


class Token(TypedDict):
    created_at: str
    expires_at: NotRequired[str | None]
    id: "TokenId"
    last_used_at: NotRequired[str | None]
    name: str
    projects: NotRequired[list[str] | None]
    """The projects that it is limited to; absent: all of them."""
    revoked_at: NotRequired[str | None]
    role: "Role"
    user: str


# A token for the API, or someone who is signed in.
TokenId = str


# How far the words are trusted that a task began with.
Trust = Literal["member", "stranger"]


class Turn(TypedDict):
    """One prompt to a session; the unit the queue hands out."""
    agent: NotRequired[str | None]
    """Who works on it, from this turn on; `None`: as before."""
    attempts: list["Attempt"]
    author: str
    created_at: str
    id: "TurnId"
    model: NotRequired[str | None]
    number: int
    prompt: "Prompt"
    session_id: "SessionId"
    status: "TurnStatus"


# One prompt to a session.
TurnId = str


TurnStatus = Literal["ready", "blocked", "waiting", "parked", "queued", "held", "claimed", "done"]


class Turns(TypedDict):
    """Turns by what they wait for."""
    blocked: int
    claimed: int
    parked: int
    ready: int
    waiting: int


class Usage(TypedDict):
    """What a model was given and what it gave. `input_tokens` excludes what was read from or written to a cache;
    `output_tokens` includes reasoning."""
    cache_read_tokens: NotRequired["U64"]
    cache_write_tokens: NotRequired["U64"]
    input_tokens: "U64"
    output_tokens: "U64"
    reasoning_tokens: NotRequired["U64"]


# In which steps a task is worked on.
Workflow = Literal["direct", "research-plan-implement"]


# How the private copy of the repository was made.
WorkspaceKind = Literal["overlay", "reflink", "copy"]


U64 = int


class NamedSnapshot(Snapshot):
    """The snapshot of a repository, with its name."""
    repository: str


class NewToken(Token):
    token: str
    """The token itself. It is shown this once."""


class TaskDetail(Task):
    """A task with its sessions, their turns and attempts."""
    overlaps: list["Overlap"]
    """Other tasks whose work changes the same places, as long as they are neither merged nor given up."""
    sessions: list["Session"]
