import { expect, it } from "vitest";
import type { JournalEvent } from "./journal";
import { Fold } from "./fold";

function folded(...events: [second: number, type: string, data: unknown][]): Fold {
  const fold = new Fold();
  events.forEach(([second, type, data], index) =>
    fold.take({ seq: index + 1, at: new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString(), session_id: "s", type, data } as JournalEvent),
  );
  return fold;
}

it("has a session read again when a run of an agent begins and when it ends", () => {
  const fold = folded([0, "agent.started", { agent: "builtin" }]);
  expect(fold.stateChanges).toBe(1);
  fold.take({ seq: 2, at: "2026-01-01T00:00:04Z", session_id: "s", type: "agent.finished", data: { exit_code: 0 } } as JournalEvent);
  expect(fold.stateChanges).toBe(2);
});

it("shows a plan once, where the agent said it, with its decision", () => {
  const fold = folded(
    [0, "turn.started", { number: 1, author: "ada" }],
    [1, "message", { role: "assistant", text: "First this.\n\nThen that.\n" }],
    [2, "agent.finished", { exit_code: 0 }],
    [3, "plan.proposed", { text: "First this.\n\nThen that." }],
    [4, "plan.decided", { approved: true, author: "ada" }],
  );
  expect(fold.entries.filter((entry) => entry.kind === "message")).toEqual([]);
  expect(fold.entries.filter((entry) => entry.kind === "plan")).toMatchObject([{ seq: 2, decision: "Approved by ada" }]);
});

it("keeps a message that is not the plan", () => {
  const fold = folded([0, "message", { role: "assistant", text: "I thought about it." }], [1, "plan.proposed", { text: "The plan" }]);
  expect(fold.entries.map((entry) => entry.kind)).toEqual(["message", "plan"]);
});

it("gathers steps of Harvest, from the last of which that saved something one can fork", () => {
  const fold = folded(
    [0, "checkpoint.created", { number: 1, commit: "c".repeat(40) }],
    [1, "agent.finished", { exit_code: 0 }],
    [2, "message", { role: "assistant", text: "Hello." }],
    [3, "agent.finished", { exit_code: 1, reason: "stalled" }],
  );
  expect(fold.entries).toMatchObject([
    { kind: "plumbing", saved: 1, steps: [{ text: "Checkpoint 1" }, { text: "Agent exited with code 0" }] },
    { kind: "message" },
    { kind: "note", tone: "bad" },
  ]);
});

it("tells that a retry was cancelled while it waited, and the former result only once", () => {
  const failed = { status: "failed", commit: "c".repeat(40), cost_usd: 0, error: "2 tests fail" };
  const retried = { reason: "tests", error: "2 tests fail", tries: 1, delay_ms: 0 };
  const fold = folded(
    [0, "turn.started", { turn_id: "t1", number: 1, author: "ada" }],
    [1, "turn.finished", { turn_id: "t1", reason: "tests" }],
    [2, "task.finished", failed],
    [3, "task.retried", retried],
    [4, "task.finished", failed],
    [5, "task.retried", retried],
    [6, "turn.started", { turn_id: "t1", number: 1, author: "ada" }],
    [7, "turn.finished", { turn_id: "t1", reason: "tests" }],
    [8, "task.finished", failed],
  );
  const told = fold.entries.map((entry) => (entry.kind === "note" ? entry.text : entry.kind));
  expect(told.filter((text) => text === "end")).toHaveLength(2);
  expect(told).toContain("The retry was cancelled before it started");
  expect(told).toContain("Retrying after: 2 tests fail");
});

it("tells that a follow-up was cancelled while it waited, and the former result only once", () => {
  const done = { status: "completed", commit: "c".repeat(40), cost_usd: 0 };
  const fold = folded(
    [0, "turn.started", { turn_id: "t1", number: 1, author: "ada" }],
    [1, "turn.finished", { turn_id: "t1" }],
    [2, "task.finished", done],
    [3, "turn.queued", { turn_id: "t2", number: 2, author: "ada", prompt: "More" }],
    [4, "turn.finished", { turn_id: "t2", reason: "cancelled" }],
    [5, "task.finished", done],
  );
  expect(fold.outcome).toMatchObject(done);
  expect(fold.entries.map((entry) => entry.kind)).toEqual(["prompt", "end", "note", "note"]);
  expect(fold.entries.at(-1)).toMatchObject({ text: "The follow-up was cancelled before it started", tone: "warn" });
});

it("says that work was delivered only when its task completed", () => {
  const branch = "harvest/x";
  const turn = (number: number) => [0, "turn.started", { turn_id: `t${number}`, number, author: "ada" }] as [number, string, unknown];
  const end = (status: string) => [1, "task.finished", { status, commit: "c", base: "b", branch, cost_usd: 0 }] as [number, string, unknown];
  const delivered: [number, string, unknown] = [0, "branch.delivered", { branch, commit: "c" }];
  const told = (fold: Fold) => fold.entries.map((entry) => (entry.kind === "note" ? `${entry.tone}: ${entry.text}` : entry.kind));

  const failed = folded(turn(1), delivered, end("failed"));
  expect(told(failed)).toEqual(["prompt", "plumbing", "end"]);
  expect(failed.entries.at(-1)).toMatchObject({ outcome: { status: "failed" }, pushed: true });
  expect(JSON.stringify(failed.entries)).not.toMatch(/Delivered/);
  expect(folded(turn(1), delivered, end("completed")).entries.at(-1)).toMatchObject({ outcome: { status: "completed" }, pushed: true });
});

it("does not take the branch of an earlier turn, or of a plan, for work that a turn pushed", () => {
  const end: [number, string, unknown] = [1, "task.finished", { status: "failed", commit: "c", base: "b", branch: "harvest/x", cost_usd: 0 }];
  const second = folded(
    [0, "turn.started", { turn_id: "t1", number: 1, author: "ada" }],
    [1, "branch.delivered", { branch: "harvest/x", commit: "c" }],
    [2, "turn.started", { turn_id: "t2", number: 2, author: "ada" }],
    end,
  );
  expect(second.entries.at(-1)).toMatchObject({ kind: "end", pushed: false });
  const planned = folded(
    [0, "turn.started", { turn_id: "t1", number: 1, author: "ada" }],
    [1, "branch.delivered", { branch: "harvest/plan-x", commit: "c" }],
    end,
  );
  expect(planned.entries.at(-1)).toMatchObject({ kind: "end", pushed: false });
});

it("does not celebrate the draft pull request of work that failed", () => {
  const opened = (draft: boolean) => folded([0, "pull_request.delivered", { number: 7, url: "https://x/pull/7", draft }]).entries;
  expect(opened(true)).toMatchObject([{ text: "Draft pull request 7 opened", tone: "plain" }]);
  expect(opened(false)).toMatchObject([{ text: "Pull request 7 opened", tone: "good" }]);
});

it("tells numbers, budgets and failed model calls in whole sentences", () => {
  const told = (type: string, data: unknown) => folded([0, type, data]).entries.map((entry) => (entry.kind === "note" ? entry.text : ""))[0];
  const placed = (changed_lines: number) => told("race.placed", { changed_lines, cost_usd: 0.1 });
  expect(placed(1)).toBe("Passed its tests: 1 changed line, $0.10. Waiting for the other entrants");
  expect(placed(1200)).toBe("Passed its tests: 1,200 changed lines, $0.10. Waiting for the other entrants");
  const spent = (account: string) => told("budget.reached", { account, percent: 80, spent_usd: 4, limit_usd: 5 });
  expect(spent("task:qb2q")).toBe("80% of the task budget is spent: $4.00 of $5.00");
  expect(spent("project:shop")).toBe("80% of the daily budget of project shop is spent: $4.00 of $5.00");
  const over = told("budget.reached", { account: "task:qb2q", percent: 80, spent_usd: 4.98, limit_usd: 5 });
  expect(over).toBe("99% of the task budget is spent: $4.98 of $5.00");
  const trouble = (remedy: string, count: number) => told("model.trouble", { provider: "anthropic", model: "opus", problem: "429", remedy, count });
  expect(trouble("failed_over", 1)).toBe("opus at anthropic failed (429): switched to the next credential");
  expect(trouble("retried", 3)).toBe("opus at anthropic failed (429): retried (3 times)");
});

it("says who edited a plan, and who resumed a session", () => {
  const decided = folded([0, "plan.proposed", { text: "A" }], [1, "plan.decided", { approved: true, author: "ada", plan: "B" }]);
  expect(decided.entries[0]).toMatchObject({ kind: "plan", text: "B", decision: "Approved by ada, with edits" });
  expect(folded([0, "session.resumed", { author: "ada", prompt: "Go on" }]).entries).toMatchObject([{ text: "Resumed by ada: Go on" }]);
});
