// One entry of the stream. All of its text is a stranger's: it goes through `Stranger` or `Prose` and becomes text nodes.
import { createContext, memo, useContext, useState, type ReactNode } from "react";
import type { SchemaTestRun, SchemaTurn } from "../api/schema";
import { errorWords } from "../api/page-words";
import { leftWords } from "../api/words";
import type { Body, Call, Entry, Step } from "../stream/entries";
import { money } from "../stream/sums";
import { counted } from "../text/counted";
import { firstLine, harmless, MOST_LINES_FOLDED } from "../text/harmless";
import { Prose, Stranger } from "../text/show";
import { Icon, StatusIcon, words } from "../ui/icons";
import { Badge, Button, Code } from "../ui/parts";
import { clock, exact, took } from "../ui/time";
import { keyOf, Thread, useSaid } from "./comments";

interface Props {
  entry: Entry;
  turns: SchemaTurn[];
  position: number;
  size: number;
}

export const EntryView = memo(
  function EntryView({ entry, turns, position, size }: Props) {
    // What can be done with an entry is drawn for the one that someone is at.
    const [near, setNear] = useState(false);
    return (
      <article
        aria-posinset={position}
        aria-setsize={size}
        data-seq={entry.seq}
        data-kind={entry.kind}
        tabIndex={0}
        className="relative rounded-md py-1"
        onPointerEnter={() => setNear(true)}
        onPointerLeave={() => setNear(false)}
        onFocus={() => setNear(true)}
        onBlur={(event) => {
          if (!event.currentTarget.contains(event.relatedTarget)) setNear(false);
        }}
      >
        {draw(entry, turns)}
        {near && <Tools entry={entry} />}
        <Thread about={{ kind: "event", seq: entry.seq }} />
      </article>
    );
  },
  (before, after) => before.entry === after.entry && before.turns === after.turns && before.position === after.position,
);

function draw(entry: Entry, turns: SchemaTurn[]): ReactNode {
  switch (entry.kind) {
    case "prompt": {
      const turn = turns.find((one) => one.number === entry.number);
      return (
        <div className="my-2 rounded-lg border border-line bg-side px-3.5 py-2.5">
          <Head who={entry.author} at={entry.at} />
          <Prose text={turn?.prompt ?? "…"} />
        </div>
      );
    }
    case "message":
      return (
        <div className="my-1.5 px-0.5">
          <Head who={entry.role === "assistant" ? "Agent" : "Sent to the agent"} at={entry.at} />
          <Prose text={entry.text} />
          {entry.growing && <span className="pulse ml-0.5 inline-block h-3.5 w-1.5 bg-accent align-text-bottom" aria-hidden />}
        </div>
      );
    case "call":
      return <CallView call={entry.call} at={entry.at} />;
    case "files":
      return (
        <div className="flex flex-wrap items-center gap-1.5 px-0.5 text-dim">
          <Icon name="file" size={14} />
          {[...entry.files].slice(0, 20).map(([path, change]) => (
            <span key={path} className="inline-flex min-w-0 items-center gap-1">
              <Badge tone={change === "added" ? "good" : change === "deleted" ? "bad" : "plain"}>{words(change)}</Badge>
              <Code>{firstLine(path, 200)}</Code>
            </span>
          ))}
          {entry.files.size > 20 && <span>and {(entry.files.size - 20).toLocaleString()} more</span>}
        </div>
      );
    case "delivery":
      return (
        <section aria-label="Delivery" className="my-2 rounded-lg border border-accent/50 bg-raised px-3.5 py-2.5">
          <p className="mb-1 flex flex-wrap items-center gap-2">
            <strong className="font-semibold">Ready to deliver</strong>
            <Badge tone={entry.decision ? "plain" : "accent"}>{entry.decision ? firstLine(entry.decision, 80) : "Waiting for a decision"}</Badge>
          </p>
          <DeliveryView delivery={entry.delivery} />
        </section>
      );
    case "plan":
      return (
        <section aria-label="Plan" className="my-2 rounded-lg border border-accent/50 bg-raised px-3.5 py-2.5">
          <p className="mb-1 flex flex-wrap items-center gap-2">
            <strong className="font-semibold">Plan</strong>
            <Badge tone={entry.decision ? "plain" : "accent"}>{entry.decision ? firstLine(entry.decision, 80) : "Waiting for a decision"}</Badge>
          </p>
          <Prose text={entry.text} />
          <Reviews of={entry.reviews} />
        </section>
      );
    case "tests":
      return <TestsView run={entry.run} />;
    case "raw":
      return (
        <details className="px-0.5 text-dim">
          <summary>{counted(entry.lines.length + entry.more, "line")} of other output</summary>
          <div className="mt-1 rounded-md border border-line bg-side px-3 py-2">
            <Stranger text={entry.lines.join("\n")} />
            {entry.more > 0 && <p>and {counted(entry.more, "more line")}</p>}
          </div>
        </details>
      );
    case "hook":
      return <HookView hook={entry.hook} />;
    case "plumbing":
      return <PlumbingView steps={entry.steps} count={entry.steps.length} />;
    case "away":
      return (
        <p className={`truncate px-0.5 text-dim ${entry.was === "call" ? "rounded-lg border border-line px-3 py-1.5" : ""}`}>{firstLine(entry.title, 80)}…</p>
      );
    case "note": {
      const tone = { plain: "text-dim", warn: "text-warn", bad: "text-bad", good: "text-good" }[entry.tone];
      return (
        <p className={`flex items-baseline gap-2 px-0.5 ${tone}`}>
          <span className="mt-1.5 size-1.5 shrink-0 self-start rounded-full bg-current" aria-hidden />
          <span className="min-w-0 break-words">
            {firstLine(entry.text, 600)} {entry.mono && <Code>{firstLine(entry.mono, 400)}</Code>}
          </span>
          <time dateTime={entry.at} title={exact(entry.at)} className="ml-auto shrink-0 text-xs text-dim tabular-nums">
            {clock(entry.at)}
          </time>
        </p>
      );
    }
    case "end": {
      const { status, error, cost_usd, branch } = entry.outcome;
      const left = leftWords(entry.outcome, entry.pushed);
      return (
        <div
          className={`my-2 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-lg border border-line px-3.5 py-2.5 ${status === "completed" ? "bg-good-soft" : status === "failed" ? "bg-bad-soft" : "bg-side"}`}
        >
          <StatusIcon status={status} />
          <strong className="font-semibold">{words(status)}</strong>
          {error && <span className="min-w-0 break-words">{firstLine(errorWords(error), 600)}</span>}
          {status === "completed" && branch && (
            <span>
              {entry.pushed && "Delivered to "}
              <Code>{branch}</Code>
            </span>
          )}
          <span className="ml-auto tabular-nums">{money(cost_usd)}</span>
          {left && <p className="basis-full break-words">{left}</p>}
        </div>
      );
    }
  }
}

/** Begins another session at an event; possible once something of the work was saved. */
export const Fork = createContext<{ begin: (seq: number) => void; since: () => number | null }>({ begin: () => {}, since: () => null });

function Tools({ entry }: { entry: Entry }) {
  const { setOpen } = useSaid();
  const { begin, since } = useContext(Fork);
  const about = { kind: "event", seq: entry.seq } as const;
  const saved = since();
  const at = entry.kind === "plumbing" ? entry.saved : (entry.kind === "message" && !entry.growing) || entry.kind === "end" ? entry.seq : null;
  return (
    <div className="absolute top-0 right-2 z-10 flex rounded-md border border-line bg-raised shadow-sm">
      <Button look="quiet" icon="comment" label="Comment" onClick={() => setOpen(keyOf(about))} />
      {at !== null && saved !== null && at >= saved && <Button look="quiet" icon="fork" label="Fork from here" onClick={() => begin(at)} />}
    </div>
  );
}

/** What Harvest did around the agent, in one line; each step with its time when it is opened. */
function PlumbingView({ steps, count }: { steps: Step[]; count: number }) {
  const [open, setOpen] = useState(false);
  const brief = steps.map((step) => firstLine(step.text.split(":", 1)[0] ?? "", 60)).filter((text, index, all) => text !== all[index - 1]);
  return (
    <div className="px-0.5 text-xs text-dim">
      <button
        type="button"
        aria-expanded={open}
        aria-label={`${counted(count, "step")}: ${brief.join(", ")}`}
        onClick={() => setOpen(!open)}
        className="flex w-full items-center gap-1.5 rounded text-left hover:text-text"
      >
        <span className={open ? "rotate-90" : ""}>
          <Icon name="chevron" size={11} />
        </span>
        <span className="min-w-0 flex-1 truncate">{brief.join(" · ")}</span>
      </button>
      {open && (
        <ol className="mt-1 ml-1.5 flex flex-col gap-0.5 border-l border-line pl-3">
          {steps.map((step) => (
            <li key={step.seq} className="flex items-baseline gap-2">
              <span className="min-w-0 break-words">
                {firstLine(step.text, 600)} {step.mono && <Code>{firstLine(step.mono, 400)}</Code>}
              </span>
              <time dateTime={step.at} title={exact(step.at)} className="ml-auto shrink-0 tabular-nums">
                {clock(step.at)}
              </time>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

function Head({ who, at }: { who: string; at: string }) {
  return (
    <p className="mb-0.5 flex items-baseline gap-2">
      <span className="font-semibold">{firstLine(who, 60)}</span>
      <time dateTime={at} title={exact(at)} className="text-xs text-dim tabular-nums">
        {clock(at)}
      </time>
    </p>
  );
}

function CallView({ call, at }: { call: Call; at: string }) {
  const [open, setOpen] = useState(false);
  const duration = call.endedAt ? Date.parse(call.endedAt) - Date.parse(at) : null;
  const shown = summary(call);
  return (
    <div className={`rounded-lg border bg-raised ${call.failed ? "border-bad/40" : "border-line"}`}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex w-full items-center gap-2 rounded-lg px-3 py-1.5 text-left hover:bg-hover"
      >
        <span className={`text-dim transition-transform ${open ? "rotate-90" : ""}`}>
          <Icon name="chevron" size={13} />
        </span>
        <span className="shrink-0 font-medium">{firstLine(call.name, 60)}</span>
        <code className="min-w-0 flex-1 truncate font-mono text-xs text-dim">{shown}</code>
        {call.output === null ? (
          call.endedAt ? (
            <Badge>cut off</Badge>
          ) : (
            <span className="pulse text-xs text-warn">running</span>
          )
        ) : call.failed ? (
          <Badge tone="bad">failed</Badge>
        ) : null}
        {duration !== null && <span className="shrink-0 text-xs text-dim tabular-nums">{took(duration)}</span>}
      </button>
      {(open || call.failed) && call.output !== null && (
        <div className="border-t border-line px-3 py-2">
          {open && <Stranger text={inputText(call.input)} lines={40} />}
          {call.output === "" ? (
            <p className="text-dim">No output</p>
          ) : (
            <div className={open ? "mt-2 border-t border-line pt-2" : ""}>
              <Stranger text={call.output} lines={open ? undefined : MOST_LINES_FOLDED} />
            </div>
          )}
        </div>
      )}
      {open && call.output === null && (
        <div className="border-t border-line px-3 py-2">
          <Stranger text={inputText(call.input)} lines={40} />
        </div>
      )}
    </div>
  );
}

/** The one thing that tells what a call is about. */
function summary(call: Call): string {
  const input = call.input;
  if (typeof input === "string") return firstLine(input, 240);
  if (typeof input !== "object" || input === null) return "";
  const fields = input as Record<string, unknown>;
  for (const name of ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description"]) {
    const value = fields[name];
    if (typeof value === "string") return firstLine(value, 240);
    if (Array.isArray(value)) return firstLine(value.join(" "), 240);
  }
  return firstLine(JSON.stringify(input), 240);
}

function inputText(input: unknown): string {
  if (typeof input === "string") return input;
  if (typeof input === "object" && input !== null) {
    const entries = Object.entries(input as Record<string, unknown>);
    return entries.map(([name, value]) => (typeof value === "string" ? `${name}: ${value}` : `${name}: ${JSON.stringify(value)}`)).join("\n");
  }
  return input == null ? "" : JSON.stringify(input);
}

export function TestsView({ run, open = false }: { run: SchemaTestRun; open?: boolean }) {
  const good = run.exit_code === 0 && !run.failed && !run.timed_out;
  const where = run.purpose === "baseline" ? "Before the change" : run.purpose === "verify" ? "Tests in a clean sandbox" : words(run.purpose);
  return (
    <details open={open} className="rounded-lg border border-line bg-raised">
      <summary className="flex flex-wrap items-center gap-2 px-3 py-1.5">
        <StatusIcon status={good ? "completed" : run.purpose === "baseline" ? "cancelled" : "failed"} size={14} />
        <span className="font-medium">{where}</span>
        <code className="min-w-0 flex-1 basis-24 truncate font-mono text-xs text-dim">{harmless(run.command)}</code>
        <Counts run={run} />
        <span className="text-xs text-dim tabular-nums">{took(run.duration_ms)}</span>
      </summary>
      <div className="border-t border-line px-3 py-2">
        <Stranger text={run.output_tail || "No output"} />
      </div>
    </details>
  );
}

/** What another agent says against a plan. */
export function Reviews({ of }: { of: { agent: string; text: string }[] }) {
  return of.map((review, index) => (
    <section key={index} aria-label="Plan review" className="mt-3 rounded-md border border-line bg-warn-soft px-3 py-2">
      <p className="mb-1 font-semibold text-warn">{firstLine(review.agent, 60)} found problems</p>
      <Prose text={review.text} />
    </section>
  ));
}

const MOST_FILES = 30;

/** What would leave, and what was seen of it. */
export function DeliveryView({ delivery }: { delivery: Body<"delivery.proposed"> }) {
  const { files, evidence } = delivery;
  return (
    <div className="flex flex-col gap-2">
      <p className="flex flex-wrap items-center gap-2">
        <Code>{delivery.branch}</Code>
        <Code>{`${delivery.base.slice(0, 8)}..${delivery.commit.slice(0, 8)}`}</Code>
        {evidence ? <Counts run={evidence} /> : <Badge tone="warn">not tested</Badge>}
      </p>
      <p className="flex flex-wrap gap-1">
        {files.slice(0, MOST_FILES).map((path) => (
          <Code key={path}>{firstLine(path, 200)}</Code>
        ))}
        {files.length > MOST_FILES && <span className="text-dim">and {files.length - MOST_FILES} more</span>}
      </p>
    </div>
  );
}

function HookView({ hook }: { hook: Body<"hook.finished"> }) {
  const good = hook.exit_code === 0;
  return (
    <details className="rounded-lg border border-line bg-raised">
      <summary className="flex flex-wrap items-center gap-2 px-3 py-1.5">
        <StatusIcon status={good ? "completed" : hook.required ? "failed" : "cancelled"} size={14} />
        <span className="font-medium">Hook: {words(hook.stage).toLowerCase()}</span>
        <code className="min-w-0 flex-1 basis-24 truncate font-mono text-xs text-dim">{firstLine(hook.run)}</code>
        {!good && (
          <Badge tone={hook.required ? "bad" : "warn"}>
            exit {hook.exit_code}
            {hook.required ? ", required" : ""}
          </Badge>
        )}
        <span className="text-xs text-dim tabular-nums">{took(hook.duration_ms)}</span>
      </summary>
      <div className="border-t border-line px-3 py-2">
        <Stranger text={hook.output_tail || "No output"} />
      </div>
    </details>
  );
}

export function Counts({ run }: { run: Pick<SchemaTestRun, "passed" | "failed" | "skipped" | "exit_code"> & { timed_out?: boolean } }) {
  return (
    <span className="inline-flex flex-wrap gap-1">
      {run.timed_out && <Badge tone="bad">timed out</Badge>}
      {run.passed === 0 && run.failed === 0 ? (
        <Badge tone="warn">no tests ran</Badge>
      ) : run.passed != null ? (
        <Badge tone="good">{run.passed} passed</Badge>
      ) : (
        <Badge tone="plain">no counts</Badge>
      )}
      {run.failed ? <Badge tone="bad">{run.failed} failed</Badge> : null}
      {run.skipped ? <Badge tone="warn">{run.skipped} skipped</Badge> : null}
      <Badge tone={run.exit_code === 0 ? "plain" : "bad"}>exit {run.exit_code}</Badge>
    </span>
  );
}
