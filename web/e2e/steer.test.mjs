// People who steer: ask for more, decide on plans, fork, hand over, and do it together.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { TABS } from "./pages.mjs";
import { ask, PATIENCE, status, walk, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };

before(async () => {
  world.addAgent("parrot", "Parrot", "cat > /dev/null; printf 'echo two\\n' > src/two.sh; echo I am the parrot and I mended it.");
  await world.serve();
}, limit);
after(() => world.close(), limit);

const composer = (page) => page.getByRole("textbox", { name: "Follow-up" });

async function more(page, text) {
  await composer(page).fill(text);
  await composer(page).press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("textarea[aria-label='Follow-up']")?.value === "");
}

test("two people in one session: prompts queue while the agent works, in one order for both, and are answered", limit, async () => {
  const ada = await world.joins({ user: "ada" });
  const address = await ask(ada.page, "Work patiently on it", world.repo);
  await ada.page.getByText("Part 1 of twelve.").waitFor();
  const bea = await world.joins({ user: "bea" });
  await bea.page.goto(address);
  await bea.page.getByText("Part 1 of twelve.").waitFor();
  await more(ada.page, "Say apples");
  await bea.page.getByText("1 queued").waitFor();
  await more(bea.page, "Say pears");
  await ada.page.getByText("2 queued").waitFor();
  for (const { page } of [ada, bea]) {
    await page.getByText("Pears it is.").first().waitFor();
    await status(page, "completed").waitFor();
  }
  const [hers, theirs] = [await walk(ada.page), await walk(bea.page)];
  assert.deepEqual(hers, theirs, "both see the same");
  const asked = hers
    .filter((entry) => entry.kind === "prompt")
    .map((entry) =>
      entry.text
        .split("\n")
        .filter((line) => line && !/^\d/.test(line))
        .join(" "),
    );
  assert.deepEqual(asked, ["ada Work patiently on it", "ada Say apples", "bea Say pears"]);
  assert.deepEqual([...ada.faults, ...bea.faults], []);
});

test("a plan is read in the inbox, changed, approved and carried out", limit, async () => {
  const { page, faults } = await world.joins();
  const address = await ask(page, "Make two.sh right", world.repo, { plan: true });
  await status(page, "awaiting_approval").waitFor();
  await page.goto(`${world.server.url}/approvals`);
  const waiting = page.getByRole("article", { name: /Make two.sh right/ });
  await waiting.getByText("Nothing else is touched.").waitFor();
  await waiting.getByRole("button", { name: "Edit" }).click();
  await waiting.getByRole("textbox", { name: "The plan" }).fill("Mend two.sh and write it down in NOTES.md.");
  await waiting.getByRole("button", { name: "Approve as edited" }).click();
  await page.getByText("Nothing is waiting for you").waitFor();
  await page.goto(address);
  await status(page, "completed").waitFor();
  await page.getByText("Done as planned.").first().waitFor();
  const plan = page.getByRole("region", { name: "Plan" });
  await plan.getByText("write it down in NOTES.md").waitFor();
  await plan.getByText(/Approved by .*, with edits/).waitFor();
  await page.getByRole("tab", { name: "Changes" }).click();
  await page.getByRole("region", { name: "Changes in NOTES.md" }).getByText("mended").waitFor();
  assert.deepEqual(faults, []);
});

test("a plan that is turned down is made again, or is the end", limit, async () => {
  const { page, faults } = await world.joins();
  const address = await ask(page, "Make two.sh right once more", world.repo, { plan: true });
  await status(page, "awaiting_approval").waitFor();
  await page.goto(`${world.server.url}/approvals`);
  const waiting = page.getByRole("article", { name: /once more/ });
  await waiting.getByRole("button", { name: "Reject" }).click();
  await waiting.getByRole("textbox", { name: "What should change" }).fill("Leave the database alone");
  await waiting.getByRole("button", { name: "Reject" }).click();
  await waiting.getByText("Then I would only touch").waitFor();
  await waiting.getByRole("button", { name: "Reject" }).click();
  await waiting.getByRole("button", { name: "Reject" }).click();
  await page.getByText("Nothing is waiting for you").waitFor();
  await page.goto(address);
  await status(page, "cancelled").waitFor();
  assert.deepEqual(faults, []);
});

test("a fork goes on from a moment whose work was saved, beside the first", limit, async () => {
  const { page, faults } = await world.joins();
  const address = await ask(page, "Make the failing test pass", world.repo);
  await status(page, "completed").waitFor();
  const early = page.getByRole("article").filter({ hasText: "The test tests/two.sh fails" });
  await early.hover();
  assert.equal(await early.getByRole("button", { name: "Fork from here" }).count(), 0, "nothing was saved by then");
  await page.keyboard.press("End");
  const end = page.locator("[data-kind=end]");
  await end.hover();
  await end.getByRole("button", { name: "Fork from here" }).click();
  await page.getByRole("dialog").getByLabel("Task", { exact: true }).fill("Try another way");
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.waitForURL((url) => url.href !== address);
  await page.getByText("The fork is done.").first().waitFor();
  await page.getByText("Try another way").first().waitFor();
  await page.getByRole("tab", { name: "Changes" }).click();
  await page.getByRole("region", { name: "Changes in FORKED.md" }).waitFor();
  await page.goto(address);
  await status(page, "completed").waitFor();
  assert.equal(await page.getByText("The fork is done.").count(), 0, "the first stays as it is");
  assert.deepEqual(faults, []);
});

test("another agent goes on where the first failed", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Look for it in vain", world.repo);
  await status(page, "failed").waitFor();
  await page.getByRole("combobox", { name: "Agent for the follow-up" }).selectOption({ label: "Parrot" });
  await more(page, "Then you do it");
  await page.getByText("I am the parrot and I mended it.").first().waitFor();
  await status(page, "completed").waitFor();
  await page.getByText("parrot started").waitFor();
  assert.deepEqual(faults, []);
});

test("every tab has an address, of the task and of the session", limit, async () => {
  const { page, faults } = await world.joins();
  const address = await ask(page, "Make the failing test pass", world.repo);
  await status(page, "completed").waitFor();
  const task = new URL(address).pathname.split("/").pop();
  const session = await page.evaluate(async (task) => (await (await fetch(`/api/tasks/${task}`)).json()).sessions[0].id, task);
  for (const tab of TABS) {
    for (const path of [`/tasks/${task}`, `/sessions/${session}`]) {
      await page.goto(`${world.server.url}${path}?tab=${tab}`);
      await page
        .locator("[role=tab][aria-selected=true]")
        .filter({ hasText: new RegExp(tab, "i") })
        .waitFor();
      await page.getByRole("region", { name: new RegExp(`^${tab}$`, "i") }).waitFor();
    }
  }
  await page.goto(`${world.server.url}/tasks/${task}?tab=nonsense`);
  await page.locator("[role=tab][aria-selected=true]").filter({ hasText: "Activity" }).waitFor();
  await page.goto(`${world.server.url}/tasks/zzzzzzzz`);
  await page.getByRole("alert").waitFor();
  await page.getByRole("link", { name: "All tasks" }).waitFor();
  assert.deepEqual(faults, []);
});

test("with the keyboard alone: make, find, open, ask for more, stop, look at every part", limit, async () => {
  const { page, faults } = await world.joins();
  const keys = page.keyboard;
  await keys.press("c");
  await page.locator("textarea:focus").waitFor();
  await keys.type("Take it slowly, from the keyboard");
  await keys.press("Tab");
  await keys.press("Control+a");
  await keys.type(world.repo);
  await keys.press("Control+Enter");
  await page.getByText("Step 1 of thirty.").waitFor();
  // The two keys belong together when the second comes soon after the first, which a busy machine may not manage at once.
  const listed = page.getByRole("link", { name: /from the keyboard/ });
  for (let tries = 0; tries < 10 && !(await listed.isVisible()); tries++) {
    await keys.press("g");
    await keys.press("t");
    await listed.waitFor({ timeout: 3_000 }).catch(() => {});
  }
  await listed.waitFor();
  await keys.press("j");
  await keys.press("Enter");
  await page.getByText("Step 1 of thirty.").waitFor();
  await keys.press("r");
  await page.locator("textarea[aria-label='Follow-up']:focus").waitFor();
  await keys.type("Say apples");
  await keys.press("Control+Enter");
  await page.getByText("1 queued").waitFor();
  await keys.press("Escape");
  await keys.press("2");
  await page.locator("[role=tab][aria-selected=true]").filter({ hasText: "Changes" }).waitFor();
  await keys.press("1");
  await page.locator("[role=tab][aria-selected=true]").filter({ hasText: "Activity" }).waitFor();
  await keys.press("Control+k");
  await page.locator("input[role=combobox]:focus").waitFor();
  await keys.type("stop this");
  await keys.press("Enter");
  await status(page, "cancelled").waitFor();
  assert.deepEqual(faults, []);
});
