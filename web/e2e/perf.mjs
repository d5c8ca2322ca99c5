// npm run perf: what the page promises, measured in Chromium against the real server. Fails when a bound is broken.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chatty, importTasks, nodes, scroll, seenFrames, watchFrames } from "./load.mjs";
import { ask, status, World } from "./world.mjs";

const LIVE = 10_000;
const LONG = 100_000;
const TASKS = 10_000;
const rows = [];
const only = process.argv[2];

function row(what, bound, value, unit, detail = "") {
  const good = value <= bound;
  rows.push(good);
  console.log(`${good ? "ok  " : "OVER"}  ${what.padEnd(58)} ${String(value).padStart(8)} ${unit.padEnd(6)} of ${bound} ${unit}  ${detail}`);
}

const SUBJECTS = { paint, live, long, tasks };
for (const [name, measure] of Object.entries(SUBJECTS)) {
  if (only && only !== name) continue;
  const world = new World();
  try {
    await measure(world);
  } finally {
    await world.close();
  }
}
process.exit(rows.every(Boolean) ? 0 : 1);

async function opened(world, args = []) {
  await world.serve({ args });
  return world.person();
}

async function paint(world) {
  const { context } = await opened(world);
  const state = await context.storageState();
  const times = [];
  for (let turn = 0; turn < 5; turn += 1) {
    // A context of its own has no cache.
    const cold = await world.chromium.newContext({ storageState: state });
    const fresh = await cold.newPage();
    await fresh.goto(`${world.server.url}/tasks`);
    await fresh.getByRole("heading", { name: "Tasks", exact: true }).waitFor();
    times.push(await fresh.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity));
    await cold.close();
  }
  times.sort((a, b) => a - b);
  row("first contentful paint, cold, median of five", 1000, Math.round(times[2]), "ms", `${Math.round(times[0])} to ${Math.round(times[4])} ms`);
  const dist = fileURLToPath(new URL("../dist", import.meta.url));
  const index = readFileSync(`${dist}/index.html`, "utf8");
  const first = new Set([...index.matchAll(/\/assets\/([^"]+\.js)/g)].map((found) => `${found[1]}.gz`));
  const bytes = readdirSync(`${dist}/assets`)
    .filter((name) => first.has(name))
    .reduce((sum, name) => sum + readFileSync(`${dist}/assets/${name}`).length, 0);
  row("script of the first load, gzipped", 250, Math.ceil(bytes / 1024), "KB");
}

async function live(world) {
  chatty(world, "steady", LIVE, { paced: true });
  const { page } = await opened(world);
  await ask(page, "Print steadily", world.repo, { agent: "steady" });
  await page
    .getByText(/Line \d+ of many/)
    .first()
    .waitFor();
  const began = Date.now();
  await watchFrames(page);
  await page.getByText("That was all of it.").waitFor();
  const seconds = (Date.now() - began) / 1000;
  const { longest, over, frames, tasks, each } = await seenFrames(page);
  row(
    "10,000 live events, longest frame",
    100,
    longest,
    "ms",
    `${Math.round(LIVE / seconds)} events/s, ${frames} frames, ${over} over 100 ms, ${each} ms of processor each, ${tasks.length} long tasks`,
  );
  row("10,000 live events, elements in the page", 3000, await nodes(page), "");
}

async function long(world) {
  chatty(world, "flood", LONG, { paced: false });
  const { page, context } = await opened(world);
  const address = await ask(page, "Print everything", world.repo, { agent: "flood" });
  await status(page, "failed").waitFor({ timeout: 600_000 });
  const fresh = await context.newPage();
  const began = Date.now();
  await fresh.goto(address);
  await fresh.getByText("That was all of it.").waitFor();
  row("100,000 events, from the address to the newest line", 2000, Date.now() - began, "ms");
  await fresh.getByText("Connecting").waitFor({ state: "detached" });
  row("100,000 events, until all of them are there", 20_000, Date.now() - began, "ms");
  await watchFrames(fresh);
  await scroll(fresh, "Activity", { from: 0, pixels: 600, frames: 200 });
  await scroll(fresh, "Activity", { from: 2_000_000, pixels: -400, frames: 200 });
  const { longest, over, frames, each } = await seenFrames(fresh);
  row("100,000 events, scrolled, longest frame", 100, longest, "ms", `${frames} frames, ${over} over 100 ms, ${each} ms of processor each`);
  row("100,000 events, elements in the page", 3000, await nodes(fresh), "");
  const heap = await (await context.newCDPSession(fresh)).send("Runtime.getHeapUsage");
  row("100,000 events, memory of the page's script", 150, Math.round(heap.usedSize / 1e6), "MB");
  await fresh.close();
}

async function tasks(world) {
  const { page } = await opened(world, ["--agents", "0"]);
  importTasks(world, TASKS);
  await page.goto(`${world.server.url}/tasks`);
  await page.getByText("of many, with a title").first().waitFor();
  await watchFrames(page);
  // Down to the last, page by page, as fast as they come.
  for (;;) {
    await scroll(page, "List of tasks", { pixels: 600, frames: 30 });
    const [known, end] = await page
      .getByRole("region", { name: "List of tasks" })
      .evaluate((element) => [element.scrollHeight, element.scrollTop + element.clientHeight >= element.scrollHeight - 2]);
    if (end && known >= TASKS * 40) break;
  }
  const { longest, over, frames, each } = await seenFrames(page);
  row("10,000 tasks, read and scrolled, longest frame", 100, longest, "ms", `${frames} frames, ${over} over 100 ms, ${each} ms of processor each`);
  row("10,000 tasks, elements in the page", 3000, await nodes(page), "");
}
