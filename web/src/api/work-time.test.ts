import { describe, expect, test } from "vitest";
import { workTime } from "./work-time";

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const run = (from: number, to: number | null) => ({ started_at: at(from), finished_at: to === null ? null : at(to) });
const now = Date.parse(at(60));

describe("the time that a task took", () => {
  test("is that of its agents' runs, without the queue, people and tests between them", () => {
    const turns = [{ attempts: [run(2, 6), run(30, 33)] }, { attempts: [] }, { attempts: [run(40, 42)] }];
    expect(workTime(turns, "completed", now)).toBe(9_000);
  });

  test("grows while an agent works", () => {
    expect(workTime([{ attempts: [run(2, 6), run(50, null)] }], "running", now)).toBe(14_000);
  });

  test("leaves out a run that has no end, as the command line does", () => {
    const turns = [{ attempts: [run(2, 6), run(50, null)] }];
    for (const status of ["failed", "cancelled", "interrupted", "pending"] as const) expect(workTime(turns, status, now)).toBe(4_000);
  });
});
