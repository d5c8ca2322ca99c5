import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { fill, PAGES, TABS } from "./pages.mjs";
import { PATIENCE, World } from "./world.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const world = new World();
const limit = { timeout: PATIENCE * 5 };
let address, window_;

before(async () => {
  await world.serve();
  window_ = await world.person();
  address = await fill(world, window_.page);
}, limit);
after(() => world.close(), limit);

for (const theme of ["light", "dark"]) {
  test(`axe finds nothing serious on any page, ${theme}`, limit, async () => {
    const { page, faults } = window_;
    await page.evaluate((theme) => localStorage.setItem("harvest-theme", theme), theme);
    const found = [];
    for (const path of [...PAGES.map(([, path]) => path), ...TABS.map((tab) => `${new URL(address).pathname}?tab=${tab}`), "/nothing-here"]) {
      await page.goto(world.server.url + path);
      await settled(page);
      found.push(...(await check(page, path)));
    }
    await page.setViewportSize({ width: 360, height: 740 });
    for (const path of [...PAGES.map(([, path]) => path), ...TABS.map((tab) => `${new URL(address).pathname}?tab=${tab}`)]) {
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
  await page.getByRole("heading", { level: 1 }).or(page.getByRole("heading", { level: 2 })).first().waitFor();
  await page.waitForFunction(() => !/Reading .* …/.test(document.body.innerText));
}

async function check(page, where) {
  // The page's policy lets in no script of others: this one comes through the debugger.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${where}: ${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`).join(" | ")}`);
}
