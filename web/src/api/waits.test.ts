import { describe, expect, test } from "vitest";
import type { SchemaTurnStatus } from "./schema";
import { inOrder, waitOf, waitOfListed, type WaitFacts } from "./waits";
import type { SchemaStatus } from "./words";

const task = { status: "pending", after: [] as string[] } as const;
const queue = { paused: false, workers: 1 };
const turns = (...statuses: SchemaTurnStatus[]) => statuses.map((status) => ({ status }));
const known = (...of: [string, SchemaStatus][]) => new Map(of);
const wait = (after: string[], facts: WaitFacts) => waitOf({ ...task, after }, { queue, ...facts });

describe("what a pending task waits for", () => {
  test("a task that is ready waits for a worker", () => {
    expect(wait([], { turns: turns("ready") })).toEqual({ for: "worker" });
    expect(wait([], { turns: turns("ready"), queue: { paused: false, workers: 0 } })).toEqual({ for: "workers" });
    expect(wait([], {})).toEqual({ for: "worker" });
  });

  test("a task that a cap has parked waits for a place under it", () => {
    expect(wait([], { turns: turns("parked") })).toEqual({ for: "cap" });
  });

  test("a task that is retried later waits for its next attempt", () => {
    expect(wait([], { turns: turns("waiting") })).toEqual({ for: "attempt" });
  });

  test("turns that are done are not waited for", () => {
    expect(wait([], { turns: turns("done", "parked") })).toEqual({ for: "cap" });
    expect(wait([], { turns: turns("queued") })).toEqual({ for: "turns" });
    expect(wait([], { turns: turns("held") })).toEqual({ for: "approval" });
  });

  test("a paused queue starts neither new tasks nor retries nor parked ones", () => {
    const paused = { paused: true, workers: 1 };
    for (const status of ["ready", "waiting", "parked"] as const) expect(wait([], { turns: turns(status), queue: paused })).toEqual({ for: "queue" });
  });

  test("only predecessors that have not completed are waited for, with their status", () => {
    const statuses = known(["a", "completed"], ["b", "running"], ["c", "failed"]);
    expect(wait(["a", "b", "c"], { turns: turns("blocked"), statuses })).toEqual({
      for: "tasks",
      tasks: [
        { id: "b", status: "running" },
        { id: "c", status: "failed" },
      ],
    });
  });

  test("a predecessor that cannot be read is named as long as the turn is blocked", () => {
    expect(wait(["a"], { turns: turns("blocked") })).toEqual({ for: "tasks", tasks: [{ id: "a", status: null }] });
  });

  test("when all predecessors have completed, the task waits for what its turn says", () => {
    const statuses = known(["a", "completed"]);
    expect(wait(["a"], { turns: turns("ready"), statuses })).toEqual({ for: "worker" });
    expect(wait(["a"], { turns: turns("parked"), statuses })).toEqual({ for: "cap" });
    expect(wait(["a"], { turns: turns("parked") })).toEqual({ for: "cap" });
    expect(wait(["a"], { turns: turns("blocked"), statuses })).toEqual({ for: "worker" });
  });

  test("until the turn is known, only predecessors that are known not to have completed are named", () => {
    expect(wait(["a", "b"], { statuses: known(["a", "completed"], ["b", "pending"]) })).toEqual({ for: "tasks", tasks: [{ id: "b", status: "pending" }] });
    expect(wait(["a"], { statuses: known(["a", "completed"]) })).toEqual({ for: "worker" });
    expect(wait(["a"], {})).toBeNull();
  });

  test("the list says what a task waits for, with nothing else read", () => {
    const listed = (turn: SchemaTurnStatus, after: { id: string; status: SchemaStatus | null }[]) => waitOfListed(task, { turn, after }, queue);
    const after: { id: string; status: SchemaStatus | null }[] = [
      { id: "a", status: "running" },
      { id: "b", status: null },
    ];
    expect(listed("blocked", after)).toEqual({ for: "tasks", tasks: after });
    expect(listed("ready", [])).toEqual({ for: "worker" });
    expect(listed("parked", [])).toEqual({ for: "cap" });
    expect(listed("waiting", [])).toEqual({ for: "attempt" });
  });

  test("a task that a worker has taken waits for nothing", () => {
    expect(wait([], { turns: turns("claimed") })).toBeNull();
    expect(waitOf({ status: "running", after: ["a"] }, { queue, turns: turns("ready") })).toBeNull();
  });
});

test("tasks are in the order in which workers take them, and those that cannot start are behind them by their rank", () => {
  const task = (id: string, priority: "low" | "normal" | "high" | "urgent", created_at: string) => ({ id, priority, created_at });
  const tasks = [
    task("urgent-blocked", "urgent", "2026-11-18T12:00:00Z"),
    task("second", "low", "2026-11-18T01:00:00Z"),
    task("low-parked", "low", "2026-11-18T05:00:00Z"),
    task("normal-parked", "normal", "2026-11-18T12:00:00Z"),
    task("first", "high", "2026-11-18T11:00:00Z"),
  ];
  // A normal task goes before a low one only for six hours.
  expect(inOrder(tasks, ["first", "second"]).map(({ id }) => id)).toEqual(["first", "second", "urgent-blocked", "low-parked", "normal-parked"]);
});
