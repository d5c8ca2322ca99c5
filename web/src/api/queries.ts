// What the page reads, by name, so that news can say what to read again.
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, ok, setCsrf } from "./client";
import type { SchemaEvent } from "./schema";
import type { SchemaStatus } from "./words";

export interface TaskFilter {
  status?: SchemaStatus;
  repository?: string;
  agent?: string;
  convoy?: string;
  requested_by?: string;
  q?: string;
}

export const queries = {
  me: queryOptions({
    queryKey: ["me"],
    staleTime: Infinity,
    retry: false,
    queryFn: async () => {
      const { data, response } = await api.GET("/api/me");
      setCsrf(data?.csrf);
      return response.status === 401 ? null : ok(Promise.resolve({ data, response }));
    },
  }),
  tasks: (filter: TaskFilter) =>
    infiniteQueryOptions({
      queryKey: ["tasks", filter],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ pageParam }) => ok(api.GET("/api/tasks", { params: { query: { ...filter, limit: 100, cursor: pageParam } } })),
      getNextPageParam: (page) => page.next_cursor ?? undefined,
    }),
  task: (id: string) => queryOptions({ queryKey: ["task", id], queryFn: () => ok(api.GET("/api/tasks/{id}", { params: { path: { id } } })) }),
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
  comments: (id: string) => queryOptions({ queryKey: ["comments", id], queryFn: () => ok(api.GET("/api/sessions/{id}/comments", { params: { path: { id } } })) }),
  /** The end of a session's journal, where a plan that waits is. */
  waiting: (id: string) =>
    queryOptions({
      queryKey: ["session", id, "waiting"],
      queryFn: async () => {
        const { last_seq } = await ok(api.GET("/api/sessions/{id}", { params: { path: { id } } }));
        const { items } = await ok(api.GET("/api/sessions/{id}/events", { params: { path: { id }, query: { after: Math.max(0, last_seq - 100), limit: 100 } }, headers: { Accept: "application/json" } })) as { items: SchemaEvent[] };
        const plan = items.findLast((event) => event.type === "plan.proposed");
        return { plan: plan?.type === "plan.proposed" ? { seq: plan.seq, at: plan.at, text: plan.data.text } : null };
      },
    }),
  queue: queryOptions({ queryKey: ["queue"], queryFn: () => ok(api.GET("/api/queue")), refetchInterval: 10_000 }),
  repositories: queryOptions({ queryKey: ["repositories"], queryFn: () => ok(api.GET("/api/repositories")) }),
  agents: queryOptions({ queryKey: ["agents"], queryFn: () => ok(api.GET("/api/agents")), staleTime: 60_000 }),
  credentials: queryOptions({ queryKey: ["credentials"], queryFn: () => ok(api.GET("/api/credentials")) }),
  tokens: queryOptions({ queryKey: ["tokens"], queryFn: () => ok(api.GET("/api/tokens")) }),
  schedules: queryOptions({ queryKey: ["schedules"], queryFn: () => ok(api.GET("/api/schedules")) }),
  convoys: queryOptions({ queryKey: ["convoys"], queryFn: () => ok(api.GET("/api/convoys")) }),
  stats: (by: "day" | "repository" | "agent" | "model" | "person", from?: string) =>
    queryOptions({ queryKey: ["stats", by, from], queryFn: () => ok(api.GET("/api/stats", { params: { query: { by, from } } })) }),
  audit: infiniteQueryOptions({
    queryKey: ["audit"],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => ok(api.GET("/api/audit", { params: { query: { limit: 100, cursor: pageParam } } })),
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  }),
};
