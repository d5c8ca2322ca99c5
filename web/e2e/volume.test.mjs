// A small part of `npm run perf`, without a clock: much is there, and little of it is drawn.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chatty, nodes } from "./load.mjs";
import { ask, PATIENCE, status, World } from "./world.mjs";

const LINES = 4_000;
const world = new World();
const limit = { timeout: PATIENCE * 3 };

before(async () => {
  chatty(world, "flood", LINES, { paced: false });
  await world.serve();
}, limit);
after(() => world.close(), limit);

test("of thousands of events only those on the screen are drawn, each is read once, and all are there", limit, async () => {
  const { page, context, faults } = await world.person();
  const address = await ask(page, "Print everything", world.repo, { agent: "flood" });
  await status(page, "completed").waitFor();
  await page.getByText("That was all of it.").last().waitFor();
  assert.ok((await nodes(page)) < 3_000, `${await nodes(page)} elements`);

  const again = await context.newPage();
  const asked = [];
  again.on("request", (request) => {
    if (/\/events\?after=/.test(request.url())) asked.push(Number(new URL(request.url()).searchParams.get("after")));
  });
  await again.goto(address);
  await again.getByText("That was all of it.").last().waitFor();
  await again.getByText("Connecting").waitFor({ state: "detached" });
  // Its end first, then every page once.
  const pages = asked.slice(1);
  assert.ok(asked[0] > LINES - 400, `the end comes first: ${asked}`);
  assert.deepEqual(
    pages,
    [...new Set(pages)].sort((a, b) => a - b),
  );
  assert.ok(pages.length >= LINES / 1000 && pages.length <= LINES / 1000 + 2, `${pages}`);
  const feed = again.getByRole("region", { name: "Activity" });
  await feed.evaluate((element) => {
    element.scrollTop = 0;
  });
  await again.getByText("Line 1 of many").waitFor();
  const size = Number(await again.getByRole("article").first().getAttribute("aria-setsize"));
  assert.ok(size > LINES, `${size} entries`);
  assert.ok((await nodes(again)) < 3_000);
  assert.deepEqual(faults, []);
});
