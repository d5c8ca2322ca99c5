// Setting up: agents that are tried, repositories whose builds say what they did, other ways to sign in.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { PATIENCE, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 4 };

before(async () => {
  world.addAgent("mute", "Mute", "cat > /dev/null; exit 3");
  await world.serve();
}, limit);
after(() => world.close(), limit);

test("an agent is rehearsed with from the page, and what does not work is named", limit, async () => {
  const { page, faults } = await world.person();
  await page.goto(`${world.server.url}/agents`);
  await page.getByRole("button", { name: "Check Built-in agent" }).click();
  const good = page.getByRole("dialog", { name: "Check Built-in agent" });
  await good.getByText("Built-in agent works here.").waitFor();
  assert.deepEqual(await good.getByRole("listitem").evaluateAll((all) => all.map((one) => one.innerText.split("\n")[0])), [
    "Installed",
    "Starts",
    "Model",
    "Messages",
    "Shell",
    "Edits",
    "Tokens",
    "Ends",
  ]);
  await good.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Check Mute" }).click();
  const bad = page.getByRole("dialog", { name: "Check Mute" });
  await bad.getByText("Mute does not work here.").waitFor();
  await bad.getByRole("listitem").filter({ hasText: "Edits" }).getByRole("img", { name: "Failed" }).waitFor();
  // It worked on nothing of ours.
  assert.equal((await page.evaluate(async () => (await fetch("/api/tasks")).json())).items.length, 0);
  assert.equal(
    await page.evaluate(
      async () =>
        (await fetch("/api/agents/nobody/check", { method: "POST", headers: { "x-harvest-csrf": (await (await fetch("/api/me")).json()).csrf } })).status,
    ),
    400,
  );
  assert.deepEqual(faults, []);
});

test("the whole log of a build is on the page, as text and nothing else", limit, async () => {
  const { page, faults } = await world.joins();
  await page.goto(`${world.server.url}/repositories`);
  await page.getByRole("button", { name: "Add repository" }).click();
  await page.getByLabel("Path on the server's machine, or URL").fill(world.repo);
  await page.getByLabel("Build command").fill("seq -f 'Step %g of the build' 1 1500; echo '<b>built</b>'");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  const row = page.getByRole("row").filter({ hasText: "orchard" });
  await row.getByRole("button", { name: /Built|In progress/ }).click();
  const dialog = page.getByRole("dialog", { name: /uild of orchard/ });
  const log = dialog.getByRole("region", { name: "Build log" });
  await log.getByText("<b>built</b>").waitFor();
  await log.getByText("Step 1500 of the build").waitFor();
  await log.getByText(/earlier lines/).waitFor();
  assert.equal(await log.locator("b").count(), 0);
  const all = await page.evaluate(async () => {
    const answer = await fetch("/api/repositories/orchard/build-log");
    return [answer.headers.get("content-type"), await answer.text()];
  });
  assert.match(all[0], /^text\/plain/);
  assert.ok(all[1].includes("== fetch\n") && all[1].includes("Step 1 of the build\n") && all[1].includes("== freeze"), all[1].slice(0, 400));
  assert.deepEqual(faults, []);
});

test("where GitHub is set up, the way to it is on the page of those who are signed out", limit, async () => {
  const browser = world.chromium ?? (await world.browser());
  const stranger = await (await browser.newContext()).newPage();
  await stranger.goto(world.server.url);
  await stranger.getByRole("heading", { name: "You are signed out" }).waitFor();
  assert.equal(await stranger.getByRole("link", { name: "Sign in with GitHub" }).count(), 0);

  const other = new World();
  try {
    const folder = join(other.folder, "home/.config/harvest");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "harvest.toml"), '[sign_in]\nclient_id = "Iv1.0123456789abcdef"\nurl = "http://127.0.0.1:9"\norganizations = ["orchard"]\n');
    other.harvestTold("0123456789abcdef0123456789abcdef01234567", "credential", "add", "github-sign-in", "--from-stdin");
    await other.serve();
    const page = await (await browser.newContext()).newPage();
    await page.goto(other.server.url);
    const link = page.getByRole("link", { name: "Sign in with GitHub" });
    await link.waitFor();
    const answer = await page.request.get(other.server.url + (await link.getAttribute("href")), { maxRedirects: 0 });
    assert.equal(answer.status(), 303);
    assert.match(answer.headers().location, /^http:\/\/127\.0\.0\.1:9\/login\/oauth\/authorize\?.*client_id=Iv1\.0123456789abcdef/);
  } finally {
    await other.close();
  }
});
