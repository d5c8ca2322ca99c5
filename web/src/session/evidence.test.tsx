// What the page says of the tasks of the verdict table, which an end-to-end test of the program writes and checks.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test } from "vitest";
import table from "../../../crates/harvest/tests/it/verdict_table.json";
import type { SchemaTask } from "../api/schema";
import { verdict } from "../api/words";
import { Journal } from "../stream/journal";
import { EvidenceTab } from "./evidence";

const tasks = table as unknown as Record<string, SchemaTask>;

/** The evidence of a task as a reader of the page has it, one element in a line. */
function tab(task: SchemaTask): string[] {
  const page = renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <EvidenceTab task={task} journal={new Journal()} />
    </QueryClientProvider>,
  );
  const decoded = page
    .replace(/<[^>]*>/g, "\n")
    .replaceAll("&#x27;", "'")
    .replaceAll("&quot;", '"')
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");
  return decoded.split("\n").filter((line) => line.trim() !== "");
}

/** From one line to the next, without them. */
function between(lines: string[], from: string, to: string): string[] {
  const start = lines.indexOf(from);
  return start < 0 ? [] : lines.slice(start + 1, lines.indexOf(to, start));
}

const NO_FLAGS = "No flags. The verdict above says why the work is not verified.";
const NOTHING = "Nothing: no fewer tests ran than at the base, and no more were skipped.";

const CASES: Record<string, { list: string; badge: string; hint: boolean; tests: string[]; output: string[]; check: string[] }> = {
  command_missing: {
    list: "tests could not run",
    badge: "Not verified: the tests could not run",
    hint: true,
    tests: [],
    output: ["/bin/sh: surely-not-installed: not found"],
    check: [NO_FLAGS],
  },
  red_base_unchanged: {
    list: "1 failed, same as the base",
    badge: "Unchanged: the tests that fail also fail at the base",
    hint: false,
    tests: ["Still failing (1)", "divides"],
    output: ["ok 1 - adds", "not ok 2 - divides", "1..2"],
    check: [NO_FLAGS],
  },
  red_base_worse: {
    list: "0 passed, 2 failed",
    badge: "The tests fail",
    hint: false,
    tests: ["Pass → fail (1)", "adds", "Still failing (1)", "divides"],
    output: ["not ok 1 - adds", "not ok 2 - divides", "1..2"],
    check: [NO_FLAGS],
  },
  new_test_that_fails: {
    list: "1 passed, 1 failed",
    badge: "The tests fail",
    hint: false,
    tests: ["New, fails (1)", "divides"],
    output: ["ok 1 - adds", "not ok 2 - divides", "1..2"],
    check: [NO_FLAGS],
  },
  test_that_fails_at_the_base: {
    list: "verified: 2 passed",
    badge: "Verified",
    hint: false,
    tests: ["Fail → pass (1)", "divides"],
    output: [],
    check: [NOTHING],
  },
  vanished_test: {
    list: "verified: 2 passed, 1 test vanished (divides)",
    badge: "Verified, 1 test vanished (divides)",
    hint: false,
    tests: ["New (1)", "halves", "Vanished (1)", "divides"],
    output: [],
    check: ["Tests vanished", "Tests that ran before the change are missing; they are listed above"],
  },
  no_counts: {
    list: "verified: exit code 0, no counts",
    badge: "Verified, no counts",
    hint: false,
    tests: [],
    output: [],
    check: ["No flags. How many tests ran is not known: the test runner printed no counts that Harvest can read."],
  },
  failures_at_exit_code_0: {
    list: "1 failed, same as the base",
    badge: "Unchanged: the tests that fail also fail at the base",
    hint: false,
    tests: ["Still failing (1)", "divides"],
    output: ["ok 1 - adds", "not ok 2 - divides", "1..2"],
    check: [NO_FLAGS],
  },
  failure_named_no_more: {
    list: "1 failed, same as the base",
    badge: "Unchanged: the tests that fail also fail at the base",
    hint: false,
    tests: ["No longer listed as failing (1)", "adds", "Still failing (1)", "divides"],
    output: ["not ok 1 - divides", "1 passed, 1 failed"],
    check: [NO_FLAGS],
  },
  red_base_loses_a_test: {
    list: "0 passed, 1 failed",
    badge: "The tests fail",
    hint: false,
    tests: ["Still failing (1)", "divides"],
    output: ["not ok 1 - divides", "1..1"],
    check: [
      "Tests deleted",
      "Test files, or files of the test command, were deleted or emptied",
      "Fewer tests",
      "Fewer tests ran than before the change",
      "cases/adds",
    ],
  },
  package_missing_in_node: {
    list: "tests could not run",
    badge: "Not verified: the tests could not run",
    hint: true,
    tests: ["Still failing (1)", "test/cart.test.mjs [not loaded]"],
    output: [
      "# Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'no-such-package' imported from test/cart.test.mjs",
      "not ok 1 - test/cart.test.mjs",
      "# pass 0",
      "# fail 1",
      "# skipped 0",
    ],
    check: [NO_FLAGS],
  },
  file_not_loaded_in_node: {
    list: "1 passed, 1 failed",
    badge: "The tests fail",
    hint: false,
    tests: ["Still failing (1)", "test/cart.test.mjs [not loaded]"],
    output: ["# SyntaxError: Unexpected end of input", "not ok 1 - test/cart.test.mjs", "ok 2 - is right", "# pass 1", "# fail 1", "# skipped 0"],
    check: [NO_FLAGS],
  },
  package_missing_in_unittest: {
    list: "tests could not run",
    badge: "Not verified: the tests could not run",
    hint: true,
    tests: ["Still failing (1)", "tests.test_cart [not loaded]"],
    output: [
      "ERROR: tests.test_cart (unittest.loader._FailedTest)",
      "ImportError: Failed to import test module: tests.test_cart",
      "ModuleNotFoundError: No module named 'no_such_package'",
      "Ran 1 test in 0.001s",
      "FAILED (errors=1)",
    ],
    check: [NO_FLAGS],
  },
};

describe("the verdict table on the page", () => {
  test("has every case", () => expect(Object.keys(tasks).sort()).toEqual(Object.keys(CASES).sort()));

  test.each(Object.entries(CASES))("%s", (name, expected) => {
    const task = tasks[name];
    if (!task) throw new Error(`no task ${name}`);
    const lines = tab(task);
    const said = {
      list: verdict(task)?.text,
      badge: lines[0],
      hint: task.evidence?.hint != null && lines.includes(task.evidence.hint),
      tests: between(lines, "Tests that changed", task.evidence?.output ? "Last lines of the test output" : "What to check"),
      output: between(lines, "Last lines of the test output", "What to check"),
      check: between(lines, "What to check", "Test runs and their output"),
    };
    expect(said).toEqual(expected);
  });
});

/** A verified task whose evidence says something else as well. */
function having(of: object): SchemaTask {
  const task = tasks.test_that_fails_at_the_base;
  return { ...task, evidence: { ...task?.evidence, ...of } } as unknown as SchemaTask;
}

describe("what there is to check in a result without flags", () => {
  const check = (of: object) => between(tab(having(of)), "What to check", "Test runs and their output")[0];

  test("new tests are not called the same as at the base", () => {
    expect(check({ tests: { added: ["halves"] } })).toBe(`${NOTHING} New tests are listed above.`);
  });

  test("nothing is claimed about a number that is not known, at the base or at the result", () => {
    expect(check({ baseline: { exit_code: 0 } })).toMatch(/^No flags. How many tests ran is not known/);
  });
});

test("a command that passes and proves nothing is not said to have tests that pass", () => {
  expect(tab(having({ verdict: "doubtful", flags: [] }))[0]).toBe("Not verified: the test command passes but proves nothing");
});

test("more skipped tests are counted, not named", () => {
  const check = between(tab(having({ flags: ["tests_skipped"] })), "What to check", "Test runs and their output");
  expect(check).toEqual(["Tests skipped", "More tests were skipped than before the change"]);
});

test("lists of tests say how many names were left out, and why the comparison is incomplete", () => {
  const tests = { broken: ["adds"], fixed: ["divides"], left_off: 7, incomplete: "not all tests are known by name" };
  const shown = between(tab(having({ tests })), "Tests that changed", "What to check");
  expect(shown.slice(0, 4)).toEqual(["Pass → fail (1)", "adds", "Fail → pass (1)", "divides"]);
  expect(shown.slice(4).join(" ")).toBe("and 7 more not all tests are known by name");
});
