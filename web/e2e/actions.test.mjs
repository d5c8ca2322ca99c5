// What is done with one click and cannot be taken back, and the forms that an admin fills in.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { ask, PATIENCE, status, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };

before(() => world.serve(), limit);
after(() => world.close(), limit);

const read = (page, path) => page.evaluate(async (path) => (await fetch(path)).json(), path);
const idOf = (address) => new URL(address).pathname.split("/").pop();

test("a task is terminated from its menu, which offers the name of a branch only when there is one", limit, async () => {
  const { page, context, faults } = await world.joins({ permissions: ["clipboard-read", "clipboard-write"] });
  const menu = async () => {
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menu").waitFor();
    return page.getByRole("menuitem").allInnerTexts();
  };
  const address = await ask(page, "Take it slowly, until someone ends it", world.repo);
  await page.getByText("Step 1 of thirty.").waitFor();
  assert.deepEqual(await menu(), ["Copy link", "Download events", "Terminate immediately"]);
  await page.getByRole("menuitem", { name: "Terminate immediately" }).click();
  await status(page, "cancelled").waitFor();
  const ended = await read(page, `/api/tasks/${idOf(address)}`);
  assert.deepEqual([ended.status, ended.branch ?? null], ["cancelled", null]);
  assert.deepEqual(await menu(), ["Copy link", "Download events"]);
  await page.keyboard.press("Escape");

  const other = await ask(page, "Make the failing test pass, on a branch", world.repo);
  await status(page, "completed").waitFor();
  assert.deepEqual(await menu(), ["Copy branch name", "Copy link", "Download events"]);
  await page.getByRole("menuitem", { name: "Copy branch name" }).click();
  const { branch } = await read(page, `/api/tasks/${idOf(other)}`);
  assert.match(branch, /^harvest\//);
  await page.waitForFunction(async (branch) => (await navigator.clipboard.readText()) === branch, branch);
  await menu();
  const [events] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: "Download events" }).click()]);
  assert.match(events.suggestedFilename(), /^events-.*\.jsonl$/);
  const lines = readFileSync(await events.path(), "utf8")
    .trimEnd()
    .split("\n");
  const [session] = (await read(page, `/api/tasks/${idOf(other)}`)).sessions;
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).seq),
    Array.from({ length: (await read(page, `/api/sessions/${session.id}`)).last_seq }, (_, index) => index + 1),
  );
  const copied = page.getByRole("region", { name: "Summary" });
  await copied.getByRole("button", { name: "Copy branch name" }).click();
  await copied.getByRole("button", { name: "Copied" }).waitFor();
  await context.clearPermissions();
  assert.deepEqual(faults, []);
});

test("a project is made, set up and removed; what is wrong with a setting is said beside it", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Say apples", world.repo);
  await status(page, "completed").waitFor();
  await page.goto(`${world.server.url}/projects`);
  await page.getByRole("button", { name: "New project" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("market");
  // One that a task has used does not have to be typed.
  await dialog.getByRole("button", { name: `Add ${world.repo}` }).click();
  assert.equal(await dialog.getByLabel("Repositories", { exact: true }).inputValue(), world.repo);
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("link", { name: "market" }).click();
  await page.getByRole("region", { name: "Repositories" }).getByText(world.repo).waitFor();

  await page.getByRole("button", { name: "Add member" }).click();
  await dialog.getByLabel("User").fill("bea");
  await dialog.getByLabel("Role").selectOption("viewer");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByLabel("Role of bea").selectOption("admin");
  await page.waitForFunction(async () => (await (await fetch("/api/projects/market/members")).json()).items[0]?.role === "admin");

  const settings = page.getByRole("table").filter({ hasText: "budget_usd" });
  const row = (name) => settings.getByRole("row").filter({ has: page.getByText(name, { exact: true }) });
  const set = async (name, value) => {
    await row(name)
      .getByRole("button", { name: `Edit ${name}` })
      .click();
    await dialog.getByLabel("Value for this project").fill(value);
    await dialog.getByRole("button", { name: "Save" }).click();
  };
  await set("budget_usd", "7.5");
  await row("budget_usd").getByText("this project").waitFor();
  await row("budget_usd").getByText("7.5").waitFor();
  await set("timeout", "soon");
  const alert = dialog.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /soon/);
  assert.doesNotMatch(await alert.innerText(), /harvest [a-z]|\/api|--[a-z]/);
  await dialog.getByLabel("Value for this project").fill("20m");
  await dialog.getByRole("button", { name: "Save" }).click();
  await row("timeout").getByText("this project").waitFor();
  await set("timeout", "");
  await row("timeout").getByText("this project").waitFor({ state: "detached" });
  assert.deepEqual((await read(page, "/api/projects/market/settings")).settings, { budget_usd: 7.5 });

  // Someone else is faster.
  await row("budget_usd").getByRole("button", { name: "Edit budget_usd" }).click();
  await page.evaluate(async () => {
    const version = (await fetch("/api/projects/market/settings")).headers.get("etag");
    const body = JSON.stringify({ settings: { budget_usd: 9 } });
    const answer = await fetch("/api/projects/market/settings", { method: "PUT", headers: { "if-match": version, "content-type": "application/json" }, body });
    if (!answer.ok) throw new Error(await answer.text());
  });
  await dialog.getByLabel("Value for this project").fill("8");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByRole("alert").getByText("Reload the page to see the change, then make yours.").waitFor();
  await page.reload();
  await row("budget_usd").getByText("9", { exact: true }).waitFor();

  await page.getByRole("button", { name: "Remove project" }).click();
  await dialog.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByText("No projects yet").waitFor();
  assert.deepEqual(faults, []);
});

test("a repository that a task has used is in every list of repositories", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Say pears", world.repo);
  await status(page, "completed").waitFor();
  const offered = async (open) => {
    await open();
    await page.locator(`dialog datalist option[value="${world.repo}"]`).waitFor({ state: "attached" });
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  await page.goto(`${world.server.url}/tasks`);
  await page.getByRole("search").getByLabel("Repository").selectOption(world.repo);
  await page.waitForURL(/repository=/);
  await page.getByRole("link", { name: "Say pears" }).waitFor();
  await offered(() => page.getByRole("main").getByRole("button", { name: "New task" }).click());
  for (const [path, name] of [
    ["/templates", "New template"],
    ["/schedules", "New schedule"],
    ["/queue", "Add cap"],
  ]) {
    await page.goto(world.server.url + path);
    await offered(() => page.getByRole("button", { name }).click());
  }
  await page.goto(`${world.server.url}/projects`);
  await page.getByRole("button", { name: "New project" }).click();
  await page
    .getByRole("group", { name: "Known repositories" })
    .getByRole("button", { name: `Add ${world.repo}` })
    .waitFor();
  await page.keyboard.press("Escape");
  await page.goto(`${world.server.url}/repositories`);
  await page.getByRole("region", { name: "Used by tasks" }).first().getByText(world.repo).waitFor();
  assert.deepEqual(faults, []);
});

test("a waiting task is cancelled on the queue page, by a button that says so", limit, async () => {
  const { page, faults } = await world.joins();
  const first = idOf(await ask(page, "Take it slowly, while another waits", world.repo));
  await ask(page, "Wait for what never comes", world.repo, {
    more: async (dialog) => {
      await dialog.getByText("More", { exact: true }).click();
      await dialog.getByLabel("After").fill(first.slice(0, 8));
    },
  });
  await page.goto(`${world.server.url}/queue`);
  const row = page.getByRole("row").filter({ hasText: "Wait for what never comes" });
  await row.getByRole("button", { name: "Cancel task" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel task" }).click();
  await row.waitFor({ state: "detached" });
  await page.goto(`${world.server.url}/tasks/${first}`);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await status(page, "cancelled").waitFor();
  assert.deepEqual(faults, []);
});
