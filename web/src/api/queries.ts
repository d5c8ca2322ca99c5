// What the page reads, by name, so that news can say what to read again.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, ok } from "./client";
import { Fold } from "../stream/fold";
import { readPage } from "../stream/follow";
import type { SchemaStatus } from "./words";

export interface TaskFilter {
  status?: SchemaStatus;
  repository?: string;
  agent?: string;
  convoy?: string;
  requested_by?: string;
  q?: string;
}

export function taskPage(filter: TaskFilter, cursor?: string) {
  return ok(api.GET("/api/tasks", { params: { query: { ...filter, limit: 200, cursor } } }));
}

export const queries = {
  me: queryOptions({
    queryKey: ["me"],
    staleTime: Infinity,
    retry: false,
    queryFn: async () => {
      const { data, response } = await api.GET("/api/me");
      return response.status === 401 ? null : ok(Promise.resolve({ data, response }));
    },
  }),
  /** Where someone who is not signed in can go. */
  ways: queryOptions({
    queryKey: ["ways"],
    staleTime: Infinity,
    queryFn: async () => {
      const answer = await fetch("/auth/ways");
      return answer.ok ? ((await answer.json()) as { github: string | null }) : { github: null };
    },
  }),
  tasks: (filter: TaskFilter) =>
    infiniteQueryOptions({
      queryKey: ["tasks", filter],
      // Thousands of tasks are not held against each other for every page that comes.
      structuralSharing: false,
      initialPageParam: undefined as string | undefined,
      queryFn: ({ pageParam }) => taskPage(filter, pageParam),
      getNextPageParam: (page) => page.next_cursor ?? undefined,
    }),
  task: (id: string) => queryOptions({ queryKey: ["task", id], queryFn: () => ok(api.GET("/api/tasks/{id}", { params: { path: { id } } })) }),
  race: (id: string) => queryOptions({ queryKey: ["race", id], queryFn: () => ok(api.GET("/api/races/{id}", { params: { path: { id } } })) }),
  session: (id: string) => queryOptions({ queryKey: ["session", id], queryFn: () => ok(api.GET("/api/sessions/{id}", { params: { path: { id } } })) }),
  diff: (id: string, version: number, from?: string, to?: string) =>
    queryOptions({
      queryKey: ["diff", id, version, from, to],
      placeholderData: keepPreviousData,
      queryFn: async () => {
        const diff = await ok(api.GET("/api/sessions/{id}/diff", { params: { path: { id }, query: { from, to } }, headers: { Accept: "application/json" } }));
        return typeof diff === "string" ? { base: "", commit: null, diff } : diff;
      },
    }),
  people: (id: string) => queryOptions({ queryKey: ["people", id], queryFn: () => ok(api.GET("/api/sessions/{id}/people", { params: { path: { id } } })) }),
  comments: (id: string) =>
    queryOptions({ queryKey: ["comments", id], queryFn: () => ok(api.GET("/api/sessions/{id}/comments", { params: { path: { id } } })) }),
  /** What waits for a decision stands at the end of a session's journal. */
  waiting: (id: string) =>
    queryOptions({
      queryKey: ["session", id, "waiting"],
      queryFn: async () => {
        const { last_seq } = await ok(api.GET("/api/sessions/{id}", { params: { path: { id } } }));
        const fold = new Fold();
        (await readPage(id, Math.max(0, last_seq - 100), 100)).forEach((event) => fold.take(event));
        return fold.waits;
      },
    }),
  projects: queryOptions({ queryKey: ["projects"], queryFn: () => ok(api.GET("/api/projects")) }),
  project: (name: string) => queryOptions({ queryKey: ["projects", name], queryFn: () => ok(api.GET("/api/projects/{name}", { params: { path: { name } } })) }),
  members: (name: string) =>
    queryOptions({ queryKey: ["projects", name, "members"], queryFn: () => ok(api.GET("/api/projects/{name}/members", { params: { path: { name } } })) }),
  projectSettings: (name: string) =>
    queryOptions({
      queryKey: ["projects", name, "settings"],
      queryFn: async () => {
        const answer = await api.GET("/api/projects/{name}/settings", { params: { path: { name } } });
        // Whoever changes them says which version they have seen.
        return { ...(await ok(Promise.resolve(answer))), version: answer.response.headers.get("etag") ?? "" };
      },
    }),
  queue: queryOptions({ queryKey: ["queue"], queryFn: () => ok(api.GET("/api/queue")), refetchInterval: 10_000 }),
  repositories: queryOptions({
    queryKey: ["repositories"],
    // Builders tell nobody when they begin and end; what is not built yet will be soon.
    refetchInterval: (query) => (query.state.data?.items.some((one) => one.snapshot.state === "building" || one.snapshot.state === "none") ? 2_000 : false),
    queryFn: () => ok(api.GET("/api/repositories")),
  }),
  buildLog: (name: string, building: boolean) =>
    queryOptions({
      queryKey: ["repositories", name, "log", building],
      // A build tells nobody but its log.
      refetchInterval: building ? 2_000 : false,
      retry: false,
      queryFn: () => ok(api.GET("/api/repositories/{name}/build-log", { params: { path: { name } }, parseAs: "text" })),
    }),
  agents: queryOptions({ queryKey: ["agents"], queryFn: () => ok(api.GET("/api/agents")), staleTime: 60_000 }),
  credentials: queryOptions({ queryKey: ["credentials"], queryFn: () => ok(api.GET("/api/credentials")) }),
  tokens: queryOptions({ queryKey: ["tokens"], queryFn: () => ok(api.GET("/api/tokens")) }),
  evidenceKey: queryOptions({ queryKey: ["evidence-key"], staleTime: Infinity, retry: false, queryFn: () => ok(api.GET("/api/evidence-key")) }),
  templates: queryOptions({ queryKey: ["templates"], queryFn: () => ok(api.GET("/api/templates")) }),
  schedules: queryOptions({ queryKey: ["schedules"], queryFn: () => ok(api.GET("/api/schedules")) }),
  convoys: queryOptions({ queryKey: ["convoys"], queryFn: () => ok(api.GET("/api/convoys")) }),
  stats: (by: "day" | "repository" | "agent" | "model" | "person", from?: string, to?: string) =>
    queryOptions({ queryKey: ["stats", by, from, to], queryFn: () => ok(api.GET("/api/stats", { params: { query: { by, from, to } } })) }),
  pullRequestStats: (by: "day" | "repository" | "agent" | "model" | "person", from?: string) =>
    queryOptions({
      queryKey: ["stats", "pull-requests", by, from],
      queryFn: () => ok(api.GET("/api/stats/pull-requests", { params: { query: { by, from } } })),
    }),
  audit: infiniteQueryOptions({
    queryKey: ["audit"],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => ok(api.GET("/api/audit", { params: { query: { limit: 100, cursor: pageParam } } })),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  }),
};
