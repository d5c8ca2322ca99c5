// Work that pauses with all that it has, and goes on when someone wants it to.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, PATIENCE, status, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };

before(async () => {
  await world.serve();
}, limit);
after(() => world.close(), limit);

const paused = (page) => page.getByRole("region", { name: "Interrupted" });

async function interrupt(page, why) {
  await page.getByRole("button", { name: "Interrupt" }).click();
  const dialog = page.getByRole("dialog", { name: "Interrupt" });
  await dialog.getByLabel("Reason").fill(why);
  await dialog.getByRole("button", { name: "Interrupt" }).click();
  await dialog.waitFor({ state: "detached" });
  await status(page, "interrupted").waitFor();
}

test("interrupted with a reason that everyone sees, and resumed by someone else with something to say, it completes", limit, async () => {
  const ada = await world.joins({ user: "ada" });
  const address = await ask(ada.page, "Go through it slowly", world.repo);
  await ada.page.getByText("Step 2 of thirty.").waitFor();
  const bea = await world.joins({ user: "bea" });
  await bea.page.goto(address);
  await bea.page.getByText("Step 2 of thirty.").waitFor();
  await interrupt(ada.page, "the schema <b>changes</b> today");
  for (const { page } of [ada, bea]) {
    await paused(page).getByText("Interrupted by ada").waitFor();
    await paused(page).getByText("the schema <b>changes</b> today").waitFor();
  }
  assert.equal(await ada.page.getByRole("button", { name: "Interrupt" }).count(), 0, "nobody works on it");
  const queue = await ada.page.evaluate(async () => (await fetch("/api/queue")).json());
  assert.equal(queue.turns.claimed, 0, "it takes nobody's place");

  // Whoever did not watch sees the same, in the list and by its address.
  await ada.page.goto(`${world.server.url}/tasks?status=interrupted`);
  await ada.page
    .getByRole("link", { name: /Go through it slowly/ })
    .getByRole("img", { name: "Interrupted" })
    .waitFor();
  await ada.page.goto(`${world.server.url}/tasks?view=board`);
  await ada.page.getByRole("region", { name: "Needs you, tasks" }).getByText("Go through it slowly").waitFor();
  await ada.page.goto(address);
  await paused(ada.page).getByText("the schema <b>changes</b> today").waitFor();

  await paused(bea.page).getByRole("textbox", { name: "Message for the agent" }).fill("Only mend it, then");
  await paused(bea.page).getByRole("button", { name: "Resume" }).click();
  for (const { page } of [ada, bea]) {
    await page.getByText("Resumed by bea: Only mend it, then").waitFor();
    await page.getByText("Mended after the pause.").first().waitFor();
    await status(page, "completed").waitFor();
    assert.equal(await paused(page).count(), 0);
  }
  assert.equal(await ada.page.getByText("All thirty steps are done.").count(), 0, "it did not go on as if nothing had been said");
  assert.deepEqual([...ada.faults, ...bea.faults], []);
});

test("with the keyboard: interrupted by the palette, resumed without a word, interrupted again and stopped", limit, async () => {
  const { page, faults } = await world.joins({ user: "ada" });
  const keys = page.keyboard;
  await ask(page, "Work patiently on it", world.repo);
  await page.getByText("Part 2 of twelve.").waitFor();
  await keys.press("Control+k");
  await page.locator("input[role=combobox]:focus").waitFor();
  await keys.type("interrupt this");
  await keys.press("Enter");
  await page.locator("dialog textarea:focus").waitFor();
  await keys.press("Control+Enter");
  await status(page, "interrupted").waitFor();
  await keys.press("r");
  await page.locator("textarea[aria-label='Message for the agent']:focus").waitFor();
  await keys.press("Control+Enter");
  await page.getByText("Resumed by ada").waitFor();
  await status(page, "running").waitFor();
  await interrupt(page, "once more");
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await status(page, "cancelled").waitFor();
  await page.getByRole("button", { name: "Retry" }).waitFor();
  assert.deepEqual(faults, []);
});
