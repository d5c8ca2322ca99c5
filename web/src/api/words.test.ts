import { describe, expect, test } from "vitest";
import type { SchemaTask } from "./schema";
import { deliveryWords, hasWork, keptWords, mayBeProposed, verdict } from "./words";

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

test("work that was not delivered is not said to be on a branch", () => {
  const task = { status: "failed", reason: "hook", branch: null, base: "a", commit: "b" } as const;
  expect(keptWords(task)).toBe("The work was not delivered. Harvest keeps it here.");
  expect(keptWords({ ...task, status: "cancelled", reason: "cancelled" })).toBe("The work was not delivered. Harvest keeps it here.");
  expect(keptWords({ ...task, commit: "a" })).toBeNull();
  expect(keptWords({ ...task, branch: "harvest/x" })).toBeNull();
  expect(keptWords({ ...task, reason: "tests", branch: "harvest/x" })).toBe("The work is on its branch; nothing was merged.");
  expect(keptWords({ ...task, status: "completed", reason: null, branch: "harvest/x" })).toBeNull();
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
