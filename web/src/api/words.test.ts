import { describe, expect, test } from "vitest";
import type { SchemaTask } from "./schema";
import { verdict } from "./words";

const evidence = { exit_code: 0, passed: 3, failed: 0, flags: [], verdict: "verified" } as unknown as SchemaTask["evidence"];
const task = { status: "completed", branch: "harvest/x", kind: "prompt", evidence } as Pick<SchemaTask, "evidence" | "status" | "branch" | "kind">;

describe("the verdict of a task", () => {
  test("work that passes its tests is counted", () => {
    expect(verdict(task)).toEqual({ text: "3 passed", tone: "good" });
  });

  test("a completed task without changes is not called verified", () => {
    expect(verdict({ ...task, branch: null })).toEqual({ text: "nothing changed", tone: "warn" });
  });

  test("a review is no task without changes", () => {
    expect(verdict({ ...task, branch: null, kind: "pr_review", evidence: null })).toBeNull();
  });
});
