// What came of a session at a glance: its state, what was done, the verdict, the cost, and what to do next.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ok } from "../api/client";
import { download } from "../api/download";
import { useMay, useMayIn } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaSessionDetail, SchemaTask } from "../api/schema";
import { errorWords } from "../api/page-words";
import { useWait } from "../api/use-wait";
import type { Wait } from "../api/waits";
import { changedNothing, hasWork, isOver, leftWords, mayBeProposed, outcome, shortRepository, verdict, type SchemaStatus } from "../api/words";
import { workTime } from "../api/work-time";
import type { Journal } from "../stream/journal";
import { money } from "../stream/sums";
import { counted } from "../text/counted";
import { firstLine, plainWords, reason } from "../text/harmless";
import { StatusIcon, words } from "../ui/icons";
import { Badge, Button, Code, CopyButton, Dialog, Trouble } from "../ui/parts";
import { took, useNow } from "../ui/time";
import { useNowAndThen } from "./journal";

export function Summary({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  useNowAndThen(journal);
  const { task } = session;
  const { fold } = journal;
  const over = isOver(task.status);
  const now = useNow(over ? 60_000 : 1_000);
  const tests = verdict(task);
  const spent = Math.max(task.cost_usd, fold.bill.total);
  const time = workTime(session.turns, task.status, now);
  const told = task.error ? reason(errorWords(task.error)) : fold.lastSaid ? plainWords(fold.lastSaid, 400) : null;
  return (
    <section aria-label="Summary" className="mt-2 flex flex-col gap-1.5 rounded-lg border border-line bg-side px-3 py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span className="font-medium" data-status={task.status}>
          {words(task.status)}
        </span>
        {tests && (
          <Badge wraps tone={tests.tone}>
            {tests.text}
          </Badge>
        )}
        {over && !tests && hasWork(task) && <Badge tone="warn">not tested</Badge>}
        {over && !hasWork(task) && !changedNothing(task) && task.kind !== "pr_review" ? (
          <span className="text-dim">No changes</span>
        ) : (
          fold.changed.size > 0 && (
            <Link to="." search={{ tab: "changes" }} className="text-accent hover:underline">
              {counted(fold.changed.size, "file")} changed
            </Link>
          )
        )}
        <span className="text-dim tabular-nums" title="Cost">
          {money(spent)}
        </span>
        {time > 0 && (
          <span className="text-dim tabular-nums" title="Agent time, excluding the queue, approvals and tests">
            {took(time)}
          </span>
        )}
        {fold.pullRequest ? (
          <a href={fold.pullRequest.url} target="_blank" rel="noreferrer" className="text-accent hover:underline">
            {fold.pullRequest.draft ? "Draft pull request" : "Pull request"} {fold.pullRequest.number}
          </a>
        ) : (
          task.branch && (
            <span className="flex max-w-full min-w-0 items-center gap-0.5">
              <code className="truncate rounded bg-hover px-1 py-0.5 font-mono text-xs" title={task.branch}>
                {task.branch}
              </code>
              <CopyButton text={task.branch} label="Copy branch name" />
            </span>
          )
        )}
      </div>
      {over && told && <p className={`line-clamp-2 break-words ${task.error && task.status === "failed" ? "text-bad" : ""}`}>{told}</p>}
      <Next session={session} journal={journal} />
    </section>
  );
}

/** What a person can do now. */
function Next({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  const { task } = session;
  const mayDecide = useMayIn("member", task.repository);
  const mayApply = useMay("everywhere");
  const [merging, setMerging] = useState(false);
  const local = task.repository.startsWith("/");
  const mayMerge = mayApply && local && Boolean(task.branch);
  if (task.status === "pending") return <Waits session={session} />;
  if (task.status === "awaiting_approval")
    return (
      <p className="text-warn">
        {journal.fold.waits?.kind === "delivery" ? "The result" : "The plan"} is waiting for {mayDecide ? "your approval" : "approval"}.
      </p>
    );
  if (task.status === "interrupted")
    return (
      <p className="text-warn">{mayDecide ? "To continue, resume it under “Activity”, with or without a message." : "It continues when someone resumes it."}</p>
    );
  if (!isOver(task.status) || !hasWork(task)) return null;
  const { outcome: end, pushed } = journal.shown;
  // Until the end of the journal is here, nobody knows what the last turn has pushed.
  const left = end && leftWords(task, pushed !== null && pushed === task.branch);
  return (
    <div className="flex flex-wrap items-center gap-2">
      {left && <span className="text-dim">{left}</span>}
      <Link
        to="."
        search={{ tab: "changes" }}
        className="hidden h-7 items-center rounded-md border border-strong bg-raised px-2.5 font-medium hover:bg-hover sm:inline-flex"
      >
        Review changes
      </Link>
      {mayDecide && mayBeProposed(task, journal.fold.pullRequest !== null) && <Propose task={task} />}
      {mayMerge && <Button onClick={() => setMerging(true)}>Merge…</Button>}
      <DownloadPatch session={session} />
      {merging && <Merge task={task} onClose={() => setMerging(false)} />}
    </div>
  );
}

/** Asks for the pull request of work that was not pushed. */
function Propose({ task }: { task: SchemaTask }) {
  const propose = useMutation({ mutationFn: () => ok(api.POST("/api/tasks/{id}/pull-request", { params: { path: { id: task.id } } })) });
  return (
    <>
      <Button disabled={propose.isPending} onClick={() => propose.mutate()}>
        {task.status === "completed" ? "Create pull request" : "Create draft pull request"}
      </Button>
      {propose.isError && <Trouble error={propose.error} />}
    </>
  );
}

export function DownloadPatch({ session, disabled }: { session: SchemaSessionDetail; disabled?: boolean }) {
  const patch = useMutation({
    mutationFn: () => download(`/api/sessions/${session.id}/diff`, `${session.task.id.slice(0, 8)}.patch`, "text/x-diff"),
  });
  return (
    <>
      <Button onClick={() => patch.mutate()} disabled={disabled || patch.isPending}>
        Download patch
      </Button>
      {patch.isError && <Trouble error={patch.error} />}
    </>
  );
}

const WAITS: Record<Exclude<Wait["for"], "tasks">, string> = {
  approval: "Waiting for approval.",
  turns: "Waiting for earlier turns.",
  queue: "The queue is paused: an admin can resume it on the queue page.",
  attempt: "Waiting for its next attempt.",
  cap: "A cap is reached: the task starts when one of its slots is free.",
  workers: "No worker is running: the task starts when one does.",
  worker: "In the queue: it starts when a worker is free.",
};

/** What keeps a task in the queue. */
function Waits({ session }: { session: SchemaSessionDetail }) {
  // No event tells that a turn was parked or released.
  const fresh = useQuery({ ...queries.session(session.id), refetchInterval: 10_000 });
  const wait = useWait(session.task, (fresh.data ?? session).turns);
  if (!wait) return null;
  if (wait.for === "tasks")
    return (
      <p className="flex flex-wrap items-center gap-x-2 text-dim">
        Waiting for
        {wait.tasks.map(({ id, status }) => (
          <Dependency key={id} id={id} status={status} />
        ))}
      </p>
    );
  return (
    <p className="text-dim">
      {WAITS[wait.for]}{" "}
      <Link to="/queue" className="text-accent hover:underline">
        Queue and workers
      </Link>
    </p>
  );
}

function Dependency({ id, status }: { id: string; status: SchemaStatus | null }) {
  const task = useQuery(queries.task(id));
  return (
    <span className="inline-flex min-w-0 items-center gap-1">
      {status && <StatusIcon status={status} size={13} />}
      <Link to="/tasks/$id" params={{ id }} className="truncate text-accent hover:underline">
        {task.data ? firstLine(task.data.prompt, 60) : id.slice(0, 8)}
      </Link>
      {status && `(${words(status).toLowerCase()})`}
    </span>
  );
}

/** Why a person should look at the work before it is merged, as the server sees it. */
function doubt(task: SchemaTask): string | null {
  if (task.status !== "completed") return `The task ${task.status === "failed" ? "failed" : "was cancelled"}.`;
  if (!task.evidence) return "The work was not tested.";
  const found = outcome(task.evidence);
  return found === "verified" || found === "unchanged" ? null : "The work is not verified.";
}

function Merge({ task, onClose }: { task: SchemaTask; onClose: () => void }) {
  const [force, setForce] = useState(false);
  const merge = useMutation({ mutationFn: () => ok(api.POST("/api/tasks/{id}/apply", { params: { path: { id: task.id } }, body: { force } })) });
  const doubtful = doubt(task);
  return (
    <Dialog title="Merge the work" onClose={onClose}>
      <div className="flex flex-col gap-3 p-4">
        {merge.data ? (
          <p role="status">
            {merge.data.before === merge.data.commit ? (
              <>
                <Code>{merge.data.into}</Code> already has this work.
              </>
            ) : (
              <>
                Merged into <Code>{merge.data.into}</Code>: <Code>{`${merge.data.before.slice(0, 8)}..${merge.data.commit.slice(0, 8)}`}</Code>
              </>
            )}
          </p>
        ) : (
          <>
            <p>
              Merges <Code>{task.branch}</Code> into the current branch of <span className="font-medium">{shortRepository(task.repository)}</span>, in{" "}
              <Code>{task.repository}</Code> on the server's machine. Nothing is merged if files there have uncommitted changes or conflict with it.
            </p>
            {doubtful && (
              <label className="flex items-center gap-2 rounded-md bg-warn-soft px-3 py-2 text-warn">
                <input type="checkbox" checked={force} onChange={(event) => setForce(event.target.checked)} />
                {doubtful} Merge it anyway.
              </label>
            )}
            {merge.isError && <Trouble error={merge.error} />}
          </>
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{merge.data ? "Close" : "Cancel"}</Button>
          {!merge.data && (
            <Button look="primary" disabled={merge.isPending || (doubtful !== null && !force)} onClick={() => merge.mutate()}>
              Merge
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  );
}
