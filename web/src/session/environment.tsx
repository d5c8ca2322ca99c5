// Where the work is done: which sandboxes, within which limits, and what they may reach.
import type { SchemaSessionDetail } from "../api/schema";
import { pageWords } from "../api/page-words";
import { isOver } from "../api/words";
import type { Fold } from "../stream/fold";
import type { Journal } from "../stream/journal";
import { money } from "../stream/sums";
import { counted } from "../text/counted";
import { firstLine, harmless } from "../text/harmless";
import { Stranger } from "../text/show";
import { words } from "../ui/icons";
import { Badge, Code, Meter, Table } from "../ui/parts";
import { clock, exact, took } from "../ui/time";
import { useNowAndThen } from "./journal";
import { Facts, Part, Section } from "./part";

export function EnvironmentTab({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  useNowAndThen(journal);
  const { fold } = journal;
  const { task } = session;
  const { settings } = task;
  const attempts = session.turns.flatMap((turn) => turn.attempts);
  const egress = [...fold.egress.values()];
  return (
    <Part label="Environment">
      <Facts
        rows={[
          ["Repository", <Code key="r">{task.repository}</Code>],
          ["Test command", settings.test ? <Code key="t">{harmless(settings.test)}</Code> : "None found"],
          [
            "Allowed hosts",
            settings.egress?.length ? (
              <span key="e" className="flex flex-wrap gap-1">
                {(settings.egress as unknown[]).map((host) => (
                  <Code key={String(host)}>{String(host)}</Code>
                ))}
              </span>
            ) : (
              "None, except models and the task's repository, through the gateway"
            ),
          ],
          ["Commit author", `${settings.author_name} <${settings.author_email}>`],
        ]}
      />
      <Section title="Limits">
        <Table
          label="Limits"
          rows={limits(session, fold)}
          id={(row) => row.name}
          columns={[
            { name: "Limit", cell: (row) => row.name },
            { name: "Value", number: true, cell: (row) => row.bound },
            { name: "Used", number: true, cell: (row) => row.now },
            {
              name: "",
              cell: (row) =>
                row.part === null ? null : (
                  <div className="w-10 sm:w-28">
                    <Meter part={row.part} label={`Share used: ${row.name}`} />
                  </div>
                ),
            },
          ]}
        />
        {fold.limits.map((one) => (
          <p key={one.at} className="text-bad">
            {firstLine(one.message, 300)}
          </p>
        ))}
      </Section>
      <Section title="Sandboxes">
        {fold.sandboxes.length === 0 ? (
          <p className="text-dim">None yet</p>
        ) : (
          <Table
            label="Sandboxes"
            rows={fold.sandboxes}
            id={(row) => row.sandbox_id}
            columns={[
              { name: "Purpose", cell: (row) => words(row.purpose) },
              { name: "Provider", cell: (row) => row.provider },
              { name: "Workspace", minor: true, cell: (row) => row.workspace },
              {
                name: "Time",
                minor: true,
                cell: (row) => (
                  <time dateTime={row.at} className="tabular-nums">
                    {clock(row.at)}
                  </time>
                ),
              },
              { name: "Ready in", number: true, cell: (row) => (row.warm ? "warm start" : took(row.duration_ms)) },
              { name: "ID", minor: true, cell: (row) => <Code>{row.sandbox_id}</Code> },
            ]}
          />
        )}
      </Section>
      <Section title="Network access">
        {egress.length === 0 ? (
          <p className="text-dim">None</p>
        ) : (
          <Table
            label="Network access"
            rows={egress}
            id={(row) => `${row.host}:${row.port} ${row.verdict}`}
            columns={[
              { name: "Host", cell: (row) => <Code>{firstLine(`${row.host}:${row.port}`)}</Code> },
              { name: "Verdict", cell: (row) => <Badge tone={row.verdict === "allowed" ? "good" : "bad"}>{words(row.verdict)}</Badge> },
              { name: "Reason", minor: true, cell: (row) => firstLine(pageWords(row.reason ?? ""), 400) },
              { name: "Connections", number: true, cell: (row) => row.connections },
              {
                name: "Bytes out / in",
                number: true,
                minor: true,
                cell: (row) => `${row.sent_bytes.toLocaleString()} / ${row.received_bytes.toLocaleString()}`,
              },
            ]}
          />
        )}
      </Section>
      <Section title="Attempts">
        {attempts.length === 0 ? (
          <p className="text-dim">None yet</p>
        ) : (
          attempts.map((attempt) => (
            <details key={attempt.id} className="card">
              <summary className="flex flex-wrap items-center gap-2 px-3 py-1.5">
                <span className="font-medium">{attempt.agent}</span>
                <time dateTime={attempt.started_at} className="text-dim">
                  {exact(attempt.started_at)}
                </time>
                {attempt.finished_at && <span className="text-dim">{took(Date.parse(attempt.finished_at) - Date.parse(attempt.started_at))}</span>}
                {attempt.exit_code != null && <Badge tone={attempt.exit_code === 0 ? "plain" : "bad"}>exit {attempt.exit_code}</Badge>}
              </summary>
              <div className="flex flex-col gap-2 border-t border-line px-3 py-2">
                <Stranger text={attempt.command.join(" ")} lines={20} />
                {attempt.stderr_tail && <Stranger text={attempt.stderr_tail} />}
              </div>
            </details>
          ))
        )}
      </Section>
    </Part>
  );
}

interface Limit {
  name: string;
  bound: string;
  now: string;
  part: number | null;
}

function limits({ task }: SchemaSessionDetail, fold: Fold): Limit[] {
  const { settings } = task;
  const spent = Math.max(task.cost_usd, fold.bill.total);
  const agent = fold.times.sums.get("Agent");
  const open = [...fold.times.open].find((span) => span.lane === "Agent");
  const worked = open && !isOver(task.status) ? (fold.lastAt ?? open.from) - open.from : 0;
  const { supervision } = settings;
  return [
    { name: "Budget", bound: money(task.budget_usd), now: money(spent), part: task.budget_usd > 0 ? spent / task.budget_usd : null },
    {
      name: "Agent time per turn",
      bound: took(settings.timeout_ms),
      now: took(worked || (agent?.longest ? (agent.longest.to ?? 0) - agent.longest.from : 0)),
      part: settings.timeout_ms > 0 ? worked / settings.timeout_ms : null,
    },
    { name: "Model calls per turn", bound: String(settings.max_turns), now: `${fold.bill.calls.length} in total`, part: null },
    ...(supervision
      ? [
          { name: "Time without activity", bound: took(supervision.stall_ms), now: "–", part: null },
          { name: "Identical calls with the same result", bound: counted(supervision.max_repeats, "time"), now: "–", part: null },
        ]
      : []),
  ];
}
