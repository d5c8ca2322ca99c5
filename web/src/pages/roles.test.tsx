// What people see by their role: a viewer everything to read, and no button that the server would refuse.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test, vi } from "vitest";
import table from "../../../crates/harvest/tests/it/verdict_table.json";
import { queries } from "../api/queries";
import type { SchemaMe, SchemaQueue, SchemaSessionDetail, SchemaTask } from "../api/schema";
import { Actions } from "../session/actions";
import { Composer, Decide } from "../session/composer";
import { Paused } from "../session/paused";
import { Journal } from "../stream/journal";
import { AddToken, CredentialsPage, Secret, TokensPage } from "./keys";
import { ProjectsPage } from "./projects";
import { concurrency, QueuePage } from "./queue";
import { RepositoriesPage } from "./repositories";
import { SchedulesPage } from "./tables";
import { TemplatesPage } from "./templates";

vi.mock("@tanstack/react-router", async (original) => ({ ...(await original<object>()), Link: ({ children }: { children: ReactNode }) => <a>{children}</a> }));

type Rights = Pick<SchemaMe, "role" | "projects" | "roles">;

const VIEWER: Rights = { role: "viewer" };
const MEMBER: Rights = { role: "member" };
const ADMIN: Rights = { role: "admin" };
const ADMIN_OF_A_PROJECT: Rights = { role: "admin", projects: ["shop"], roles: { shop: "admin" } };

const QUEUE = {
  paused: false,
  workers: 1,
  turns: { claimed: 0, ready: 0, waiting: 0, blocked: 0, parked: 0 },
  cost_usd: 0,
  tasks: {},
  failures: {},
  processes: [],
  caps: [],
  next: [],
} as unknown as SchemaQueue;

const SCHEDULE = { id: "1", cron: "0 3 * * *", time_zone: "UTC", request: { prompt: "Water the garden", repository: "/src/shop" }, next: null, last: null };

/** A page as someone with these rights sees it. */
function shown(me: Rights, page: ReactNode): string {
  const client = new QueryClient();
  client.setQueryData(queries.me.queryKey, { user: "ada", version: "0", ...me } as never);
  client.setQueryData(queries.queue.queryKey, QUEUE);
  for (const status of ["pending", "provisioning", "running"] as const)
    client.setQueryData(queries.tasks({ status }).queryKey, { pages: [{ items: [task(status)] }], pageParams: [undefined] });
  client.setQueryData(queries.schedules.queryKey, { items: [SCHEDULE] } as never);
  client.setQueryData(queries.projects.queryKey, { items: [{ name: "shop", repositories: ["/src/shop"] }] });
  for (const { queryKey } of [queries.credentials, queries.tokens, queries.repositories, queries.templates]) client.setQueryData(queryKey, { items: [] });
  return renderToStaticMarkup(<QueryClientProvider client={client}>{page}</QueryClientProvider>);
}

/** The names of the buttons: their label, or else their text. */
function buttons(me: Rights, page: ReactNode): string[] {
  const found = shown(me, page).matchAll(/<button([^>]*)>(.*?)<\/button>/gs);
  return [...found].map(([, attributes = "", inner = ""]) => /aria-label="([^"]*)"/.exec(attributes)?.[1] ?? inner.replace(/<[^>]*>/g, ""));
}

describe("on a page, only those who may see the buttons", () => {
  test.each([
    ["New schedule", <SchedulesPage key="s" />, [MEMBER, ADMIN, ADMIN_OF_A_PROJECT]],
    ["Remove schedule", <SchedulesPage key="s" />, [MEMBER, ADMIN, ADMIN_OF_A_PROJECT]],
    ["New template", <TemplatesPage key="t" />, [MEMBER, ADMIN, ADMIN_OF_A_PROJECT]],
    ["New token", <TokensPage key="t" />, [MEMBER, ADMIN, ADMIN_OF_A_PROJECT]],
    ["Add credential", <CredentialsPage key="c" />, [MEMBER, ADMIN, ADMIN_OF_A_PROJECT]],
    ["Add repository", <RepositoriesPage key="r" />, [ADMIN]],
    ["New project", <ProjectsPage key="p" />, [ADMIN]],
    ["Pause", <QueuePage key="q" />, [ADMIN]],
    ["Add cap", <QueuePage key="q" />, [ADMIN]],
  ])("%s", (button, page, allowed) => {
    const seen = [VIEWER, MEMBER, ADMIN, ADMIN_OF_A_PROJECT].filter((me) => buttons(me, page).includes(button));
    expect(seen).toEqual(allowed);
  });

  test("a viewer reads the rest of the page", () => {
    expect(shown(VIEWER, <SchedulesPage />)).toContain("Water the garden");
    expect(shown(VIEWER, <QueuePage />)).toContain("Workers");
    expect(shown(VIEWER, <CredentialsPage />)).toContain("Your role cannot see credentials");
  });
});

function task(status: SchemaTask["status"]): SchemaTask {
  const prompt = `This task is ${status}`;
  return {
    ...(table as unknown as Record<string, SchemaTask>).command_missing,
    id: status,
    prompt,
    repository: "/src/shop",
    priority: "normal",
    status,
  } as SchemaTask;
}

/** A session whose task is in this state. */
function session(status: SchemaTask["status"]): SchemaSessionDetail {
  return { id: "s1", task: task(status), turns: [{ number: 2, status: "queued", author: "bea", prompt: "And the docs" }] } as unknown as SchemaSessionDetail;
}

describe("in a session", () => {
  const viewer: Rights = { role: "admin", projects: ["shop", "farm"], roles: { shop: "viewer", farm: "admin" } };

  test.each([VIEWER, viewer])("a viewer neither stops nor retries, decides nor sends anything", (me) => {
    expect(buttons(me, <Actions session={session("running")} />)).toEqual(["More actions"]);
    expect(buttons(me, <Actions session={session("failed")} />)).toEqual(["More actions"]);
    expect(buttons(me, <Composer session={session("running")} />)).toEqual([]);
    expect(buttons(me, <Decide task={session("awaiting_approval").task} plan="1. Dig" />)).toEqual([]);
    expect(buttons(me, <Paused session={session("interrupted")} journal={new Journal()} />)).toEqual([]);
  });

  test("a viewer reads what is queued and what is waited for", () => {
    expect(shown(VIEWER, <Composer session={session("running")} />)).toContain("And the docs");
    expect(shown(VIEWER, <Decide task={session("awaiting_approval").task} plan="1. Dig" />)).toContain("The agent is waiting for a decision");
    expect(shown(VIEWER, <Paused session={session("interrupted")} journal={new Journal()} />)).toContain("Interrupted");
  });

  test("a member does all of it", () => {
    expect(buttons(MEMBER, <Actions session={session("running")} />)).toEqual(["Interrupt", "Stop", "More actions"]);
    expect(buttons(MEMBER, <Actions session={session("failed")} />)).toEqual(["Retry", "More actions"]);
    expect(buttons(MEMBER, <Composer session={session("running")} />)).toEqual(["Queue"]);
    expect(buttons(MEMBER, <Decide task={session("awaiting_approval").task} plan="1. Dig" />)).toEqual(["Reject", "Edit", "Approve"]);
    expect(buttons(MEMBER, <Paused session={session("interrupted")} journal={new Journal()} />)).toEqual(["Resume"]);
  });
});

test("nobody is offered a role for a token that is above their own", () => {
  const roles = (me: Rights) => [...shown(me, <AddToken onClose={() => undefined} />).matchAll(/<option value="(\w+)"/g)].map(([, role]) => role);
  expect(roles(MEMBER)).toEqual(["viewer", "member"]);
  expect(roles(ADMIN)).toEqual(["viewer", "member", "admin"]);
  expect(roles(ADMIN_OF_A_PROJECT)).toEqual(["viewer", "member", "admin"]);
});

test("a server of Ollama needs no secret, and every other provider needs one", () => {
  expect(shown(ADMIN, <Secret provider="ollama" />)).not.toContain("required");
  expect(shown(ADMIN, <Secret provider="anthropic" />)).toContain("required");
  expect(shown(ADMIN, <Secret />)).toContain("required");
});

test("a task whose sandbox is being made is among those that run", () => {
  const page = shown(VIEWER, <QueuePage />);
  const [, running = "", waiting = ""] = /aria-label="Running tasks"(.*?)aria-label="Waiting tasks"(.*)/s.exec(page) ?? [];
  const statuses = (html: string) => [...html.matchAll(/This task is (\w+)/g)].map(([, status]) => status);
  expect([new Set(statuses(running)), new Set(statuses(waiting))]).toEqual([new Set(["provisioning", "running"]), new Set(["pending"])]);
});

test("an empty concurrency leaves the number to the workers, and 0 cannot be entered", () => {
  const page = shown(ADMIN, <QueuePage />);
  expect(/<input[^>]*name="agents"[^>]*>/.exec(page)?.[0]).toMatch(/min="1"/);
  expect(/<input[^>]*name="agents"[^>]*>/.exec(page)?.[0]).not.toMatch(/required/);
  expect(page).toContain("Empty: as many as each worker was started with. To stop work, pause the queue.");
  const of = (text: string) => {
    const data = new FormData();
    data.set("agents", text);
    return concurrency(data);
  };
  expect([of(""), of("3")]).toEqual([0, 3]);
});
