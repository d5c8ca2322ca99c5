// Time by activity, as a picture: a lane for everything that takes some.
import type { SchemaSessionDetail } from "../api/schema";
import { isOver } from "../api/words";
import type { Journal } from "../stream/journal";
import { LANES, type Lane, type Span } from "../stream/sums";
import { counted } from "../text/counted";
import { firstLine } from "../text/harmless";
import { Empty, Table } from "../ui/parts";
import { exact, took, useNow } from "../ui/time";
import { useNowAndThen } from "./journal";
import { Part, Section } from "./part";

const COLOURS: Record<Lane, string> = { Sandbox: "fill-strong", Agent: "fill-accent", Tools: "fill-warn", Tests: "fill-good", Person: "fill-dim" };
/** Rectangles of one picture. */
const MOST_SPANS = 2_000;
const TICKS = 5;

export function TimelineTab({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  useNowAndThen(journal);
  const over = isOver(session.task.status);
  const now = useNow(over ? 60_000 : 1_000);
  const { fold } = journal;
  const { spans, open, sums } = fold.times;
  if (fold.first === null || spans.length === 0)
    return (
      <Part label="Timeline">
        <Empty title="No activity yet" icon="schedule" />
      </Part>
    );
  const from = Math.min(fold.first, ...spans.slice(0, 20).map((one) => one.from));
  const to = Math.max(over ? (fold.lastAt ?? now) : now, from + 1);
  const shown = spans.slice(-MOST_SPANS);
  const lanes = LANES.map((lane) => {
    const sum = sums.get(lane) ?? { count: 0, time: 0, longest: null };
    const goesOn = [...open].filter((span) => span.lane === lane).reduce((time, span) => time + (to - span.from), 0);
    return { lane, count: sum.count, time: sum.time + goesOn, longest: sum.longest };
  }).filter((one) => one.count > 0);
  return (
    <Part label="Timeline">
      <figure className="card p-3">
        <figcaption className="mb-2 flex justify-between text-dim tabular-nums">
          <span>{exact(new Date(from).toISOString())}</span>
          <span>{took(to - from)}</span>
        </figcaption>
        <div className="grid grid-cols-[4rem_1fr] items-center gap-y-1">
          {lanes.map((one) => (
            <div key={one.lane} className="contents">
              <span className="text-dim">{one.lane}</span>
              <Bars {...one} spans={shown.filter((span) => span.lane === one.lane)} from={from} to={to} />
            </div>
          ))}
          <span aria-hidden />
          <p aria-hidden className="flex justify-between text-xs text-dim tabular-nums">
            {Array.from({ length: TICKS }, (_, index) => (
              <span key={index} className={index % 2 ? "hidden sm:inline" : ""}>
                {index === 0 ? "0" : took(((to - from) * index) / (TICKS - 1))}
              </span>
            ))}
          </p>
        </div>
      </figure>
      <Section title="Summary">
        <Table
          label="Time by activity"
          rows={lanes}
          id={(row) => row.lane}
          columns={[
            { name: "Activity", cell: (row) => row.lane },
            { name: "Count", number: true, cell: (row) => row.count.toLocaleString() },
            { name: "Total time", number: true, cell: (row) => took(row.time) },
            { name: "Share", number: true, minor: true, cell: (row) => `${Math.round((row.time / (to - from)) * 100)}%` },
            {
              name: "Longest",
              minor: true,
              cell: (row) =>
                row.longest ? (
                  <span>
                    {firstLine(row.longest.label, 60)} <span className="text-dim">{took((row.longest.to ?? to) - row.longest.from)}</span>
                  </span>
                ) : null,
            },
          ]}
        />
        <p className="text-dim">Lanes overlap: tools run while the agent runs, and the base and the result are tested at the same time.</p>
      </Section>
    </Part>
  );
}

function Bars({ lane, count, time, spans, from, to }: { lane: Lane; count: number; time: number; spans: Span[]; from: number; to: number }) {
  const at = (moment: number) => ((moment - from) / (to - from)) * 1000;
  return (
    <svg
      viewBox="0 0 1000 20"
      preserveAspectRatio="none"
      className="h-6 w-full rounded bg-side"
      role="img"
      aria-label={`${lane}: ${counted(count, "time")}, ${took(time)}`}
    >
      {spans.map((span, index) => (
        <rect
          key={index}
          x={at(span.from)}
          width={Math.max(1.5, at(span.to ?? to) - at(span.from))}
          y={2}
          height={16}
          className={span.failed ? "fill-bad" : COLOURS[lane]}
        >
          <title>{`${firstLine(span.label, 80)}: ${took((span.to ?? to) - span.from)}`}</title>
        </rect>
      ))}
    </svg>
  );
}
