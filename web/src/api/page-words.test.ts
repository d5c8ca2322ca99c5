import { expect, test } from "vitest";
import { errorWords, pageWords, shortError } from "./page-words";

/** Texts in the sources of everything whose messages reach the page: tasks, events, hints, builds and answers of the API. */
const SOURCES = import.meta.glob<string>("../../../crates/{core,engine,forge,gateway,sandbox,server,store,vault,workspace}/src/**/*.rs", {
  query: "?raw",
  import: "default",
  eager: true,
});

/** What a project's or repository's settings ask for and do not get: a warning in a task's activity. */
const SETTINGS = import.meta.glob<string>("../../../crates/harvest/src/config/layers.rs", { query: "?raw", import: "default", eager: true });

const FLAG = /[\s`(]--[a-z]/;

/** String literals of Rust outside of tests and comments, with placeholders filled in. */
function literals(source: string): string[] {
  const code = source.split("#[cfg(test)]", 1)[0]?.replace(/^\s*\/\/.*$/gm, "") ?? "";
  return [...code.matchAll(/"((?:[^"\\]|\\[^])*)"/g)].map(([, text = ""]) =>
    text
      .replace(/\\\n\s*/g, "")
      .replace(/\\(.)/g, "$1")
      .replace(/\{\{|\}\}/g, "")
      .replace(/\{[^{}]*\}/g, "x1"),
  );
}

/** Texts that the page never shows: comments on GitHub, the first page of a server without a page, the API's own description. */
const ELSEWHERE = /deliver\/status\.rs|server\/src\/(?:pages|openapi)\.rs|webhooks\/|core\/src\/credential\.rs/;

test("no message of the server tells people on the page to run a command of Harvest", () => {
  const commands = Object.entries(SOURCES)
    .filter(([path]) => !ELSEWHERE.test(path))
    .flatMap(([path, source]) => literals(source).map((text) => `${path}: ${text}`))
    // A text that is nothing but a command is a part of those below.
    .filter((text) => /(?:`|: |; )harvest [a-z]+/.test(text) && !/\.rs: harvest /.test(text));
  expect(commands.length).toBeGreaterThan(10);
  expect(commands.map(pageWords).filter((shown) => /\bharvest [a-z]/.test(shown))).toEqual([]);
});

/** Flags of commands that are run, and advice, which the page takes from its own table when there is a flag in it. */
const RUN = new RegExp(
  [
    /prepare\/(?:detect|recipe)|verify\/command|workspace\/|forge\/src\/(?:fake|github|fetch|local|remote)|gateway\/src\/git/,
    /sandbox\/src\/(?:local|host)|engine\/src\/(?:carry|lint)/,
    /forge\/src\/error|server\/src\/error|server\/src\/auth\/origin/,
  ]
    .map((one) => one.source)
    .join("|"),
);

test("no message of the server names a flag of the command line on the page", () => {
  const flags = Object.entries({ ...SOURCES, ...SETTINGS })
    .filter(([path]) => !ELSEWHERE.test(path) && !RUN.test(path))
    .flatMap(([path, source]) => literals(source).map((text) => `${path}: ${text}`))
    .filter((text) => FLAG.test(text));
  expect(flags.length).toBeGreaterThan(5);
  expect(flags.map(pageWords).filter((shown) => FLAG.test(shown))).toEqual([]);
});

test("messages that name a command say where on the page the same is done", () => {
  for (const [said, shown] of [
    [
      "`pytest` is not installed in the sandbox: declare its package in pyproject.toml if it is not there; then `harvest repo build shop` installs it",
      "`pytest` is not installed in the sandbox: declare its package in pyproject.toml if it is not there; then a build on the Repositories page installs it",
    ],
    [
      "`mocha` is not installed in the sandbox: declare its package in package.json if it is not there; then `harvest repo add /src/shop --name shop && harvest repo build shop` installs it",
      "`mocha` is not installed in the sandbox: declare its package in package.json if it is not there; then preparing the repository on the Repositories page installs it",
    ],
    [
      "`jest` is not installed in the sandbox: the last build of the repository failed; `harvest repo list` says why, and `harvest repo build shop` builds it again",
      "`jest` is not installed in the sandbox: the last build of the repository failed; the Repositories page has its log and builds it again",
    ],
    ["the work is kept in Harvest: harvest task diff 98e54nmd", "The work is kept in Harvest: see “Changes”"],
    [
      "failed work is not offered for approval: it is kept here; harvest task diff 98e54nmd shows it",
      "failed work is not offered for approval: it is kept here: see “Changes”",
    ],
    ["the queue is paused; `harvest queue resume` continues it", "The queue is paused"],
    [
      "there is no credential `tracker` for it: harvest credential add mcp --name tracker",
      "There is no credential `tracker` for it: add it on the Credentials page, with the provider “MCP server”",
    ],
    [
      "the session's work is not on this machine: it ran on another machine, or `harvest gc` removed it",
      "The session's work is not on this machine: it ran on another machine, or a cleanup removed it",
    ],
    ["see `harvest agent list`", "see the Agents page"],
    [
      "no test command was found, so the result is unverified; name one with --test",
      "No test command was found, so the result is unverified; set one under “More” in a new task, or in the project's settings",
    ],
    [
      "no Anthropic key is configured: set ANTHROPIC_API_KEY where Harvest runs, or give a model script with --model-script",
      "No Anthropic key is configured: add one on the Credentials page",
    ],
    [
      "the result of task 98e54nmd is not verified: the task starts from main without it; --base names another",
      "The result of task 98e54nmd is not verified: the task starts from main without it; “Start from” in a new task names another",
    ],
    [
      "orchard asks for $9, but at most $5 is allowed; give the task more with --budget-usd",
      "orchard asks for $9, but at most $5 is allowed; give the task more with “Budget”",
    ],
    ["the command `cargo nextest run --test it` failed", "The command `cargo nextest run --test it` failed"],
  ] as const) {
    expect(errorWords(said)).toBe(shown);
  }
});

test("what agents and tests print stays as it came, and names keep their case", () => {
  expect(errorWords("the agent exited with code 1; the last lines it printed:\nharvest: command not found")).toBe(
    "The agent exited with code 1; the last lines it printed:\nharvest: command not found",
  );
  expect(pageWords("exit code 2; the last lines it printed:\nerror: name one with --test")).toContain("name one with --test");
  expect(errorWords("orchard has no snapshot")).toBe("orchard has no snapshot");
  expect(pageWords("run `npm test` again")).toBe("run `npm test` again");
});

test("in a list, a failure is one line that ends", () => {
  expect(shortError("the agent exited with code 1; the last lines it printed:\nI give up.")).toBe("The agent exited with code 1");
});

test("the page itself names no command, except to someone who is not signed in", () => {
  const page = import.meta.glob<string>("../**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });
  const named = Object.entries(page)
    .filter(([path]) => !/\.test\.ts$|schema\.ts$|page-words\.ts$|signed-out\.tsx$/.test(path))
    .flatMap(([path, source]) => source.split("\n").map((line) => `${path}: ${line.trim()}`))
    .filter((line) => /\bharvest (?:[a-z]+ )?[a-z]+\b/.test(line) && !/: (?:\/\/|\/?\*)/.test(line));
  expect(named).toEqual([]);
});
