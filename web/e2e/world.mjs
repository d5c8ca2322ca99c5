// A world of its own for every test: a repository, scripts that play the model, a real server, a real browser.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../", import.meta.url));
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // A page from a folder has no address, and would be kept from ours.
  ...(process.env.HARVEST_PAGE ? ["--disable-features=LocalNetworkAccessChecks"] : []),
];
/** Nothing takes longer, even on a busy machine. */
export const PATIENCE = Number(process.env.HARVEST_PATIENCE ?? 60_000);

const harvest = process.env.HARVEST_BIN ?? join(root, "target/debug/harvest");
const browserPath = process.env.HARVEST_CHROMIUM ?? "/usr/bin/chromium";

const TEST_SCRIPT = `passed=0 failed=0
for test in tests/*.sh; do
    if sh "$test"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
`;

const PLAN = `## Plan

1. Read \`src/two.sh\` and its test.
2. Print **two**, not three.
3. Run the tests.

Nothing else is touched.`;

/** What agents of the tests do, by what the prompt says. */
export const SCRIPT = {
  price: { input_per_mtok: 3.0, output_per_mtok: 15.0 },
  conversations: [
    // Whoever cannot remember is told what was said before: what is asked later comes first.
    { when_prompt_contains: "Say pears", replies: [{ say: "Pears it is." }] },
    { when_prompt_contains: "Say apples", replies: [{ say: "Apples it is." }] },
    { when_prompt_contains: "Only mend it", replies: [{ shell: "printf 'echo two\\n' > src/two.sh" }, { say: "Mended after the pause." }] },
    {
      when_prompt_contains: "write it down in NOTES.md",
      replies: [{ shell: "printf 'echo two\\n' > src/two.sh; echo mended > NOTES.md" }, { say: "Done as planned." }],
    },
    { when_prompt_contains: "Leave the database alone", replies: [{ say: "Then I would only touch `src/two.sh`." }] },
    { when_prompt_contains: "Make a plan", replies: [{ say: PLAN, tokens: { input: 4100, output: 160 } }] },
    { when_prompt_contains: "another way", replies: [{ say: "Another way it is.", shell: "echo forked > FORKED.md" }, { say: "The fork is done." }] },
    {
      when_prompt_contains: "patiently",
      replies: [
        ...Array.from({ length: 12 }, (_, step) => ({
          say: `Part ${step + 1} of twelve.`,
          shell: `sleep 0.4; echo part ${step + 1}`,
          tokens: { input: 900, output: 20 },
        })),
        { shell: "printf 'echo two\\n' > src/two.sh" },
        { say: "All twelve parts are done." },
      ],
    },
    {
      when_prompt_contains: "slowly",
      replies: [
        ...Array.from({ length: 30 }, (_, step) => ({
          say: `Step ${step + 1} of thirty.`,
          shell: `sleep 0.4; echo step ${step + 1}`,
          tokens: { input: 1500, output: 30 },
        })),
        { say: "All thirty steps are done." },
      ],
    },
    {
      when_prompt_contains: "hostile",
      replies: [
        {
          say: '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script> [click](javascript:window.harmed=1) \u001b[31mred\u001b[0m and \u202eturned\u202c around \u05e9\u05dc\u05d5\u05dd',
          shell: "printf '\\033[2J\\033[31mcolour\\033[0m <b>bold</b> \\a\\n'; head -c 300000 /dev/zero | tr '\\0' x; echo",
        },
        { shell: "printf '<script>window.harmed=1</script>\\n\\342\\200\\256txt.exe\\n' > hostile.html" },
        { say: "Done." },
      ],
    },
    {
      when_prompt_contains: "in vain",
      replies: [
        { say: "I will look at it.", shell: "echo looked > LOOKED.md; cat missing.txt", tokens: { input: 2400, output: 60 } },
        { say: "I could not find the file, so nothing was mended.", tokens: { input: 2600, output: 40 } },
      ],
    },
    {
      replies: [
        {
          say: "The test `tests/two.sh` fails: `src/two.sh` prints **three** where it should print two.\n\nI will look at the file first.",
          shell: "cat src/two.sh tests/two.sh",
          tokens: { input: 5200, output: 80 },
        },
        {
          say: "As expected. I correct it and say so in the notes.",
          shell: "printf 'echo two\\n' > src/two.sh && printf '# Notes\\n\\n- two.sh prints two\\n' > NOTES.md",
          tokens: { input: 5600, output: 120 },
        },
        { shell: "sh test.sh", tokens: { input: 5900, output: 20 } },
        { shell: "git add --all && git commit --quiet --message 'Print two, as the test expects'", tokens: { input: 6100, output: 40 } },
        { say: "Done:\n\n- `src/two.sh` prints two\n- `NOTES.md` says so\n\nAll tests pass.", tokens: { input: 6300, output: 60 } },
      ],
    },
  ],
};

export class World {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "hv"));
    this.repo = join(this.folder, "orchard");
    mkdirSync(join(this.folder, "home"));
    mkdirSync(this.repo);
    this.git("init", "--quiet", "--initial-branch=main");
    for (const [name, content] of Object.entries({
      "test.sh": TEST_SCRIPT,
      "src/one.sh": "echo one\n",
      "src/two.sh": "echo three\n",
      "tests/one.sh": '[ "$(sh src/one.sh)" = one ]\n',
      "tests/two.sh": '[ "$(sh src/two.sh)" = two ]\n',
    })) {
      mkdirSync(join(this.repo, name, ".."), { recursive: true });
      writeFileSync(join(this.repo, name), content);
    }
    this.git("add", "--all");
    this.git("commit", "--quiet", "--message", "Start");
    writeFileSync(join(this.folder, "script.yaml"), JSON.stringify(SCRIPT));
  }

  env(more = {}) {
    return { PATH, LANG: "C.UTF-8", HOME: join(this.folder, "home"), ...more };
  }

  git(...args) {
    const who = { GIT_AUTHOR_NAME: "Ada", GIT_AUTHOR_EMAIL: "ada@example.com", GIT_COMMITTER_NAME: "Ada", GIT_COMMITTER_EMAIL: "ada@example.com" };
    succeeds(spawnSync("git", args, { cwd: this.repo, env: this.env({ GIT_CONFIG_NOSYSTEM: "1", ...who }), encoding: "utf8" }));
  }

  harvest(...args) {
    return this.harvestAs(undefined, ...args);
  }

  /** The command line of someone else. */
  harvestAs(user, ...args) {
    return this.run(args, { env: this.env(user ? { USER: user, LOGNAME: user } : {}) });
  }

  /** The command line, with something to read. */
  harvestTold(input, ...args) {
    return this.run(args, { env: this.env(), input });
  }

  run(args, options) {
    const ran = spawnSync(harvest, ["--data-dir", join(this.folder, "data"), ...args], {
      cwd: this.repo,
      encoding: "utf8",
      timeout: PATIENCE * 10,
      ...options,
    });
    return succeeds(ran).stdout;
  }

  /** `harvest serve` until it listens. Without a script there is no model at all. */
  async serve({ listen = "127.0.0.1:0", args = [], script = true, env = {} } = {}) {
    const model = script ? ["--model-script", join(this.folder, "script.yaml")] : [];
    const all = [
      "--data-dir",
      join(this.folder, "data"),
      "serve",
      "--listen",
      listen,
      "--json",
      ...model,
      "--drain",
      "1s",
      ...(args.includes("--agents") ? [] : ["--agents", "2"]),
      ...args,
    ];
    const child = spawn(harvest, all, { cwd: this.repo, env: this.env(env), stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    child.stderr.on("data", (bytes) => {
      said = (said + bytes).slice(-4000);
    });
    const listening = await new Promise((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`harvest serve ended with ${code}: ${said}`)));
      createInterface(child.stdout).on("line", (line) => {
        const event = JSON.parse(line);
        if (event.type === "listening") resolve(event);
      });
    });
    this.server = { child, url: `http://${listening.address}`, address: listening.address, link: listening.link };
    return this.server;
  }

  /** `harvest dev fake-github` with this world's repository, until it listens. */
  async fakeGithub({ repository, webhook }) {
    const args = ["dev", "fake-github", "--listen", "127.0.0.1:0", "--json", "--repository", `${repository}=${this.repo}`];
    const all = ["--data-dir", join(this.folder, "data"), ...args, "--folder", join(this.folder, "hub"), "--webhook-url", webhook];
    const child = spawn(harvest, all, { cwd: this.repo, env: this.env(), stdio: ["ignore", "pipe", "inherit"] });
    const listening = await new Promise((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`harvest dev fake-github ended with ${code}`)));
      createInterface(child.stdout).on("line", (line) => resolve(JSON.parse(line)));
    });
    return { child, url: listening.url, credential: listening.credential };
  }

  async stop(signal = "SIGTERM") {
    const child = this.server?.child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  async browser() {
    if (!existsSync(browserPath)) throw new Error(`there is no Chromium at ${browserPath}: install it, or name it in HARVEST_CHROMIUM`);
    this.chromium = await chromium.launch({ executablePath: browserPath, args: FLAGS, env: this.env() });
    return this.chromium;
  }

  /** An agent that is only data: a shell script, and each line that it prints is a message. */
  addAgent(id, name, script) {
    const folder = join(this.folder, "home/.config/harvest/agents");
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      join(folder, `${id}.toml`),
      `[[agent]]
id = "${id}"
name = "${name}"
providers = ["openai"]
dialect = "text"
prompt = "stdin"
command = "/bin/sh"
arguments = ["-c", '''${script}''']
install_hint = "It is a shell."
`,
    );
  }

  /** Links open once: everyone gets their own. */
  async joins({ user, ...options } = {}) {
    this.server.link = this.harvestAs(user, "token", "link", "--url", this.server.url).match(/http:\S+/)[0];
    return this.person(options);
  }

  /** A person's window, signed in by the link. Whatever the page should not do is in `faults`. */
  async person(options = {}) {
    const browser = this.chromium ?? (await this.browser());
    const context = await browser.newContext({ reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(PATIENCE);
    if (process.env.HARVEST_PAGE) await built(context, process.env.HARVEST_PAGE);
    await asThePage(context);
    const page = await context.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("console", (message) => {
      if (message.type() === "error" && /Content Security Policy|Refused to|Uncaught/.test(message.text())) faults.push(message.text());
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(this.server.url) && !request.url().startsWith("data:") && !request.url().startsWith("ws"))
        faults.push(`asked ${request.url()}`);
    });
    // Where the link leads to is not asked for by itself, so it would come from the program.
    let start = this.server.link;
    if (process.env.HARVEST_PAGE) {
      const entered = await context.request.get(this.server.link, { maxRedirects: 0 });
      start = this.server.url + entered.headers().location;
    }
    await page.goto(start);
    await page.getByRole("heading", { name: "Tasks", exact: true }).waitFor();
    return { page, context, faults };
  }

  async close() {
    await this.chromium?.close();
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** What a test asks for from inside the page carries what the page would send: half of the session's secret is in its storage. */
export async function asThePage(context) {
  await context.addInitScript(() => {
    const plain = window.fetch;
    window.fetch = (input, init = {}) => {
      if (typeof input !== "string") return plain(input, init);
      const headers = new Headers(init.headers);
      const proof = localStorage.getItem("harvest.proof");
      if (proof) headers.set("x-harvest-csrf", proof);
      return plain(input, { ...init, headers });
    };
  });
}

/** The page as it lies in a folder in place of the one in the program, which then need not be built again to try something. */
async function built(context, folder) {
  const kinds = { js: "text/javascript", css: "text/css", html: "text/html", svg: "image/svg+xml" };
  await context.route(
    (url) => url.pathname === "/api/docs" || !/^\/(api|auth|login|healthz|readyz|metrics)/.test(url.pathname),
    (route) => {
      const { pathname } = new URL(route.request().url());
      const path = join(folder, /\.\w+$/.test(pathname) ? pathname : "index.html");
      return route.fulfill({ path, contentType: kinds[path.split(".").pop()] });
    },
  );
}

export async function ask(page, prompt, repository, { plan = false, agent, more } = {}) {
  await page.goto(new URL("/tasks?new=true", page.url()).href);
  await page.getByLabel("Task", { exact: true }).fill(prompt);
  await page.getByLabel("Repository", { exact: true }).last().fill(repository);
  if (plan) await page.getByLabel(/Plan first/).check();
  if (agent) await page.getByRole("dialog").getByLabel("Agent", { exact: true }).selectOption(agent);
  await more?.(page.getByRole("dialog"));
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.waitForURL(/\/tasks\/[a-z0-9]{6,}/).catch(async (error) => {
    const shown = await page.locator("body").innerText();
    throw new Error(`no task was made; the page shows: ${shown.slice(0, 2000)}`, { cause: error });
  });
  return page.url();
}

export const status = (page, name) => page.locator(`[data-status="${name}"]:visible`).first();

/** All entries of a stream, from the top to the end, though only those on the screen are drawn. */
export async function walk(page) {
  const feed = page.getByRole("region", { name: "Activity" });
  await feed.evaluate((element) => {
    element.scrollTop = 0;
  });
  const seen = new Map();
  for (;;) {
    await page.waitForTimeout(50);
    const found = await page.locator("[data-seq]").evaluateAll((all) =>
      // One that was taken off the screen meanwhile has lost its lines; it is drawn again.
      all
        .filter((one) => one.isConnected)
        .map((one) => ({ at: Number(one.getAttribute("aria-posinset")), seq: Number(one.dataset.seq), kind: one.dataset.kind, text: one.innerText })),
    );
    for (const entry of found) seen.set(entry.at, entry);
    const end = await feed.evaluate((element) => {
      const last = element.scrollTop + element.clientHeight >= element.scrollHeight - 2;
      element.scrollTop += element.clientHeight * 0.7;
      return last;
    });
    if (end) return [...seen].sort(([a], [b]) => a - b).map(([, entry]) => entry);
  }
}

function succeeds(ran) {
  if (ran.status !== 0) throw new Error(`${ran.stderr || ran.error}`);
  return ran;
}
