// People in one session: they see each other, and what they say about events and lines.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, PATIENCE, status, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };

before(async () => {
  await world.serve();
}, limit);
after(() => world.close(), limit);

test("an empty installation offers the demo, and a click later its tasks are worked on without a key", limit, async () => {
  const bare = new World();
  try {
    await bare.serve({ script: false });
    const { page, faults } = await bare.person();
    await page.getByRole("region", { name: "First steps" }).getByRole("heading", { name: "Create a task" }).waitFor();
    await page.getByRole("button", { name: "Add a key" }).waitFor();
    await page.getByRole("button", { name: "Try the demo" }).click();
    await page
      .getByRole("link", { name: /Make the failing sum test pass/ })
      .getByRole("img", { name: "Completed" })
      .waitFor();
    await page
      .getByRole("link", { name: /Make slug keep upper-case/ })
      .getByRole("img", { name: "Failed" })
      .waitFor();
    await page.getByRole("link", { name: /Make the failing sum test pass/ }).click();
    await page.getByText("The sum test passes").first().waitFor();
    assert.deepEqual(faults, []);
  } finally {
    await bare.close();
  }
});

test("they see who is there, come and go", limit, async () => {
  const ada = await world.joins({ user: "ada" });
  const address = await ask(ada.page, "Make the failing test pass", world.repo);
  await status(ada.page, "completed").waitFor();
  const bea = await world.joins({ user: "bea" });
  await bea.page.goto(address);
  await bea.page.getByRole("group", { name: "Also here: ada" }).waitFor();
  await ada.page.getByRole("group", { name: "Also here: bea" }).waitFor();
  const second = await ada.context.newPage();
  await second.goto(address);
  await ada.page.getByRole("group", { name: "Also here: you, in another window, bea" }).waitFor();
  await second.close();
  await bea.context.close();
  await ada.page.getByRole("group", { name: /Also here/ }).waitFor({ state: "detached" });
});

test("what one says about an event or a line the other sees, and only its author takes it back", limit, async () => {
  const ada = await world.joins({ user: "ada" });
  const address = await ask(ada.page, "Make the failing test pass", world.repo);
  await status(ada.page, "completed").waitFor();
  const token = JSON.parse(world.harvest("token", "create", "--role", "member", "--user", "cleo", "--json")).token;
  const cleo = (path, method, body) =>
    fetch(world.server.url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
  const session = (await (await cleo(`/api/tasks/${new URL(address).pathname.split("/").pop()}`, "GET")).json()).sessions[0].id;

  const bea = await world.joins({ user: "bea" });
  await bea.page.goto(address);
  const entry = bea.page.locator("[data-kind=end]");
  await entry.hover();
  await entry.getByRole("button", { name: "Comment" }).click();
  await bea.page.getByRole("textbox", { name: "Comment" }).fill("Why was it <b>three</b> before?");
  await bea.page.keyboard.press("Control+Enter");
  const said = ada.page.getByRole("group", { name: "Comments" });
  await said.getByText("Why was it <b>three</b> before?").waitFor();
  await said.getByText("bea").waitFor();

  await ada.page.goto(`${address}?tab=changes`);
  const changed = ada.page.getByRole("region", { name: "Changes in src/two.sh" });
  await changed.getByRole("button", { name: "Comment on line 1", exact: true }).click();
  await ada.page.getByRole("textbox", { name: "Comment" }).fill("This line, then.");
  await ada.page.keyboard.press("Control+Enter");
  await bea.page.goto(`${address}?tab=changes`);
  await bea.page.getByRole("region", { name: "Changes in src/two.sh" }).getByText("This line, then.").waitFor();

  const all = (await (await cleo(`/api/sessions/${session}/comments`, "GET")).json()).items;
  assert.deepEqual(
    all.map(({ author, about }) => [author, about.kind]),
    [
      ["bea", "event"],
      ["ada", "line"],
    ],
  );
  assert.equal((await cleo(`/api/comments/${all[0].id}`, "DELETE")).status, 403, "nobody takes back what someone else said");
  assert.equal((await cleo(`/api/sessions/${session}/comments`, "POST", { about: { kind: "event", seq: 99999 }, text: "x" })).status, 400);
  const mine = await (await cleo(`/api/sessions/${session}/comments`, "POST", { about: { kind: "event", seq: 1 }, text: "Mine." })).json();
  assert.equal((await cleo(`/api/comments/${mine.id}`, "DELETE")).status, 204);

  await bea.page.goto(address);
  await bea.page.getByRole("group", { name: "Comments" }).getByRole("button", { name: "Remove comment" }).click();
  await bea.page.getByText("Why was it <b>three</b> before?").waitFor({ state: "detached" });
  await ada.page.goto(`${world.server.url}/audit`);
  await ada.page.getByText("comment.remove").first().waitFor();
  assert.deepEqual([...ada.faults, ...bea.faults], []);
});
