// Evidence, cost, timeline and environment of a session.
import type { ReactNode } from "react";
import type { SchemaSessionDetail, SchemaTask } from "../api/schema";
import { isOver } from "../api/words";
import { money, type Fold, type Span, type Spent } from "../stream/fold";
import { firstLine, harmless } from "../text/harmless";
import { Stranger } from "../text/show";
import { words } from "../ui/icons";
import { Badge, Code, Empty, Table } from "../ui/parts";
import { clock, exact, took, useNow } from "../ui/time";
import { Counts, TestsView } from "./entry";
import { Meter } from "./page";

function Part({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label={label}>
      <div className="mx-auto flex max-w-4xl flex-col gap-4 p-4">{children}</div>
    </div>
  );
}

function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="card grid grid-cols-[minmax(7rem,auto)_1fr] gap-x-4 gap-y-1.5 p-3">
      {rows.map(([name, value]) => <div key={name} className="contents"><dt className="text-dim">{name}</dt><dd className="min-w-0 break-words">{value}</dd></div>)}
    </dl>
  );
}

const FLAGS: Record<string, string> = {
  test_command_changed: "Files that the test command is made of were changed; the versions of the base were used",
  tests_changed: "Tests that were there before were changed",
  tests_deleted: "Tests were deleted",
  fewer_tests: "Fewer tests ran than before the change",
  tests_skipped: "Tests are skipped that ran before",
  ci_changed: "The settings of continuous integration were changed",
  settings_changed: "Settings of tools or agents were changed",
  tests_timed_out: "The tests did not end in time",
  not_isolated: "The tests ran without a sandbox",
};

export function EvidenceTab({ task, fold }: { task: SchemaTask; fold: Fold }) {
  const { evidence } = task;
  if (!evidence && fold.tests.length === 0) {
    return (
      <Empty title={isOver(task.status) ? "There is no evidence" : "No evidence yet"} icon="approve">
        {isOver(task.status) ? "Nothing was tested: the work did not get that far, or the repository has no tests that Harvest knows." : "When the agent ends, Harvest runs the tests in fresh sandboxes, at the result and at its base. What they say appears here."}
      </Empty>
    );
  }
  return (
    <Part label="Evidence">
      {evidence && (
        <>
          <Facts rows={[
            ["Command", <Code key="c">{harmless(evidence.command)}</Code>],
            ["At commit", <Code key="k">{evidence.commit}</Code>],
            ["Result", <Counts key="r" run={evidence} />],
            ["Before the change", <Counts key="b" run={evidence.baseline} />],
            ["Took", took(evidence.duration_ms)],
            ["Environment", <Code key="e">{evidence.environment}</Code>],
          ]} />
          <section aria-labelledby="flags">
            <h2 id="flags" className="mb-2 font-semibold">What to look at</h2>
            {evidence.flags.length === 0 ? <p className="text-dim">Nothing: the tests are those of the base, and none was left out.</p> : (
              <ul className="flex flex-col gap-1.5">
                {evidence.flags.map((flag) => <li key={flag} className="flex flex-wrap items-center gap-2"><Badge tone="warn">{words(flag)}</Badge><span>{FLAGS[flag] ?? ""}</span></li>)}
              </ul>
            )}
            {evidence.changed && [...evidence.changed.tests, ...evidence.changed.ci, ...evidence.changed.settings].length > 0 && (
              <p className="mt-2 flex flex-wrap gap-1">{[...evidence.changed.tests, ...evidence.changed.ci, ...evidence.changed.settings].slice(0, 50).map((path) => <Code key={path}>{firstLine(path)}</Code>)}</p>
            )}
          </section>
        </>
      )}
      <section aria-labelledby="runs" className="flex flex-col gap-2">
        <h2 id="runs" className="font-semibold">Runs and what they printed</h2>
        {fold.tests.map((run) => <TestsView key={run.seq} run={run} open={run.purpose === "verify"} />)}
      </section>
    </Part>
  );
}

export function CostTab({ task, fold }: { task: SchemaTask; fold: Fold }) {
  const spent = Math.max(task.cost_usd, fold.spent.at(-1)?.total ?? 0);
  if (fold.spent.length === 0) return <Empty title="Nothing has been spent" icon="chart">Every call of a model is counted at the gateway and listed here.</Empty>;
  const sum = (of: (one: Spent) => number) => fold.spent.reduce((total, one) => total + of(one), 0);
  const newest = fold.spent.slice(-500).reverse();
  return (
    <Part label="Cost">
      <div className="card p-3">
        <p className="flex items-baseline justify-between gap-2"><span className="text-lg font-semibold tabular-nums">{money(spent)}</span><span className="text-dim">of {money(task.budget_usd)}</span></p>
        <Meter part={task.budget_usd > 0 ? spent / task.budget_usd : 0} label="Part of the budget that is spent" />
        <p className="mt-2 flex flex-wrap gap-x-4 text-dim tabular-nums">
          <span>{fold.spent.length} calls</span><span>{sum((one) => one.input).toLocaleString()} tokens in</span><span>{sum((one) => one.output).toLocaleString()} out</span><span>{sum((one) => one.cached).toLocaleString()} cached</span>
        </p>
      </div>
      {newest.length < fold.spent.length && <p className="text-dim">The newest {newest.length} of {fold.spent.length} calls</p>}
      <Table label="Calls of models" rows={newest} id={(row) => row.seq} columns={[
        { name: "At", cell: (row) => <time dateTime={row.at} title={exact(row.at)} className="tabular-nums">{clock(row.at)}</time> },
        { name: "Model", cell: (row) => <span>{row.model} <span className="text-dim">{row.provider}</span></span> },
        { name: "In", number: true, cell: (row) => row.input.toLocaleString() },
        { name: "Out", number: true, cell: (row) => row.output.toLocaleString() },
        { name: "Cached", number: true, minor: true, cell: (row) => row.cached.toLocaleString() },
        { name: "Cost", number: true, cell: (row) => <span title={row.estimated ? "Estimated: the vendor did not say, or the price is unknown" : undefined}>{row.estimated ? "≈ " : ""}{money(row.cost)}</span> },
        { name: "Sum", number: true, minor: true, cell: (row) => money(row.total) },
      ]} />
    </Part>
  );
}

const LANES: Span["lane"][] = ["Sandbox", "Agent", "Tools", "Tests"];
const COLOURS: Record<Span["lane"], string> = { Sandbox: "fill-strong", Agent: "fill-accent", Tools: "fill-warn", Tests: "fill-good" };
const MOST_SPANS = 2_000;

export function TimelineTab({ session, fold }: { session: SchemaSessionDetail; fold: Fold }) {
  const over = isOver(session.task.status);
  const now = useNow(over ? 60_000 : 1_000);
  if (fold.first === null || fold.spans.length === 0) return <Empty title="Nothing has taken time yet" icon="schedule" />;
  const from = Math.min(fold.first, ...fold.spans.slice(0, 100).map((one) => one.from));
  const to = Math.max(over ? (fold.lastAt ?? now) : now, from + 1);
  const shown = fold.spans.slice(-MOST_SPANS);
  const at = (time: number) => ((time - from) / (to - from)) * 1000;
  const sums = LANES.map((lane) => ({ lane, spans: fold.spans.filter((one) => one.lane === lane) }))
    .map(({ lane, spans }) => ({ lane, count: spans.length, time: spans.reduce((sum, one) => sum + ((one.to ?? to) - one.from), 0), longest: spans.toSorted((a, b) => (b.to ?? to) - b.from - ((a.to ?? to) - a.from))[0] }));
  return (
    <Part label="Timeline">
      <figure className="card p-3">
        <figcaption className="mb-2 flex justify-between text-dim tabular-nums"><span>{exact(new Date(from).toISOString())}</span><span>{took(to - from)}</span></figcaption>
        <div className="grid grid-cols-[4rem_1fr] items-center gap-y-1">
          {LANES.map((lane) => (
            <div key={lane} className="contents">
              <span className="text-dim">{lane}</span>
              <svg viewBox="0 0 1000 20" preserveAspectRatio="none" className="h-6 w-full rounded bg-side" role="img" aria-label={`${lane}: ${sums.find((one) => one.lane === lane)?.count ?? 0} spans, ${took(sums.find((one) => one.lane === lane)?.time ?? 0)}`}>
                {shown.filter((one) => one.lane === lane).map((span, index) => (
                  <rect key={index} x={at(span.from)} width={Math.max(1.5, at(span.to ?? to) - at(span.from))} y={2} height={16} className={span.failed ? "fill-bad" : COLOURS[lane]}>
                    <title>{`${firstLine(span.label, 80)}: ${took((span.to ?? to) - span.from)}`}</title>
                  </rect>
                ))}
              </svg>
            </div>
          ))}
        </div>
      </figure>
      <Table label="Where the time went" rows={sums.filter((one) => one.count > 0)} id={(row) => row.lane} columns={[
        { name: "What", cell: (row) => row.lane },
        { name: "How often", number: true, cell: (row) => row.count },
        { name: "Time, summed", number: true, cell: (row) => took(row.time) },
        { name: "Share", number: true, minor: true, cell: (row) => `${Math.round((row.time / (to - from)) * 100)} %` },
        { name: "Longest", minor: true, cell: (row) => row.longest ? <span>{firstLine(row.longest.label, 60)} <span className="text-dim">{took((row.longest.to ?? to) - row.longest.from)}</span></span> : null },
      ]} />
      <p className="text-dim">Lanes overlap: tools run while the agent does, and the tests of base and result run side by side.</p>
    </Part>
  );
}

export function EnvironmentTab({ session, fold }: { session: SchemaSessionDetail; fold: Fold }) {
  const { task } = session;
  const { settings } = task;
  const attempts = session.turns.flatMap((turn) => turn.attempts);
  const egress = [...fold.egress.values()];
  return (
    <Part label="Environment">
      <Facts rows={[
        ["Repository", <Code key="r">{task.repository}</Code>],
        ["Test command", settings.test ? <Code key="t">{harmless(settings.test)}</Code> : "None known"],
        ["Longest time", took(settings.timeout_ms)],
        ["Most turns of the agent", settings.max_turns],
        ["Budget", money(task.budget_usd)],
        ["May reach", settings.egress?.length ? <span key="e" className="flex flex-wrap gap-1">{(settings.egress as unknown[]).map((host) => <Code key={String(host)}>{String(host)}</Code>)}</span> : "Models and its own repository, through the gateway, and nothing else"],
        ["Commits as", `${settings.author_name} <${settings.author_email}>`],
      ]} />
      <section aria-labelledby="sandboxes" className="flex flex-col gap-2">
        <h2 id="sandboxes" className="font-semibold">Sandboxes</h2>
        {fold.sandboxes.length === 0 ? <p className="text-dim">None yet</p> : (
          <Table label="Sandboxes" rows={fold.sandboxes} id={(row) => row.sandbox_id} columns={[
            { name: "For", cell: (row) => words(row.purpose) },
            { name: "Provider", cell: (row) => row.provider },
            { name: "Workspace", minor: true, cell: (row) => row.workspace },
            { name: "Ready in", number: true, cell: (row) => row.warm ? "was warm" : took(row.duration_ms) },
            { name: "Id", minor: true, cell: (row) => <Code>{row.sandbox_id}</Code> },
          ]} />
        )}
      </section>
      <section aria-labelledby="egress" className="flex flex-col gap-2">
        <h2 id="egress" className="font-semibold">Hosts it tried to reach</h2>
        {egress.length === 0 ? <p className="text-dim">None</p> : (
          <Table label="Hosts it tried to reach" rows={egress} id={(row) => `${row.host}:${row.port} ${row.verdict}`} columns={[
            { name: "Host", cell: (row) => <Code>{firstLine(`${row.host}:${row.port}`)}</Code> },
            { name: "Verdict", cell: (row) => <Badge tone={row.verdict === "allowed" ? "good" : "bad"}>{words(row.verdict)}</Badge> },
            { name: "Why", minor: true, cell: (row) => firstLine(row.reason ?? "") },
            { name: "Connections", number: true, cell: (row) => row.connections },
            { name: "Bytes out / in", number: true, minor: true, cell: (row) => `${row.sent_bytes.toLocaleString()} / ${row.received_bytes.toLocaleString()}` },
          ]} />
        )}
      </section>
      <section aria-labelledby="attempts" className="flex flex-col gap-2">
        <h2 id="attempts" className="font-semibold">Attempts</h2>
        {attempts.length === 0 ? <p className="text-dim">None yet</p> : attempts.map((attempt) => (
          <details key={attempt.id} className="card">
            <summary className="flex flex-wrap items-center gap-2 px-3 py-1.5">
              <span className="font-medium">{attempt.agent}</span>
              <time dateTime={attempt.started_at} className="text-dim">{exact(attempt.started_at)}</time>
              {attempt.finished_at && <span className="text-dim">{took(Date.parse(attempt.finished_at) - Date.parse(attempt.started_at))}</span>}
              {attempt.exit_code != null && <Badge tone={attempt.exit_code === 0 ? "plain" : "bad"}>exit {attempt.exit_code}</Badge>}
            </summary>
            <div className="flex flex-col gap-2 border-t border-line px-3 py-2">
              <Stranger text={attempt.command.join(" ")} lines={20} />
              {attempt.stderr_tail && <Stranger text={attempt.stderr_tail} />}
            </div>
          </details>
        ))}
      </section>
    </Part>
  );
}
