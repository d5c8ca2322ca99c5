// The addresses of the page. Whatever a filter or a tab shows is in the address, so that it can be sent to someone.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { isWholeId, wholeId } from "./api/short-id";
import { isStatus, type SchemaStatus } from "./api/words";
import { Shell } from "./shell";
import { Empty, Trouble } from "./ui/parts";
import { TasksPage } from "./pages/tasks";

export interface TaskSearch {
  view?: "list" | "board";
  status?: SchemaStatus;
  repository?: string;
  agent?: string;
  convoy?: string;
  requested_by?: string;
  q?: string;
  /** The dialog that makes a task is open. */
  new?: true;
}

export const TABS = ["activity", "changes", "evidence", "cost", "timeline", "environment", "race"] as const;
export type Tab = (typeof TABS)[number];

export interface SessionSearch {
  tab?: Tab;
  /** Which of the changes. */
  of?: string;
}

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);

const root = createRootRoute({ component: Shell });

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    redirect({ to: "/tasks", replace: true, throw: true });
  },
});

const tasks = createRoute({
  getParentRoute: () => root,
  path: "/tasks",
  validateSearch: (search: Record<string, unknown>): TaskSearch => ({
    view: search.view === "board" ? "board" : undefined,
    status: isStatus(search.status) ? search.status : undefined,
    repository: text(search.repository),
    agent: text(search.agent),
    convoy: text(search.convoy),
    requested_by: text(search.requested_by),
    q: text(search.q),
    new: search.new === true || undefined,
  }),
  component: TasksPage,
});

const sessionSearch = (search: Record<string, unknown>): SessionSearch => ({
  tab: TABS.find((tab) => tab === search.tab && tab !== "activity"),
  of: text(search.of),
});

const task = createRoute({
  getParentRoute: () => root,
  path: "/tasks/$id",
  validateSearch: sessionSearch,
  beforeLoad: async ({ params, search }) => {
    if (isWholeId(params.id)) return;
    const id = await wholeId("task", params.id);
    redirect({ to: "/tasks/$id", params: { id }, search, replace: true, throw: true });
  },
  component: lazyRouteComponent(() => import("./session/page"), "TaskPage"),
});

const session = createRoute({
  getParentRoute: () => root,
  path: "/sessions/$id",
  validateSearch: sessionSearch,
  beforeLoad: async ({ params, search }) => {
    if (isWholeId(params.id)) return;
    const id = await wholeId("session", params.id);
    redirect({ to: "/sessions/$id", params: { id }, search, replace: true, throw: true });
  },
  component: lazyRouteComponent(() => import("./session/page"), "SessionPage"),
});

const page = <P extends string>(path: P, load: Parameters<typeof lazyRouteComponent>[0], name: string) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load, name) });

const tables = () => import("./pages/tables");
const keys = () => import("./pages/keys");
const projects = () => import("./pages/projects");

const routes = root.addChildren([
  home,
  tasks,
  task,
  session,
  page("/approvals", () => import("./pages/approvals"), "ApprovalsPage"),
  page("/projects", projects, "ProjectsPage"),
  page("/projects/$name", projects, "ProjectPage"),
  page("/queue", () => import("./pages/queue"), "QueuePage"),
  page("/repositories", () => import("./pages/repositories"), "RepositoriesPage"),
  page("/agents", () => import("./pages/agents"), "AgentsPage"),
  page("/schedules", tables, "SchedulesPage"),
  page("/templates", () => import("./pages/templates"), "TemplatesPage"),
  page("/convoys", tables, "ConvoysPage"),
  page("/audit", tables, "AuditPage"),
  page("/credentials", keys, "CredentialsPage"),
  page("/tokens", keys, "TokensPage"),
  page("/api/docs", () => import("./api-docs/page"), "ApiDocsPage"),
  page("/statistics", () => import("./pages/statistics"), "StatisticsPage"),
]);

export function makeRouter() {
  return createRouter({
    routeTree: routes,
    defaultPreload: "intent",
    scrollRestoration: false,
    defaultErrorComponent: ({ error }) => (
      <div className="p-4">
        <Trouble error={error} />
      </div>
    ),
    defaultNotFoundComponent: () => (
      <Empty title="Page not found" icon="search">
        The link may belong to another installation.
      </Empty>
    ),
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
