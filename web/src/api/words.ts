import type { SchemaTask, SchemaTaskStatus } from "./schema";

export type SchemaStatus = SchemaTaskStatus;

export const STATUSES: SchemaStatus[] = ["pending", "provisioning", "running", "awaiting_approval", "interrupted", "completed", "failed", "cancelled"];

export function isStatus(text: unknown): text is SchemaStatus {
  return typeof text === "string" && (STATUSES as string[]).includes(text);
}

export function isOver(status: SchemaStatus): boolean {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** A path or URL without what leads to it. */
export function shortRepository(source: string): string {
  return (
    source
      .replace(/\/+$/, "")
      .replace(/\.git$/, "")
      .split("/")
      .pop() || source
  );
}

/** What the evidence of a task says, in a few words. */
export function verdict(task: Pick<SchemaTask, "evidence">): { text: string; tone: "good" | "bad" | "warn" } | null {
  const evidence = task.evidence;
  if (!evidence) return null;
  const counted =
    evidence.passed != null
      ? `${evidence.passed} passed${evidence.failed ? `, ${evidence.failed} failed` : ""}`
      : evidence.exit_code === 0
        ? "tests pass"
        : `exit ${evidence.exit_code}`;
  if (evidence.exit_code !== 0) return { text: counted, tone: "bad" };
  return { text: counted, tone: evidence.flags.length > 0 ? "warn" : "good" };
}
