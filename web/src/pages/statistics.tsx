import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { queries } from "../api/queries";
import type { SchemaSums } from "../api/schema";
import { shortRepository } from "../api/words";
import { money } from "../stream/sums";
import { words } from "../ui/icons";
import { Empty, Page, Table } from "../ui/parts";
import { took } from "../ui/time";
import { Figure, Shown } from "./tables";

const RANGES = [7, 30, 90] as const;
const BY = ["agent", "model", "repository", "person"] as const;
const DAY = 24 * 60 * 60 * 1000;
const OUTCOMES: Series[] = [
  { name: "Completed", colour: "--good", of: (one) => one.completed },
  { name: "Failed", colour: "--bad", of: (one) => one.failed },
  { name: "Cancelled", colour: "--dim", of: (one) => one.cancelled },
];
const COST: Series[] = [{ name: "Cost", colour: "--accent", of: (one) => one.cost_usd }];
const SUCCESS: Series[] = [{ name: "Success", colour: "--good", of: (one) => Math.round((one.success_rate ?? 0) * 100) }];
const MINUTES: Series[] = [{ name: "Minutes", colour: "--warn", of: (one) => Math.round((one.mean_seconds ?? 0) / 6) / 10 }];
const SECONDS: Series[] = [{ name: "Seconds", colour: "--warn", of: (one) => Math.round((one.mean_seconds ?? 0) * 10) / 10 }];
/** Below this, minutes say nothing. */
const FEW_SECONDS = 120;
const isShort = (items: SchemaSums[]) => items.every((one) => (one.mean_seconds ?? 0) < FEW_SECONDS);
const day = (daysAgo: number) => new Date(Date.now() - daysAgo * DAY).toISOString().slice(0, 10);
const perBranch = (sums: SchemaSums) => (sums.delivered > 0 ? sums.cost_usd / sums.delivered : null);

export function StatisticsPage() {
  const [days, setDays] = useState<(typeof RANGES)[number]>(30);
  const [by, setBy] = useState<(typeof BY)[number]>("agent");
  const from = day(days - 1);
  const daily = useQuery(queries.stats("day", from));
  const earlier = useQuery(queries.stats("day", day(2 * days - 1), day(days)));
  const groups = useQuery(queries.stats(by, from));
  const before = earlier.data?.total;
  return (
    <Page title="Statistics" actions={<Pick label="Range" of={RANGES} value={days} pick={setDays} name={(one) => `${one} days`} />}>
      <Shown of={daily} what="statistics">
        {({ total, items }) =>
          total.completed + total.failed + total.cancelled === 0 ? (
            <Empty title="No tasks finished in this period" icon="chart">
              Tasks are counted on the day they finish.
            </Empty>
          ) : (
            <>
              <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-6">
                <Figure
                  name="Completed"
                  value={total.completed.toLocaleString()}
                  note={<Trend now={total.completed} before={before?.completed} better="more" />}
                />
                <Figure
                  name="Success rate"
                  value={total.success_rate == null ? "–" : `${Math.round(total.success_rate * 100)}%`}
                  note={<Trend now={total.success_rate} before={before?.success_rate} better="more" />}
                />
                <Figure
                  name="Branches"
                  value={total.delivered.toLocaleString()}
                  note={<Trend now={total.delivered} before={before?.delivered} better="more" />}
                />
                <Figure
                  name="Mean time to finish"
                  value={total.mean_seconds == null ? "–" : took(total.mean_seconds * 1000)}
                  note={<Trend now={total.mean_seconds} before={before?.mean_seconds} better="less" />}
                />
                <Figure name="Cost" value={money(total.cost_usd)} note={<Trend now={total.cost_usd} before={before?.cost_usd} better="less" />} />
                <Figure
                  name="Cost per branch"
                  value={perBranch(total) === null ? "–" : money(perBranch(total) ?? 0)}
                  note={<Trend now={perBranch(total)} before={before && perBranch(before)} better="less" />}
                />
              </dl>
              <div className="grid gap-4 lg:grid-cols-2">
                <Chart title="Finished tasks per day" days={days} items={items} series={OUTCOMES} />
                <Chart title="Cost per day (USD)" days={days} items={items} series={COST} />
                <Chart title="Success rate per day (%)" days={days} items={items} series={SUCCESS} most={100} />
                <Chart
                  title={`Mean time to finish per day (${isShort(items) ? "seconds" : "minutes"})`}
                  days={days}
                  items={items}
                  series={isShort(items) ? SECONDS : MINUTES}
                />
              </div>
            </>
          )
        }
      </Shown>
      <Shown of={groups} what="groups">
        {({ items }) =>
          items.length === 0 ? null : (
            <section aria-labelledby="groups" className="flex flex-col gap-2">
              <div className="flex flex-wrap items-center gap-2">
                <h2 id="groups" className="mr-auto font-semibold">
                  Comparison
                </h2>
                <Pick label="Compare by" of={BY} value={by} pick={setBy} name={words} />
              </div>
              <Table
                label={`Compared by ${by}`}
                rows={items}
                id={(row) => row.key}
                columns={[
                  {
                    name: words(by),
                    cell: (row) => (
                      <span className="font-medium" title={row.key}>
                        {by === "repository" ? shortRepository(row.key) : row.key || "unnamed"}
                      </span>
                    ),
                  },
                  { name: "Completed", number: true, cell: (row) => row.completed },
                  { name: "Failed", number: true, cell: (row) => row.failed },
                  { name: "Cancelled", number: true, minor: true, cell: (row) => row.cancelled },
                  { name: "Success", number: true, cell: (row) => (row.success_rate == null ? "–" : `${Math.round(row.success_rate * 100)}%`) },
                  { name: "Race entries won", number: true, minor: true, cell: (row) => (row.races === 0 ? "–" : `${row.wins} of ${row.races}`) },
                  { name: "Time to finish", number: true, minor: true, cell: (row) => (row.mean_seconds == null ? "–" : took(row.mean_seconds * 1000)) },
                  { name: "Cost", number: true, cell: (row) => money(row.cost_usd) },
                  { name: "Cost per branch", number: true, minor: true, cell: (row) => (perBranch(row) === null ? "–" : money(perBranch(row) ?? 0)) },
                ]}
              />
            </section>
          )
        }
      </Shown>
      <PullRequests by={by} from={from} />
    </Page>
  );
}

/** What became of the pull requests that were opened in this period. */
function PullRequests({ by, from }: { by: (typeof BY)[number]; from: string }) {
  const stats = useQuery(queries.pullRequestStats(by, from));
  const percent = (rate?: number | null) => (rate == null ? "–" : `${Math.round(rate * 100)}%`);
  const time = (seconds?: number | null) => (seconds == null ? "–" : took(seconds * 1000));
  return (
    <Shown of={stats} what="pull requests">
      {({ total, items }) =>
        total.opened === 0 ? null : (
          <section aria-label="Pull requests" className="flex flex-col gap-2">
            <h2 className="font-semibold">Pull requests</h2>
            <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 lg:grid-cols-6">
              <Figure name="Opened" value={total.opened.toLocaleString()} />
              <Figure name="Merged" value={total.merged.toLocaleString()} />
              <Figure name="Closed without merging" value={total.closed.toLocaleString()} />
              <Figure name="Merge rate" value={percent(total.merge_rate)} />
              <Figure name="Time to open" value={time(total.mean_seconds_to_open)} />
              <Figure name="Time to merge" value={time(total.mean_seconds_to_merge)} />
            </dl>
            <Table
              label={`Pull requests by ${by}`}
              rows={items}
              id={(row) => row.key}
              columns={[
                {
                  name: words(by),
                  cell: (row) => (
                    <span className="font-medium" title={row.key}>
                      {by === "repository" ? shortRepository(row.key) : row.key || "unnamed"}
                    </span>
                  ),
                },
                { name: "Opened", number: true, cell: (row) => row.opened },
                { name: "Merged", number: true, cell: (row) => row.merged },
                { name: "Closed", number: true, cell: (row) => row.closed },
                { name: "Merge rate", number: true, cell: (row) => percent(row.merge_rate) },
                { name: "Time to open", number: true, minor: true, cell: (row) => time(row.mean_seconds_to_open) },
                { name: "Time to merge", number: true, minor: true, cell: (row) => time(row.mean_seconds_to_merge) },
              ]}
            />
          </section>
        )
      }
    </Shown>
  );
}

/** Against as many days before. */
function Trend({ now, before, better }: { now?: number | null; before?: number | null; better: "more" | "less" }) {
  if (now == null || !before) return <span className="text-xs text-dim">no earlier data</span>;
  const change = Math.round(((now - before) / before) * 100);
  if (change === 0) return <span className="text-xs text-dim">unchanged</span>;
  const good = change > 0 === (better === "more");
  return (
    <span className={`text-xs ${good ? "text-good" : "text-bad"}`}>
      {change > 0 ? "▲" : "▼"} {Math.abs(change).toLocaleString()}%<span className="sr-only"> {good ? "better" : "worse"} than before</span>
    </span>
  );
}

function Pick<T extends string | number>({
  label,
  of,
  value,
  pick,
  name,
}: {
  label: string;
  of: readonly T[];
  value: T;
  pick: (value: T) => void;
  name: (value: T) => string;
}) {
  return (
    <div role="group" aria-label={label} className="flex rounded-md border border-line p-0.5">
      {of.map((one) => (
        <button
          key={one}
          type="button"
          aria-pressed={one === value}
          onClick={() => pick(one)}
          className={`h-6 rounded px-2 font-medium ${one === value ? "bg-hover" : "text-dim hover:text-text"}`}
        >
          {name(one)}
        </button>
      ))}
    </div>
  );
}

interface Series {
  name: string;
  colour: string;
  of: (one: SchemaSums) => number;
}

/** Stacked bars. What they show stands in words too, for those who cannot see them. */
function Chart({ title, days, items, series, most }: { title: string; days: number; items: SchemaSums[]; series: Series[]; most?: number }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const byDay = new Map(items.map((one) => [one.key, one]));
    const today = Date.parse(new Date().toISOString().slice(0, 10));
    const xs = Array.from({ length: days }, (_, index) => (today - (days - 1 - index) * DAY) / 1000);
    const sums = xs.map(() => 0);
    const stacked = series.map((one) =>
      xs.map((x, index) => {
        const found = byDay.get(new Date(x * 1000).toISOString().slice(0, 10));
        return (sums[index] = (sums[index] ?? 0) + (found ? one.of(found) : 0));
      }),
    );
    // There is no half of a task.
    const whole = stacked.flat().every(Number.isInteger)
      ? { incrs: [1, 2, 5].flatMap((step) => [0, 1, 2, 3, 4, 5, 6].map((power) => step * 10 ** power)).sort((a, b) => a - b) }
      : {};
    let plot: uPlot | null = null;
    const draw = () => {
      plot?.destroy();
      const style = getComputedStyle(document.documentElement);
      const colour = (name: string) => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      plot = new uPlot(
        {
          width: element.clientWidth,
          height: 190,
          padding: [12, 8, 0, 0],
          legend: { show: false },
          cursor: { show: false },
          tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1000), "Etc/UTC"),
          scales: { x: { range: (_, min, max) => [min - DAY / 2000, max + DAY / 2000] }, y: { range: (_, __, max) => [0, most ?? (max > 0 ? max * 1.1 : 1)] } },
          axes: [
            {
              ...axis,
              size: 28,
              grid: { show: false },
              values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleDateString(undefined, { month: "short", day: "numeric", timeZone: "UTC" })),
            },
            { ...axis, size: 48, ...whole },
          ],
          // The tallest is drawn first, so that those below lie in front of it.
          series: [
            {},
            ...series
              .map((one) => ({
                label: one.name,
                fill: colour(one.colour),
                stroke: colour(one.colour),
                width: 0,
                points: { show: false },
                paths: uPlot.paths.bars?.({ size: [0.7, 28] }),
              }))
              .reverse(),
          ],
        },
        [xs, ...stacked.reverse()],
        element,
      );
      stacked.reverse();
    };
    draw();
    const watch = new ResizeObserver(draw);
    watch.observe(element);
    addEventListener("harvest-theme", draw);
    return () => {
      watch.disconnect();
      removeEventListener("harvest-theme", draw);
      plot?.destroy();
    };
  }, [days, items, series, most]);
  const told = items.map((one) => `${one.key}: ${series.map((line) => `${line.of(one)} ${line.name.toLowerCase()}`).join(", ")}`).join("; ");
  return (
    <figure className="card min-w-0 p-3">
      <figcaption className="mb-2 flex flex-wrap items-center gap-3">
        <span className="mr-auto font-semibold">{title}</span>
        {series.length > 1 && (
          <span className="flex gap-3">
            {series.map((one) => (
              <span key={one.name} className="inline-flex items-center gap-1.5 text-xs text-dim">
                <span className="size-2 rounded-sm" style={{ background: `var(${one.colour})` }} />
                {one.name}
              </span>
            ))}
          </span>
        )}
      </figcaption>
      <div ref={box} role="img" aria-label={`${title}. ${told}`} className="h-[200px] overflow-hidden" />
    </figure>
  );
}
