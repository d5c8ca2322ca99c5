import { describe, expect, test } from "vitest";
import type { SchemaTask } from "./schema";
import { deliveryWords, hasWork, leftWords, mayBeProposed, verdict } from "./words";

const evidence = { exit_code: 0, passed: 3, failed: 0, flags: [], verdict: "verified" } as unknown as SchemaTask["evidence"];
const task = { status: "completed", branch: "harvest/x", kind: "prompt", evidence } as Pick<SchemaTask, "evidence" | "status" | "branch" | "kind">;

describe("the verdict of a task", () => {
  test("work that passes its tests is counted", () => {
    expect(verdict(task)).toEqual({ text: "3 passed", tone: "good" });
  });

  test("tests that pass after they were edited are doubted", () => {
    const edited = { ...evidence, flags: ["tests_changed"] } as typeof evidence;
    expect(verdict({ ...task, evidence: edited })).toEqual({ text: "3 passed, tests edited", tone: "warn" });
    const more = { ...evidence, flags: ["tests_changed", "ci_changed", "settings_changed"] } as typeof evidence;
    expect(verdict({ ...task, evidence: more })).toEqual({ text: "3 passed, tests edited and 2 more", tone: "warn" });
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
