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
        """List agents with their versions and available keys"""
        return self._call("GET", "/api/agents")

    def agent_check(self, id: str) -> AgentCheck:
        """Test an agent in a real sandbox against a scripted model; the response is sent when the test ends

        id: An id from `/api/agents`"""
        return self._call("POST", f"/api/agents/{_part(id)}/check")

    def audit_list(
        self, *, actor: str | None = None, action: str | None = None, cursor: str | None = None, limit: int | None = None,
    ) -> PageAuditEntry:
        """List the audit log, oldest first

        actor: Only entries of this actor, such as `user:ada`.

        action: Only entries of this operation, such as `task.create`.

        cursor: `next_cursor` of the previous page.

        limit: The maximum number of items per page."""
        return self._call("GET", "/api/audit", query={"actor": actor, "action": action, "cursor": cursor, "limit": limit})

    def comment_remove(self, id: CommentId) -> None:
        """Delete your own comment, or, as an admin, any comment"""
        return self._call("DELETE", f"/api/comments/{_part(id)}")

    def convoy_list(self) -> PageConvoy:
        """List convoys; a task joins one by naming it"""
        return self._call("GET", "/api/convoys")

    def convoy_get(self, name: str) -> Convoy:
        """Show a convoy; `GET /api/tasks?convoy=…` lists its tasks

        name: The name of the convoy"""
        return self._call("GET", f"/api/convoys/{_part(name)}")

    def credential_list(self) -> PageListedCredential:
        """List credentials with their last characters and last use"""
        return self._call("GET", "/api/credentials")

    def credential_create(self, body: NewCredential) -> Credential:
        """Add a credential; the secret is stored encrypted"""
        return self._call("POST", "/api/credentials", body=body)

    def credential_remove(self, id: CredentialId) -> None:
        """Remove a credential from Harvest; revoke it with its vendor, too"""
        return self._call("DELETE", f"/api/credentials/{_part(id)}")

    def credential_rotate(self, id: CredentialId, body: NewSecret) -> Credential:
        """Replace the secret of a credential"""
        return self._call("PUT", f"/api/credentials/{_part(id)}/secret", body=body)

    def demo_begin(self) -> Demo:
        """Start the demo: a few tasks on a sample repository, in real sandboxes with a scripted model"""
        return self._call("POST", "/api/demo")

    def evidence_key(self) -> EvidenceKey:
        """Show the public key that this installation signs evidence with"""
        return self._call("GET", "/api/evidence-key")

    def session_logout(self) -> None:
        """Sign out: the cookie becomes invalid"""
        return self._call("POST", "/api/logout")

    def me_get(self) -> Me:
        """Show the signed-in user and their roles"""
        return self._call("GET", "/api/me")

    def project_list(self) -> PageProject:
        """List projects"""
        return self._call("GET", "/api/projects")

    def project_create(self, body: AskProject) -> Project:
        """Create a project"""
        return self._call("POST", "/api/projects", body=body)

    def project_get(self, name: str) -> Project:
        """Show a project; with `If-None-Match`, it is sent only if it has changed

        name: The name of the project"""
        return self._call("GET", f"/api/projects/{_part(name)}")

    def project_change(self, name: str, body: ProjectChange) -> Project:
        """Change which repositories belong to a project

        name: The name of the project"""
        return self._call("PATCH", f"/api/projects/{_part(name)}", body=body)

    def project_remove(self, name: str) -> None:
        """Remove a project with its settings and members; its repositories and tasks are kept

        name: The name of the project"""
        return self._call("DELETE", f"/api/projects/{_part(name)}")

    def project_members(self, name: str) -> PageMember:
        """List the members of a project

        name: The name of the project"""
        return self._call("GET", f"/api/projects/{_part(name)}/members")

    def project_member_set(self, name: str, user: str, body: AskMember) -> Member:
        """Add a member to a project, or change their role

        name: The name of the project

        user: The user name, as in GET /api/me"""
        return self._call("PUT", f"/api/projects/{_part(name)}/members/{_part(user)}", body=body)

    def project_member_remove(self, name: str, user: str) -> None:
        """Remove a member from a project

        name: The name of the project

        user: The user name, as in GET /api/me"""
        return self._call("DELETE", f"/api/projects/{_part(name)}/members/{_part(user)}")

    def project_settings(self, name: str) -> ProjectSettings:
        """Show the settings of a project and the values in force; the `ETag` is their version

        name: The name of the project"""
        return self._call("GET", f"/api/projects/{_part(name)}/settings")

    def project_settings_put(self, name: str, body: AskSettings, *, if_match: str | None = None) -> ProjectSettings:
        """Replace the settings of a project; `If-Match` is the version that they are based on

        name: The name of the project

        if_match: The `ETag` of GET; without it, the response is 428"""
        return self._call("PUT", f"/api/projects/{_part(name)}/settings", headers={"If-Match": if_match}, body=body)

    def queue_get(self) -> Queue:
        """Show the queue"""
        return self._call("GET", "/api/queue")

    def queue_change(self, body: QueueChange) -> Queue:
        """Pause or resume the queue, or change how many agents each worker runs"""
        return self._call("PATCH", "/api/queue", body=body)

    def queue_set_cap(self, body: CapChange) -> Queue:
        """Limit how many turns of a repository, a user or a credential run at a time"""
        return self._call("PUT", "/api/queue/caps", body=body)

    def race_get(self, id: str) -> RaceTable:
        """Show a race: every entrant with its cost, its changes and the verdict

        id: The id of the race"""
        return self._call("GET", f"/api/races/{_part(id)}")

    def repository_list(self) -> PageRepository:
        """List repositories with their snapshots"""
        return self._call("GET", "/api/repositories")

    def repository_create(self, body: NewRepository) -> Repository:
        """Add a repository, or update the one with that name"""
        return self._call("POST", "/api/repositories", body=body)

    def repository_get(self, name: str) -> Repository:
        """Show a repository

        name: The name of the repository"""
        return self._call("GET", f"/api/repositories/{_part(name)}")

    def repository_remove(self, name: str) -> None:
        """Remove a repository: no more snapshots are built; its tasks are kept

        name: The name of the repository"""
        return self._call("DELETE", f"/api/repositories/{_part(name)}")

    def repository_build(self, name: str) -> Repository:
        """Build the snapshot of a repository now

        A worker builds it a moment later; `GET /api/repositories/{name}` shows the progress.

        name: The name of the repository"""
        return self._call("POST", f"/api/repositories/{_part(name)}/build")

    def repository_build_log(self, name: str) -> str:
        """Show the log of the running or last snapshot build of a repository

        name: The name of the repository"""
        return self._call("GET", f"/api/repositories/{_part(name)}/build-log")

    def schedule_list(self) -> PageSchedule:
        """List schedules"""
        return self._call("GET", "/api/schedules")

    def schedule_create(self, body: NewSchedule) -> Schedule:
        """Add a schedule: a task that is created at set times"""
        return self._call("POST", "/api/schedules", body=body)

    def schedule_remove(self, id: str) -> None:
        """Remove a schedule; tasks that it has queued are kept

        id: The id of the schedule"""
        return self._call("DELETE", f"/api/schedules/{_part(id)}")

    def session_list(
        self, *, id: str | None = None, task: TaskId | None = None, status: TaskStatus | None = None, repository: str | None = None, sort: Literal["-created_at", "created_at"] | None = None, cursor: str | None = None, limit: int | None = None,
    ) -> PageSessionSummary:
        """List sessions

        id: A unique prefix of an id; the other filters are ignored.

        status: The status of the session's task.

        repository: The path, URL or name of the repository.

        sort: The order of the list.

        cursor: `next_cursor` of the previous page.

        limit: The maximum number of items per page."""
        return self._call("GET", "/api/sessions", query={"id": id, "task": task, "status": status, "repository": repository, "sort": sort, "cursor": cursor, "limit": limit})

    def session_create(self, body: Ask, *, idempotency_key: str | None = None) -> SessionDetail:
        """Start a session with a new task

        idempotency_key: Repeating a request with the same key creates no second session"""
        return self._call("POST", "/api/sessions", headers={"Idempotency-Key": idempotency_key}, body=body)

    def session_get(self, id: SessionId) -> SessionDetail:
        """Show a session"""
        return self._call("GET", f"/api/sessions/{_part(id)}")

    def session_delete(self, id: SessionId) -> None:
        """Delete a session that has ended; delivered work, its cost and the audit log are kept"""
        return self._call("DELETE", f"/api/sessions/{_part(id)}")

    def comment_list(self, id: SessionId) -> PageComment:
        """List the comments on a session, oldest first"""
        return self._call("GET", f"/api/sessions/{_part(id)}/comments")

    def comment_create(self, id: SessionId, body: NewComment) -> Comment:
        """Comment on an event or a changed line; agents do not read comments"""
        return self._call("POST", f"/api/sessions/{_part(id)}/comments", body=body)

    def session_diff(
        self, id: SessionId, *, from_: str | None = None, to: str | None = None, path: str | None = None, context: int | None = None,
    ) -> Diff:
        """Show the changes of a session, or between two commits, as a unified diff; `Accept: text/x-diff` returns raw
        bytes

        from_: The base or a commit of the session; default: the base.

        to: A commit of the session; default: the newest.

        path: Only this file; a large `context` shows all of it.

        context: The number of unchanged lines around each change; default: 3. Requires `path`."""
        return self._call("GET", f"/api/sessions/{_part(id)}/diff", query={"from": from_, "to": to, "path": path, "context": context})

    def session_events(self, id: SessionId, *, after: int | None = None, limit: int | None = None) -> EventPage:
        """Read the journal of a session: over a WebSocket, as server-sent events (`Accept: text/event-stream`), or as
        a page

        Both streams start after `after` (or `Last-Event-ID`), continue with new events, and neither skip nor repeat
        one. A reader that is too slow is disconnected and told where to continue.

        after: Only events with a higher number.

        limit: The maximum number of events per page; streams ignore it."""
        return self._call("GET", f"/api/sessions/{_part(id)}/events", query={"after": after, "limit": limit})

    def session_files(self, id: SessionId) -> PageChangedFile:
        """List the files that a session has changed"""
        return self._call("GET", f"/api/sessions/{_part(id)}/files")

    def session_fork(self, id: SessionId, body: AskFork) -> TaskDetail:
        """Fork a session: start a new one from an event of this one"""
        return self._call("POST", f"/api/sessions/{_part(id)}/fork", body=body)

    def session_interrupt(self, id: SessionId, body: AskInterrupt) -> TaskDetail:
        """Interrupt a session and its task"""
        return self._call("POST", f"/api/sessions/{_part(id)}/interrupt", body=body)

    def session_messages(self, id: SessionId, *, cursor: str | None = None, limit: int | None = None) -> PageMessage:
        """List the messages of a session, oldest first

        cursor: `next_cursor` of the previous page.

        limit: The maximum number of items per page."""
        return self._call("GET", f"/api/sessions/{_part(id)}/messages", query={"cursor": cursor, "limit": limit})

    def session_people(self, id: SessionId) -> PagePerson:
        """List the people who have a session open in a browser, as far as this server knows"""
        return self._call("GET", f"/api/sessions/{_part(id)}/people")

    def session_prompt(self, id: SessionId, body: AskMore, *, idempotency_key: str | None = None) -> Turn:
        """Send another prompt to a session; prompts that arrive while it is busy are queued in order

        idempotency_key: Repeating a request with the same key does not send the prompt again"""
        return self._call("POST", f"/api/sessions/{_part(id)}/prompts", headers={"Idempotency-Key": idempotency_key}, body=body)

    def session_resume(self, id: SessionId, body: AskResume) -> TaskDetail:
        """Resume an interrupted session, with or without a prompt"""
        return self._call("POST", f"/api/sessions/{_part(id)}/resume", body=body)

    def session_stop(self, id: SessionId) -> TaskDetail:
        """Stop a session; its work is kept"""
        return self._call("POST", f"/api/sessions/{_part(id)}/stop")

    def snapshot_list(self) -> PageNamedSnapshot:
        """List the snapshots that sessions start from"""
        return self._call("GET", "/api/snapshots")

    def stats_get(
        self, *, by: Literal["day", "repository", "agent", "model", "person"] | None = None, from_: str | None = None, to: str | None = None,
    ) -> Stats:
        """Show statistics of finished tasks

        by: What to group by; default: the day, for pull requests the repository.

        from_: The first day; default: the day of the first task.

        to: The last day; default: today."""
        return self._call("GET", "/api/stats", query={"by": by, "from": from_, "to": to})

    def stats_pull_requests(
        self, *, by: Literal["day", "repository", "agent", "model", "person"] | None = None, from_: str | None = None, to: str | None = None,
    ) -> PullRequestStats:
        """Show statistics of pull requests, by the day they were opened, repository, agent, model or person

        by: What to group by; default: the day, for pull requests the repository.

        from_: The first day; default: the day of the first task.

        to: The last day; default: today."""
        return self._call("GET", "/api/stats/pull-requests", query={"by": by, "from": from_, "to": to})

    def task_list(
        self, *, id: str | None = None, status: TaskStatus | None = None, repository: str | None = None, convoy: str | None = None, requested_by: str | None = None, agent: str | None = None, q: str | None = None, sort: Literal["-created_at", "created_at"] | None = None, cursor: str | None = None, limit: int | None = None,
    ) -> PageListedTask:
        """List tasks

        id: A unique prefix of an id; the other filters are ignored.

        status: Only tasks with this status.

        repository: The path, URL or name of the repository.

        convoy: Only tasks of this convoy.

        requested_by: Only tasks of this requester.

        agent: Only tasks of this agent.

        q: Text in the prompt, case-insensitive.

        sort: The order of the list.

        cursor: `next_cursor` of the previous page.

        limit: The maximum number of items per page."""
        return self._call("GET", "/api/tasks", query={"id": id, "status": status, "repository": repository, "convoy": convoy, "requested_by": requested_by, "agent": agent, "q": q, "sort": sort, "cursor": cursor, "limit": limit})

    def task_create(self, body: Ask, *, idempotency_key: str | None = None) -> TaskDetail:
        """Create a task

        idempotency_key: Repeating a request with the same key creates no second task"""
        return self._call("POST", "/api/tasks", headers={"Idempotency-Key": idempotency_key}, body=body)

    def task_get(self, id: TaskId) -> TaskDetail:
        """Show a task"""
        return self._call("GET", f"/api/tasks/{_part(id)}")

    def task_apply(self, id: TaskId, body: Application) -> Merge:
        """Merge the work of a task into the current branch of its repository on the server's machine

        The rules are those of `harvest task apply`: nothing is merged if the work tree has uncommitted changes or
        there is a conflict, and work that failed or is not verified requires `force`."""
        return self._call("POST", f"/api/tasks/{_part(id)}/apply", body=body)

    def task_approve(self, id: TaskId, body: Approval) -> TaskDetail:
        """Approve the plan of a task, unchanged or edited"""
        return self._call("POST", f"/api/tasks/{_part(id)}/approve", body=body)

    def task_attempts(self, id: TaskId) -> PageAttempt:
        """List the agent runs of a task, oldest first"""
        return self._call("GET", f"/api/tasks/{_part(id)}/attempts")

    def task_cancel(self, id: TaskId) -> TaskDetail:
        """Stop a task; its work is kept. A running task ends a moment later."""
        return self._call("POST", f"/api/tasks/{_part(id)}/cancel")

    def task_evidence(self, id: TaskId) -> Envelope:
        """Show the signed evidence of a task: a DSSE envelope around an in-toto statement

        `harvest evidence verify` verifies it with the key of `GET /api/evidence-key`."""
        return self._call("GET", f"/api/tasks/{_part(id)}/evidence")

    def task_interrupt(self, id: TaskId, body: AskInterrupt) -> TaskDetail:
        """Interrupt a task: the agent may finish its step; its work and conversation are kept, and it continues when
        resumed"""
        return self._call("POST", f"/api/tasks/{_part(id)}/interrupt", body=body)

    def task_pull_request(self, id: TaskId, *, idempotency_key: str | None = None) -> TaskDetail:
        """Create a pull request for a task whose work was not pushed

        For a task of a GitHub repository that ended without a pull request because it failed or was stopped. The
        work is tested again and delivered as it is, with the usual hooks; no agent runs. If the tests fail, the
        pull request is a draft.

        idempotency_key: Repeating a request with the same key creates no second turn"""
        return self._call("POST", f"/api/tasks/{_part(id)}/pull-request", headers={"Idempotency-Key": idempotency_key})

    def task_reject(self, id: TaskId, body: Rejection) -> TaskDetail:
        """Reject the plan of a task: with a comment, a new plan is made; without one, the task is cancelled"""
        return self._call("POST", f"/api/tasks/{_part(id)}/reject", body=body)

    def task_retry(self, id: TaskId) -> TaskDetail:
        """Queue a failed or cancelled task again"""
        return self._call("POST", f"/api/tasks/{_part(id)}/retry")

    def task_terminate(self, id: TaskId) -> TaskDetail:
        """Stop a task immediately, without waiting for its agent. Commits and checkpoints are kept."""
        return self._call("POST", f"/api/tasks/{_part(id)}/terminate")

    def template_list(self) -> PageTemplate:
        """List templates"""
        return self._call("GET", "/api/templates")

    def template_create(self, body: NewTemplate) -> Template:
        """Add a template, or update the one with that name"""
        return self._call("POST", "/api/templates", body=body)

    def template_remove(self, name: str) -> None:
        """Remove a template; tasks created from it are kept

        name: The name of the template"""
        return self._call("DELETE", f"/api/templates/{_part(name)}")

    def template_use(self, name: str, body: Filling) -> TaskDetail:
        """Create a task from a template

        name: The name of the template"""
        return self._call("POST", f"/api/templates/{_part(name)}/tasks", body=body)

    def token_list(self) -> PageToken:
        """List tokens, newest first: an admin of the installation sees all, others see their own

        A token that is limited to projects sees itself and the tokens created with it."""
        return self._call("GET", "/api/tokens")

    def token_create(self, body: AskToken) -> NewToken:
        """Create a token

        An admin of the installation can create any token. A signed-in user can create one for themselves, with at
        most their own permissions, for the whole installation or for some of their projects; it loses permissions
        when they do. A token created with another token ends when that one expires or is revoked."""
        return self._call("POST", "/api/tokens", body=body)

    def token_revoke(self, id: TokenId) -> None:
        """Revoke a token; only an admin of the installation may revoke those of others

        A token that is limited to projects may revoke itself and the tokens created with it."""
        return self._call("DELETE", f"/api/tokens/{_part(id)}")

    def metrics_get(self) -> str:
        """Show the metrics of this server and of the queue, for Prometheus"""
        return self._call("GET", "/metrics")
