import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, memo, Suspense, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useMay } from "../api/may";
import { shortError } from "../api/page-words";
import { queries } from "../api/queries";
import type { SchemaTask } from "../api/schema";
import { STATUSES, shortRepository, verdict } from "../api/words";
import type { TaskSearch } from "../router";
import { firstLine } from "../text/harmless";
import { StatusIcon, words } from "../ui/icons";
import { Badge, Button, Code, Empty, Page, Trouble, Waiting } from "../ui/parts";
import { ago, useNow } from "../ui/time";
import { useUsedRepositories } from "./repository-field";
import { TaskList, useTasks } from "./task-list";

const NewTask = lazy(() => import("./new-task"));
const First = lazy(() => import("./first"));
const route = getRouteApi("/tasks");

export function TasksPage() {
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/tasks" });
  const mayCreate = useMay("member");
  const { view, new: creating, ...filter } = search;
  const tasks = useInfiniteQuery({ ...queries.tasks(filter), placeholderData: keepPreviousData });
  const all = useTasks(tasks.data?.pages);
  const filtered = Object.values(filter).some(Boolean);
  const change = (next: Partial<TaskSearch>) => void navigate({ search: (before) => ({ ...before, ...next }), replace: true });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = tasks;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);

  return (
    <Page
      fill
      title="Tasks"
      actions={
        <>
          <div role="group" aria-label="View" className="flex rounded-md border border-line p-0.5">
            {(["list", "board"] as const).map((one) => {
              const chosen = (view ?? "list") === one;
              return (
                <button
                  key={one}
                  type="button"
                  aria-pressed={chosen}
                  onClick={() => change({ view: one === "board" ? one : undefined })}
                  className={`h-6 rounded px-2 font-medium ${chosen ? "bg-hover" : "text-dim hover:text-text"}`}
                >
                  {words(one)}
                </button>
              );
            })}
          </div>
          {mayCreate && (
            <Button look="primary" icon="plus" onClick={() => change({ new: true })}>
              New task
            </Button>
          )}
        </>
      }
    >
      {(all.length > 0 || filtered) && <Filters search={search} change={change} />}
      {tasks.isPending ? (
        <Waiting what="tasks" />
      ) : tasks.isError && all.length === 0 ? (
        <div className="p-4">
          <Trouble error={tasks.error} again={() => void tasks.refetch()} />
        </div>
      ) : all.length === 0 ? (
        filtered ? (
          <Empty title="No matching tasks" icon="search">
            <Button className="mt-2" onClick={() => void navigate({ search: { view } })}>
              Show all tasks
            </Button>
          </Empty>
        ) : (
          <Suspense>
            <First create={() => change({ new: true })} />
          </Suspense>
        )
      ) : view === "board" ? (
        <Board tasks={all} more={hasNextPage ? more : undefined} />
      ) : (
        <TaskList tasks={all} more={more} />
      )}
      <Suspense>{creating && mayCreate && <NewTask onClose={() => change({ new: undefined })} />}</Suspense>
    </Page>
  );
}

function Filters({ search, change }: { search: TaskSearch; change: (next: Partial<TaskSearch>) => void }) {
  const repositories = useQuery(queries.repositories);
  const agents = useQuery(queries.agents);
  const [q, setQ] = useState(search.q ?? "");
  const latest = useRef(change);
  useLayoutEffect(() => {
    latest.current = change;
  });
  useEffect(() => {
    if (q === (search.q ?? "")) return;
    const timer = setTimeout(() => latest.current({ q: q || undefined }), 200);
    return () => clearTimeout(timer);
  }, [q, search.q]);
  const used = useUsedRepositories();
  const names: [string, string][] = [
    ...(repositories.data?.items ?? []).map((one): [string, string] => [one.name, one.name]),
    ...used.map((source): [string, string] => [source, shortRepository(source)]),
  ];
  return (
    <div role="search" className="flex shrink-0 flex-wrap items-center gap-2 border-b border-line px-4 py-2">
      <input
        type="search"
        data-search
        value={q}
        onChange={(event) => setQ(event.target.value)}
        aria-label="Search tasks"
        placeholder="Search tasks"
        className="field !w-full min-w-0 sm:!w-56"
      />
      <Choice
        label="Status"
        value={search.status}
        options={STATUSES.map((status) => [status, words(status)])}
        pick={(status) => change({ status: status as TaskSearch["status"] })}
      />
      {names.length > 0 && <Choice label="Repository" value={search.repository} options={names} pick={(repository) => change({ repository })} />}
      <Choice label="Agent" value={search.agent} options={(agents.data?.items ?? []).map((one) => [one.id, one.name])} pick={(agent) => change({ agent })} />
      {search.convoy && (
        <Button onClick={() => change({ convoy: undefined })} icon="close">
          Convoy {search.convoy}
        </Button>
      )}
      {search.requested_by && (
        <Button onClick={() => change({ requested_by: undefined })} icon="close">
          Requested by {search.requested_by}
        </Button>
      )}
    </div>
  );
}

function Choice({ label, value, options, pick }: { label: string; value?: string; options: [string, string][]; pick: (value?: string) => void }) {
  return (
    <select
      aria-label={label}
      value={value ?? ""}
      onChange={(event) => pick(event.target.value || undefined)}
      className={`h-8 min-w-0 flex-1 rounded-md border bg-page px-2 sm:max-w-40 sm:flex-none ${value ? "border-accent font-medium text-accent" : "border-strong text-dim"}`}
    >
      <option value="">{label}</option>
      {value && !options.some(([id]) => id === value) && <option value={value}>{value}</option>}
      {options.map(([id, name]) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  );
}

const COLUMNS = [
  { name: "Waiting", icon: "pending", of: ["pending"] },
  { name: "Working", icon: "running", of: ["provisioning", "running"] },
  { name: "Needs you", icon: "awaiting_approval", of: ["awaiting_approval", "interrupted"] },
  { name: "Done", icon: "completed", of: ["completed"] },
  { name: "Failed or cancelled", icon: "failed", of: ["failed", "cancelled"] },
];

function Board({ tasks, more }: { tasks: SchemaTask[]; more?: () => void }) {
  const now = useNow();
  return (
    <div className="flex min-h-0 flex-1 snap-x scroll-px-4 gap-3 overflow-x-auto p-4" tabIndex={0} role="region" aria-label="Task board">
      {COLUMNS.map((column) => {
        const own = tasks.filter((task) => column.of.includes(task.status));
        return (
          <section
            key={column.name}
            aria-label={column.name}
            className="flex w-72 shrink-0 snap-start flex-col rounded-lg bg-side lg:w-auto lg:min-w-52 lg:flex-1"
          >
            <h2 className="flex items-center gap-2 px-3 py-2 font-medium">
              <StatusIcon status={column.icon} /> {column.name} <span className="text-dim">{own.length}</span>
            </h2>
            <div className="flex min-h-0 flex-1 flex-col gap-2 overflow-y-auto px-2 pb-2" tabIndex={0} role="region" aria-label={`${column.name}, tasks`}>
              {own.slice(0, 200).map((task) => (
                <Card key={task.id} task={task} now={now} />
              ))}
              {own.length === 0 && <p className="px-1 py-2 text-dim">None</p>}
            </div>
          </section>
        );
      })}
      {more && (
        <div className="shrink-0 self-start">
          <Button onClick={more}>Show older</Button>
        </div>
      )}
    </div>
  );
}

const Card = memo(function Card({ task, now }: { task: SchemaTask; now: number }) {
  const tests = verdict(task);
  return (
    <Link to="/tasks/$id" params={{ id: task.id }} data-task={task.id} className="card block p-2.5 shadow-sm hover:border-strong">
      <span className="line-clamp-3 break-words">{firstLine(task.prompt)}</span>
      {task.error && (
        <span className={`mt-1 line-clamp-2 text-xs break-words ${task.status === "failed" ? "text-bad" : "text-dim"}`}>
          {firstLine(shortError(task.error), 160)}
        </span>
      )}
      <span className="mt-2 flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-dim">
        <StatusIcon status={task.status} size={13} />
        <Code>{shortRepository(task.repository)}</Code>
        <span>{task.agent}</span>
        {tests && (
          <Badge wraps tone={tests.tone}>
            {tests.text}
          </Badge>
        )}
        <time dateTime={task.created_at} className="ml-auto tabular-nums">
          {ago(task.created_at, now)}
        </time>
      </span>
    </Link>
  );
});
