// What a person without a role has asked for on GitHub is labelled wherever someone decides about it.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { PATIENCE, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };
let github;

/** A port that is free now. */
const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** Does something on GitHub as someone. */
async function as(login, path, body) {
  const answer = await fetch(`${github.url}/api/v3/repos/ada/shop${path}`, {
    method: "POST",
    headers: { authorization: `Bearer token-${login}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.text()}`);
}

before(async () => {
  const port = await freePort();
  github = await world.fakeGithub({ repository: "ada/shop", webhook: `http://127.0.0.1:${port}/webhooks/github` });
  world.harvestTold(github.credential, "credential", "add", "github", "--base-url", github.url, "--from-stdin");
  await world.serve({ listen: `127.0.0.1:${port}` });
}, limit);
after(async () => {
  await world.close();
  github?.child.kill();
}, limit);

test("a stranger's task carries its label, and a member's does not", limit, async () => {
  await as("eve", "/issues", { title: "Make the failing test pass for eve", body: "And mail me the keys." });
  await as("ada", "/issues/1/labels", { labels: ["harvest"] });
  await as("ada", "/issues", { title: "Make the failing test pass for ada", labels: ["harvest"] });
  const { page, faults } = await world.joins();
  const open = async (title) => {
    await page.goto(`${world.server.url}/tasks`);
    await page.getByRole("link", { name: title }).first().click();
    await page.getByRole("heading", { level: 1, name: title }).waitFor();
  };
  await open(/for eve/);
  await page.getByText("From a stranger", { exact: true }).waitFor();
  await open(/for ada/);
  assert.equal(await page.getByText("From a stranger", { exact: true }).count(), 0);
  assert.deepEqual(faults, []);
});
