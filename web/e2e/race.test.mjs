// The same task for several, side by side.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, PATIENCE, status, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };
const MEND = "printf 'echo two\\n' > src/two.sh";

before(async () => {
  world.addAgent("breaks", "Breaks", "cat > /dev/null; echo I give up >&2; exit 1");
  world.addAgent("hangs", "Hangs", "cat > /dev/null; echo x > junk; sleep 987654");
  world.addAgent("mends", "Mends", `cat > /dev/null; sleep 3; ${MEND}; echo I mended it.`);
  await world.serve({ args: ["--agents", "4"] });
}, limit);
after(() => world.close(), limit);

const column = async (page, agent) => {
  const names = await page.getByRole("region", { name: "Race" }).locator("thead th").allInnerTexts();
  const index = names.findIndex((name) => name.toLowerCase().startsWith(agent));
  const rows = await page.getByRole("region", { name: "Race" }).locator("tbody tr").all();
  return Object.fromEntries(await Promise.all(rows.map(async (row) => [await row.locator("th").innerText(), await row.locator("td").nth(index).innerText()])));
};

test("three agents race; the page compares them, says who won and why, and leads to what each did", limit, async () => {
  const { page, faults } = await world.joins();
  const address = await ask(page, "Mend it, whoever can", world.repo, {
    more: async (dialog) => {
      await dialog.getByLabel("Race", { exact: true }).selectOption("agents");
      for (const name of ["Breaks", "Hangs", "Mends"]) await dialog.getByRole("checkbox", { name }).check();
      await dialog.getByLabel("Winner").selectOption("time");
    },
  });
  assert.equal(new URL(address).searchParams.get("tab"), "race", "the comparison is what one sees first");
  const race = page.getByRole("region", { name: "Race" });
  await race.getByText("mends won.").waitFor();
  assert.equal(await race.locator("thead th").count(), 3);
  await race.getByText("stopped: it could no longer win").waitFor();
  const [mends, hangs, breaks] = [await column(page, "mends"), await column(page, "hangs"), await column(page, "breaks")];
  assert.deepEqual([mends.State, mends.Verdict], ["Completed", "Won: the only entrant that passed"]);
  assert.match(mends.Tests, /passed/);
  assert.match(mends.Change, /2 lines/);
  assert.equal(hangs.Verdict, "Stopped: it could no longer win");
  assert.equal(breaks.State, "Failed");
  assert.equal(breaks.Tests, "not run");
  assert.match(breaks.Verdict, /exited with code 1; the last lines it printed:\s+I give up/);

  await race.getByRole("link", { name: "Changes of mends" }).click();
  await page.getByRole("region", { name: "Changes in src/two.sh" }).getByText("echo two", { exact: true }).waitFor();
  await page.goto(address);
  await race.getByRole("link", { name: "Changes of hangs" }).click();
  await page.getByRole("region", { name: "Changes in junk" }).waitFor();
  await page.keyboard.press("7");
  await race.getByText("mends won.").waitFor();
  await page.getByRole("tab", { name: "Race" }).waitFor();
  assert.deepEqual(faults, []);
});

test("so many of one agent; a race of one is refused where it is asked for", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Make the failing test pass", world.repo, { more: (dialog) => dialog.getByLabel("Race", { exact: true }).selectOption("2") });
  const race = page.getByRole("region", { name: "Race" });
  await race.getByText(/ won\./).waitFor();
  // The winner is known before its work is delivered.
  await race.locator("tbody tr").first().getByText("Completed").waitFor();
  const states = await race.locator("tbody tr").first().locator("td").allInnerTexts();
  assert.deepEqual(states.sort(), ["Completed", "Lost"]);
  await page.goto(`${world.server.url}/tasks?new=true`);
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Task", { exact: true }).fill("Alone");
  await dialog.getByLabel("Repository", { exact: true }).fill(world.repo);
  await dialog.getByLabel("Race", { exact: true }).selectOption("agents");
  await dialog.getByRole("checkbox", { name: "Mends" }).check();
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await dialog.getByRole("alert").getByText("a race needs 2 to 16 entrants").waitFor();
  assert.equal((await page.evaluate(async () => (await fetch("/api/tasks?q=Alone")).json())).items.length, 0, "nothing was queued");
  await page.goto(`${world.server.url}/tasks`);
  await page
    .getByRole("link", { name: /Make the failing test pass/ })
    .first()
    .click();
  await status(page, "completed").or(status(page, "cancelled")).first().waitFor();
  assert.deepEqual(faults, []);
});
