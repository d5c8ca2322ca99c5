import type { SchemaTaskStatus, SchemaTurn } from "./schema";

type Runs = { attempts: Pick<SchemaTurn["attempts"][number], "started_at" | "finished_at">[] };

/**
 * How long agents worked, as `harvest task show` counts it in "took": the time of their runs, without the queue, people, sandboxes
 * and tests. While the task is worked on, the run that has not ended counts up to now.
 */
export function workTime(turns: Runs[], status: SchemaTaskStatus, now: number): number {
  const works = status === "provisioning" || status === "running";
  return turns
    .flatMap((turn) => turn.attempts)
    .reduce((sum, { started_at, finished_at }) => {
      const to = finished_at ? Date.parse(finished_at) : works ? now : null;
      return to === null ? sum : sum + Math.max(0, to - Date.parse(started_at));
    }, 0);
}
