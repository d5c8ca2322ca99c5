// The queue: what is worked on, what waits and for what, and the processes that do the work.
import { useInfiniteQuery, useMutation, useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId, useState, type SubmitEvent } from "react";
import { api, ok } from "../api/client";
import { useMay, useMayIn } from "../api/may";
import { pageWords } from "../api/page-words";
import { queries } from "../api/queries";
import type { SchemaListedTask, SchemaQueue, SchemaTask } from "../api/schema";
import { inOrder, WAITS_FOR, waitOfListed } from "../api/waits";
import { providerName, shortRepository, type SchemaStatus } from "../api/words";
import { money } from "../stream/sums";
import { firstLine } from "../text/harmless";
import { fieldText } from "../ui/form";
import { StatusIcon, words } from "../ui/icons";
import { Badge, Button, Code, Dialog, Field, Page, Table, Trouble } from "../ui/parts";
import { useUsedRepositories } from "./repository-field";
import { Confirm, Figure, FormOf, Shown, When } from "./tables";

export function QueuePage() {
  const queue = useQuery(queries.queue);
  const change = useMutation({ mutationFn: (body: { paused?: boolean; agents?: number }) => ok(api.PATCH("/api/queue", { body })) });
  const mayChange = useMay("everywhere");
  return (
    <Page
      title="Queue and workers"
      actions={
        queue.data &&
        mayChange && (
          <Button disabled={change.isPending} onClick={() => change.mutate({ paused: !queue.data.paused })}>
            {queue.data.paused ? "Resume" : "Pause"}
          </Button>
        )
      }
    >
      {change.isError && <Trouble error={change.error} />}
      <Shown of={queue} what="the queue">
        {(data) => (
          <>
            {data.paused && <p className="rounded-md bg-warn-soft px-3 py-2 text-warn">The queue is paused: running tasks continue, no new ones start.</p>}
            <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-6">
              <Figure name="Workers" value={data.workers} />
              <Figure name="Running" value={data.turns.claimed} />
              <Figure name="Ready" value={data.turns.ready} />
              <Figure name="Waiting to retry" value={data.turns.waiting} />
              <Figure name="Blocked" value={data.turns.blocked + data.turns.parked} />
              <Figure name="Spent" value={money(data.cost_usd)} />
            </dl>
            {data.workers === 0 && (
              <p className="rounded-md bg-warn-soft px-3 py-2 text-warn">No worker is running: tasks wait until one starts, here or on another machine.</p>
            )}
            {mayChange && (
              <form
                className="flex items-start gap-2"
                onSubmit={(event: SubmitEvent<HTMLFormElement>) => {
                  event.preventDefault();
                  change.mutate({ agents: concurrency(new FormData(event.currentTarget)) });
                }}
              >
                <div className="w-64">
                  <Field label="Concurrency" hint={CONCURRENCY_HINT}>
                    {(id) => (
                      <input
                        key={data.agents ?? ""}
                        id={id}
                        name="agents"
                        className="field"
                        type="number"
                        min="1"
                        max="1000"
                        defaultValue={data.agents ?? ""}
                        placeholder="Automatic"
                      />
                    )}
                  </Field>
                </div>
                <Button type="submit" className="mt-5 h-8" disabled={change.isPending}>
                  Set
                </Button>
              </form>
            )}
            <RunningAndWaiting next={data.next} />
            <WaitingForPeople />
            <Workers processes={data.processes} />
            <Caps caps={data.caps} may={mayChange} />
            <div className="grid gap-4 md:grid-cols-2">
              <Counts title="Tasks" counts={data.tasks} icon />
              <Counts title="Failures by reason" counts={data.failures} />
            </div>
          </>
        )}
      </Shown>
    </Page>
  );
}

/** What the server gets: 0 for an empty field, which stands for the number that each worker was started with. */
export function concurrency(data: FormData): number {
  return Number(fieldText(data, "agents"));
}

const CONCURRENCY_HINT = "Empty: as many as each worker was started with. To stop work, pause the queue.";

const NONE: string[] = [];

/** Tasks by their status: news change it in place, whichever list a task came in. */
function RunningAndWaiting({ next }: { next: string[] }) {
  // No event tells that a turn was parked or released.
  const refetchInterval = 10_000;
  const pending = useInfiniteQuery({ ...queries.tasks({ status: "pending" }), refetchInterval });
  const provisioning = useInfiniteQuery({ ...queries.tasks({ status: "provisioning" }), refetchInterval });
  const running = useInfiniteQuery({ ...queries.tasks({ status: "running" }), refetchInterval });
  const lists = [pending, provisioning, running];
  const listed = lists.flatMap(({ data }) => (data?.pages ?? []).flatMap((page) => page.items));
  // The list begins with the newest tasks; in a long queue, those that are next are not among them.
  const missing = next.filter((id) => pending.isSuccess && !listed.some((row) => row.id === id));
  const others = useQueries({ queries: missing.map((id) => queries.task(id)) }).flatMap(({ data }): SchemaListedTask[] => (data ? [data] : []));
  const tasks = [...new Map([...listed, ...others].map((task) => [task.id, task])).values()];
  const works = (task: SchemaTask) => ["provisioning", "running"].includes(task.status);
  const waits = (task: SchemaTask) => task.status === "pending";
  const loading = lists.some(({ isPending }) => isPending);
  return (
    <>
      <QueuedTasks title="Running" status="running" tasks={tasks.filter(works)} none={loading ? LOADING : "No task is running."} />
      <QueuedTasks title="Waiting" status="pending" tasks={tasks.filter(waits)} next={next} none={loading ? LOADING : "No tasks are waiting."} />
    </>
  );
}

const LOADING = "Loading tasks…";

/** `next`: those that workers take next, in this order; they come first and are numbered. */
function QueuedTasks(props: { title: string; status: SchemaStatus; tasks: SchemaListedTask[]; next?: string[]; none: string }) {
  const { title, status, tasks, next = NONE, none } = props;
  const rows = inOrder(tasks, next);
  return (
    <section aria-label={`${title} tasks`} className="flex flex-col gap-2">
      <h2 className="font-semibold">{title}</h2>
      {rows.length === 0 ? (
        <p className="text-dim">{none}</p>
      ) : (
        <Table
          label={`${title} tasks`}
          rows={rows.slice(0, MOST_SHOWN)}
          id={(row) => row.id}
          columns={[
            ...(status === "pending"
              ? [
                  {
                    name: "Next",
                    number: true,
                    cell: (row: SchemaListedTask) => (next.includes(row.id) ? next.indexOf(row.id) + 1 : <span className="text-dim">–</span>),
                  },
                ]
              : []),
            { name: "Task", cell: (row) => <TaskLink task={row} /> },
            { name: "Repository", minor: true, cell: (row) => shortRepository(row.repository) },
            { name: "Agent", minor: true, cell: (row) => row.agent },
            {
              name: "Priority",
              minor: true,
              cell: (row) =>
                row.priority === "normal" ? (
                  <span className="text-dim">Normal</span>
                ) : (
                  <Badge tone={row.priority === "low" ? "plain" : "warn"}>{words(row.priority)}</Badge>
                ),
            },
            ...(status === "pending" ? [{ name: "Waiting for", cell: (row: SchemaListedTask) => <WaitsFor task={row} /> }] : []),
            { name: "Created", cell: (row) => <When at={row.created_at} /> },
            { name: "", number: true, cell: (row) => <Cancel task={row} /> },
          ]}
        />
      )}
      {rows.length > MOST_SHOWN && (
        <Link to="/tasks" search={{ status }} className="text-accent hover:underline">
          Show all
        </Link>
      )}
    </section>
  );
}

const MOST_SHOWN = 50;

/** Tasks that continue when a person approves something or resumes them: no worker takes them before. */
function WaitingForPeople() {
  const approvals = useInfiniteQuery(queries.tasks({ status: "awaiting_approval" }));
  const interrupted = useInfiniteQuery(queries.tasks({ status: "interrupted" }));
  const rows = [approvals, interrupted].flatMap(({ data }) => (data?.pages ?? []).flatMap((page) => page.items));
  if (rows.length === 0) return null;
  return (
    <section aria-label="Waiting for a person" className="flex flex-col gap-2">
      <h2 className="font-semibold">Waiting for a person</h2>
      <Table
        label="Waiting for a person"
        rows={rows.slice(0, MOST_SHOWN)}
        id={(row) => row.id}
        columns={[
          { name: "Task", cell: (row) => <TaskLink task={row} /> },
          { name: "Repository", minor: true, cell: (row) => shortRepository(row.repository) },
          { name: "Agent", minor: true, cell: (row) => row.agent },
          { name: "Waiting for", cell: (row) => <span className="text-dim">{row.status === "interrupted" ? "someone to resume it" : "approval"}</span> },
          { name: "Created", cell: (row) => <When at={row.created_at} /> },
          { name: "", number: true, cell: (row) => <Cancel task={row} /> },
        ]}
      />
      {rows.length > MOST_SHOWN && (
        <Link to="/approvals" className="text-accent hover:underline">
          Show all approvals
        </Link>
      )}
    </section>
  );
}

function TaskLink({ task }: { task: SchemaTask }) {
  return (
    <Link to="/tasks/$id" params={{ id: task.id }} className="flex min-w-0 items-center gap-2 hover:underline">
      <StatusIcon status={task.status} />
      <span className="line-clamp-1 break-all">{firstLine(task.prompt, 120)}</span>
    </Link>
  );
}

function WaitsFor({ task }: { task: SchemaListedTask }) {
  const queue = useQuery(queries.queue);
  const wait = task.waiting && queue.data ? waitOfListed(task, task.waiting, queue.data) : null;
  if (!wait) return null;
  if (wait.for !== "tasks") return <span className="text-dim">{WAITS_FOR[wait.for]}</span>;
  return (
    <span className="flex flex-wrap gap-1">
      {wait.tasks.map(({ id, status }) => (
        <span key={id} className="inline-flex items-center gap-1">
          <Link to="/tasks/$id" params={{ id }} className="text-accent hover:underline">
            <Code>{id.slice(0, 8)}</Code>
          </Link>
          {status && <span className="text-dim">({words(status).toLowerCase()})</span>}
        </span>
      ))}
    </span>
  );
}

function Cancel({ task }: { task: SchemaTask }) {
  const may = useMayIn("member", task.repository);
  const cancel = useMutation({ mutationFn: () => ok(api.POST("/api/tasks/{id}/cancel", { params: { path: { id: task.id } } })) });
  if (!may) return null;
  return (
    <Confirm what="Cancel task" sure={`“${firstLine(task.prompt, 80)}” is cancelled. Saved work is kept.`} act={() => cancel.mutate()} error={cancel.error} />
  );
}

function Workers({ processes }: { processes: SchemaQueue["processes"] }) {
  return (
    <section aria-label="Workers" className="flex flex-col gap-2">
      <h2 className="font-semibold">Workers</h2>
      {processes.length === 0 ? (
        <p className="text-dim">None</p>
      ) : (
        <Table
          label="Workers"
          rows={processes}
          id={(row) => row.id}
          columns={[
            { name: "Worker", cell: (row) => <Code>{row.id}</Code> },
            { name: "Kind", cell: (row) => (row.kind === "run" ? "Foreground command" : "Server or worker") },
            { name: "PID", number: true, minor: true, cell: (row) => row.pid },
            {
              name: "State",
              cell: (row) => (row.holding ? <Badge tone="warn">{firstLine(pageWords(row.holding), 120)}</Badge> : <Badge tone="good">accepting work</Badge>),
            },
          ]}
        />
      )}
    </section>
  );
}

function Caps({ caps, may }: { caps: SchemaQueue["caps"]; may: boolean }) {
  const [adding, setAdding] = useState(false);
  const set = useMutation({
    mutationFn: (body: { name: string; size: number | null }) => ok(api.PUT("/api/queue/caps", { body })),
    onSuccess: () => setAdding(false),
  });
  if (caps.length === 0 && !may) return null;
  return (
    <section aria-label="Caps" className="flex flex-col gap-2">
      <p className="flex items-center gap-2">
        <strong className="mr-auto font-semibold">Caps</strong>
        {may && (
          <Button icon="plus" onClick={() => setAdding(true)}>
            Add cap
          </Button>
        )}
      </p>
      {set.isError && !adding && <Trouble error={set.error} />}
      {caps.length === 0 ? (
        <p className="text-dim">No caps: the number of running tasks per repository, user or vendor is not limited.</p>
      ) : (
        <Table
          label="Caps"
          rows={caps}
          id={(row) => row.name}
          columns={[
            { name: "Limit", number: true, cell: (row) => row.size },
            { name: "Applies to", cell: (row) => <Code>{row.name}</Code> },
            { name: "Running", number: true, cell: (row) => row.used },
            {
              name: "",
              number: true,
              cell: (row) =>
                may ? (
                  <Confirm
                    what="Remove cap"
                    sure={`The number of running tasks for ${row.name} is no longer limited.`}
                    act={() => set.mutate({ name: row.name, size: null })}
                    error={set.error}
                  />
                ) : null,
            },
          ]}
        />
      )}
      {adding && (
        <Dialog title="Add cap" onClose={() => setAdding(false)}>
          <FormOf
            error={set.error}
            busy={set.isPending}
            act="Save"
            onClose={() => setAdding(false)}
            submit={(text) => set.mutate({ name: `${text("kind")}:${text("of") ?? ""}`, size: Number(text("size")) })}
          >
            <AppliesTo />
            <Field label="Maximum concurrent tasks">{(id) => <input id={id} name="size" type="number" min="1" max="1000" required className="field" />}</Field>
          </FormOf>
        </Dialog>
      )}
    </section>
  );
}

const APPLIES_TO = {
  repository: "The name, path or URL of the repository",
  user: "The name the user signs in with",
  credential: "All tasks whose model belongs to this vendor, whichever of its keys they use",
};
const VENDORS = ["anthropic", "openai", "gemini", "ollama"];

/** What a cap is for, with the repositories and users that are known. */
function AppliesTo() {
  const names = useId();
  const [kind, setKind] = useState<keyof typeof APPLIES_TO>("repository");
  const repositories = useQuery(queries.repositories);
  const used = useUsedRepositories();
  const people = useQuery({ ...queries.stats("person"), enabled: kind === "user" });
  const known: Record<typeof kind, [string, string][]> = {
    repository: [...(repositories.data?.items ?? []).map((one): [string, string] => [one.source, one.name]), ...used.map((one): [string, string] => [one, ""])],
    user: (people.data?.items ?? []).map((one) => [one.key, ""]),
    credential: [],
  };
  return (
    <>
      <Field label="Applies to">
        {(id) => (
          <select id={id} name="kind" className="field" value={kind} onChange={(event) => setKind(event.target.value as typeof kind)}>
            <option value="repository">A repository</option>
            <option value="user">A user</option>
            <option value="credential">The credentials of a vendor</option>
          </select>
        )}
      </Field>
      <Field label={kind === "credential" ? "Vendor" : "Name"} hint={APPLIES_TO[kind]}>
        {(id) =>
          kind === "credential" ? (
            <select id={id} name="of" className="field">
              {VENDORS.map((one) => (
                <option key={one} value={one}>
                  {providerName(one)}
                </option>
              ))}
            </select>
          ) : (
            <>
              <input id={id} name="of" required autoFocus list={names} autoComplete="off" className="field" />
              <datalist id={names}>
                {known[kind].map(([value, text]) => (
                  <option key={value} value={value}>
                    {text}
                  </option>
                ))}
              </datalist>
            </>
          )
        }
      </Field>
    </>
  );
}

function Counts({ title, counts, icon }: { title: string; counts: Record<string, number>; icon?: boolean }) {
  const rows = Object.entries(counts).filter(([, count]) => count > 0);
  return (
    <section className="card p-3" aria-label={title}>
      <h2 className="mb-2 font-semibold">{title}</h2>
      {rows.length === 0 ? (
        <p className="text-dim">None</p>
      ) : (
        <ul className="flex flex-col gap-1">
          {rows.map(([name, count]) => (
            <li key={name} className="flex items-center gap-2">
              {icon && <StatusIcon status={name} />}
              <span className="mr-auto">{words(name)}</span>
              <span className="tabular-nums">{count.toLocaleString()}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
