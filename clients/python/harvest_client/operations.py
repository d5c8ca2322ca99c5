"""Every operation of the API, by its name. Written by generate.py from openapi.json: do not change it by hand."""

from typing import Any, Literal
from urllib.parse import quote

from .models import *


def _part(value: object) -> str:
    return quote(str(value), safe="")


class Operations:
    def _call(self, method: str, path: str, *, query: Any = None, headers: Any = None, body: Any = None) -> Any:
        raise NotImplementedError

    def agent_list(self) -> PageAgentInfo:
        """List agents: what is installed, in which version, with which keys"""
        return self._call("GET", "/api/agents")

    def agent_check(self, id: str) -> AgentCheck:
        """Rehearse with an agent: it works in a real sandbox on a model that is played by a script; answered when that
        is over"""
        return self._call("POST", f"/api/agents/{_part(id)}/check")

    def audit_list(
        self, *, actor: str | None = None, action: str | None = None, cursor: str | None = None, limit: int | None = None,
    ) -> PageAuditEntry:
        """Who did what, oldest first

        cursor: `next_cursor` of the page before."""
        return self._call("GET", "/api/audit", query={"actor": actor, "action": action, "cursor": cursor, "limit": limit})

    def comment_remove(self, id: CommentId) -> None:
        """Take a comment back: one's own, or as an admin anyone's"""
        return self._call("DELETE", f"/api/comments/{_part(id)}")

    def convoy_list(self) -> PageConvoy:
        """List convoys; a task joins one by naming it"""
        return self._call("GET", "/api/convoys")

    def convoy_get(self, name: str) -> Convoy:
        """One convoy; its tasks are `GET /api/tasks?convoy=…`"""
        return self._call("GET", f"/api/convoys/{_part(name)}")

    def credential_list(self) -> PageCredential:
        """List credentials: their last characters and when they were used"""
        return self._call("GET", "/api/credentials")

    def credential_create(self, body: NewCredential) -> Credential:
        """Keep a key, sealed"""
        return self._call("POST", "/api/credentials", body=body)

    def credential_remove(self, id: CredentialId) -> None:
        """Remove a credential from here; revoke it with its vendor as well"""
        return self._call("DELETE", f"/api/credentials/{_part(id)}")

    def credential_rotate(self, id: CredentialId, body: NewSecret) -> Credential:
        """Replace the secret of a credential"""
        return self._call("PUT", f"/api/credentials/{_part(id)}/secret", body=body)

    def demo_begin(self) -> Demo:
        """Begin the demo: a few tasks on a sample repository, worked on by real sandboxes and a scripted model"""
        return self._call("POST", "/api/demo")

    def evidence_key(self) -> EvidenceKey:
        """The public key that this installation signs evidence with"""
        return self._call("GET", "/api/evidence-key")

    def session_logout(self) -> None:
        """`POST /api/logout`: the cookie opens nothing any more."""
        return self._call("POST", "/api/logout")

    def me_get(self) -> Me:
        """Who one is, and what one may do"""
        return self._call("GET", "/api/me")

    def project_list(self) -> PageProject:
        """List projects"""
        return self._call("GET", "/api/projects")

    def project_create(self, body: AskProject) -> Project:
        """Make a project"""
        return self._call("POST", "/api/projects", body=body)

    def project_get(self, name: str) -> Project:
        """One project; with `If-None-Match` it is sent only when it has changed"""
        return self._call("GET", f"/api/projects/{_part(name)}")

    def project_change(self, name: str, body: ProjectChange) -> Project:
        """Change which repositories belong to a project"""
        return self._call("PATCH", f"/api/projects/{_part(name)}", body=body)

    def project_remove(self, name: str) -> None:
        """Remove a project with its settings and members; its repositories and tasks stay"""
        return self._call("DELETE", f"/api/projects/{_part(name)}")

    def project_members(self, name: str) -> PageMember:
        """List the members of a project"""
        return self._call("GET", f"/api/projects/{_part(name)}/members")

    def project_member_set(self, name: str, user: str, body: AskMember) -> Member:
        """Make someone a member of a project, or give them another role in it

        user: As they are called in GET /api/me"""
        return self._call("PUT", f"/api/projects/{_part(name)}/members/{_part(user)}", body=body)

    def project_member_remove(self, name: str, user: str) -> None:
        """Someone is no member of a project any more"""
        return self._call("DELETE", f"/api/projects/{_part(name)}/members/{_part(user)}")

    def project_settings(self, name: str) -> ProjectSettings:
        """What a project sets, and what holds for it; its version is the `ETag`"""
        return self._call("GET", f"/api/projects/{_part(name)}/settings")

    def project_settings_put(self, name: str, body: AskSettings, *, if_match: str | None = None) -> ProjectSettings:
        """Set everything that a project sets; `If-Match` names the version that was read before

        if_match: The `ETag` of GET; without it the answer is 428"""
        return self._call("PUT", f"/api/projects/{_part(name)}/settings", headers={"If-Match": if_match}, body=body)

    def queue_get(self) -> Queue:
        """The queue at a glance"""
        return self._call("GET", "/api/queue")

    def queue_change(self, body: QueueChange) -> Queue:
        """Pause the queue, let it go on, or change how many agents each worker runs"""
        return self._call("PATCH", "/api/queue", body=body)

    def queue_set_cap(self, body: CapChange) -> Queue:
        """Set how many turns of a repository, a user or a credential are worked on at a time"""
        return self._call("PUT", "/api/queue/caps", body=body)

    def race_get(self, id: str) -> RaceTable:
        """A race with everyone in it: who won, what each cost and changed, and why"""
        return self._call("GET", f"/api/races/{_part(id)}")

    def repository_list(self) -> PageRepository:
        """List repositories with their snapshots"""
        return self._call("GET", "/api/repositories")

    def repository_create(self, body: NewRepository) -> Repository:
        """Keep a repository, or change the one of that name"""
        return self._call("POST", "/api/repositories", body=body)

    def repository_get(self, name: str) -> Repository:
        """One repository"""
        return self._call("GET", f"/api/repositories/{_part(name)}")

    def repository_remove(self, name: str) -> None:
        """Prepare no more snapshots of a repository; its tasks stay"""
        return self._call("DELETE", f"/api/repositories/{_part(name)}")

    def repository_build(self, name: str) -> Repository:
        """Build the snapshot of a repository now rather than at its next time

        A worker builds it a moment later; `GET /api/repositories/{name}` tells how it goes."""
        return self._call("POST", f"/api/repositories/{_part(name)}/build")

    def repository_build_log(self, name: str) -> str:
        """All that the last build of a repository's snapshot said, or what the one under way has said so far"""
        return self._call("GET", f"/api/repositories/{_part(name)}/build-log")

    def schedule_list(self) -> PageSchedule:
        """List schedules"""
        return self._call("GET", "/api/schedules")

    def schedule_create(self, body: NewSchedule) -> Schedule:
        """Have a task come again"""
        return self._call("POST", "/api/schedules", body=body)

    def schedule_remove(self, id: str) -> None:
        """Remove a schedule; tasks it has queued stay"""
        return self._call("DELETE", f"/api/schedules/{_part(id)}")

    def session_list(
        self, *, id: str | None = None, task: TaskId | None = None, status: TaskStatus | None = None, repository: str | None = None, sort: Literal["-created_at", "created_at"] | None = None, cursor: str | None = None, limit: int | None = None,
    ) -> PageSessionSummary:
        """List sessions

        id: The beginning of an id: the one session that it fits, whatever else is asked for.

        status: Of its task.

        cursor: `next_cursor` of the page before."""
        return self._call("GET", "/api/sessions", query={"id": id, "task": task, "status": status, "repository": repository, "sort": sort, "cursor": cursor, "limit": limit})

    def session_create(self, body: Ask, *, idempotency_key: str | None = None) -> SessionDetail:
        """Begin a session about a new task

        idempotency_key: Asking again with the same key makes no second one"""
        return self._call("POST", "/api/sessions", headers={"Idempotency-Key": idempotency_key}, body=body)

    def session_get(self, id: SessionId) -> SessionDetail:
        """One session"""
        return self._call("GET", f"/api/sessions/{_part(id)}")

    def session_delete(self, id: SessionId) -> None:
        """Delete a session whose work has ended: nothing of it is left but what was delivered, what it cost, and the
        audit log"""
        return self._call("DELETE", f"/api/sessions/{_part(id)}")

    def comment_list(self, id: SessionId) -> PageComment:
        """What people said about a session, oldest first"""
        return self._call("GET", f"/api/sessions/{_part(id)}/comments")

    def comment_create(self, id: SessionId, body: NewComment) -> Comment:
        """Say something about an event or a changed line; agents do not read it"""
        return self._call("POST", f"/api/sessions/{_part(id)}/comments", body=body)

    def session_diff(
        self, id: SessionId, *, from_: str | None = None, to: str | None = None, path: str | None = None, context: int | None = None,
    ) -> Diff:
        """What a session changed so far, or between two of its commits, as a unified diff; with `Accept: text/x-diff`
        byte for byte

        from_: The base or a commit of the session; left out: the base.

        to: A commit of the session; left out: the newest.

        path: Only this file; with `context` all of it can be had.

        context: So many unchanged lines around each change of a file; left out: 3. It takes `path`."""
        return self._call("GET", f"/api/sessions/{_part(id)}/diff", query={"from": from_, "to": to, "path": path, "context": context})

    def session_events(self, id: SessionId, *, after: int | None = None, limit: int | None = None) -> EventPage:
        """The journal of a session: as a WebSocket when the request asks for one, as server-sent events with `Accept:
        text/event-stream`, else as a page.

        Both streams begin behind `after` (or `Last-Event-ID`), go on with what is written from then on, and leave
        nothing out and nothing twice. A reader who is too slow is cut off and told where to go on.

        after: Only events with a higher number.

        limit: Of a page: how many at most."""
        return self._call("GET", f"/api/sessions/{_part(id)}/events", query={"after": after, "limit": limit})

    def session_files(self, id: SessionId) -> PageChangedFile:
        """The files that a session changed so far"""
        return self._call("GET", f"/api/sessions/{_part(id)}/files")

    def session_fork(self, id: SessionId, body: AskFork) -> TaskDetail:
        """Go on from a moment of a session, in a new one"""
        return self._call("POST", f"/api/sessions/{_part(id)}/fork", body=body)

    def session_interrupt(self, id: SessionId, body: AskInterrupt) -> TaskDetail:
        """Interrupt a session, as its task"""
        return self._call("POST", f"/api/sessions/{_part(id)}/interrupt", body=body)

    def session_messages(self, id: SessionId, *, cursor: str | None = None, limit: int | None = None) -> PageMessage:
        """What was said in a session, oldest first

        cursor: `next_cursor` of the page before."""
        return self._call("GET", f"/api/sessions/{_part(id)}/messages", query={"cursor": cursor, "limit": limit})

    def session_people(self, id: SessionId) -> PagePerson:
        """Who looks at a session in a browser, as far as this server knows"""
        return self._call("GET", f"/api/sessions/{_part(id)}/people")

    def session_prompt(self, id: SessionId, body: AskMore, *, idempotency_key: str | None = None) -> Turn:
        """Ask a session for more; prompts that come while it works are queued in order

        idempotency_key: Asking again with the same key asks once"""
        return self._call("POST", f"/api/sessions/{_part(id)}/prompts", headers={"Idempotency-Key": idempotency_key}, body=body)

    def session_resume(self, id: SessionId, body: AskResume) -> TaskDetail:
        """Resume an interrupted session, with something to say or without"""
        return self._call("POST", f"/api/sessions/{_part(id)}/resume", body=body)

    def session_stop(self, id: SessionId) -> TaskDetail:
        """Stop the work of a session; what it did is kept"""
        return self._call("POST", f"/api/sessions/{_part(id)}/stop")

    def snapshot_list(self) -> PageNamedSnapshot:
        """List the snapshots that sessions start from"""
        return self._call("GET", "/api/snapshots")

    def stats_get(
        self, *, by: Literal["day", "repository", "agent", "model", "person"] | None = None, from_: str | None = None, to: str | None = None,
    ) -> Stats:
        """What became of tasks

        from_: The first day; left out: from the beginning.

        to: The last day; left out: today."""
        return self._call("GET", "/api/stats", query={"by": by, "from": from_, "to": to})

    def stats_pull_requests(self) -> PagePullRequestSums:
        """What became of pull requests"""
        return self._call("GET", "/api/stats/pull-requests")

    def task_list(
        self, *, id: str | None = None, status: TaskStatus | None = None, repository: str | None = None, convoy: str | None = None, requested_by: str | None = None, agent: str | None = None, q: str | None = None, sort: Literal["-created_at", "created_at"] | None = None, cursor: str | None = None, limit: int | None = None,
    ) -> PageTask:
        """List tasks

        id: The beginning of an id: the one task that it fits, whatever else is asked for.

        repository: Its path or URL, or the name of a known one.

        q: Words of the prompt, in any case of their letters.

        cursor: `next_cursor` of the page before."""
        return self._call("GET", "/api/tasks", query={"id": id, "status": status, "repository": repository, "convoy": convoy, "requested_by": requested_by, "agent": agent, "q": q, "sort": sort, "cursor": cursor, "limit": limit})

    def task_create(self, body: Ask, *, idempotency_key: str | None = None) -> TaskDetail:
        """Give a task

        idempotency_key: Asking again with the same key makes no second task"""
        return self._call("POST", "/api/tasks", headers={"Idempotency-Key": idempotency_key}, body=body)

    def task_get(self, id: TaskId) -> TaskDetail:
        """One task"""
        return self._call("GET", f"/api/tasks/{_part(id)}")

    def task_apply(self, id: TaskId, body: Application) -> Merge:
        """Merge the work of a task into the current branch of its repository on the server's machine

        The rules are those of `harvest task apply`: nothing is merged into a work tree with uncommitted changes or
        with a conflict, and work that failed or is not verified takes `force`."""
        return self._call("POST", f"/api/tasks/{_part(id)}/apply", body=body)

    def task_approve(self, id: TaskId, body: Approval) -> TaskDetail:
        """Approve the plan of a task, as it is or changed"""
        return self._call("POST", f"/api/tasks/{_part(id)}/approve", body=body)

    def task_attempts(self, id: TaskId) -> PageAttempt:
        """The runs of agents for a task, oldest first"""
        return self._call("GET", f"/api/tasks/{_part(id)}/attempts")

    def task_cancel(self, id: TaskId) -> TaskDetail:
        """Stop a task; its work is kept. One that is being worked on ends a moment later."""
        return self._call("POST", f"/api/tasks/{_part(id)}/cancel")

    def task_evidence(self, id: TaskId) -> Envelope:
        """The evidence of a task, signed: a DSSE envelope around an in-toto statement

        `harvest evidence verify` checks it, with the key of `GET /api/evidence-key`."""
        return self._call("GET", f"/api/tasks/{_part(id)}/evidence")

    def task_interrupt(self, id: TaskId, body: AskInterrupt) -> TaskDetail:
        """Interrupt a task: the agent may end its step, the work and its memory are kept, and it goes on when it is
        resumed"""
        return self._call("POST", f"/api/tasks/{_part(id)}/interrupt", body=body)

    def task_reject(self, id: TaskId, body: Rejection) -> TaskDetail:
        """Reject the plan of a task: with a comment another one is made, without one the task is cancelled"""
        return self._call("POST", f"/api/tasks/{_part(id)}/reject", body=body)

    def task_retry(self, id: TaskId) -> TaskDetail:
        """Queue a failed or cancelled task once more"""
        return self._call("POST", f"/api/tasks/{_part(id)}/retry")

    def task_terminate(self, id: TaskId) -> TaskDetail:
        """Stop a task at once, without waiting for its agent. What was committed or checkpointed is kept."""
        return self._call("POST", f"/api/tasks/{_part(id)}/terminate")

    def template_list(self) -> PageTemplate:
        """List templates"""
        return self._call("GET", "/api/templates")

    def template_create(self, body: NewTemplate) -> Template:
        """Keep a template, or change the one of that name"""
        return self._call("POST", "/api/templates", body=body)

    def template_remove(self, name: str) -> None:
        """Remove a template; tasks made from it stay"""
        return self._call("DELETE", f"/api/templates/{_part(name)}")

    def template_use(self, name: str, body: Filling) -> TaskDetail:
        """Give a task made from a template"""
        return self._call("POST", f"/api/templates/{_part(name)}/tasks", body=body)

    def token_list(self) -> PageToken:
        """List tokens, newest first: all for an admin of the installation, else one's own"""
        return self._call("GET", "/api/tokens")

    def token_create(self, body: AskToken) -> NewToken:
        """Make a token. An admin of the installation makes any; a person who is signed in makes one for themselves
        that may at most what they may, everywhere or in some of their projects, less when they may less, and
        nothing when they belong no more. What is made with a token ends with it"""
        return self._call("POST", "/api/tokens", body=body)

    def token_revoke(self, id: TokenId) -> None:
        """Revoke a token: it opens nothing from now on. Whoever is no admin of the installation revokes their own"""
        return self._call("DELETE", f"/api/tokens/{_part(id)}")

    def metrics_get(self) -> str:
        """The numbers of this server and of the queue, for Prometheus"""
        return self._call("GET", "/metrics")
