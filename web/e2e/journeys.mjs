// npm run journeys: the first day on the page with projects that others wrote, their own tests and their dependencies from the
// registries. HARVEST_JOURNEYS names a folder for each project, as it was published, and HARVEST_JOURNEYS_CONFIG the settings with
// the registries.
import assert from "node:assert/strict";
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ask, PATIENCE, World } from "./world.mjs";

const limit = { timeout: PATIENCE * 15 };
const folder = process.env.HARVEST_JOURNEYS ?? "";
const config = process.env.HARVEST_JOURNEYS_CONFIG ?? "";

const PROJECTS = {
  click: {
    change: `printf '\\n\\ndef shout(message: str) -> str:\\n    return message.upper()\\n' >> src/click/utils.py
printf 'from click.utils import shout\\n\\n\\ndef test_shout():\\n    assert shout("pear") == "PEAR"\\n' > tests/test_shout.py`,
    changed: ["src/click/utils.py", "def shout(message: str) -> str:"],
    added: "tests/test_shout.py",
    least: 1000,
  },
  "shell-quote": {
    change: `printf '\\nexports.version = "1.6.1";\\n' >> index.js
printf 'var test = require("tape");\\ntest("version", function (t) { t.equal(require("../").version, "1.6.1"); t.end(); });\\n' > test/version.js`,
    changed: ["index.js", 'exports.version = "1.6.1";'],
    added: "test/version.js",
    least: 95,
  },
};

for (const [name, project] of Object.entries(PROJECTS)) {
  test(`${name} is added, prepared, changed, verified by its own tests and merged on the page`, limit, async () => {
    const world = new World();
    try {
      rmSync(world.repo, { recursive: true });
      cpSync(join(folder, name), world.repo, { recursive: true });
      world.git("init", "--quiet", "--initial-branch=main");
      world.git("add", "--all");
      world.git("commit", "--quiet", "--message", "As published");
      const replies = [{ shell: project.change }, { say: "Done." }];
      writeFileSync(join(world.folder, "script.yaml"), JSON.stringify({ model: "claude-sonnet-4-5", conversations: [{ replies }] }));
      await world.serve({ args: ["--config", config], env: { HOME: process.env.HOME } });
      const { page, faults } = await world.person();

      await page.goto(`${world.server.url}/repositories`);
      await page.getByRole("button", { name: "Add repository" }).click();
      await page.getByLabel("Path on the server's machine, or URL").fill(world.repo);
      await page.getByLabel("Name").fill(name);
      await page.getByRole("button", { name: "Add", exact: true }).click();
      const row = page.getByRole("row").filter({ hasText: name });
      await row.getByRole("button", { name: /^(Built|Failed)/ }).waitFor({ timeout: limit.timeout });
      if (await row.getByRole("button", { name: /^Failed/ }).isVisible()) {
        assert.fail(await page.evaluate(async (name) => (await fetch(`/api/repositories/${name}/build-log`)).text(), name));
      }
      await row.getByRole("button", { name: /^Built/ }).click();
      await page.getByRole("dialog").getByText("Install commands:").waitFor();

      await ask(page, "Add it, with a test", name);
      await page.locator("[data-status=completed]:visible, [data-status=failed]:visible").first().waitFor({ timeout: limit.timeout });
      const task = await page.evaluate(async (id) => (await fetch(`/api/tasks/${id}`)).json(), new URL(page.url()).pathname.split("/").pop());
      assert.deepEqual([task.status, task.evidence?.verdict], ["completed", "verified"], JSON.stringify(task));
      const before = task.evidence.baseline.passed;
      assert.ok(before >= project.least, `${before} passed before`);
      const summary = page.getByRole("region", { name: "Summary" });
      await summary.getByText(`${before + 1} passed`).waitFor();

      await summary.getByText("Review changes").click();
      const [file, line] = project.changed;
      await page
        .getByRole("region", { name: `Changes in ${file}` })
        .getByText(line)
        .waitFor();
      await page.getByRole("tab", { name: "Evidence" }).click();
      await page.getByText(`${before} passed`).first().waitFor();

      assert.ok(!existsSync(join(world.repo, project.added)));
      await summary.getByRole("button", { name: "Merge…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Merge", exact: true }).click();
      await page.getByRole("dialog").getByText("Merged into").waitFor();
      assert.match(readFileSync(join(world.repo, file), "utf8"), new RegExp(line.replace(/[^\w ]/g, "\\$&")));
      assert.ok(existsSync(join(world.repo, project.added)));
      assert.deepEqual(faults, []);
    } finally {
      await world.close();
    }
  });
}
