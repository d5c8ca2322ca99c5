// Events become what a person reads: pieces of a message grow into it, a result joins its call, runs of the same kind become
// one entry. Each event is looked at once.
import type { SchemaEvent, SchemaOutcome, SchemaTestRun } from "../api/schema";

type Body<T extends SchemaEvent["type"]> = Extract<SchemaEvent, { type: T }>["data"];

interface Common {
  /** Of the event that began it: unique, and stays. */
  seq: number;
  at: string;
}

export interface Call {
  name: string;
  input: unknown;
  output: string | null;
  failed: boolean;
  endedAt: string | null;
}

export type Entry = Common &
  (
    | { kind: "prompt"; author: string; number: number }
    | { kind: "message"; role: "assistant" | "user"; text: string; growing: boolean }
    | { kind: "call"; call: Call }
    | { kind: "files"; files: { path: string; change: string }[] }
    | { kind: "tests"; run: SchemaTestRun }
    | { kind: "note"; text: string; tone: "plain" | "warn" | "bad" | "good"; mono?: string }
    | { kind: "raw"; lines: { stream: string; line: string }[]; more: number }
    | { kind: "plan"; text: string; decision: string | null }
    | { kind: "end"; outcome: SchemaOutcome }
  );

export interface Spent {
  seq: number;
  at: string;
  provider: string;
  model: string;
  input: number;
  output: number;
  cached: number;
  cost: number;
  estimated: boolean;
  total: number;
}

/** Something that took time. */
export interface Span {
  lane: "Sandbox" | "Agent" | "Tools" | "Tests";
  label: string;
  from: number;
  /** Absent while it goes on. */
  to: number | null;
  failed: boolean;
}

const MOST_RAW = 200;

export class Fold {
  readonly entries: Entry[] = [];
  readonly spent: Spent[] = [];
  readonly spans: Span[] = [];
  readonly tests: (SchemaTestRun & { seq: number; at: string })[] = [];
  readonly egress = new Map<string, Body<"egress">>();
  readonly sandboxes: Body<"sandbox.ready">[] = [];
  readonly commits: Body<"commit.created">[] = [];
  /** Numbers that other pages watch: a list is read again when they change. */
  stateChanges = 0;
  workChanges = 0;
  outcome: SchemaOutcome | null = null;
  /** The plan that waits for someone. */
  plan: (Entry & { kind: "plan" }) | null = null;
  first: number | null = null;
  lastAt: number | null = null;
  private calls = new Map<string, { entry: Entry & { kind: "call" }; span: Span }>();
  private growing: (Entry & { kind: "message" }) | null = null;
  private agent: Span | null = null;

  take(event: SchemaEvent): void {
    const at = Date.parse(event.at);
    this.first ??= at;
    this.lastAt = at;
    const common = { seq: event.seq, at: event.at };
    switch (event.type) {
      case "task.created":
        this.stateChanges += 1;
        break;
      case "turn.started":
        this.outcome = null;
        this.stateChanges += 1;
        this.push({ ...common, kind: "prompt", author: event.data.author, number: event.data.number });
        break;
      case "turn.queued":
        this.stateChanges += 1;
        this.note(common, `${event.data.author} asked for more: ${event.data.prompt}`);
        break;
      case "plan.proposed":
        this.stateChanges += 1;
        this.plan = { ...common, kind: "plan", text: event.data.text, decision: null };
        this.push(this.plan);
        break;
      case "plan.decided": {
        this.stateChanges += 1;
        const { approved, author, comment, plan } = event.data;
        const decision = `${approved ? "Approved" : "Rejected"} by ${author}${plan ? ", changed" : ""}${comment ? `: ${comment}` : ""}`;
        if (this.plan) this.replaceLast({ ...this.plan, text: plan ?? this.plan.text, decision });
        this.plan = null;
        this.note(common, decision, approved ? "good" : "warn");
        break;
      }
      // What an agent needs to go on with a conversation; there is nothing to see.
      case "conversation.kept":
        break;
      case "message.delta":
        if (this.growing) this.replaceLast((this.growing = { ...this.growing, text: this.growing.text + event.data.text }));
        else this.push((this.growing = { ...common, kind: "message", role: "assistant", text: event.data.text, growing: true }));
        break;
      case "message": {
        const { role, text } = event.data;
        if (this.growing && role === "assistant") this.replaceLast({ ...this.growing, text, growing: false });
        else this.push({ ...common, kind: "message", role, text, growing: false });
        this.growing = null;
        break;
      }
      case "tool.call": {
        const { id, name, input } = event.data;
        const call: Call = { name, input, output: null, failed: false, endedAt: null };
        const entry: Entry & { kind: "call" } = { ...common, kind: "call", call };
        const span: Span = { lane: "Tools", label: name, from: at, to: null, failed: false };
        this.spans.push(span);
        this.calls.set(id, { entry, span });
        this.push(entry);
        break;
      }
      case "tool.result": {
        const { id, output, is_error } = event.data;
        const known = this.calls.get(id);
        if (!known) {
          this.push({ ...common, kind: "call", call: { name: "result", input: null, output, failed: is_error, endedAt: event.at } });
          break;
        }
        this.calls.delete(id);
        known.span.to = at;
        known.span.failed = is_error;
        const index = this.find(known.entry.seq);
        const call = { ...known.entry.call, output, failed: is_error, endedAt: event.at };
        if (index >= 0) this.entries[index] = { ...known.entry, call };
        break;
      }
      case "file.changed": {
        const last = this.entries.at(-1);
        const file = { path: event.data.path, change: event.data.change };
        if (last?.kind === "files") this.replaceLast({ ...last, files: [...last.files.filter((one) => one.path !== file.path), file] });
        else this.push({ ...common, kind: "files", files: [file] });
        break;
      }
      case "usage": {
        const usage = event.data;
        this.spent.push({
          ...common,
          provider: usage.provider,
          model: usage.model,
          input: usage.input_tokens,
          output: usage.output_tokens,
          cached: (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0),
          cost: usage.cost_usd,
          estimated: usage.estimated,
          total: (this.spent.at(-1)?.total ?? 0) + usage.cost_usd,
        });
        break;
      }
      case "sandbox.ready": {
        const { duration_ms, purpose, provider, warm } = event.data;
        this.sandboxes.push(event.data);
        this.spans.push({ lane: "Sandbox", label: purpose, from: at - duration_ms, to: at, failed: false });
        const how = warm ? "was warm" : `made in ${duration_ms} ms`;
        this.note(common, `Sandbox for ${purpose} ready: ${provider}, ${event.data.workspace}, ${how}`);
        break;
      }
      case "agent.started": {
        this.stateChanges += 1;
        this.agent = { lane: "Agent", label: event.data.agent, from: at, to: null, failed: false };
        this.spans.push(this.agent);
        const model = event.data.model ? ` with ${event.data.model}` : "";
        this.note(common, `${event.data.agent} started${model}`);
        break;
      }
      case "agent.finished": {
        const { exit_code, reason } = event.data;
        this.growing = null;
        if (this.agent) Object.assign(this.agent, { to: at, failed: Boolean(reason) });
        const how = exit_code == null ? "" : ` with exit code ${exit_code}`;
        this.note(common, `Agent ended${how}${reason ? `: ${reason.replace("_", " ")}` : ""}`, reason ? "bad" : "plain");
        break;
      }
      case "checkpoint.created":
        this.workChanges += 1;
        this.note(common, `Checkpoint ${event.data.number}`, "plain", event.data.commit.slice(0, 10));
        break;
      case "commit.created":
        this.workChanges += 1;
        this.commits.push(event.data);
        this.note(common, `Commit: ${event.data.subject}`, "plain", event.data.commit.slice(0, 10));
        break;
      case "tests.finished": {
        const run = event.data;
        this.tests.push({ ...run, ...common });
        this.spans.push({ lane: "Tests", label: run.purpose, from: at - run.duration_ms, to: at, failed: run.exit_code !== 0 });
        this.push({ ...common, kind: "tests", run });
        break;
      }
      case "stage.finished":
        this.workChanges += 1;
        break;
      case "branch.delivered":
        this.note(common, "Delivered to", "good", event.data.branch);
        break;
      case "budget.reached": {
        const { percent, spent_usd, limit_usd, account } = event.data;
        const of = `${money(spent_usd)} of ${money(limit_usd)}`;
        this.note(common, `${percent} % of the budget is spent: ${of}, ${account.split(":", 1)[0]}`, "warn");
        break;
      }
      case "model.trouble": {
        const { provider, model, problem, remedy, count } = event.data;
        const times = count > 1 ? `, ${count} times` : "";
        this.note(common, `${provider} gave trouble with ${model} (${problem}); ${remedy.replace("_", " ")}${times}`, "warn");
        break;
      }
      case "egress": {
        const { host, port, verdict } = event.data;
        const key = `${host}:${port} ${verdict}`;
        if (!this.egress.has(key) && verdict === "refused") this.note(common, "Kept from reaching", "warn", `${host}:${port}`);
        this.egress.set(key, event.data);
        break;
      }
      case "warning":
        this.note(common, event.data.message, "warn");
        break;
      case "raw": {
        const last = this.entries.at(-1);
        const line = { stream: event.data.stream, line: event.data.line };
        if (last?.kind !== "raw") this.push({ ...common, kind: "raw", lines: [line], more: 0 });
        else if (last.lines.length < MOST_RAW) this.replaceLast({ ...last, lines: [...last.lines, line] });
        else this.replaceLast({ ...last, more: last.more + 1 });
        break;
      }
      case "task.retried":
        this.stateChanges += 1;
        this.note(common, `Tried again in ${Math.round(event.data.delay_ms / 1000)} s: ${event.data.error}`, "warn");
        break;
      case "turn.finished":
        this.growing = null;
        this.stateChanges += 1;
        break;
      case "task.finished":
        this.outcome = event.data;
        this.stateChanges += 1;
        this.workChanges += 1;
        this.push({ ...common, kind: "end", outcome: event.data });
        break;
      default:
        this.unknown(common, event);
    }
  }

  /** A server that is newer than this page says things that it has no picture for; they are shown as they came. */
  private unknown(common: Common, event: { type?: string; data?: unknown }) {
    this.note(common, event.type ?? "event", "plain", JSON.stringify(event.data ?? null));
  }

  private note(common: Common, text: string, tone: "plain" | "warn" | "bad" | "good" = "plain", mono?: string) {
    this.push({ ...common, kind: "note", text, tone, mono });
  }

  private push(entry: Entry) {
    // Whatever comes in between ends the piece of a message that was being written.
    if (entry.kind !== "message" && this.growing) {
      this.replaceLast({ ...this.growing, growing: false });
      this.growing = null;
    }
    this.entries.push(entry);
  }

  /** The newest entry that is not final yet lies at the end or close to it. */
  private replaceLast(entry: Entry) {
    const index = this.find(entry.seq);
    if (index >= 0) this.entries[index] = entry;
  }

  /** Entries are in the order of their numbers. */
  private find(seq: number): number {
    let low = 0;
    let high = this.entries.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.entries[middle]?.seq ?? 0;
      if (found === seq) return middle;
      if (found < seq) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}

export function money(usd: number): string {
  if (usd === 0) return "$0";
  return usd < 0.1 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}
