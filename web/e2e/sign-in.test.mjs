// People who sign in with GitHub, in a real browser: there and back, told why not, tokens of their own, and out again.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { CLIENT_ID, CLIENT_SECRET, GitHub } from "./github.mjs";
import { PATIENCE, World } from "./world.mjs";

const world = new World();
const github = new GitHub();
const limit = { timeout: PATIENCE * 3 };
const faults = [];
let admin;

before(async () => {
  await github.start();
  const folder = join(world.folder, "home/.config/harvest");
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, "harvest.toml"),
    `[project.shop]
repositories = ["${world.repo}"]
[sign_in]
client_id = "${CLIENT_ID}"
url = "${github.url}"
organizations = ["orchard"]
`,
  );
  world.harvestTold(CLIENT_SECRET, "credential", "add", "github-sign-in", "--from-stdin");
  await world.serve();
  admin = JSON.parse(world.harvest("token", "create", "--role", "admin", "--json")).token;
}, limit);
beforeEach(() => {
  github.member = true;
  github.person = { login: "Ada", id: 7 };
});
after(async () => {
  await world.close();
  github.close();
}, limit);

const call = (token, method, path, body) =>
  fetch(world.server.url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });

/** A window of someone who is not signed in. */
async function stranger() {
  const browser = world.chromium ?? (await world.browser());
  const context = await browser.newContext({ reducedMotion: "reduce" });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to|Uncaught/.test(message.text())) faults.push(message.text());
  });
  await page.goto(world.server.url);
  await page.getByRole("heading", { name: "You are signed out" }).waitFor();
  return { page, context };
}

async function leave(page, button) {
  await page.getByRole("link", { name: "Sign in with GitHub" }).click();
  await page.getByRole("heading", { name: "Harvest wants to access your" }).waitFor();
  assert.ok(page.url().startsWith(github.url), page.url());
  await page.getByRole("button", { name: button }).click();
}

test("someone of the organisation signs in with GitHub, sees tasks, and signs out", limit, async () => {
  const task = await (await call(admin, "POST", "/api/tasks", { prompt: "Prune the old pear tree", repository: world.repo })).json();
  const ada = `ada@${new URL(github.url).host}`;
  assert.equal((await call(admin, "PUT", `/api/projects/shop/members/${ada}`, { role: "member" })).status, 200);
  const { page, context } = await stranger();
  await leave(page, "Authorize harvest");
  await page.getByRole("heading", { name: "Tasks", exact: true }).waitFor();
  await page.getByText("Prune the old pear tree").first().waitFor();
  await page.getByText(ada).first().waitFor();
  const { pathname, search, hash } = new URL(page.url());
  assert.deepEqual([pathname, search, hash], ["/tasks", "", ""], "nothing that signs in stays in the address");
  assert.equal(await page.evaluate(() => document.cookie), "", "scripts cannot read the cookie");
  // They stay signed in, by the address of a task as well.
  await page.goto(`${world.server.url}/tasks/${task.id}`);
  await page.getByRole("tab", { name: "Changes" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "You are signed out" }).waitFor();
  await page.goto(`${world.server.url}/tasks`);
  await page.getByRole("heading", { name: "You are signed out" }).waitFor();
  assert.deepEqual(
    (await context.cookies(world.server.url)).filter((cookie) => cookie.value !== ""),
    [],
  );
  assert.deepEqual(faults, []);
});

test("someone outside of the organisation, and someone who changes their mind, are told why they are not signed in", limit, async () => {
  github.member = false;
  const { page, context } = await stranger();
  await leave(page, "Authorize harvest");
  await page.getByRole("alert").getByText("is not in any of the organizations and teams").waitFor();
  assert.equal(await page.evaluate(async () => (await fetch("/api/me")).status), 401);
  assert.deepEqual(
    (await context.cookies(world.server.url)).filter((cookie) => !cookie.name.endsWith("_errand")),
    [],
  );
  github.member = true;
  await leave(page, "Cancel");
  await page.getByRole("alert").getByText("it was not completed at GitHub").waitFor();
  // The name now belongs to another account than the one that was here.
  github.person = { login: "Ada", id: 8 };
  await leave(page, "Authorize harvest");
  await page.getByRole("alert").getByText("belonged to someone else").waitFor();
  github.person = { login: "Ada", id: 7 };
  await leave(page, "Authorize harvest");
  await page.getByRole("heading", { name: "Tasks", exact: true }).waitFor();
  assert.deepEqual(faults, []);
});

test("a member makes a token of their own, sees it once, and revokes it", limit, async () => {
  const { page } = await stranger();
  await leave(page, "Authorize harvest");
  await page.getByRole("heading", { name: "Tasks", exact: true }).waitFor();
  await page.goto(`${world.server.url}/tokens`);
  await page.getByText("No tokens yet").waitFor();
  await page.getByRole("button", { name: "New token" }).click();
  const dialog = page.getByRole("dialog", { name: "New token" });
  await dialog.getByLabel("Name").fill("laptop");
  await dialog.getByLabel("Role").selectOption("member");
  const roles = await dialog
    .getByLabel("Role")
    .locator("option")
    .evaluateAll((options) => options.map((option) => option.value));
  assert.deepEqual(roles, ["viewer", "member"]);
  await dialog.getByRole("button", { name: "Create" }).click();
  const shown = page.getByRole("dialog", { name: "Your token" });
  const token = (await shown.getByText(/^hv_/).innerText()).trim();
  const me = await (await call(token, "GET", "/api/me")).json();
  assert.equal(me.user, `ada@${new URL(github.url).host}`);
  await shown.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("row").filter({ hasText: "laptop" });
  await row.getByText("shop").waitFor();
  assert.ok(!(await page.content()).includes(token), "it is shown once");
  await row.getByRole("button", { name: "Revoke laptop" }).click();
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /Revoke|Yes/ })
    .click();
  await row.getByText("Revoked").waitFor();
  assert.equal((await call(token, "GET", "/api/me")).status, 401);
  assert.deepEqual(faults, []);
});

test("a schedule's owner, and why its last run was refused, are on the page", limit, async () => {
  const owner = JSON.parse(world.harvest("token", "create", "--role", "member", "--user", "grace", "--project", "shop", "--json"));
  const made = await call(owner.token, "POST", "/api/schedules", { cron: "* * * * *", task: { prompt: "Water the garden", repository: world.repo } });
  assert.equal(made.status, 201, await made.clone().text());
  world.harvest("token", "revoke", owner.id);
  const { page } = await stranger();
  await leave(page, "Authorize harvest");
  await page.getByRole("heading", { name: "Tasks", exact: true }).waitFor();
  await page.goto(`${world.server.url}/schedules`);
  const row = page.getByRole("row").filter({ hasText: "Water the garden" });
  await row.getByText("grace", { exact: true }).waitFor();
  // It falls due within a minute; the page does not know before it is asked again.
  const begun = Date.now();
  while ((await row.getByText(/Last run refused: .*its owner grace is refused/).count()) === 0) {
    assert.ok(Date.now() - begun < PATIENCE * 2, await row.innerText());
    await page.waitForTimeout(1_000);
    await page.reload();
    await row.waitFor();
  }
  assert.deepEqual(faults, []);
});

test("a viewer reads everything and sees no button that would be refused", limit, async () => {
  const ada = `ada@${new URL(github.url).host}`;
  const task = await (await call(admin, "POST", "/api/tasks", { prompt: "Thin the carrots", repository: world.repo })).json();
  assert.equal((await call(admin, "PUT", `/api/projects/shop/members/${ada}`, { role: "viewer" })).status, 200);
  const { page } = await stranger();
  await leave(page, "Authorize harvest");
  await page.getByText("Thin the carrots").first().waitFor();
  const none = async (name) => assert.equal(await page.getByRole("button", { name }).count(), 0, `${name} on ${page.url()}`);
  await none(/^New task/);
  await page.goto(`${world.server.url}/tasks/${task.id}`);
  await page.getByRole("button", { name: "More actions" }).waitFor();
  await none(/^(Stop|Retry|Interrupt)$/);
  assert.equal(await page.getByLabel("Follow-up").count(), 0);
  for (const [path, heading, button] of [
    ["schedules", "Schedules", "New schedule"],
    ["templates", "Templates", "New template"],
    ["repositories", "Repositories", "Add repository"],
    ["credentials", "Credentials", "Add credential"],
    ["tokens", "Tokens", "New token"],
  ]) {
    await page.goto(`${world.server.url}/${path}`);
    await page.getByRole("heading", { name: heading, exact: true }).waitFor();
    await none(button);
  }
  assert.equal((await call(admin, "PUT", `/api/projects/shop/members/${ada}`, { role: "member" })).status, 200);
  assert.deepEqual(faults, []);
});
