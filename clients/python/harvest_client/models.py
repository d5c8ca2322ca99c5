"""What is sent and received. Written by generate.py from openapi.json: do not change it by hand."""

from typing import Any, Literal, NotRequired, TypedDict


class AgentCheck(TypedDict):
    """The result of an agent's test."""
    agent: str
    checks: list["Check"]
    works: bool
    """True if no check failed."""


class AgentInfo(TypedDict):
    """An agent and its availability."""
    default: bool
    """Whether it is the agent of tasks that name none."""
    features: dict[str, bool]
    """Optional features, and whether the agent supports them."""
    id: str
    install_hint: str
    installed: bool
    key_hint: NotRequired[str | None]
    name: str
    providers: list[str]
    """The vendors whose wire formats it supports."""
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
    """A task to create. Fields that are left out have the values of the settings of the repository, its project and
    the server."""
    after: NotRequired[list[str]]
    """Ids of tasks that have to complete first; a unique prefix is enough."""
    agent: NotRequired[str | None]
    """An id from `/api/agents`."""
    base: NotRequired[str | None]
    """The branch, tag or commit to start from; default: the repository's own branch."""
    budget_usd: NotRequired[float | None]
    """The most that the task may cost, in US dollars."""
    convoy: NotRequired[str | None]
    """The convoy it belongs to."""
    fallback_agents: NotRequired[list[str]]
    """Agents that continue, in this order, when a model's quota is exhausted."""
    gate: NotRequired[bool]
    """Hold the tested result until a person approves its delivery."""
    mcp: NotRequired[list[str]]
    """Names of the MCP servers that the agent may use."""
    model: NotRequired[str | None]
    """The model of the agent; default: the agent's own choice."""
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
    """A name from `/api/repositories`, or the path or URL of a known repository. Admins of the installation may name
    any other."""
    require_tests: NotRequired[bool]
    """Fail rather than deliver without a test command."""
    retries: NotRequired[int | None]
    """How often to retry automatically after a temporary failure."""
    source_url: NotRequired[str | None]
    """The URL of the issue, thread or message that it came from."""
    test: NotRequired[str | None]
    """The test command; default: the one found in the repository."""
    timeout: NotRequired[int | None]
    """The time limit of the agent for a turn, in seconds."""
    workflow: NotRequired["Workflow | None"]


class AskFork(TypedDict):
    """The event to fork at, and what to do from there."""
    agent: NotRequired[str | None]
    """An id from `/api/agents`; default: unchanged."""
    at: int
    """The number of an event."""
    model: NotRequired[str | None]
    """A model of the agent; default: unchanged."""
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
    """The agent from here on; default: unchanged."""
    model: NotRequired[str | None]
    """The model from here on; default: unchanged."""
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
    """An agent that picks the best result if several pass, as `AGENT` or `AGENT:MODEL`; if it does not decide,
    `judged_by` does."""
    judged_by: NotRequired["JudgedBy"]
    number: NotRequired[int | None]
    """Instead of `agents`: the number of runs of the task's own agent."""


class AskResume(TypedDict):
    """A prompt for the resumed session."""
    prompt: NotRequired[str | None]
    """What to do next; default: continue."""


class AskSettings(TypedDict):
    settings: dict[str, Any]
    """All settings of the project, with the names of `harvest config show`; settings that are left out are unset."""


class AskToken(TypedDict):
    expires_in_days: NotRequired[int | None]
    """Days until it expires; default: never."""
    name: str
    """The purpose of the token."""
    projects: NotRequired[list[str] | None]
    """The projects that it is limited to; default: no limit."""
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
    """The end of the agent's standard error output."""
    turn_id: "TurnId"


# The id of an attempt.
AttemptId = str


class AuditEntry(TypedDict):
    """An entry of the audit log. Each entry contains the digest of the previous one."""
    action: str
    """The operation; for API requests, its `operationId` in this document."""
    actor: str
    """`user:NAME`; the token is in `detail`."""
    at: str
    detail: Any
    digest: str
    number: int
    previous: str
    project: NotRequired[str | None]
    target: str


class Awaited(TypedDict):
    """A task that another one waits for."""
    id: "TaskId"
    status: NotRequired["TaskStatus | None"]


class Baseline(TypedDict):
    """The outcome of the same command at the base commit."""
    exit_code: int
    failed: NotRequired[int | None]
    passed: NotRequired[int | None]
    skipped: NotRequired[int | None]


# The session's own branch, without `refs/heads/`; always a valid ref name.
BranchName = str


By = Literal["day", "repository", "agent", "model", "person"]


# The id of a model call.
CallId = str


class Cap(TypedDict):
    """A limit on the turns with this name that run at the same time."""
    name: str
    """`repository:` with a path or URL, `user:` with a name, or `credential:` with a vendor."""
    size: int
    used: int
    """The number of turns that are running."""


class CapChange(TypedDict):
    """A limit for the queue."""
    name: str
    """`repository:` with a name, path or URL, `user:` with a name, or `credential:` with a vendor (`anthropic`,
    `openai`, `gemini`, `ollama`) or the ID of one of its credentials. A cap of a vendor counts the tasks of all its
    credentials."""
    size: NotRequired[int | None]
    """The maximum number of turns at a time; `null`: no limit."""


class ChangedFile(TypedDict):
    """A file that the session changed."""
    change: "FileChange"
    path: str


class ChangedFiles(TypedDict):
    """Changed files that affect how much a passing run proves."""
    ci: list[str]
    command: NotRequired[list[str]]
    """Files that define the test command; their versions at the base were used."""
    helpers: NotRequired[list[str]]
    """Helper files that the test command loads; the tests ran with the changed versions."""
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


# The id of a comment.
CommentId = str


# The event or the line that a comment is about.
CommentPlace = dict[str, Any]


class Convoy(TypedDict):
    cost_usd: "Cost"
    name: str
    tasks: dict[str, int]
    """Tasks by status."""


# US dollars
Cost = float


class Credential(TypedDict):
    """A key or token for a provider, stored in the vault."""
    base_url: NotRequired[str | None]
    """The host to use it with, if not the provider's own."""
    created_at: str
    id: "CredentialId"
    last4: str
    """The last characters of the secret, to identify it."""
    last_used_at: NotRequired[str | None]
    name: str
    """The name of the credential; those not named `default` are fallbacks."""
    provider: str
    """`anthropic`, `openai`, …"""
    rotated_at: NotRequired[str | None]
    scope: "Scope"


# The id of a credential.
CredentialId = str


class Demo(TypedDict):
    """The tasks of the demo and their repository."""
    repository: str
    """The path of the sample repository."""
    tasks: list["TaskId"]


class Diff(TypedDict):
    """The changes of a session."""
    base: str
    commit: NotRequired[str | None]
    """The commit that the diff ends at, by default the newest one saved outside the sandbox; absent if there is none."""
    diff: str
    """A unified diff; bytes that are not UTF-8 are replaced."""


# The side of the diff: before or after the change.
DiffSide = Literal["old", "new"]


# Whether the connection to a host was allowed.
EgressVerdict = Literal["allowed", "refused"]


class Envelope(TypedDict):
    """A signed statement in a DSSE envelope (Dead Simple Signing Envelope)."""
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
    """A page of a session's journal."""
    items: list["Event"]
    next_cursor: NotRequired[int | None]
    """Pass it as `after` to get the next page; absent on the last page."""


class Evidence(TypedDict):
    """The outcome of verification. The test command comes from the base commit or the project, never from the agent's
    changes."""
    baseline: "Baseline"
    changed: NotRequired["ChangedFiles"]
    command: str
    commit: str
    """The tested commit. On GitHub, the delivered commit is a different one with the same tree."""
    duration_ms: int
    environment: str
    """Digest of the test environment: provider, system, tools and limits."""
    exit_code: int
    failed: NotRequired[int | None]
    flags: list["Flag"]
    hint: NotRequired[str | None]
    """Why the tests could not run, if the cause is known, and how to fix it."""
    output: NotRequired[str]
    """The last lines of the test output at the result, unless the tests passed."""
    passed: NotRequired[int | None]
    """Counts are absent when the test runner's output cannot be parsed."""
    skipped: NotRequired[int | None]
    tests: NotRequired["TestChanges"]
    """How individual tests differ between the base and the result."""
    tree: NotRequired[str | None]
    """The tree of the tested commit: a commit with the same tree has the same files."""
    verdict: NotRequired["TestVerdict | None"]


class EvidenceKey(TypedDict):
    """The public key that signed evidence is verified with."""
    public_key: str


FailureReason = Literal["agent", "tests", "sandbox", "model_quota", "timeout", "stall", "loop", "turns", "hook", "budget", "cancelled", "interrupted", "internal"]


FileChange = Literal["added", "modified", "deleted"]


class Filling(TypedDict):
    """Values for the parameters of a template, and options of this task."""
    options: NotRequired["TemplateOptions"]
    """Override the options of the template for this task."""
    values: NotRequired[dict[str, str]]
    """A value for each parameter."""


# A reason to read the evidence with caution.
Flag = Literal["test_command_changed", "test_helpers_changed", "tests_changed", "tests_deleted", "tests_vanished", "fewer_tests", "tests_skipped", "ci_changed", "settings_changed", "tests_timed_out", "not_isolated"]


class Hook(TypedDict):
    """A command that runs in a sandbox at a stage of a turn."""
    required: bool
    """Whether the turn fails if the hook fails."""
    run: str
    """A shell command, or the name of a built-in hook."""
    stage: "HookStage"


HookStage = Literal["before_execute", "after_execute", "before_verify", "after_verify", "before_deliver", "after_deliver"]


# The criterion that decides among the entrants whose work passes its tests.
JudgedBy = Literal["cost", "time"]


class Judgement(TypedDict):
    agent: str
    reason: str


# How an MCP server is reached.
McpAddress = dict[str, Any]


class McpCredential(TypedDict):
    """The secret that a server needs, and how it is passed to the server."""
    name: str
    """The name of the credential, which has the provider `mcp`."""
    sent_as: str
    """The environment variable of a program, or the header of a request."""


# The outcome of a call to an MCP server.
McpOutcome = Literal["answered", "failed", "refused"]


class McpServer(TypedDict):
    """An MCP server that a task may use. It contains the name of a credential, never the secret."""
    at: "McpAddress"
    credential: NotRequired["McpCredential | None"]
    environment: NotRequired[dict[str, str]]
    """Environment variables; only for a program."""
    hosts: NotRequired[list[str]]
    """The hosts that a program with a credential may connect to."""
    name: str
    """Its name for agents and in events."""
    named_by: NotRequired["NamedBy"]
    """Who defined the server: the installation or a project."""
    tools: NotRequired[list[str] | None]
    """The tools that agents can use; default: all."""


class Me(TypedDict):
    csrf: NotRequired[str | None]
    """For browser sessions: the value that was sent as `X-Harvest-CSRF`, the half of the session's secret that is not
    in the cookie."""
    projects: NotRequired[list[str] | None]
    """The projects that the token is limited to; absent: no limit."""
    role: "Role"
    roles: NotRequired[dict[str, "Role"] | None]
    """The role in each of these projects."""
    user: str
    version: str


class Member(TypedDict):
    role: "Role"
    since: str
    user: str


class Merge(TypedDict):
    """The result of a merge."""
    before: str
    """The commit of that branch before the merge; the same as `commit` if the branch already contained the work."""
    branch: str
    """The task's branch."""
    commit: str
    """The commit of that branch after the merge."""
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


# What happens to runs that were missed while Harvest was not running.
Missed = Literal["skip", "run_once"]


# Why not all tests of a run are known by name.
MissingNames = Literal["output_too_long", "too_many_failed", "too_many_passed", "unnamed_failure"]


ModelProvider = Literal["anthropic", "openai", "gemini", "ollama", "github", "mcp"]


# Who named a host, which determines the addresses and credentials that it may have.
NamedBy = Literal["installation", "project"]


class NewComment(TypedDict):
    """A comment to add."""
    about: "CommentPlace"
    text: str
    """The comment itself."""


class NewCredential(TypedDict):
    """A credential to add. Members may add their own; those of teams and projects require an admin."""
    base_url: NotRequired[str | None]
    """Another host with the same wire format; only for admins of the installation. For a credential of a project, the
    host must have a public address."""
    name: NotRequired[str | None]
    """The name; default: `default`. Credentials with other names are fallbacks, used when that one is refused."""
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
    """The command that builds it, in a sandbox; a failure is tolerated."""
    name: NotRequired[str | None]
    """The name; default: the last part of its path."""
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
    """The time zone; default: the server's."""


class NewSecret(TypedDict):
    """A new secret for a credential."""
    secret: str
    """The new secret. It cannot be read again."""


class NewTemplate(TypedDict):
    """A template to add."""
    name: str
    """The name of the template."""
    task: "TemplateTask"
    """The prompt may have parameters, as in `Upgrade {{ package }}`; the other fields apply to all tasks created from
    it."""


# What happens to a task when a task that it waits for does not complete.
OnFailedDependency = Literal["hold", "cancel"]


class Origin(TypedDict):
    """The event of another session that a forked session starts from, with the commit of the workspace at that event."""
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
    """Why the task did not complete, in one sentence."""
    evidence: NotRequired["Evidence | None"]
    reason: NotRequired["FailureReason | None"]
    session_id: "SessionId"
    status: "TaskStatus"
    task_id: "TaskId"
    usage: "Usage"


OutputStream = Literal["stdout", "stderr"]


class Overlap(TypedDict):
    """A merge conflict with the work of another task."""
    found_at: str
    paths: list[str]
    """The files that conflict."""
    session_id: "SessionId"
    """The session of the requested task."""
    with_session: "SessionId"
    with_task: "TaskId"


class PageAgentInfo(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageAttempt(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageAuditEntry(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageChangedFile(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageComment(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageConvoy(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageListedCredential(TypedDict):
    """One page of a list."""
    items: list[Any]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageListedTask(TypedDict):
    """One page of a list."""
    items: list[Any]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageMember(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageMessage(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageNamedSnapshot(TypedDict):
    """One page of a list."""
    items: list[Any]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PagePerson(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageProject(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageRepository(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageSchedule(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageSessionSummary(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageTemplate(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class PageToken(TypedDict):
    """One page of a list."""
    items: list[dict[str, Any]]
    next_cursor: NotRequired[str | None]
    """Pass it as `cursor` to get the next page; absent on the last page."""


class Person(TypedDict):
    """A person who has a session open in a browser."""
    user: str
    windows: int
    """The number of browser windows."""


Priority = Literal["low", "normal", "high", "urgent"]


class Problem(TypedDict):
    """An error response, as `application/problem+json`."""
    code: str
    """The error code; `harvest explain HV-0604` explains it."""
    detail: str
    """What happened in this case."""
    field: NotRequired[str | None]
    """The field of the body, the parameter or the header that the problem is about."""
    help: NotRequired[str | None]
    """What to do."""
    status: int
    title: str
    type: str
    """`urn:harvest:HV-0604`; the page of the code explains it."""


class Process(TypedDict):
    """A process that runs tasks."""
    holding: NotRequired[str | None]
    """Why it is not taking tasks at the moment."""
    id: str
    kind: str
    """`worker`, or `run` for a command in the foreground."""
    pid: int
    """Its process ID on its machine."""


class Project(TypedDict):
    daily_usd: NotRequired["Cost | None"]
    name: str
    repositories: list[str]


class ProjectChange(TypedDict):
    """Changes to a project."""
    repositories: list[str]
    """The new list of repositories that are managed over the API; those of `harvest.toml` are not affected."""


class ProjectSettings(TypedDict):
    """The settings of a project and the values in force."""
    in_force: list["SettingInForce"]
    """Every setting as it applies to tasks of the project, unless the repository or the request overrides it. Values
    set by the installation are shown only to users who are not limited to projects."""
    settings: dict[str, Any]
    """The settings of the project itself."""


# A prompt: not blank, and at most 1,000,000 bytes.
Prompt = str


class PullRequestStats(TypedDict):
    by: "By"
    items: list["PullRequestSums"]
    total: "PullRequestSums"


class PullRequestSums(TypedDict):
    """Statistics of pull requests."""
    closed: int
    """Closed without being merged."""
    key: str
    """The day, repository, agent, model or person; empty for the total and for tasks that named no model."""
    mean_seconds_to_merge: NotRequired[float | None]
    """The mean time from the pull request to its merge; absent while none is merged."""
    mean_seconds_to_open: NotRequired[float | None]
    """The mean time from the creation of a task to its pull request; absent if there are none."""
    merge_rate: NotRequired[float | None]
    """The share of merged pull requests among merged and closed ones; absent if there are none."""
    merged: int
    opened: int


class Queue(TypedDict):
    agents: NotRequired[int | None]
    """How many agents each worker runs; absent: the number it was started with."""
    caps: list["Cap"]
    cost_usd: "Cost"
    """The cost of all tasks, including deleted ones."""
    failures: dict[str, int]
    """Failed tasks by reason."""
    holding: list[str]
    """Why some workers are not taking tasks at the moment."""
    next: list["TaskId"]
    """The tasks that workers take next, in this order; at most 50."""
    paused: bool
    """Whether the queue is paused: workers then take no tasks."""
    processes: list["Process"]
    """The workers one by one, and commands that run a task in the foreground."""
    tasks: dict[str, int]
    """Tasks by status."""
    today: list["SpentToday"]
    """What accounts have spent since midnight UTC."""
    turns: "Turns"
    workers: int
    """The number of processes that run tasks from the queue."""


class QueueChange(TypedDict):
    """Changes to the queue; fields that are left out keep their values."""
    agents: NotRequired[int | None]
    """How many agents each worker runs; `0`: the number it was started with."""
    paused: NotRequired[bool | None]
    """While it is true, workers take no tasks; running tasks continue."""


class Race(TypedDict):
    """The race that a task is part of."""
    id: str
    """The id of the race, which is also the convoy of its tasks."""
    judge: NotRequired[str | None]
    """The agent that picks the best result if several pass, as `AGENT` or `AGENT:MODEL`."""
    judged_by: NotRequired["JudgedBy"]


class RaceRow(TypedDict):
    agent: str
    changed_lines: NotRequired[int | None]
    """The number of lines added and removed; only for entrants that passed."""
    cost_usd: "Cost"
    duration_ms: NotRequired[int | None]
    """From the creation of the task to its end."""
    error: NotRequired[str | None]
    model: NotRequired[str | None]
    passed: bool
    """Whether its work passed its tests in a clean sandbox."""
    session_id: NotRequired["SessionId | None"]
    status: "TaskStatus"
    task_id: "TaskId"
    verdict: str
    """Its standing in the race and the reason, in a few words."""


class RaceTable(TypedDict):
    """A race with its entrants."""
    id: str
    """The id of the race, which is also the convoy of its tasks."""
    items: list["RaceRow"]
    judged_by: "JudgedBy"
    judgement: NotRequired["Judgement | None"]
    next_cursor: NotRequired[str | None]
    winner: NotRequired["TaskId | None"]


class Rejection(TypedDict):
    """A rejection, with or without a comment."""
    comment: NotRequired[str | None]
    """With a comment, a new plan is made that takes it into account; without one, the task is cancelled."""


# How a failed request to a model's host was handled.
Remedy = Literal["retried", "failed_over", "fell_back", "rested", "gave_up"]


class Repository(TypedDict):
    created_at: str
    name: str
    settings: Any
    snapshot: "Snapshot"
    source: str
    """Its path or URL."""


# A role. Each one includes the permissions of those before it.
Role = Literal["viewer", "member", "admin"]


# The id of a sandbox.
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
    """The user that it runs as, with their permissions and quotas at the time of the run."""
    problem: NotRequired[str | None]
    """Why the last run created no task."""
    request: Any
    """The task that each run creates."""
    time_zone: str


# Owner: `user:NAME`, `team:NAME` or `project:NAME`
Scope = str


class Session(TypedDict):
    """A conversation with an agent about a task, on one branch."""
    branch: "BranchName"
    created_at: str
    id: "SessionId"
    task_id: "TaskId"
    turns: list["Turn"]


class SessionDetail(TypedDict):
    """A session with its turns and its task."""
    branch: "BranchName"
    created_at: str
    id: "SessionId"
    last_seq: int
    """The number of the last event in its journal."""
    task: "Task"
    task_id: "TaskId"
    turns: list["Turn"]


# The id of a session.
SessionId = str


class SessionSummary(TypedDict):
    """A session in a list."""
    agent: str
    branch: "BranchName"
    created_at: str
    id: "SessionId"
    repository: str
    requested_by: str
    status: "TaskStatus"
    """The status of the session's task."""
    task_id: "TaskId"
    title: str
    """The first line of the prompt."""
    trust: "Trust"
    """`stranger`: someone without write access to the repository contributed to the prompt."""


class SettingInForce(TypedDict):
    """A setting and the origin of its value."""
    key: str
    origin: str
    """`default`, `file`, `project` or `project_settings`."""
    source: str
    """The origin in words."""
    value: NotRequired[Any]


class Settings(TypedDict):
    """The settings of a task, fixed when it is created."""
    accept_unchanged: NotRequired[bool]
    """Whether work passes if the only failing tests already failed at the base."""
    author_email: str
    author_name: str
    """The author of the commits."""
    base_branch: NotRequired[str | None]
    """The branch that was given as the base and that the pull request targets; default: the repository's default
    branch."""
    base_of_dependencies: NotRequired[bool]
    """True if no base was given: the work starts from the results of the tasks that it waits for."""
    egress: NotRequired[list[str] | None]
    """The hosts that the repository's own settings limit its sandboxes to; default: those that the worker allows."""
    gate: NotRequired[bool]
    """Whether the tested result is held until a person approves its delivery."""
    hooks: NotRequired[list["Hook"]]
    max_turns: int
    """The maximum number of model calls in a turn."""
    mcp: NotRequired[list["McpServer"]]
    """The MCP servers that offer tools to the agent."""
    on_quota: NotRequired[list[str]]
    """The agents that continue, in this order, when the quota of an agent's model is exhausted."""
    origin: NotRequired["Origin | None"]
    plan: NotRequired[bool]
    """Whether a plan is made first, which a person approves or rejects."""
    plan_review: NotRequired[str | None]
    """The agent that reviews the plan before a person decides on it."""
    provider: NotRequired[str | None]
    """The vendor whose wire format the agent uses; default: the choice of the worker."""
    race: NotRequired["Race | None"]
    require_tests: bool
    """Whether the task fails if there is no test command."""
    supervision: NotRequired["Supervision"]
    test: NotRequired[str | None]
    """The test command; absent when none was given and none was found."""
    timeout_ms: int
    """The time limit of the agent for a turn."""
    token: NotRequired[str | None]
    """The id of the API token that the task was created with and whose budget it counts against."""
    trust: NotRequired["Trust"]
    """The trust level of the text that the task was created from; absent: `member`."""
    workflow: NotRequired["Workflow"]


class Snapshot(TypedDict):
    """The prepared copy of a repository that its sessions start from."""
    built_at: NotRequired[str | None]
    bytes: NotRequired[int | None]
    commit: NotRequired[str | None]
    last_build: NotRequired[Any]
    """The outcome of the last build."""
    next_at: NotRequired[str | None]
    state: str
    """`none`, `building`, `ready`, `outdated` or `failed`."""


# Where a task came from.
Source = Literal["cli", "api", "web", "slack", "github_issue", "github_pr", "mcp", "schedule", "agent"]


class SpentToday(TypedDict):
    """What an account has spent since midnight UTC."""
    account: str
    """`user:…`, `team:…` or `token:…`."""
    calls: int
    """The number of model calls."""
    cost_usd: "Cost"
    reserved_usd: "Cost"
    """Set aside for calls that are under way."""


# The stages of a turn that record an outcome, in order.
StageName = Literal["execute", "verify", "deliver"]


class Stats(TypedDict):
    by: "By"
    items: list["Sums"]
    total: "Sums"


class Sums(TypedDict):
    """Statistics of finished tasks."""
    cancelled: int
    completed: int
    cost_usd: "Cost"
    delivered: int
    """Tasks that left a branch."""
    failed: int
    key: str
    """The day, repository, agent, model or person; empty for the total and for tasks that named no model."""
    mean_seconds: NotRequired[float | None]
    """The mean time from the creation of a task to its end; absent if there are none."""
    races: int
    """Tasks that took part in a race; each entrant counts."""
    success_rate: NotRequired[float | None]
    """The share of completed tasks among completed and failed ones; absent if there are none."""
    win_rate: NotRequired[float | None]
    """The share of tasks in races that won; absent if there are none."""
    wins: int
    """Tasks that won their race."""


# A limit that is enforced while an agent runs.
SupervisedLimit = Literal["stall", "loop", "turns", "wall"]


class Supervision(TypedDict):
    """When a running agent is considered stuck, and how it is stopped."""
    grace_ms: NotRequired[int]
    """How long it has to exit after it was interrupted, and again after it was asked to terminate."""
    max_repeats: NotRequired[int]
    """How often it may repeat the same tool call, or the same sequence of calls, with the same outcome."""
    stall_ms: NotRequired[int]
    """How long it may produce no output."""


class Task(TypedDict):
    """A task: the prompt, the settings, the status and the result."""
    after: list["TaskId"]
    """The tasks that this one waits for."""
    agent: str
    base: str
    """The full hash of the commit that the work starts from."""
    branch: NotRequired["BranchName | None"]
    budget_usd: "Cost"
    commit: NotRequired[str | None]
    convoy: NotRequired[str | None]
    """The convoy (batch of tasks) that it belongs to."""
    cost_usd: "Cost"
    created_at: str
    error: NotRequired[str | None]
    """Why the task did not complete, in one sentence."""
    evidence: NotRequired["Evidence | None"]
    extra: NotRequired[Any]
    """Data of the issue tracker that it was imported from, kept for the export."""
    finished_at: NotRequired[str | None]
    id: "TaskId"
    kind: "TaskKind"
    model: NotRequired[str | None]
    on_failed_dependency: "OnFailedDependency"
    priority: "Priority"
    prompt: "Prompt"
    reason: NotRequired["FailureReason | None"]
    repository: str
    """The path or URL of the repository, as it was given."""
    requested_by: str
    retries_left: int
    """The number of automatic retries left."""
    settings: "Settings"
    source: "Source"
    source_url: NotRequired[str | None]
    """The URL of the issue, thread or message that it came from."""
    status: "TaskStatus"
    tries: int
    """How often the current turn has been tried; reset by a follow-up, an approval or a resumption."""
    usage: "Usage"


# The id of a task.
TaskId = str


TaskKind = Literal["prompt", "issue", "pr_review", "code_fix"]


class TaskPullRequest(TypedDict):
    """A pull request with a task's work."""
    number: NotRequired[int | None]
    """Absent if the URL does not end with it."""
    state: "TaskPullRequestState"
    url: str


# The state of a pull request, as far as Harvest was told.
TaskPullRequestState = Literal["open", "merged", "closed"]


TaskStatus = Literal["pending", "provisioning", "running", "awaiting_approval", "interrupted", "completed", "failed", "cancelled"]


class Template(TypedDict):
    created_at: str
    name: str
    options: Any
    """Options of the tasks created from it."""
    parameters: list[str]
    prompt: str
    """Text with `{{ parameter }}`."""


class TemplateOptions(TypedDict):
    """Options of one task that is created from a template; those that are left out are the template's."""
    after: NotRequired[list[str]]
    """Ids of tasks that have to complete first; a unique prefix is enough."""
    agent: NotRequired[str | None]
    """An id from `/api/agents`."""
    base: NotRequired[str | None]
    """The branch, tag or commit to start from; default: the repository's own branch."""
    budget_usd: NotRequired[float | None]
    """The most that the task may cost, in US dollars."""
    convoy: NotRequired[str | None]
    """The convoy it belongs to."""
    fallback_agents: NotRequired[list[str]]
    """Agents that continue, in this order, when a model's quota is exhausted."""
    gate: NotRequired[bool]
    """Hold the tested result until a person approves its delivery."""
    mcp: NotRequired[list[str]]
    """Names of the MCP servers that the agent may use."""
    model: NotRequired[str | None]
    """The model of the agent; default: the agent's own choice."""
    on_failed_dependency: NotRequired["OnFailedDependency"]
    plan: NotRequired[bool]
    """Make a plan first, which a person approves or rejects."""
    plan_review: NotRequired[str | None]
    """An agent that reviews the plan before a person decides, as `AGENT` or `AGENT:MODEL`."""
    priority: NotRequired["Priority | None"]
    repository: NotRequired[str]
    """A name from `/api/repositories`, or the path or URL of a known repository. Admins of the installation may name
    any other."""
    require_tests: NotRequired[bool]
    """Fail rather than deliver without a test command."""
    retries: NotRequired[int | None]
    """How often to retry automatically after a temporary failure."""
    source_url: NotRequired[str | None]
    """The URL of the issue, thread or message that it came from."""
    test: NotRequired[str | None]
    """The test command; default: the one found in the repository."""
    timeout: NotRequired[int | None]
    """The time limit of the agent for a turn, in seconds."""
    workflow: NotRequired["Workflow | None"]


class TemplateTask(TypedDict):
    """The task of a template. Without a `repository`, it is named when the template is used."""
    after: NotRequired[list[str]]
    """Ids of tasks that have to complete first; a unique prefix is enough."""
    agent: NotRequired[str | None]
    """An id from `/api/agents`."""
    base: NotRequired[str | None]
    """The branch, tag or commit to start from; default: the repository's own branch."""
    budget_usd: NotRequired[float | None]
    """The most that the task may cost, in US dollars."""
    convoy: NotRequired[str | None]
    """The convoy it belongs to."""
    fallback_agents: NotRequired[list[str]]
    """Agents that continue, in this order, when a model's quota is exhausted."""
    gate: NotRequired[bool]
    """Hold the tested result until a person approves its delivery."""
    mcp: NotRequired[list[str]]
    """Names of the MCP servers that the agent may use."""
    model: NotRequired[str | None]
    """The model of the agent; default: the agent's own choice."""
    on_failed_dependency: NotRequired["OnFailedDependency"]
    plan: NotRequired[bool]
    """Make a plan first, which a person approves or rejects."""
    plan_review: NotRequired[str | None]
    """An agent that reviews the plan before a person decides, as `AGENT` or `AGENT:MODEL`."""
    priority: NotRequired["Priority | None"]
    prompt: str
    """What to do, in plain words."""
    repository: NotRequired[str]
    """A name from `/api/repositories`, or the path or URL of a known repository. Admins of the installation may name
    any other."""
    require_tests: NotRequired[bool]
    """Fail rather than deliver without a test command."""
    retries: NotRequired[int | None]
    """How often to retry automatically after a temporary failure."""
    source_url: NotRequired[str | None]
    """The URL of the issue, thread or message that it came from."""
    test: NotRequired[str | None]
    """The test command; default: the one found in the repository."""
    timeout: NotRequired[int | None]
    """The time limit of the agent for a turn, in seconds."""
    workflow: NotRequired["Workflow | None"]


class TestChanges(TypedDict):
    """How tests differ between the base and the result, by name."""
    added: NotRequired[list[str]]
    """Tests that pass at the result and did not exist at the base."""
    added_failing: NotRequired[list[str]]
    """Tests that fail at the result and did not run at the base."""
    broken: NotRequired[list[str]]
    """Tests that fail at the result and passed or were skipped at the base. If the base names only failed tests, tests
    that did not fail there."""
    fixed: NotRequired[list[str]]
    """Tests that failed at the base and are named among those that pass at the result."""
    incomplete: NotRequired[str | None]
    """Why the comparison is incomplete, if names are missing at the base or at the result."""
    left_off: NotRequired[int]
    """The number of names that were left out."""
    no_longer_failing: NotRequired[list[str]]
    """Tests that failed at the base and are not named at the result, whose runner names only failed tests: they may
    pass, or may have been renamed or deleted."""
    still_failing: NotRequired[list[str]]
    """Tests that fail at both."""
    vanished: NotRequired[list[str]]
    """Tests that ran at the base and are missing at the result."""


class TestNames(TypedDict):
    """The tests that a test runner reported by name in one run."""
    cut: NotRequired[bool]
    """True if some names are missing."""
    failed: NotRequired[list[str]]
    missing: NotRequired["MissingNames | None"]
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
    """The end of the test output."""
    passed: NotRequired[int | None]
    purpose: "SandboxPurpose"
    skipped: NotRequired[int | None]
    timed_out: bool


# The verdict on the test runs at the base and at the result.
TestVerdict = Literal["verified", "unchanged", "no_tests", "cannot_run", "doubtful", "failed"]


class Token(TypedDict):
    created_at: str
    expires_at: NotRequired[str | None]
    id: "TokenId"
    last_used_at: NotRequired[str | None]
    name: str
    projects: NotRequired[list[str] | None]
    """The projects that it is limited to; absent: no limit."""
    revoked_at: NotRequired[str | None]
    role: "Role"
    user: str


# The id of an API token or of a browser session.
TokenId = str


# The trust level of the text that a task was created from.
Trust = Literal["member", "stranger"]


class Turn(TypedDict):
    """One prompt to a session; the unit of work of the queue."""
    agent: NotRequired[str | None]
    """The agent from this turn on; default: that of the previous turn."""
    attempts: list["Attempt"]
    author: str
    created_at: str
    ended: NotRequired["TurnEnd | None"]
    id: "TurnId"
    model: NotRequired[str | None]
    number: int
    prompt: "Prompt"
    session_id: "SessionId"
    status: "TurnStatus"


TurnEnd = Literal["completed", "failed", "cancelled", "withdrawn"]


# The id of a turn.
TurnId = str


TurnStatus = Literal["ready", "blocked", "waiting", "parked", "queued", "held", "claimed", "done"]


class Turns(TypedDict):
    """The number of turns by status."""
    blocked: int
    claimed: int
    parked: int
    ready: int
    waiting: int


class Usage(TypedDict):
    """Token counts of model calls. `input_tokens` excludes cache reads and writes; `output_tokens` includes reasoning."""
    cache_read_tokens: NotRequired["U64"]
    cache_write_tokens: NotRequired["U64"]
    input_tokens: "U64"
    output_tokens: "U64"
    reasoning_tokens: NotRequired["U64"]


class Waiting(TypedDict):
    """What a pending task waits for."""
    after: list["Awaited"]
    """The tasks in `after` that have not completed."""
    turn: "TurnStatus"
    """The status of its first turn that is not done."""


# The sequence of steps of a task.
Workflow = Literal["direct", "research-plan-implement"]


# How the private copy of the repository was made.
WorkspaceKind = Literal["overlay", "reflink", "copy"]


U64 = int


class ListedCredential(Credential):
    """A credential in a list."""
    usable: bool
    """Whether its secret can be read with the server's master key."""


class ListedTask(Task):
    """A task in a list. It says what a pending task waits for, so that no list needs a second request for each of its
    tasks."""
    waiting: NotRequired["Waiting | None"]


class NamedSnapshot(Snapshot):
    """The snapshot of a repository, with its name."""
    repository: str


class NewToken(Token):
    token: str
    """The token itself. It is shown only once."""


class TaskDetail(Task):
    """A task with its sessions, their turns and attempts."""
    overlaps: list["Overlap"]
    """Merge conflicts with other tasks that are neither merged nor abandoned."""
    pull_request: NotRequired["TaskPullRequest | None"]
    sessions: list["Session"]
