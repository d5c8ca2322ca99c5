import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { fill, PAGES, prepare } from "./pages.mjs";
import { PATIENCE, World } from "./world.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const world = new World();
const limit = { timeout: PATIENCE * 5 };
let paths, window_;

before(async () => {
  prepare(world);
  await world.serve();
  window_ = await world.person();
  paths = [...PAGES, ...(await fill(world, window_.page))].map(([, path]) => path);
}, limit);
after(() => world.close(), limit);

/** What opens above a page: where, its address, the button, and what tells that it is there. */
const DIALOGS = [
  ["check of an agent", "/agents", "Check Built-in agent", /works here/],
  ["log of a build", "/repositories", /^Built/, /== fetch/],
];

for (const theme of ["light", "dark"]) {
  test(`axe finds nothing serious on any page, ${theme}`, limit, async () => {
    const { page, faults } = window_;
    await page.evaluate((theme) => localStorage.setItem("harvest-theme", theme), theme);
    const found = [];
    for (const path of [...paths, "/nothing-here"]) {
      await page.goto(world.server.url + path);
      await settled(page);
      found.push(...(await check(page, path)));
    }
    await page.setViewportSize({ width: 360, height: 740 });
    for (const path of paths) {
      await page.goto(world.server.url + path);
      await settled(page);
      found.push(...(await check(page, `${path} at 360`)));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 360, `${path} is ${wide} wide on a phone`);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.keyboard.press("Control+k");
    await page.locator("input[role=combobox]:focus").waitFor();
    found.push(...(await check(page, "palette")));
    await page.keyboard.press("Escape");
    for (const [where, path, open, inside] of DIALOGS) {
      await page.goto(world.server.url + path);
      await page.getByRole("button", { name: open }).first().click();
      await page.getByRole("dialog").getByText(inside).first().waitFor();
      found.push(...(await check(page, where)));
    }
    const stranger = await (await world.chromium.newContext({ colorScheme: theme })).newPage();
    await stranger.goto(world.server.url);
    await stranger.getByRole("heading", { name: "You are signed out" }).waitFor();
    found.push(...(await check(stranger, "signed out")));
    const empty = new World();
    try {
      await empty.serve({ script: false });
      const first = await empty.person({ colorScheme: theme });
      await first.page.getByRole("button", { name: "Try the demo" }).waitFor();
      found.push(...(await check(first.page, "first steps")));
      faults.push(...first.faults);
    } finally {
      await empty.close();
    }
    assert.deepEqual(found, []);
    assert.deepEqual(faults, []);
  });
}

async function settled(page) {
  await page
    .getByRole("heading", { level: 1 })
    .or(page.getByRole("heading", { level: 2 }))
    .first()
    .waitFor();
  await page.waitForFunction(() => !/Loading .*…/.test(document.body.innerText));
}

async function check(page, where) {
  // The page's policy lets in no script of others: this one comes through the debugger.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map(
      (one) =>
        `${where}: ${one.id}: ${one.nodes
          .slice(0, 3)
          .map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`)
          .join(" | ")}`,
    );
}
