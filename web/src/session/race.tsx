// Everyone in a race side by side: who works how, what it costs, whether it passes, and who won and why.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { queries } from "../api/queries";
import type { SchemaRaceRow, SchemaTask } from "../api/schema";
import { capital, pageWords } from "../api/page-words";
import { isOver, verdict } from "../api/words";
import { money } from "../stream/sums";
import { counted } from "../text/counted";
import { firstLine, reason } from "../text/harmless";
import { StatusIcon, words } from "../ui/icons";
import { Badge, Trouble, Waiting } from "../ui/parts";
import { took, useNow } from "../ui/time";

interface Runner extends SchemaRaceRow {
  task?: SchemaTask;
  /** Of those that are under way: until now. */
  time: number;
}

export function RaceTab({ race, own }: { race: string; own: string }) {
  const table = useQuery(queries.race(race));
  const tasks = useInfiniteQuery(queries.tasks({ convoy: race }));
  const going = table.data?.items.some((row) => !isOver(row.status)) ?? true;
  const now = useNow(going ? 1_000 : 60_000);
  if (table.isPending) return <Waiting what="the race" />;
  if (table.isError)
    return (
      <div className="p-4">
        <Trouble error={table.error} again={() => void table.refetch()} />
      </div>
    );
  const known = new Map(tasks.data?.pages.flatMap((page) => page.items.map((task) => [task.id, task] as const)));
  const runners = table.data.items.map((row): Runner => {
    const task = known.get(row.task_id);
    return { ...row, task, time: row.duration_ms ?? (task ? Math.max(0, now - Date.parse(task.created_at)) : 0) };
  });
  const { winner, judged_by } = table.data;
  const most = (of: (one: Runner) => number) => Math.max(...runners.map(of), 0);
  const [cost, time, lines] = [most((one) => one.cost_usd), most((one) => one.time), most((one) => one.changed_lines ?? 0)];
  const won = runners.find((one) => one.task_id === winner);
  return (
    <div className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label="Race">
      <div className="flex flex-col gap-3 p-4">
        <p role="status" className="flex flex-wrap items-center gap-2">
          <span className="font-medium">{won ? `${who(won)} won.` : going ? "Not decided yet." : "No winner: no result passed its tests."}</span>
          <span className="text-dim">
            {judged_by === "time"
              ? "The first result that passes its tests wins."
              : "Among results that pass their tests, the cheapest wins, then the smallest change."}{" "}
            Only the winner's work is delivered.
          </span>
        </p>
        <div className="card overflow-x-auto">
          <table className="w-full table-fixed border-collapse" style={{ minWidth: `${7 + runners.length * 13}rem` }}>
            <colgroup>
              <col className="w-28" />
              {runners.map((one) => (
                <col key={one.task_id} />
              ))}
            </colgroup>
            <thead>
              <tr className="border-b border-line">
                <td />
                {runners.map((one) => (
                  <th key={one.task_id} scope="col" className={`px-3 py-2.5 text-left align-top font-normal ${look(one, winner)}`}>
                    <span className="flex flex-wrap items-center gap-x-2">
                      <StatusIcon status={one.status} />
                      <Link
                        to="/tasks/$id"
                        params={{ id: one.task_id }}
                        className="truncate font-semibold hover:underline"
                        aria-current={one.task_id === own ? "true" : undefined}
                      >
                        {firstLine(one.agent, 60)}
                      </Link>
                      {one.task_id === winner && <Badge tone="good">won</Badge>}
                      {one.task_id === own && <Badge>this task</Badge>}
                    </span>
                    <span className="block truncate text-xs text-dim">{one.model ? firstLine(one.model, 80) : "agent default"}</span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              <Line name="State" of={runners}>
                {(one) => (one.status === "cancelled" && won ? "Lost" : words(one.status))}
              </Line>
              <Line name="Tests" of={runners}>
                {(one) => <Tests of={one} />}
              </Line>
              <Line name="Cost" of={runners}>
                {(one) => <Amount text={money(one.cost_usd)} part={one.cost_usd / cost} />}
              </Line>
              <Line name="Change" of={runners}>
                {(one) =>
                  one.changed_lines == null ? (
                    <span className="text-dim">{isOver(one.status) ? "–" : "not known yet"}</span>
                  ) : (
                    <Amount text={counted(one.changed_lines, "line")} part={one.changed_lines / lines} />
                  )
                }
              </Line>
              <Line name="Total time" of={runners}>
                {(one) => <Amount text={took(one.time)} part={one.time / time} />}
              </Line>
              <Line name="Verdict" of={runners}>
                {(one) => <span className="break-words whitespace-pre-wrap">{reason(capital(pageWords(one.verdict)))}</span>}
              </Line>
              <Line name="View" of={runners}>
                {(one) => (
                  <span className="flex flex-wrap gap-x-3">
                    {(["changes", "evidence", "cost"] as const).map((tab) => (
                      <Link
                        key={tab}
                        to="/tasks/$id"
                        params={{ id: one.task_id }}
                        search={{ tab }}
                        className="text-accent underline"
                        aria-label={`${words(tab)} of ${who(one)}`}
                      >
                        {words(tab)}
                      </Link>
                    ))}
                  </span>
                )}
              </Line>
            </tbody>
          </table>
        </div>
      </div>
    </div>
  );
}

function who(one: Runner): string {
  return firstLine(one.model ? `${one.agent}:${one.model}` : one.agent, 120);
}

function look(one: Runner, winner: string | null | undefined): string {
  return one.task_id === winner ? "bg-good-soft" : "";
}

function Line({ name, of, children }: { name: string; of: Runner[]; children: (one: Runner) => ReactNode }) {
  return (
    <tr className="border-b border-line last:border-0">
      <th scope="row" className="px-3 py-2 text-left align-top text-xs font-medium text-dim">
        {name}
      </th>
      {of.map((one) => (
        <td key={one.task_id} className="px-3 py-2 align-top">
          {children(one)}
        </td>
      ))}
    </tr>
  );
}

function Tests({ of }: { of: Runner }) {
  const tests = of.task ? verdict(of.task) : null;
  if (tests)
    return (
      <Badge wraps tone={tests.tone}>
        {tests.text}
      </Badge>
    );
  if (of.passed) return <Badge tone="good">passed</Badge>;
  return <span className="text-dim">{isOver(of.status) ? "not run" : "not run yet"}</span>;
}

/** A number, and how much that is of the most. */
function Amount({ text, part }: { text: string; part: number }) {
  const percent = Number.isFinite(part) ? Math.min(100, part * 100) : 0;
  return (
    <>
      <span className="tabular-nums">{text}</span>
      <span aria-hidden className="mt-1 block h-1.5 overflow-hidden rounded-full bg-hover">
        <span className="block h-full rounded-full bg-accent" style={{ width: `${percent}%` }} />
      </span>
    </>
  );
}
