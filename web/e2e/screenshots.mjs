// npm run screenshots: every page, light, dark and on a phone, into docs/screenshots.
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fill, PAGES, prepare } from "./pages.mjs";
import { World } from "./world.mjs";

const folder = process.argv[2] ?? fileURLToPath(new URL("../../docs/screenshots", import.meta.url));
const LOOKS = [
  ["light", { width: 1440, height: 900 }, "light"],
  ["dark", { width: 1440, height: 900 }, "dark"],
  ["phone", { width: 390, height: 844 }, "light"],
];
/** Pictures of sessions have shorter names in the documents. */
const DOCUMENTS = {
  "session-activity-dark": "session-dark",
  "session-activity-phone": "session-phone",
  "session-changes-light": "changes-light",
  "session-race-light": "race-light",
};
const world = new World();
const bare = new World();
/** An installation that nobody has asked for anything. */
const empty = {
  async page(viewport, colorScheme) {
    const { page } = await bare.joins({ viewport, colorScheme });
    await page.getByRole("button", { name: "Try the demo" }).waitFor();
    return page;
  },
};
try {
  prepare(world);
  await world.serve();
  await bare.serve({ script: false });
  const { page, faults } = await world.person();
  const pages = [...PAGES, ...(await fill(world, page))];
  mkdirSync(folder, { recursive: true });
  for (const [look, size, theme] of LOOKS) {
    await page.setViewportSize(size);
    await page.evaluate((theme) => localStorage.setItem("harvest-theme", theme), theme);
    for (const [name, path] of pages) {
      await page.goto(world.server.url + path);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      await page.waitForFunction(() => !/Loading .*…|Connecting|Connection lost/.test(document.body.innerText));
      await page.waitForTimeout(150);
      await page.screenshot({ path: join(folder, `${name}-${look}.png`) });
    }
    await page.goto(`${world.server.url}/tasks`);
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("listbox", { name: "Choices" }).waitFor();
    await page.screenshot({ path: join(folder, `palette-${look}.png`) });
    const first = await empty.page(size, theme);
    await first.screenshot({ path: join(folder, `first-${look}.png`) });
    await first.context().close();
    const stranger = await (await world.chromium.newContext({ viewport: size, colorScheme: theme })).newPage();
    await stranger.goto(world.server.url);
    await stranger.getByRole("heading", { level: 1 }).waitFor();
    await stranger.screenshot({ path: join(folder, `signed-out-${look}.png`) });
  }
  if (faults.length > 0) throw new Error(faults.join("\n"));
  for (const [from, to] of Object.entries(DOCUMENTS)) copyFileSync(join(folder, `${from}.png`), join(folder, `${to}.png`));
  console.log(`${(pages.length + 3) * LOOKS.length} pictures in ${folder}`);
} finally {
  await world.close();
  await bare.close();
}
