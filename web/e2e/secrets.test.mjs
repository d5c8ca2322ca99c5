// Keys that someone pastes, a model says and an agent prints: the page shows that something was there, and never what.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { PAGES, TABS } from "./pages.mjs";
import { ask, PATIENCE, status, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };

/** In two parts each, so that no scanner takes this file for one that holds keys. */
const KEYS = [
  ["sk-ant-api03-", "kestrel0123456789abcdefgh"],
  ["ghp_", "kestrel0123456789abcdefghijklmnopqr"],
  ["AKIA", "KESTREL012345678"],
  ["xoxb-", "kestrel0123456789"],
  ["hv_", "kestre0123456789abcdefghjkmnpqrstvwxyz0123456789abcd"],
].map((parts) => parts.join(""));
const all = KEYS.join(" and ");

before(async () => {
  const replies = [
    { say: `I was given ${all}.`, shell: `printf '%s\\n' '${KEYS.join("' '")}'` },
    { shell: `printf 'echo two\\n' > src/two.sh; printf '%s' '${KEYS.join("' '")}' >&2` },
    { say: `Mended with ${all}.` },
  ];
  writeFileSync(join(world.folder, "script.yaml"), JSON.stringify({ conversations: [{ replies }] }));
  await world.serve();
}, limit);
after(() => world.close(), limit);

test("keys that are pasted, said and printed are neither on the page nor in what it is sent", limit, async () => {
  const { page, context, faults } = await world.person();
  const heard = [];
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => heard.push(String(payload))));
  // The feed of all sessions is an event stream, which the browser hands over to the page alone.
  await context.addInitScript(() => {
    window.told = [];
    const Plain = window.EventSource;
    window.EventSource = class extends Plain {
      addEventListener(type, listener) {
        super.addEventListener(type, (event) => {
          window.told.push(String(event.data));
          listener(event);
        });
      }
    };
  });
  const sent = [];
  page.on("response", (response) => {
    const kind = response.headers()["content-type"] ?? "";
    if (response.url().includes("/api/") && kind.includes("json")) sent.push(response.text().catch(() => ""));
  });
  const address = await ask(page, `Make two.sh right with ${all}`, world.repo);
  await status(page, "completed").waitFor();
  const shown = [];
  const look = async (path) => {
    await page.goto(new URL(path, world.server.url).href);
    await page.waitForLoadState("domcontentloaded");
    await page.waitForFunction(() => !document.querySelector("[aria-busy='true']"));
    shown.push([path, await page.content(), ...(await page.evaluate(() => window.told))]);
  };
  for (const tab of TABS) await look(`${new URL(address).pathname}?tab=${tab}`);
  for (const [, path] of PAGES.filter(([name]) => name !== "project")) await look(path);
  await look(`${new URL(address).pathname}?tab=activity`);
  await page.getByText("Mended with [redacted]").first().waitFor();
  shown.push(["activity", await page.content(), ...(await page.evaluate(() => window.told))]);
  const answers = await Promise.all(sent);
  assert.ok(shown.flat().join().includes("Make two.sh right with [redacted]"), "the prompt is shown without its keys");
  assert.ok(heard.join().includes("I was given [redacted]"), "the journal was heard");
  for (const text of [...shown.flat(), ...answers, ...heard]) {
    for (const key of KEYS) assert.ok(!text.includes(key), `${key} in ${text.slice(0, 2000)}`);
  }
  assert.deepEqual(faults, []);
});
