// Asking and setting up on the page: every option of a task, the queue, snapshots, templates, credentials, and the API itself.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { asThePage, ask, PATIENCE, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };

before(() => world.serve(), limit);
after(() => world.close(), limit);

const read = (page, path) => page.evaluate(async (path) => (await fetch(path)).json(), path);
const send = (page, method, path, body) =>
  page.evaluate(
    async ([method, path, body]) => (await fetch(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json(),
    [method, path, body],
  );

test("a new task takes dependencies, retries, gate, workflow, review and MCP; its footer is always in sight", limit, async () => {
  const { page, faults } = await world.joins({ viewport: { width: 390, height: 700 } });
  const first = new URL(await ask(page, "Take it slowly, before the other", world.repo)).pathname.split("/").pop();
  const address = await ask(page, "Wait for the first one", world.repo, {
    plan: true,
    more: async (dialog) => {
      await dialog.getByText("More", { exact: true }).click();
      const start = await dialog.getByRole("button", { name: "Start", exact: true }).boundingBox();
      assert.ok(start && start.y + start.height <= 700, "the button is on the screen though the form is long");
      await dialog.getByLabel(/Hold the result/).check();
      await dialog.getByLabel("Retries").fill("3");
      await dialog.getByLabel("Workflow").selectOption("research-plan-implement");
      await dialog.getByLabel("Plan review").selectOption("builtin");
      await dialog.getByLabel("After").fill(first.slice(0, 8));
      await dialog.getByLabel("If one of them fails").selectOption("cancel");
    },
  });
  const task = await read(page, `/api/tasks/${new URL(address).pathname.split("/").pop()}`);
  assert.deepEqual([task.after, task.retries_left, task.on_failed_dependency], [[first], 3, "cancel"]);
  assert.deepEqual([task.settings.gate, task.settings.workflow, task.settings.plan_review], [true, "research-plan-implement", "builtin"]);
  await page.getByRole("region", { name: "Summary" }).getByText("Waiting for").waitFor();
  await page
    .getByRole("region", { name: "Summary" })
    .getByRole("link", { name: /before the other/ })
    .waitFor();

  await page.setViewportSize({ width: 1280, height: 900 });
  // What the session still asks for is not of the queue.
  await page.goto("about:blank");
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(`${world.server.url}/queue`);
  await page.getByRole("region", { name: "Running tasks", exact: true }).first().getByText("before the other").first().waitFor();
  const waiting = page.getByRole("row").filter({ hasText: "Wait for the first one" });
  await waiting.getByText(first.slice(0, 8)).waitFor();
  await waiting.getByText("(running)").waitFor();
  assert.deepEqual(
    asked.filter((path) => /^\/api\/(tasks|sessions)\/./.test(path)),
    [],
    "the list is enough",
  );
  await page.getByRole("region", { name: "Workers" }).first().getByText("accepting work").first().waitFor();
  await page.getByRole("button", { name: "Add cap" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill(world.repo);
  await page.getByRole("dialog").getByLabel("Maximum concurrent tasks").fill("20");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText(`repository:${world.repo}`).waitFor();
  // Tasks count against the vendor of their model.
  await page.getByRole("button", { name: "Add cap" }).click();
  await page.getByRole("dialog").getByLabel("Applies to").selectOption("credential");
  await page.getByRole("dialog").getByLabel("Vendor").selectOption("anthropic");
  await page.getByRole("dialog").getByLabel("Maximum concurrent tasks").fill("30");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("credential:anthropic", { exact: true }).waitFor();

  // The order is that in which workers take the tasks; what cannot start yet has no number.
  await send(page, "PATCH", "/api/queue", { paused: true });
  for (const [prompt, priority] of [
    ["Later, without hurry", "low"],
    ["In due course", "normal"],
    ["Before all others", "urgent"],
  ])
    await send(page, "POST", "/api/tasks", { prompt, repository: world.repo, priority });
  const queued = page.getByRole("region", { name: "Waiting tasks", exact: true }).first();
  await queued.getByText("Later, without hurry").waitFor();
  await queued.getByRole("row", { name: /^3 .*Later, without hurry/ }).waitFor();
  const shown = (await queued.getByRole("row").allInnerTexts()).slice(1).map((row) => row.split(/\s+/)[0]);
  assert.deepEqual(shown, ["1", "2", "3", "–"]);
  assert.match(await queued.getByRole("row").nth(1).innerText(), /Before all others/);
  for (const { id } of (await read(page, "/api/tasks?status=pending")).items) await send(page, "POST", `/api/tasks/${id}/cancel`, {});
  await send(page, "PATCH", "/api/queue", { paused: false });
  await send(page, "POST", `/api/tasks/${first}/terminate`, {});
  assert.deepEqual(faults, []);
});

test("a judge of a race and an unknown MCP server: what is asked for arrives, and what is wrong is told in the page's words", limit, async () => {
  const { page, faults } = await world.joins();
  await page.goto(`${world.server.url}/tasks?new=true`);
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Task", { exact: true }).fill("Which is best");
  await dialog.getByLabel("Repository", { exact: true }).fill(world.repo);
  await dialog.getByLabel("Race").selectOption("2");
  await dialog.getByLabel("Judge").selectOption("builtin");
  await dialog.getByText("More", { exact: true }).click();
  await dialog.getByLabel("MCP servers").fill("nowhere");
  const asked = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/api/tasks"));
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  const { race, mcp } = (await asked).postDataJSON();
  assert.deepEqual([race, mcp], [{ number: 2, judged_by: "cost", judge: "builtin" }, ["nowhere"]]);
  const alert = dialog.getByRole("alert");
  await alert.getByText(/nowhere/).waitFor();
  assert.doesNotMatch(await alert.innerText(), /harvest [a-z]+ |GET \/api/);
  assert.deepEqual(faults, []);
});

test("repositories that were used are offered everywhere; a snapshot that failed shows its log, is built again, and is not the default", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Say apples", world.repo);
  await page.getByText("Apples it is.").first().waitFor();
  await page.waitForFunction(() => document.querySelector("[data-status=completed], [data-status=failed]"));
  await page.goto(`${world.server.url}/repositories`);
  await page.getByRole("region", { name: "Used by tasks" }).first().getByText(world.repo).waitFor();
  await page.getByRole("button", { name: "Prepare" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel(/Path on the server/).inputValue(), world.repo);
  await dialog.getByLabel("Install command").fill("echo the registry is gone >&2; exit 7");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("button", { name: "Failed: see the log" }).click();
  await page
    .getByRole("dialog")
    .getByText(/the registry is gone/)
    .first()
    .waitFor();
  await page.keyboard.press("Escape");
  const before = (await read(page, "/api/repositories/orchard")).snapshot.last_build.at;
  await page.getByRole("button", { name: "Rebuild" }).click();
  await page.waitForFunction(async (before) => (await (await fetch("/api/repositories/orchard")).json()).snapshot.last_build.at !== before, before);
  await page.evaluate(() => localStorage.setItem("harvest-last-repository", "orchard"));
  await page.goto(`${world.server.url}/tasks?new=true`);
  const field = page.getByRole("dialog").getByLabel("Repository", { exact: true });
  await page.locator("datalist option[value=orchard]").waitFor({ state: "attached" });
  assert.equal(await field.inputValue(), "", "not by itself");
  await field.fill("orchard");
  await page
    .getByRole("dialog")
    .getByText(/snapshot build of orchard failed/)
    .waitFor();
  assert.deepEqual(faults, []);
});

test("a template is made, filled in and removed", limit, async () => {
  const { page, faults } = await world.joins();
  await page.goto(`${world.server.url}/templates`);
  await page.getByRole("button", { name: "New template" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("fruit");
  await dialog.getByLabel("Task").fill("Say {{ fruit }}");
  await dialog.getByLabel("Repository").fill(world.repo);
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("row").filter({ hasText: "fruit" }).getByRole("button", { name: "Use" }).click();
  await dialog.getByLabel("fruit").fill("apples");
  await dialog.getByRole("button", { name: "Start" }).click();
  await page.getByText("Apples it is.").first().waitFor();
  await page.goto(`${world.server.url}/templates`);
  await page.getByRole("button", { name: "Remove fruit" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByText("No templates yet").waitFor();
  assert.deepEqual(faults, []);
});

test("credentials have a scope, also those of GitHub and of MCP servers", limit, async () => {
  const { page, faults } = await world.joins();
  await send(page, "POST", "/api/projects", { name: "shop", repositories: [] });
  await page.goto(`${world.server.url}/credentials`);
  const add = async (kind, fill) => {
    await page.getByRole("button", { name: "Add credential" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Provider", { exact: true }).selectOption(kind);
    if (kind !== "ollama") await dialog.getByLabel("Secret").fill("abcdefgh-1234");
    await fill(dialog);
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  };
  await add("mcp", async (dialog) => {
    await dialog.getByLabel("Name").fill("tracker");
    await dialog.getByLabel("Used by").selectOption("project:shop");
  });
  await add("github", async () => {});
  // A server of Ollama needs no secret.
  await add("ollama", async (dialog) => {
    await dialog.getByLabel("Name").fill("farm");
    await dialog.getByLabel("URL of the Ollama server").fill("http://127.0.0.1:11434");
  });
  await page.getByRole("row").filter({ hasText: "Ollama" }).getByRole("button", { name: "Remove farm" }).click();
  const removal = page.getByRole("dialog", { name: "Remove farm?" });
  await removal.getByText("Harvest can no longer use it. Revoke it at the provider as well.").waitFor();
  await removal.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByRole("row").filter({ hasText: "Ollama" }).waitFor({ state: "detached" });
  await page.goto(`${world.server.url}/credentials`);
  await page.getByRole("row").filter({ hasText: "tracker" }).getByText("Project shop").waitFor();
  const { items } = await read(page, "/api/credentials");
  assert.deepEqual(items.map((one) => `${one.provider} ${one.scope.split(":", 1)}`).sort(), ["github user", "mcp project"]);
  assert.deepEqual(faults, []);
});

test("the API is read by anyone, and tried by whoever is signed in or has a token", limit, async () => {
  const { page, faults } = await world.joins();
  await page.goto(`${world.server.url}/api/docs`);
  await page.getByRole("searchbox", { name: "Search operations" }).fill("task.list");
  await page.getByRole("button", { name: /GET \/tasks$/ }).click();
  const answers = page.getByRole("region", { name: "Responses" });
  await answers.getByText("next_cursor").first().waitFor();
  await page
    .getByRole("region", { name: "Try it" })
    .getByLabel(/^limit/)
    .fill("1");
  await page.getByRole("button", { name: "Send" }).click();
  const answer = page.getByRole("status", { name: "Response" });
  await answer.getByText("200").first().waitFor();
  await answer.getByText(/"items"/).waitFor();
  await page.getByRole("searchbox", { name: "Search operations" }).fill("task.create");
  await page.getByRole("button", { name: /POST \/tasks$/ }).click();
  assert.deepEqual(JSON.parse(await page.getByLabel("Body (JSON)").inputValue()), { prompt: "Make the failing test pass", repository: "shop" });
  await page.getByRole("region", { name: "Request body" }).getByText("OnFailedDependency").first().waitFor();

  const token = world.harvest("--json", "token", "create", "--name", "reader", "--role", "viewer");
  const context = await world.chromium.newContext();
  await asThePage(context);
  const stranger = await context.newPage();
  if (process.env.HARVEST_PAGE) return assert.deepEqual(faults, []);
  await stranger.goto(`${world.server.url}/api/docs#task.list`);
  await stranger.getByText("List tasks").first().waitFor();
  assert.ok(await stranger.getByRole("button", { name: "Send" }).isDisabled());
  await stranger.getByText(/Use another token/).click();
  await stranger.getByLabel("Token", { exact: true }).fill(JSON.parse(token).token);
  await stranger.getByRole("button", { name: "Send" }).click();
  await stranger.getByRole("status", { name: "Response" }).getByText("200").first().waitFor();
  assert.deepEqual(faults, []);
});
