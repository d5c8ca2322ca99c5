// A session to its end on the page: its summary, its changes, and what can be done with the result.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ask, PATIENCE, status, World } from "./world.mjs";

const world = new World();
const limit = { timeout: PATIENCE * 3 };
const LONG = Array.from({ length: 80 }, (_, line) => `def number_${line + 1}():\n    return ${line + 1}  # plain\n`).join("");

before(async () => {
  writeFileSync(join(world.repo, "src/long.py"), LONG);
  world.git("add", "--all");
  world.git("commit", "--quiet", "--message", "Add numbers");
  world.addAgent(
    "editor",
    "Editor",
    "cat > /dev/null; sed -i 's/return 40 .*/return \"forty\"/' src/long.py; printf 'echo two\\n' > src/two.sh; echo Forty is a word now.",
  );
  world.addAgent("idle", "Idle", "cat > /dev/null; echo Nothing had to be changed.");
  await world.serve();
}, limit);
after(() => world.close(), limit);

const summary = (page) => page.getByRole("region", { name: "Summary" });
const git = (...args) => spawnSync("git", args, { cwd: world.repo, encoding: "utf8", env: world.env() }).stdout.trim();

test("the summary on top tells state, verdict, cost, time, branch, what was done and what to do next", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Make the failing test pass", world.repo);
  await status(page, "completed").waitFor();
  const top = summary(page);
  await top.getByText("2 passed").waitFor();
  await top.getByRole("link", { name: "2 files changed" }).waitFor();
  const text = await top.innerText();
  assert.match(text, /Completed/);
  assert.match(text, /\$0\.09/);
  assert.match(text, /\d+(\.\d+)? (ms|s)\b/);
  assert.match(text, /harvest\/make-the-failing-test-pass/);
  assert.match(text, /src\/two\.sh prints two/);
  for (const name of ["Review changes", "Download patch", "Merge…"]) assert.ok(await top.getByText(name, { exact: true }).isVisible(), name);
  const tabs = await page.getByRole("tablist").innerText();
  assert.match(tabs, /Evidence\s*2 runs/);
  assert.match(tabs, /Cost\s*5 calls/);
  assert.deepEqual(faults, []);
});

test("a link with a short ID, such as the command line prints, leads to its task", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Make the failing test pass, found by its short ID", world.repo);
  await status(page, "completed").waitFor();
  const { origin, pathname } = new URL(page.url());
  await page.goto(`${origin}${pathname.slice(0, "/tasks/".length + 8)}?tab=evidence`);
  await page.waitForURL(`${origin}${pathname}?tab=evidence`);
  await status(page, "completed").waitFor();
  await page.goto(`${origin}/tasks/uuuu`);
  await page.getByRole("alert").getByText("No task has an ID that begins with “uuuu”").waitFor();
  assert.deepEqual(faults, []);
});

test("steps of Harvest are one quiet line until someone opens them", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Make the failing test pass quietly", world.repo);
  await status(page, "completed").waitFor();
  // Whether there is a checkpoint beside it depends on how long the agent takes.
  await page.locator("[data-kind=plumbing]").filter({ hasText: "Agent exited with code 0" }).waitFor();
  const steps = page.locator("[data-kind=plumbing]").filter({ hasText: "Verify sandbox ready" });
  assert.equal(await page.getByText(/Verify sandbox ready: local/).count(), 0, "details are folded");
  await steps.getByRole("button", { name: /steps: / }).click();
  await steps.getByText(/Verify sandbox ready: local/).waitFor();
  assert.deepEqual(faults, []);
});

test("a plan is shown once, with its decision", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Split it into two", world.repo, { plan: true });
  await status(page, "awaiting_approval").waitFor();
  await page.getByRole("region", { name: "Plan", exact: true }).getByText("Nothing else is touched.").waitFor();
  assert.equal(await page.getByRole("region", { name: "Activity" }).getByText("Nothing else is touched.").count(), 1);
  await summary(page).getByText("The plan is waiting for your approval.").waitFor();
  await page.getByRole("button", { name: "Reject" }).click();
  await page.getByRole("button", { name: "Reject" }).click();
  await status(page, "cancelled").waitFor();
  assert.deepEqual(faults, []);
});

test("a task without changes says so and shows no branch", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "See whether something is to be done", world.repo, { agent: "idle" });
  await page.waitForFunction(() => document.querySelector("[data-status=completed], [data-status=failed]"));
  await summary(page)
    .getByText(/^no changes$/i)
    .waitFor();
  assert.doesNotMatch(await summary(page).innerText(), /harvest\//);
  assert.equal(await page.getByRole("button", { name: "Merge…" }).count(), 0);
  assert.deepEqual(faults, []);
});

test("the diff has colours, a tree of files and context that opens; the patch applies; the evidence is signed", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Spell forty", world.repo, { agent: "editor" });
  await status(page, "completed").waitFor();
  await summary(page).getByText("Review changes").click();
  const long = page.getByRole("region", { name: "Changes in src/long.py" });
  await long.getByText('"forty"').waitFor();
  assert.ok((await long.locator(".code-keyword").count()) > 2, "words of the language have a colour");
  assert.equal(await long.locator(".code-string").last().innerText(), '"forty"');
  const tree = page.getByRole("navigation", { name: "File tree" });
  await tree.getByRole("link", { name: /long\.py/ }).click();
  assert.equal(await long.getByText("def number_30()").count(), 0);
  await long.getByRole("button", { name: "Show 20 more lines" }).first().click();
  await long.getByText("def number_30()").waitFor();
  assert.equal(await long.getByText("def number_1():").count(), 0, "only so many lines more");
  await long
    .getByRole("button", { name: /^All \d+$/ })
    .first()
    .click();
  await long.getByText("def number_1():").waitFor();
  const [patch] = await Promise.all([page.waitForEvent("download"), summary(page).getByRole("button", { name: "Download patch" }).click()]);
  assert.match(patch.suggestedFilename(), /\.patch$/);
  const checked = spawnSync("git", ["apply", "--check", await patch.path()], { cwd: world.repo, encoding: "utf8", env: world.env() });
  assert.equal(checked.status, 0, checked.stderr);
  await page.getByRole("tab", { name: "Evidence" }).click();
  const [signed] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download signed evidence" }).click()]);
  const file = await signed.path();
  assert.match(JSON.parse(readFileSync(file, "utf8")).payloadType, /in-toto/);
  assert.match(world.harvest("evidence", "verify", file), /genuine|signed/i);
  assert.deepEqual(faults, []);
});

test("chosen comments go to the agent as a follow-up, each with its place", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Make the failing test pass, to be reviewed", world.repo);
  await status(page, "completed").waitFor();
  await page.goto(`${page.url()}?tab=changes`);
  const file = page.getByRole("region", { name: "Changes in NOTES.md" });
  for (const [line, text] of [
    [1, "Say pears here"],
    [3, "Leave this out"],
  ]) {
    await file.getByRole("button", { name: `Comment on line ${line}`, exact: true }).click();
    await page.getByRole("textbox", { name: "Comment" }).fill(text);
    await page.getByRole("button", { name: "Comment", exact: true }).last().click();
    await file.getByText(text).waitFor();
  }
  await page.getByRole("button", { name: "Fix comments (2)" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("checkbox", { name: /Leave this out/ }).uncheck();
  await dialog.getByRole("button", { name: "Send 1 comment to the agent" }).click();
  const prompt = page.locator("[data-kind=prompt]").filter({ hasText: "NOTES.md:1: Say pears here" });
  await prompt.waitFor();
  assert.doesNotMatch(await prompt.innerText(), /Leave this out/);
  await page.getByText("Pears it is.").waitFor();
  assert.deepEqual(faults, []);
});

test("work is merged on the page, and a merge that cannot be is refused in the words of the page", limit, async () => {
  const { page, faults } = await world.joins();
  await ask(page, "Make the failing test pass, to be merged", world.repo);
  await status(page, "completed").waitFor();
  const merge = async () => {
    await summary(page).getByRole("button", { name: "Merge…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Merge", exact: true }).click();
  };
  writeFileSync(join(world.repo, "src/one.sh"), "echo uno\n");
  await merge();
  const alert = page.getByRole("dialog").getByRole("alert");
  await alert.getByText(/a file has uncommitted changes in /i).waitFor();
  assert.doesNotMatch(await alert.innerText(), /harvest |git commit|--force/);
  await page.keyboard.press("Escape");
  writeFileSync(join(world.repo, "src/one.sh"), "echo one\n");
  const head = git("rev-parse", "HEAD");
  await merge();
  await page.getByRole("dialog").getByText("Merged into").waitFor();
  assert.notEqual(git("rev-parse", "HEAD"), head);
  assert.equal(readFileSync(join(world.repo, "src/two.sh"), "utf8"), "echo two\n");
  assert.deepEqual(faults, []);
});

test("work that is not proved is merged only when someone says so", limit, async () => {
  const { page, faults } = await world.joins();
  writeFileSync(join(world.repo, "tests/three.sh"), "exit 1\n");
  world.git("add", "--all");
  world.git("commit", "--quiet", "--message", "A test that fails");
  await ask(page, "Spell forty in vain", world.repo, { agent: "editor" });
  await page.waitForFunction(() => document.querySelector("[data-status=failed]"));
  await summary(page).getByText("nothing was merged").waitFor();
  await summary(page).getByRole("button", { name: "Merge…" }).click();
  const dialog = page.getByRole("dialog");
  assert.ok(await dialog.getByRole("button", { name: "Merge", exact: true }).isDisabled());
  await dialog.getByLabel(/Merge it anyway/).check();
  assert.ok(await dialog.getByRole("button", { name: "Merge", exact: true }).isEnabled());
  const task = new URL(page.url()).pathname.split("/").pop();
  const refused = await page.evaluate(async (task) => {
    const answer = await fetch(`/api/tasks/${task}/apply`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    return { status: answer.status, problem: await answer.json() };
  }, task);
  assert.equal(refused.problem.code, "HV-0162", JSON.stringify(refused));
  assert.deepEqual(faults, []);
});

test("on a phone the list keeps evidence, error and cost", limit, async () => {
  const { page, faults } = await world.joins({ viewport: { width: 390, height: 844 } });
  await page.goto(`${world.server.url}/tasks`);
  const good = page.getByRole("listitem").filter({ hasText: "to be merged" });
  await good.getByText("verified: 2 passed").filter({ visible: true }).waitFor();
  await good.getByText("$0.09").filter({ visible: true }).waitFor();
  const bad = page.getByRole("listitem").filter({ hasText: "in vain" });
  await bad.locator(".text-bad").filter({ visible: true, hasText: /\w/ }).last().waitFor();
  assert.match(await bad.innerText(), /1 failed/);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide}`);
  assert.deepEqual(faults, []);
});
