import { expect, test } from "vitest";
import { errorWords, pageWords, shortError } from "./page-words";

/** Texts in the sources of everything whose messages reach the page: tasks, events, hints, builds and answers of the API. */
const SOURCES = import.meta.glob<string>("../../../crates/{core,engine,forge,gateway,sandbox,server,store,vault,workspace}/src/**/*.rs", {
  query: "?raw",
  import: "default",
  eager: true,
});

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

test("messages that name a command say where on the page the same is done", () => {
  for (const [said, shown] of [
    [
      "`pytest` is not installed in the sandbox: add it to the test dependencies; then `harvest repo build shop` installs it",
      "`pytest` is not installed in the sandbox: add it to the test dependencies; then a build on the Repositories page installs it",
    ],
    [
      "`mocha` is not installed in the sandbox: add it to package.json; then `harvest repo add /src/shop --name shop && harvest repo build shop` installs it",
      "`mocha` is not installed in the sandbox: add it to package.json; then preparing the repository on the Repositories page installs it",
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
  ] as const) {
    expect(errorWords(said)).toBe(shown);
  }
});

test("what agents and tests print stays as it came, and names keep their case", () => {
  expect(errorWords("the agent exited with code 1; the last lines it printed:\nharvest: command not found")).toBe(
    "The agent exited with code 1; the last lines it printed:\nharvest: command not found",
  );
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
