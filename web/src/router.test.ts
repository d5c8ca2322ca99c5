import { createMemoryHistory } from "@tanstack/react-router";
import { beforeEach, expect, test, vi } from "vitest";
import { makeRouter } from "./router";

const WHOLE = "qb2q9x2c4v6b8n0q";
const asked = vi.hoisted((): unknown[] => []);

// Only the addresses are looked at here, not what is drawn.
vi.mock("./shell", () => ({ Shell: () => null }));
vi.mock("./pages/tasks", () => ({ TasksPage: () => null }));
vi.mock("./session/page", () => ({ TaskPage: () => null, SessionPage: () => null }));
vi.mock("./api/client", async (original) => ({
  ...(await original<typeof import("./api/client")>()),
  api: {
    GET: (path: string, { params }: { params: { query: unknown } }) => {
      asked.push([path, params.query]);
      return Promise.resolve({ data: { items: [{ id: WHOLE }] }, response: new Response() });
    },
  },
}));

beforeEach(() => asked.splice(0));

async function opened(address: string): Promise<string> {
  const router = makeRouter();
  router.update({ ...router.options, history: createMemoryHistory({ initialEntries: [address] }) });
  await router.load();
  // Without a browser the router says where it would go.
  const result = router._serverResult;
  return (result?.type === "redirect" && result.redirect.headers.get("Location")) || router.state.location.href;
}

test("a link with a short ID opens the page of the whole one, at the same tab", async () => {
  expect(await opened("/tasks/qb2q?tab=changes")).toBe(`/tasks/${WHOLE}?tab=changes`);
  expect(await opened("/sessions/qb2q")).toBe(`/sessions/${WHOLE}`);
  expect(asked).toEqual([
    ["/api/tasks", { id: "qb2q" }],
    ["/api/sessions", { id: "qb2q" }],
  ]);
});

test("a link with a whole ID asks for nothing first", async () => {
  expect(await opened(`/tasks/${WHOLE}`)).toBe(`/tasks/${WHOLE}`);
  expect(asked).toEqual([]);
});
