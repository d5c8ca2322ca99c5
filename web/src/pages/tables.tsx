// Pages that are a table: what there is, and the little that can be done about it.
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactNode, type SubmitEvent } from "react";
import { api, ok } from "../api/client";
import { queries } from "../api/queries";
import type { SchemaRepository } from "../api/schema";
import { money } from "../stream/sums";
import { firstLine } from "../text/harmless";
import { fieldText } from "../ui/form";
import { StatusIcon, words } from "../ui/icons";
import { Badge, Button, Code, Dialog, Empty, Field, Page, Table, Trouble, Waiting } from "../ui/parts";
import { ago, exact, useNow } from "../ui/time";
import { LastBuild } from "./last-build";

interface Read<T> {
  data?: T;
  isPending: boolean;
  isError: boolean;
  error: unknown;
  refetch: () => unknown;
}

/** What was read, or why it was not. */
export function Shown<T>({ of, what, children }: { of: Read<T>; what: string; children: (data: T) => ReactNode }) {
  if (of.data !== undefined) return children(of.data);
  if (of.isPending) return <Waiting what={what} />;
  return <Trouble error={of.error} again={() => void of.refetch()} />;
}

export function When({ at }: { at?: string | null }) {
  const now = useNow();
  return at ? (
    <time dateTime={at} title={exact(at)} className="whitespace-nowrap text-dim tabular-nums">
      {ago(at, now)}
    </time>
  ) : (
    <span className="text-dim">never</span>
  );
}

export function QueuePage() {
  const queue = useQuery(queries.queue);
  const me = useQuery(queries.me);
  const change = useMutation({ mutationFn: (body: { paused?: boolean; agents?: number }) => ok(api.PATCH("/api/queue", { body })) });
  const mayChange = me.data?.role === "admin";
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
              <p className="text-dim">
                No worker is running. <Code>harvest serve</Code> works on tasks itself unless it was started with <Code>--agents 0</Code>;{" "}
                <Code>harvest up</Code> adds workers on this or other machines.
              </p>
            )}
            {mayChange && (
              <form
                className="flex items-end gap-2"
                onSubmit={(event: SubmitEvent<HTMLFormElement>) => {
                  event.preventDefault();
                  change.mutate({ agents: Number(new FormData(event.currentTarget).get("agents")) });
                }}
              >
                <div className="w-44">
                  <Field label="Concurrency">
                    {(id) => (
                      <input
                        key={data.agents ?? ""}
                        id={id}
                        name="agents"
                        className="field"
                        type="number"
                        min="0"
                        max="1000"
                        required
                        defaultValue={data.agents ?? ""}
                        placeholder="As many as fit this machine"
                      />
                    )}
                  </Field>
                </div>
                <Button type="submit" className="h-8" disabled={change.isPending}>
                  Set
                </Button>
              </form>
            )}
            <div className="grid gap-4 md:grid-cols-2">
              <Counts title="Tasks" counts={data.tasks} icon />
              <Counts title="Why tasks failed" counts={data.failures} />
            </div>
            {data.caps.length > 0 && (
              <Table
                label="Bounds"
                rows={data.caps}
                id={(row) => row.name}
                columns={[
                  { name: "Bound", cell: (row) => <Code>{row.name}</Code> },
                  { name: "Used", number: true, cell: (row) => row.used },
                  { name: "Of", number: true, cell: (row) => row.size },
                ]}
              />
            )}
          </>
        )}
      </Shown>
    </Page>
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

export function Figure({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="card px-3 py-2">
      <dt className="text-xs text-dim">{name}</dt>
      <dd className="text-lg font-semibold tabular-nums">{value}</dd>
      {note && <dd>{note}</dd>}
    </div>
  );
}

export function RepositoriesPage() {
  const repositories = useQuery(queries.repositories);
  const [adding, setAdding] = useState(false);
  return (
    <Page
      title="Repositories"
      actions={
        <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
          Add repository
        </Button>
      }
      about="A repository that Harvest knows is kept prepared: cloned, dependencies installed, built. Sessions start from that in milliseconds."
    >
      <Shown of={repositories} what="repositories">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No repository yet" icon="repository">
              Tasks can name any path or URL. Those that are added here start faster.
            </Empty>
          ) : (
            <Table
              label="Repositories"
              rows={items}
              id={(row) => row.name}
              columns={[
                {
                  name: "Name",
                  cell: (row) => (
                    <Link to="/tasks" search={{ repository: row.name }} className="font-medium hover:underline">
                      {row.name}
                    </Link>
                  ),
                },
                { name: "Source", minor: true, cell: (row) => <Code>{row.source}</Code> },
                { name: "Snapshot", cell: (row) => <SnapshotState of={row} /> },
                { name: "Commit", minor: true, cell: (row) => (row.snapshot.commit ? <Code>{row.snapshot.commit.slice(0, 10)}</Code> : null) },
                { name: "Built", cell: (row) => <When at={row.snapshot.built_at} /> },
                { name: "Next", minor: true, cell: (row) => (row.snapshot.next_at ? <When at={row.snapshot.next_at} /> : null) },
                { name: "Last build", cell: (row) => <LastBuild of={row} /> },
                { name: "", number: true, cell: (row) => <RemoveRepository name={row.name} /> },
              ]}
            />
          )
        }
      </Shown>
      {adding && <AddRepository onClose={() => setAdding(false)} />}
    </Page>
  );
}

function SnapshotState({ of }: { of: SchemaRepository }) {
  const state = of.snapshot.state;
  return <Badge tone={/ready|fresh|built/.test(state) ? "good" : /fail/.test(state) ? "bad" : "plain"}>{words(state)}</Badge>;
}

function RemoveRepository({ name }: { name: string }) {
  const remove = useMutation({ mutationFn: () => ok(api.DELETE("/api/repositories/{name}", { params: { path: { name } } })) });
  return <Confirm what={`Remove ${name}`} sure="Its tasks stay. Its snapshots are removed." act={() => remove.mutate()} error={remove.error} />;
}

export function AddRepository({ onClose }: { onClose: () => void }) {
  const add = useMutation({
    mutationFn: (body: { source: string; name?: string; branch?: string; setup?: string; build?: string }) => ok(api.POST("/api/repositories", { body })),
    onSuccess: onClose,
  });
  return (
    <Dialog title="Add repository" onClose={onClose}>
      <FormOf
        error={add.error}
        busy={add.isPending}
        act="Add"
        onClose={onClose}
        submit={(text) => add.mutate({ source: text("source") ?? "", name: text("name"), branch: text("branch"), setup: text("setup"), build: text("build") })}
      >
        <Field label="Path on the server's machine, or URL">{(id) => <input id={id} name="source" required autoFocus className="field" />}</Field>
        <Field label="Name">{(id) => <input id={id} name="name" className="field" placeholder="From the path" />}</Field>
        <Field label="Branch">{(id) => <input id={id} name="branch" className="field" placeholder="The repository's own" />}</Field>
        <Field label="Install command">{(id) => <input id={id} name="setup" className="field font-mono" placeholder="Found in the repository" />}</Field>
        <Field label="Build command">{(id) => <input id={id} name="build" className="field font-mono" placeholder="Found in the repository" />}</Field>
      </FormOf>
    </Dialog>
  );
}

interface FormProps {
  children: ReactNode;
  error: unknown;
  busy: boolean;
  act: string;
  onClose: () => void;
  submit: (text: (name: string) => string | undefined) => void;
}

export function FormOf({ children, error, busy, act, onClose, submit }: FormProps) {
  const send = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    submit((name) => fieldText(data, name).trim() || undefined);
  };
  return (
    <form onSubmit={send} className="flex flex-col gap-3 p-4">
      {children}
      {error ? <Trouble error={error} /> : null}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" type="submit" disabled={busy}>
          {act}
        </Button>
      </div>
    </form>
  );
}

/** Asks once more before something is gone. */
export function Confirm({ what, sure, act, error }: { what: string; sure: string; act: () => void; error?: unknown }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button look="quiet" icon="close" label={what} onClick={() => setOpen(true)} />
      {open && (
        <Dialog title={`${what}?`} onClose={() => setOpen(false)}>
          <div className="flex flex-col gap-3 p-4 text-left">
            <p>{sure}</p>
            {error ? <Trouble error={error} /> : null}
            <div className="flex justify-end gap-2">
              <Button autoFocus onClick={() => setOpen(false)}>
                Keep
              </Button>
              <Button look="danger" onClick={act}>
                {what.split(" ", 1)[0]}
              </Button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}

export function SchedulesPage() {
  const schedules = useQuery(queries.schedules);
  const [adding, setAdding] = useState(false);
  return (
    <Page
      title="Schedules"
      actions={
        <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
          New schedule
        </Button>
      }
      about="Tasks that run on a schedule."
    >
      <Shown of={schedules} what="schedules">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No schedule yet" icon="schedule">
              For example every night: update dependencies and see whether the tests still pass.
            </Empty>
          ) : (
            <Table
              label="Schedules"
              rows={items}
              id={(row) => row.id}
              columns={[
                {
                  name: "When",
                  cell: (row) => (
                    <span>
                      <Code>{row.cron}</Code> <span className="text-dim">{row.time_zone}</span>
                    </span>
                  ),
                },
                { name: "Task", cell: (row) => firstLine(promptOf(row.request), 120) },
                { name: "Owner", minor: true, cell: (row) => row.owner ?? <span className="text-dim">This machine</span> },
                { name: "Last", minor: true, cell: (row) => <When at={row.last} /> },
                {
                  name: "Next",
                  cell: (row) => (
                    <span>
                      <When at={row.next} />
                      {row.problem && <span className="block text-xs text-bad">Last refused: {firstLine(row.problem, 200)}</span>}
                    </span>
                  ),
                },
                { name: "", number: true, cell: (row) => <RemoveSchedule id={row.id} /> },
              ]}
            />
          )
        }
      </Shown>
      {adding && <AddSchedule onClose={() => setAdding(false)} />}
    </Page>
  );
}

function promptOf(request: unknown): string {
  const found = typeof request === "object" && request !== null && "prompt" in request ? request.prompt : null;
  return typeof found === "string" ? found : "";
}

function RemoveSchedule({ id }: { id: string }) {
  const remove = useMutation({ mutationFn: () => ok(api.DELETE("/api/schedules/{id}", { params: { path: { id } } })) });
  return <Confirm what="Remove schedule" sure="It creates no more tasks. Tasks it created stay." act={() => remove.mutate()} error={remove.error} />;
}

function AddSchedule({ onClose }: { onClose: () => void }) {
  const add = useMutation({
    mutationFn: (body: { cron: string; time_zone?: string; task: { prompt: string; repository: string } }) => ok(api.POST("/api/schedules", { body })),
    onSuccess: onClose,
  });
  return (
    <Dialog title="New schedule" onClose={onClose}>
      <FormOf
        error={add.error}
        busy={add.isPending}
        act="Save"
        onClose={onClose}
        submit={(text) =>
          add.mutate({ cron: text("cron") ?? "", time_zone: text("zone"), task: { prompt: text("prompt") ?? "", repository: text("repository") ?? "" } })
        }
      >
        <Field label="Task">{(id) => <textarea id={id} name="prompt" required autoFocus rows={3} className="field" />}</Field>
        <Field label="Repository">{(id) => <input id={id} name="repository" required className="field" placeholder="Name, path or URL" />}</Field>
        <Field label="When, as cron" hint="Minute, hour, day, month, weekday: 0 3 * * 1-5 is at three in the morning from Monday to Friday">
          {(id) => <input id={id} name="cron" required className="field font-mono" placeholder="0 3 * * 1-5" />}
        </Field>
        <Field label="Time zone">
          {(id) => <input id={id} name="zone" className="field" defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone} />}
        </Field>
      </FormOf>
    </Dialog>
  );
}

export function ConvoysPage() {
  const convoys = useQuery(queries.convoys);
  return (
    <Page title="Convoys" about="Batches of tasks that are followed as one. A task joins a convoy when it is created.">
      <Shown of={convoys} what="convoys">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No convoy yet" icon="convoy">
              Give tasks the same convoy, under “More” of a new task or with <Code>--convoy</Code>, to see them together.
            </Empty>
          ) : (
            <Table
              label="Convoys"
              rows={items}
              id={(row) => row.name}
              columns={[
                {
                  name: "Name",
                  cell: (row) => (
                    <Link to="/tasks" search={{ convoy: row.name }} className="font-medium hover:underline">
                      {row.name}
                    </Link>
                  ),
                },
                {
                  name: "Tasks",
                  cell: (row) => (
                    <span className="flex flex-wrap gap-3">
                      {Object.entries(row.tasks)
                        .filter(([, count]) => count > 0)
                        .map(([status, count]) => (
                          <span key={status} className="inline-flex items-center gap-1">
                            <StatusIcon status={status} />
                            {count}
                          </span>
                        ))}
                    </span>
                  ),
                },
                { name: "Cost", number: true, cell: (row) => money(row.cost_usd) },
              ]}
            />
          )
        }
      </Shown>
    </Page>
  );
}

export function AuditPage() {
  const audit = useInfiniteQuery(queries.audit);
  return (
    <Page
      title="Audit"
      about="Who changed what. Entries are only ever added, and each holds the digest of the one before it, so that none can be changed unnoticed."
    >
      <Shown of={audit} what="the audit log">
        {(data) => (
          <>
            <Table
              label="Audit log"
              rows={data.pages.flatMap((page) => page.items)}
              id={(row) => row.number}
              columns={[
                { name: "No.", number: true, minor: true, cell: (row) => row.number },
                {
                  name: "At",
                  cell: (row) => (
                    <time dateTime={row.at} className="whitespace-nowrap">
                      {exact(row.at)}
                    </time>
                  ),
                },
                { name: "Who", cell: (row) => firstLine(row.actor, 80) },
                { name: "Did", cell: (row) => <Code>{row.action}</Code> },
                { name: "To", minor: true, cell: (row) => <Code>{firstLine(row.target, 80)}</Code> },
                { name: "Digest", minor: true, cell: (row) => <Code>{row.digest.slice(0, 12)}</Code> },
              ]}
            />
            {audit.hasNextPage && (
              <Button className="self-center" disabled={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
                Show older
              </Button>
            )}
          </>
        )}
      </Shown>
    </Page>
  );
}
