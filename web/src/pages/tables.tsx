// Pages that are a table: what there is, and the little that can be done about it.
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactNode, type SubmitEvent } from "react";
import { api, ok } from "../api/client";
import { useMay, useMayIn } from "../api/may";
import { pageWords } from "../api/page-words";
import { queries } from "../api/queries";
import { money } from "../stream/sums";
import { firstLine } from "../text/harmless";
import { fieldText } from "../ui/form";
import { StatusIcon } from "../ui/icons";
import { Button, Code, Dialog, Empty, Field, Page, Table, Trouble, Waiting } from "../ui/parts";
import { exact, since, useNow } from "../ui/time";
import { RepositoryField } from "./repository-field";

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
      {since(at, now)}
    </time>
  ) : (
    <span className="text-dim">never</span>
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

/** Asks once more before something is gone. `named`: a button with its name, where an icon alone could be missed or misread. */
export function Confirm({ what, sure, act, error, named }: { what: string; sure: string; act: () => void; error?: unknown; named?: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      {named ? (
        <Button look="danger" onClick={() => setOpen(true)}>
          {what}
        </Button>
      ) : (
        <Button look="quiet" icon={what.startsWith("Cancel") ? "close" : "trash"} label={what} onClick={() => setOpen(true)} />
      )}
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
                {/* “Cancel” alone would read as “do nothing”. */}
                {what.startsWith("Cancel") ? what : what.split(" ", 1)[0]}
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
  const may = useMay("member");
  const [adding, setAdding] = useState(false);
  return (
    <Page
      title="Schedules"
      actions={
        may && (
          <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
            New schedule
          </Button>
        )
      }
      about="Tasks that run on a schedule."
    >
      <Shown of={schedules} what="schedules">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No schedules yet" icon="schedule">
              For example, every night: update the dependencies and check that the tests still pass.
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
                { name: "Task", cell: (row) => firstLine(textOf(row.request, "prompt"), 120) },
                { name: "Owner", minor: true, cell: (row) => row.owner ?? <span className="text-dim">This machine</span> },
                { name: "Last run", minor: true, cell: (row) => <When at={row.last} /> },
                {
                  name: "Next run",
                  cell: (row) => (
                    <span>
                      <When at={row.next} />
                      {row.problem && <span className="block text-xs text-bad">Last run refused: {firstLine(pageWords(row.problem), 200)}</span>}
                    </span>
                  ),
                },
                { name: "", number: true, cell: (row) => <RemoveSchedule id={row.id} repository={textOf(row.request, "repository")} /> },
              ]}
            />
          )
        }
      </Shown>
      {adding && <AddSchedule onClose={() => setAdding(false)} />}
    </Page>
  );
}

/** A field of the task that a schedule creates. */
function textOf(request: unknown, field: "prompt" | "repository"): string {
  const found = typeof request === "object" && request !== null ? (request as Record<string, unknown>)[field] : null;
  return typeof found === "string" ? found : "";
}

function RemoveSchedule({ id, repository }: { id: string; repository: string }) {
  const may = useMayIn("member", repository);
  const remove = useMutation({ mutationFn: () => ok(api.DELETE("/api/schedules/{id}", { params: { path: { id } } })) });
  if (!may) return null;
  return <Confirm what="Remove schedule" sure="It creates no more tasks. The tasks it created are kept." act={() => remove.mutate()} error={remove.error} />;
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
        <RepositoryField />
        <Field label="When (cron)" hint="Minute, hour, day, month, weekday: 0 3 * * 1-5 means 3:00 a.m., Monday to Friday">
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
    <Page title="Convoys" about="Batches of tasks with their own progress. A task joins a convoy when it is created.">
      <Shown of={convoys} what="convoys">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No convoys yet" icon="convoy">
              To see tasks together, give them the same convoy under “More” in a new task.
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
      about="A record of all changes, oldest first. The log is append-only, and each entry contains the digest of the previous one, so tampering can be detected."
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
                  name: "Time",
                  cell: (row) => (
                    <time dateTime={row.at} className="sm:whitespace-nowrap">
                      {exact(row.at)}
                    </time>
                  ),
                },
                { name: "User", cell: (row) => firstLine(row.actor.replace(/^user:/, ""), 80) },
                {
                  name: "Action",
                  cell: (row) => (
                    <span className="whitespace-nowrap">
                      <Code>{row.action}</Code>
                    </span>
                  ),
                },
                { name: "Target", minor: true, cell: (row) => <Code>{firstLine(row.target, 80)}</Code> },
                { name: "Digest", minor: true, cell: (row) => <Code>{row.digest.slice(0, 12)}</Code> },
              ]}
            />
            {audit.hasNextPage && (
              <Button className="self-center" disabled={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
                Show newer
              </Button>
            )}
          </>
        )}
      </Shown>
    </Page>
  );
}
