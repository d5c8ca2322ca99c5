import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, PATIENCE, status, walk, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };

before(async () => {
  await world.serve();
}, limit);
after(() => world.close(), limit);

test("a link signs in once, and whoever is signed out is told what to do", limit, async () => {
  const browser = await world.browser();
  const stranger = await (await browser.newContext()).newPage();
  await stranger.goto(`${world.server.url}/tasks`);
  await stranger.getByRole("heading", { name: "You are signed out" }).waitFor();
  await stranger.getByText("harvest token link").waitFor();

  const { page, context } = await world.person();
  const cookies = await context.cookies();
  assert.ok(cookies.some((cookie) => cookie.httpOnly && cookie.sameSite === "Lax"));
  assert.equal(await page.evaluate(() => document.cookie), "", "scripts cannot read the cookie");

  await stranger.goto(world.server.link);
  await stranger.getByText("That link has already been used or has expired").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "You are signed out" }).waitFor();
});

test("create, watch, changes, evidence, cost; all of it by its address too", limit, async () => {
  const { page, faults, context } = await world.joins();
  const address = await ask(page, "Make the failing test pass", world.repo);
  await status(page, "completed").waitFor();
  await page.getByText("should print two").first().waitFor();
  await page.getByRole("article").filter({ hasText: "Tests in a clean sandbox" }).getByText("2 passed").first().waitFor();

  await page.getByRole("tab", { name: "Changes" }).click();
  await page.getByText("2 files").waitFor();
  const changed = page.getByRole("region", { name: "Changes in src/two.sh" });
  await changed.getByText("echo two", { exact: true }).waitFor();
  await changed.getByText("echo three", { exact: true }).waitFor();

  await page.getByRole("tab", { name: "Evidence" }).click();
  const evidence = page.getByRole("region", { name: "Evidence" });
  await evidence.getByText("1 failed").first().waitFor();
  await evidence.getByText("2 passed").first().waitFor();

  await page.getByRole("tab", { name: "Cost" }).click();
  await page.getByRole("region", { name: "Model calls" }).getByText("6,300").waitFor();

  const other = await context.newPage();
  await other.goto(`${address}?tab=timeline`);
  await other.getByRole("region", { name: "Time by activity" }).getByText("Agent").waitFor();
  await other.goto(`${address}?tab=environment`);
  await other.getByRole("region", { name: "Sandboxes" }).getByText("Verify").waitFor();
  assert.deepEqual(faults, []);
});

test("lists change while one looks, and their filters are in the address", limit, async () => {
  const { page, context, faults } = await world.joins();
  const watcher = await context.newPage();
  await watcher.goto(`${world.server.url}/tasks?q=seen%20from`);
  await watcher.getByText("No matching tasks").waitFor();
  await ask(page, "Make it pass, seen from elsewhere", world.repo);
  const row = watcher.getByRole("link", { name: /seen from elsewhere/ });
  await row.getByRole("img", { name: "Completed" }).waitFor();
  await watcher.goto(`${world.server.url}/tasks?status=failed`);
  await watcher.getByText("No matching tasks").waitFor();
  await watcher.goto(`${world.server.url}/tasks?view=board`);
  await watcher.getByRole("region", { name: "Done, tasks" }).getByText("seen from elsewhere").waitFor();
  assert.deepEqual(faults, []);
});

test("what a hostile agent prints is text and nothing else", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Be hostile", world.repo);
  await status(page, "failed").waitFor();
  await page.getByText("<img src=x onerror=").first().waitFor();
  await page.getByText("⟨U+202E⟩turned").first().waitFor();
  const call = page.getByRole("button", { name: /shell|bash/i }).first();
  if ((await call.getAttribute("aria-expanded")) === "false") await call.click();
  await page.getByText("<b>bold</b> ␇").first().waitFor();
  const longest = await page.evaluate(() =>
    Math.max(...[...document.querySelectorAll("pre")].flatMap((pre) => pre.textContent.split("\n")).map((line) => line.length)),
  );
  assert.ok(longest <= 2_001, `a line of ${longest} characters is shown`);
  // Right to left stays within its own text, and nothing runs out of the page, on a phone neither.
  assert.deepEqual(
    await page.evaluate(() =>
      [...document.querySelectorAll("pre.stranger")].map((pre) => getComputedStyle(pre).unicodeBidi).filter((one) => one !== "isolate"),
    ),
    [],
  );
  for (const width of [1280, 360]) {
    await page.setViewportSize({ width, height: 740 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `wider than ${width}`);
    const feed = page.getByRole("region", { name: "Activity" });
    assert.ok(await feed.evaluate((element) => element.scrollWidth <= element.clientWidth), `the stream is wider than ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 740 });
  assert.equal(await page.locator("article a, article img, article script, article iframe").count(), 0, "nothing of it is markup");
  await page.getByRole("tab", { name: "Changes" }).click();
  await page.getByText("⟨U+202E⟩txt.exe").waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(faults, []);
});

test("the server restarts, and the stream goes on without a line lost or repeated", limit, async () => {
  const { page, context } = await world.joins();
  const address = await ask(page, "Go on slowly", world.repo);
  await page.getByText("Step 2 of thirty.").waitFor();
  await world.stop();
  await page.getByText("Connection lost, reconnecting").waitFor();
  await world.serve({ listen: world.server.address });
  await page.getByText("Connection lost, reconnecting").waitFor({ state: "detached" });
  await page.getByText("All thirty steps are done.").first().waitFor();
  // Nothing was changed, and the tests failed before.
  await status(page, "completed").waitFor();

  const shown = await everySeq(page);
  const fresh = await context.newPage();
  await fresh.goto(address);
  await fresh.getByText("All thirty steps are done.").last().waitFor();
  assert.deepEqual(shown, await everySeq(fresh), "what was watched is what is read afterwards");
  assert.equal(new Set(shown).size, shown.length);
});

test("stopped by its button, tried again by another; with the keyboard alone", limit, async () => {
  const { page } = await world.joins();
  await page.keyboard.press("c");
  await page.locator("textarea:focus").waitFor();
  await page.keyboard.type("Take it slowly");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Control+a");
  await page.keyboard.type(world.repo);
  await page.keyboard.press("Control+Enter");
  await page.getByText("Step 1 of thirty.").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).focus();
  await page.keyboard.press("Enter");
  await status(page, "cancelled").waitFor();
  await page.getByRole("button", { name: "Retry" }).focus();
  await page.keyboard.press("Enter");
  await status(page, "running").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await status(page, "cancelled").waitFor();
  await page.keyboard.press("Control+k");
  await page.locator("input[role=combobox]:focus").waitFor();
  await page.keyboard.type("credent");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Credentials", exact: true }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.getByRole("heading", { name: "Tasks", exact: true }).waitFor();
});

test("a credential goes in and never comes out", limit, async () => {
  const { page } = await world.joins();
  const bodies = [];
  page.on("response", async (response) => bodies.push(await response.text().catch(() => "")));
  await page.goto(`${world.server.url}/credentials`);
  await page.getByRole("button", { name: "Add credential" }).click();
  await page.getByLabel("Secret").fill("sk-canary-0123456789abcdef-WXYZ");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("…WXYZ").waitFor();
  await page.reload();
  await page.getByText("…WXYZ").waitFor();
  assert.ok(!(await page.content()).includes("sk-canary"));
  assert.ok(!bodies.some((body) => body.includes("sk-canary")));
});

/** The numbers of all entries. */
async function everySeq(page) {
  return (await walk(page)).map((entry) => entry.seq);
}
