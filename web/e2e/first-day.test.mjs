// The first day on the page: nothing is set up, and it leads to the first verified branch.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { vendor } from "./vendor.mjs";
import { PATIENCE, status, World } from "./world.mjs";

const KEY = "sk-ant-api03-first-day-on-the-page-0042";
const world = new World();
const limit = { timeout: PATIENCE * 4 };
let host;

before(async () => {
  host = await vendor(KEY, [{ shell: "printf 'echo two\\n' > src/two.sh" }, { say: "Done." }]);
  await world.serve({ script: false });
}, limit);
after(async () => {
  await world.close();
  await host?.close();
}, limit);

test("the page leads from nothing to the first verified branch, and to its merge", limit, async () => {
  const { page, faults } = await world.person();
  const steps = page.getByRole("region", { name: "Your first task" }).getByRole("listitem");
  const step = (title) => steps.filter({ hasText: title });
  await step("An agent that can reach a model").getByRole("img", { name: "Pending" }).waitFor();
  await step("A repository").getByRole("img", { name: "Pending" }).waitFor();

  await step("An agent that can reach a model").getByRole("button", { name: "Add a key" }).click();
  await page.getByLabel("Secret").fill(KEY);
  await page.getByLabel("URL (default: the vendor's)").fill(host.url);
  await page.getByRole("dialog").getByRole("button", { name: "Add", exact: true }).click();
  await step("An agent that can reach a model").getByRole("img", { name: "Completed" }).waitFor();
  await step("An agent that can reach a model")
    .getByText(/Built-in agent/)
    .waitFor();

  await step("A repository").getByRole("button", { name: "Add a repository" }).click();
  await page.getByLabel("Path on the server's machine, or URL").fill(world.repo);
  await page.getByRole("dialog").getByRole("button", { name: "Add", exact: true }).click();
  await step("A repository").getByRole("img", { name: "Completed" }).waitFor();

  await page.getByRole("region", { name: "Your first task" }).getByRole("button", { name: "New task" }).click();
  const dialog = page.getByRole("dialog", { name: "New task" });
  await dialog.getByLabel("Task", { exact: true }).fill("Make the failing test pass");
  assert.equal(await dialog.getByLabel("Repository", { exact: true }).inputValue(), "orchard");
  await dialog.getByRole("button", { name: "Start", exact: true }).click();

  await page.waitForURL(/\/tasks\/[a-z0-9]{6,}/);
  await status(page, "completed").waitFor();
  const summary = page.getByRole("region", { name: "Summary" });
  await summary.getByText("2 passed").waitFor();
  await summary.getByText("Review changes").click();
  await page.getByRole("region", { name: "Changes in src/two.sh" }).getByText("echo two").waitFor();
  await summary.getByRole("button", { name: "Merge…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Merge", exact: true }).click();
  await page.getByRole("dialog").getByText("Merged into").waitFor();
  assert.equal(readFileSync(join(world.repo, "src/two.sh"), "utf8"), "echo two\n");
  assert.doesNotMatch(await page.content(), new RegExp(KEY));
  assert.deepEqual(faults, []);
});
