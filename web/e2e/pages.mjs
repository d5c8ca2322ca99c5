// Every page, with something on it.
import { ask, status } from "./world.mjs";

export const PAGES = [
  ["tasks", "/tasks"],
  ["board", "/tasks?view=board"],
  ["new-task", "/tasks?new=true"],
  ["approvals", "/approvals"],
  ["convoys", "/convoys"],
  ["schedules", "/schedules"],
  ["templates", "/templates"],
  ["queue", "/queue"],
  ["statistics", "/statistics"],
  ["repositories", "/repositories"],
  ["projects", "/projects"],
  ["project", "/projects/shop"],
  ["agents", "/agents"],
  ["credentials", "/credentials"],
  ["tokens", "/tokens"],
  ["audit", "/audit"],
  ["api-docs", "/api/docs#task.create"],
];
export const TABS = ["activity", "changes", "evidence", "cost", "timeline", "environment"];

/** Before the server starts: one who races, and does not get far. */
export function prepare(world) {
  world.addAgent("hasty", "Hasty", "cat > /dev/null; echo I give up.; exit 1");
}

/** Tasks that went well, in vain and that go on, and one of everything else. Returns a session's parts, by their names. */
export async function fill(world, page) {
  const { csrf } = await page.evaluate(async () => (await fetch("/api/me")).json());
  const send = (method, path, body, version = "") =>
    page.evaluate(
      async ([method, path, body, csrf, version]) => {
        const answer = await fetch(path, {
          method,
          headers: { "if-match": version, "content-type": "application/json", "x-harvest-csrf": csrf },
          body: JSON.stringify(body),
        });
        if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
        return answer.json();
      },
      [method, path, body, csrf, version],
    );
  const post = (path, body) => send("POST", path, body);
  await post("/api/repositories", { source: world.repo, name: "orchard" });
  await post("/api/credentials", { provider: "anthropic", secret: "sk-ant-example-0000-4f2a", name: "team" });
  await post("/api/tokens", { name: "ci", role: "member", expires_in_days: 90 });
  await post("/api/schedules", {
    cron: "0 3 * * 1-5",
    time_zone: "Europe/Berlin",
    task: { prompt: "Update dependencies and see whether the tests still pass", repository: "orchard" },
  });
  await post("/api/templates", { name: "upgrade", task: { prompt: "Upgrade {{ package }} to its newest version", repository: "orchard" } });
  await post("/api/projects", { name: "shop", repositories: ["orchard"] });
  await send("PUT", "/api/projects/shop/members/bea", { role: "member" });
  const version = await page.evaluate(async () => (await fetch("/api/projects/shop/settings")).headers.get("etag"));
  await send("PUT", "/api/projects/shop/settings", { settings: { budget_usd: 5, test: "sh test.sh" } }, version);
  const task = (prompt, more = {}) => post("/api/tasks", { prompt, repository: "orchard", ...more });
  await task("Find out in vain why the importer drops the last line", { require_tests: true });
  await task("Make tests/two.sh pass again and say so in the notes", { convoy: "spring-cleaning" });
  await task("Print two, not three, when someone asks for two", { convoy: "spring-cleaning", priority: "high" });
  const address = await ask(page, "Make the failing test pass.\n\nThe second test has failed since Monday. Change the code, not the test.", "orchard");
  await status(page, "completed").waitFor();
  const session = (await page.evaluate(async (id) => (await fetch(`/api/tasks/${id}`)).json(), new URL(address).pathname.split("/").pop())).sessions[0].id;
  await post(`/api/sessions/${session}/comments`, {
    about: { kind: "line", path: "src/two.sh", side: "new", line: 1 },
    text: "Was it ever two? I thought three was on purpose.",
  });
  const until = async (id, wanted) => {
    while ((await page.evaluate(async (id) => (await fetch(`/api/tasks/${id}`)).json(), id)).status !== wanted) await page.waitForTimeout(200);
  };
  const race = await task("Make the second test pass, as cheaply as possible", { race: { agents: ["builtin:small", "builtin:large", "hasty"] } });
  const paused = await task("Move the importer slowly to the new schema");
  await until(paused.id, "running");
  await post(`/api/tasks/${paused.id}/interrupt`, { reason: "The schema changes today; wait for the migration." });
  await until(paused.id, "interrupted");
  await task("Split the importer into two modules", { plan: true });
  await page.goto(`${world.server.url}/approvals`);
  await page.getByText("Nothing else is touched.").waitFor();
  await task("Go through the backlog slowly and label what is a duplicate", { convoy: "triage" });
  await task("Answer slowly: which modules have no tests?", { convoy: "triage" });
  await task("Rename Basket to Cart everywhere, also in the documents", { priority: "low" });
  await page.goto(`${world.server.url}/tasks`);
  await page
    .getByRole("link", { name: /backlog/ })
    .getByRole("img", { name: "Running" })
    .waitFor();
  const path = new URL(address).pathname;
  return [
    ...TABS.map((tab) => [`session-${tab}`, `${path}?tab=${tab}`]),
    ["session-race", `/tasks/${race.id}?tab=race`],
    ["session-interrupted", `/tasks/${paused.id}`],
  ];
}
