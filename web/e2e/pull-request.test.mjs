// A task from GitHub on the page: the link of its status comment, and the pull request of work that was not pushed.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { PATIENCE, status, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };
let github;

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

const call = async (path, body) => {
  const answer = await fetch(`${github.url}/api/v3/repos/ada/shop${path}`, {
    method: body ? "POST" : "GET",
    headers: { authorization: "Bearer token-ada", "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
};

before(async () => {
  const port = await freePort();
  github = await world.fakeGithub({ repository: "ada/shop", webhook: `http://127.0.0.1:${port}/webhooks/github` });
  world.harvestTold(github.credential, "credential", "add", "github", "--base-url", github.url, "--from-stdin");
  await world.serve({ listen: `127.0.0.1:${port}`, args: ["--public-url", `http://127.0.0.1:${port}`] });
}, limit);
after(async () => {
  await world.close();
  github?.child.kill();
}, limit);

test("the live log of the status comment is the session, and failed work becomes a draft pull request by a click", limit, async () => {
  const { page, faults } = await world.joins();
  const issue = await call("/issues", { title: "Find out in vain why two.sh prints three", labels: ["harvest"] });
  let link;
  while (!link) {
    const comments = await call(`/issues/${issue.number}/comments`);
    link = comments.map(({ body }) => /\[live log\]\((\S+)\)/.exec(body)?.[1]).find(Boolean);
    await page.waitForTimeout(100);
  }
  assert.ok(link.startsWith(`${world.server.url}/sessions/`), link);
  await page.goto(link);
  await page.getByRole("heading", { level: 1, name: /in vain/ }).waitFor();
  await page.getByRole("region", { name: "Activity" }).getByText("I will look at it.").waitFor();
  await status(page, "failed").waitFor();

  const summary = page.getByRole("region", { name: "Summary" });
  await summary.getByText("Harvest keeps it").waitFor();
  assert.doesNotMatch(await page.getByRole("main").innerText(), /harvest task /, "where the work is, is said without a command");
  assert.equal((await call("/pulls?state=open")).length, 0);
  await summary.getByRole("button", { name: "Create draft pull request" }).click();
  const pull = summary.getByRole("link", { name: /^Draft pull request \d+$/ });
  await pull.waitFor();
  const [opened] = await call("/pulls?state=open");
  assert.deepEqual([await pull.getAttribute("href"), opened.draft], [opened.html_url, true]);
  assert.equal(await summary.getByRole("button", { name: /Create .*pull request/ }).count(), 0);
  assert.deepEqual(faults, []);
});

test("a result that waits for approval becomes a pull request by its button", limit, async () => {
  const { page, faults } = await world.joins();
  const version = await page.evaluate(async () => {
    const send = (method, path, body, headers = {}) =>
      fetch(path, { method, headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) });
    const { items } = await (await fetch("/api/tasks")).json();
    await send("POST", "/api/projects", { name: "shop", repositories: [items[0].repository] });
    const etag = (await fetch("/api/projects/shop/settings")).headers.get("etag");
    return (await send("PUT", "/api/projects/shop/settings", { settings: { "deliver.approval": true } }, { "if-match": etag })).status;
  });
  assert.equal(version, 200);
  await call("/issues", { title: "Make the failing test pass, after a look", labels: ["harvest"] });
  await page.goto(`${world.server.url}/approvals`);
  const waiting = page.getByRole("article").filter({ hasText: "after a look" });
  await waiting.getByText("src/two.sh").waitFor();
  await waiting.getByRole("button", { name: "Create pull request" }).click();
  await page.getByText("Nothing is waiting for you").waitFor();
  await page.goto(`${world.server.url}/tasks`);
  await page.getByRole("link", { name: /after a look/ }).click();
  await page
    .getByRole("region", { name: "Summary" })
    .getByRole("link", { name: /^Pull request \d+$/ })
    .waitFor();
  assert.deepEqual(faults, []);
});
