import { describe, expect, test } from "vitest";
import type { SchemaTask } from "./schema";
import { deliveryWords, hasWork, leftWords, mayBeProposed, sourceWords, verdict } from "./words";

const evidence = { exit_code: 0, passed: 3, failed: 0, flags: [], verdict: "verified" } as unknown as SchemaTask["evidence"];
const finished_at = "2026-01-01T00:00:00Z";
const task = { status: "completed", branch: "harvest/x", kind: "prompt", evidence, finished_at } as Parameters<typeof verdict>[0];

describe("the verdict of a task", () => {
  const having = (of: object) => ({ ...task, evidence: { ...evidence, ...of } as typeof evidence });

  test("work that passes its tests is verified, and counted", () => {
    expect(verdict(task)).toEqual({ text: "verified: 3 passed", tone: "good" });
  });

  test("tests that pass after they were edited are doubted", () => {
    expect(verdict(having({ flags: ["tests_changed"] }))).toEqual({ text: "verified: 3 passed, tests edited", tone: "warn" });
    expect(verdict(having({ flags: ["test_command_changed", "ci_changed"] }))?.text).toBe("verified: 3 passed, test command edited, 1 more flag");
    expect(verdict(having({ flags: ["tests_changed", "ci_changed", "settings_changed"] }))?.text).toBe("verified: 3 passed, tests edited, 2 more flags");
  });

  test("a test that vanished is named", () => {
    const gone = (vanished: string[], flags = ["tests_vanished"]) => verdict(having({ flags, tests: { vanished } }))?.text;
    expect(gone(["adds"])).toBe("verified: 3 passed, 1 test vanished (adds)");
    expect(gone(["adds", "divides"], ["tests_vanished", "tests_changed"])).toBe("verified: 3 passed, 2 tests vanished (adds, …), 1 more flag");
    expect(gone(["x".repeat(90)])).toContain(`(${"x".repeat(60)}…)`);
  });

  test("completed work that was not tested says that it is not verified", () => {
    expect(verdict({ ...task, evidence: null })).toEqual({ text: "not verified", tone: "warn" });
  });

  test("completed work that the tests do not prove says that it is not verified, and why", () => {
    const said = (of: object) => verdict(having(of))?.text;
    expect(said({ verdict: "no_tests", passed: 0 })).toBe("not verified: no tests ran");
    expect(said({ verdict: "cannot_run", exit_code: 127 })).toBe("not verified: tests could not run");
    expect(said({ verdict: "unchanged", exit_code: 1, failed: 1 })).toBe("not verified: 1 failed, same as the base");
    expect(said({ verdict: "doubtful", flags: ["tests_changed", "fewer_tests"] })).toBe("not verified: 3 passed, fewer tests");
  });

  test("evidence from before there were verdicts is judged by its exit code and flags, as the command line does", () => {
    expect(verdict(having({ verdict: undefined }))?.text).toBe("verified: 3 passed");
    for (const flag of ["fewer_tests", "tests_deleted", "tests_timed_out"])
      expect(verdict(having({ verdict: undefined, flags: [flag] }))?.text).toMatch(/^not verified: 3 passed, /);
    expect(verdict(having({ verdict: undefined, exit_code: 1, failed: 1 }))?.text).toBe("not verified: 3 passed, 1 failed");
  });

  test("a task that failed or goes on is not called verified, whatever its tests say", () => {
    for (const status of ["failed", "cancelled", "running"] as const) {
      expect(verdict({ ...task, status })?.text).toBe("3 passed");
      expect(verdict({ ...task, status, evidence: null })).toBeNull();
    }
  });

  test("nothing is said of a task that has just completed until its result is read", () => {
    expect(verdict({ ...task, branch: null, evidence: null, finished_at: null })).toBeNull();
  });

  test("a completed task without changes is not called verified", () => {
    expect(verdict({ ...task, branch: null })).toEqual({ text: "no changes", tone: "warn" });
  });

  test("a review is no task without changes", () => {
    expect(verdict({ ...task, branch: null, kind: "pr_review", evidence: null })).toBeNull();
  });
});

test("work that failed and was not pushed is there to look at", () => {
  expect(hasWork({ branch: null, base: "a", commit: "b" })).toBe(true);
  expect(hasWork({ branch: null, base: "a", commit: "a" })).toBe(false);
  expect(hasWork({ branch: "harvest/x", base: "a", commit: null })).toBe(true);
});

describe("what a task left that did not complete", () => {
  const task = { status: "failed", reason: "tests", branch: null, base: "a", commit: "b" } as const;
  const pushed = { ...task, branch: "harvest/x" } as const;

  test("work that was not delivered is not said to be on a branch", () => {
    expect(leftWords(task, false)).toBe("The work so far was not delivered; Harvest keeps it.");
    expect(leftWords({ ...task, status: "cancelled", reason: "cancelled" }, false)).toBe("The work so far was not delivered; Harvest keeps it.");
    expect(leftWords({ ...task, commit: "a" }, false)).toBeNull();
  });

  test("failed work on a branch is named as such, and not as delivered", () => {
    for (const reason of ["tests", "hook"] as const)
      expect(leftWords({ ...pushed, reason }, true)).toBe("The work so far is on branch harvest/x; nothing was merged.");
  });

  test("a follow-up that pushed nothing does not claim the branch of the turns before", () => {
    expect(leftWords(pushed, false)).toBe("Branch harvest/x has only the work of earlier turns.");
    expect(leftWords({ ...pushed, reason: "hook" }, false)).toBeNull();
  });

  test("completed work needs no such words", () => {
    expect(leftWords({ ...pushed, status: "completed", reason: null }, true)).toBeNull();
  });
});

test("where a task came from is said in words", () => {
  expect(sourceWords("github_pr")).toBe("GitHub pull request");
  expect(sourceWords("carrier_pigeon" as "web")).toBe("carrier_pigeon");
});

test("approving a result that came from GitHub creates its pull request", () => {
  expect(deliveryWords({ source: "github_issue" })).toBe("Create pull request");
  expect(deliveryWords({ source: "cli" })).toBe("Deliver");
});

test("work of a repository on a host that was not pushed can become a pull request", () => {
  const failed = { status: "failed", branch: null, base: "a", commit: "b", kind: "issue", repository: "https://github.com/ada/shop" } as const;
  expect(mayBeProposed(failed, false)).toBe(true);
  expect(mayBeProposed(failed, true)).toBe(false);
  expect(mayBeProposed({ ...failed, commit: "a" }, false)).toBe(false);
  expect(mayBeProposed({ ...failed, repository: "/srv/shop" }, false)).toBe(false);
  expect(mayBeProposed({ ...failed, status: "running" }, false)).toBe(false);
});
