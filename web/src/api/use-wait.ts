import { useQueries, useQuery } from "@tanstack/react-query";
import { queries } from "./queries";
import type { SchemaTask, SchemaTurn } from "./schema";
import { waitOf, type Wait } from "./waits";
import type { SchemaStatus } from "./words";

/** The tasks before a task are read here; its turns come from the caller. */
export function useWait(task: Pick<SchemaTask, "status" | "after">, turns: Pick<SchemaTurn, "status">[] | undefined): Wait | null {
  const queue = useQuery(queries.queue);
  const statuses = useQueries({
    queries: task.after.map((id) => queries.task(id)),
    combine: (found) => new Map<string, SchemaStatus>(found.flatMap(({ data }) => (data ? [[data.id, data.status]] : []))),
  });
  return waitOf(task, { turns, statuses, queue: queue.data });
}
