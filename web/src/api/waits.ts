// What keeps a pending task from starting, decided from its turns, the tasks before it and the queue. The words for lists are those
// of `harvest task show`.
import type { SchemaQueue, SchemaTask, SchemaTurn, SchemaWaiting } from "./schema";
import type { SchemaStatus } from "./words";

type Reason = "approval" | "turns" | "queue" | "attempt" | "cap" | "workers" | "worker";

/** A task whose status is `null` exists, but its status is not known. */
export type Wait = { for: "tasks"; tasks: { id: string; status: SchemaStatus | null }[] } | { for: Reason };

export const WAITS_FOR: Record<Reason, string> = {
  approval: "approval",
  turns: "earlier turns",
  queue: "the queue to resume",
  attempt: "its next attempt",
  cap: "a free slot under a cap",
  workers: "a worker",
  worker: "a worker",
};

export interface WaitFacts {
  /** Absent until they have been read. */
  turns?: Pick<SchemaTurn, "status">[];
  /** Of the tasks before it, as far as they have been read. */
  statuses?: ReadonlyMap<string, SchemaStatus>;
  queue?: Pick<SchemaQueue, "paused" | "workers">;
}

/** `null` if the task waits for nothing, or if nothing certain can be said yet. */
export function waitOf(task: Pick<SchemaTask, "status" | "after">, { turns, statuses, queue }: WaitFacts): Wait | null {
  if (task.status !== "pending") return null;
  const turn = turns?.find((one) => one.status !== "done")?.status;
  if (turn === "claimed") return null;
  if (turn === "held") return { for: "approval" };
  if (turn === "queued") return { for: "turns" };
  // A turn that was released starts even if a task before it is worked on again.
  if (turn === undefined || turn === "blocked") {
    const before = task.after.map((id) => ({ id, status: statuses?.get(id) ?? null })).filter(({ status }) => status !== "completed");
    const named = turn === "blocked" ? before : before.filter(({ status }) => status !== null);
    if (named.length > 0) return { for: "tasks", tasks: named };
    if (before.length > 0) return null;
  }
  if (queue?.paused) return { for: "queue" };
  if (turn === "waiting") return { for: "attempt" };
  if (turn === "parked") return { for: "cap" };
  return { for: queue?.workers === 0 ? "workers" : "worker" };
}

/** For a task of a list, which names only the predecessors that have not completed. */
export function waitOfListed(task: Pick<SchemaTask, "status">, waiting: SchemaWaiting, queue: WaitFacts["queue"]): Wait | null {
  const statuses = new Map<string, SchemaStatus>(waiting.after.flatMap(({ id, status }) => (status ? [[id, status]] : [])));
  return waitOf({ status: task.status, after: waiting.after.map(({ id }) => id) }, { turns: [{ status: waiting.turn }], statuses, queue });
}

/** How long before its creation a task of a priority counts as queued, in hours. */
const HEAD_START = { low: 0, normal: 6, high: 24, urgent: 7 * 24 } satisfies Record<SchemaTask["priority"], number>;

/** Tasks in the order of `next`, in which workers take them; behind those the ones that cannot start yet, as they would be taken. */
export function inOrder<T extends Pick<SchemaTask, "id" | "priority" | "created_at">>(tasks: T[], next: string[]): T[] {
  const position = new Map(next.map((id, index) => [id, index]));
  const place = ({ id }: T) => position.get(id) ?? next.length;
  const rank = ({ priority, created_at }: T) => Date.parse(created_at) - HEAD_START[priority] * 3_600_000;
  return tasks.toSorted((one, other) => place(one) - place(other) || rank(one) - rank(other));
}
