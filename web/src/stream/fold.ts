// Events become what a person reads: pieces of a message grow into it, a result joins its call, runs of the same kind become
// one entry. Each event is looked at once, and what it costs does not depend on how many came before.
import type { SchemaEvent, SchemaOutcome, SchemaTestRun } from "../api/schema";
import { errorWords, pageWords } from "../api/page-words";
import { counted } from "../text/counted";
import { away, weigh, type Body, type Call, type Common, type Entry, type Of, type Tone } from "./entries";
import { Bill, money, Times, type Span } from "./sums";

const MOST_RAW = 200;

const SANDBOXES: Record<string, string> = {
  execute: "Agent sandbox",
  baseline: "Baseline sandbox",
  verify: "Verify sandbox",
  prepare: "Build sandbox",
  warm: "Warm sandbox",
  mcp: "MCP sandbox",
  opinion: "Review sandbox",
} satisfies Record<Body<"sandbox.ready">["purpose"], string>;

const REMEDIES: Record<string, string> = {
  retried: "retried",
  failed_over: "switched to the next credential",
  fell_back: "switched to another model",
  rested: "the credential is paused for a while",
  gave_up: "gave up",
} satisfies Record<Body<"model.trouble">["remedy"], string>;
/** Characters of entries that are kept in memory, and entries at the end that always are. */
export const MOST_WEIGHT = 24_000_000;
const KEPT = 2_000;

/** A turn as the journal tells it: where its work began and ended. */
export interface TurnMark {
  number: number;
  author: string;
  from: string | null;
  to: string | null;
}

export interface Commit {
  seq: number;
  at: string;
  commit: string;
  subject: string;
  parent: string | null;
}

export class Fold {
  readonly entries: Entry[] = [];
  readonly bill = new Bill();
  readonly times = new Times();
  readonly tests: (SchemaTestRun & { seq: number; at: string })[] = [];
  readonly egress = new Map<string, Body<"egress">>();
  readonly sandboxes: (Body<"sandbox.ready"> & { at: string })[] = [];
  readonly commits: Commit[] = [];
  readonly turns: TurnMark[] = [];
  readonly limits: { at: string; message: string }[] = [];
  base: string | null = null;
  /** The first event by which something of the work was saved: from there on one can fork. */
  saved: number | null = null;
  /** Numbers that others watch: what they read is read again when they change. */
  stateChanges = 0;
  workChanges = 0;
  outcome: SchemaOutcome | null = null;
  /** Who made it pause and why, until it goes on. */
  interruption: { at: string; author: string; reason: string | null } | null = null;
  /** The plan or the delivery that waits for someone. */
  waits: Of<"plan"> | Of<"delivery"> | null = null;
  /** The last whole message of the agent, which tells what was done. */
  lastSaid: string | null = null;
  /** Files that were changed, by the last thing that happened to each. */
  readonly changed = new Map<string, string>();
  pullRequest: Body<"pull_request.delivered"> | null = null;
  /** The branch that the last turn pushed; a plan has one of its own. */
  pushed: string | null = null;
  first: number | null = null;
  lastAt: number | null = null;
  private calls = new Map<string, { entry: Of<"call">; span: Span }>();
  private growing: Of<"message"> | null = null;
  /** Follow-ups that nobody has begun. */
  private waiting = new Set<string>();
  /** The last of them was cancelled, and the former result is about to be told again. */
  private withdrawn = false;
  /** A person wants it tried again, and nobody has begun. */
  private retried = false;
  private agent: Span | null = null;
  private person: Span | null = null;
  private tip: string | null = null;
  private weight = 0;
  private trimmed = 0;

  constructor(private readonly mostWeight = MOST_WEIGHT) {}

  take(event: SchemaEvent): void {
    const at = Date.parse(event.at);
    this.first ??= at;
    this.lastAt = at;
    const common = { seq: event.seq, at: event.at };
    switch (event.type) {
      case "task.created":
        this.stateChanges += 1;
        this.base = this.tip = event.data.base;
        break;
      case "turn.started":
        this.outcome = null;
        this.retried = false;
        this.waiting.delete(event.data.turn_id);
        this.stateChanges += 1;
        if (this.turns.at(-1)?.number !== event.data.number) {
          this.turns.push({ number: event.data.number, author: event.data.author, from: this.tip, to: null });
          this.pushed = null;
        }
        this.push({ ...common, kind: "prompt", author: event.data.author, number: event.data.number });
        break;
      case "turn.queued":
        this.waiting.add(event.data.turn_id);
        this.stateChanges += 1;
        this.note(
          common,
          event.data.delivers ? `${event.data.author} requested a pull request` : `${event.data.author} sent a follow-up: ${event.data.prompt}`,
        );
        break;
      case "plan.proposed":
        this.stateChanges += 1;
        this.person = this.times.begin("Person", "Plan approval", at);
        this.plan(common, event.data.text);
        break;
      case "plan.reviewed":
        this.stateChanges += 1;
        if (this.waits?.kind === "plan") this.replace((this.waits = { ...this.waits, reviews: [...this.waits.reviews, event.data] }));
        else this.note(common, `${event.data.agent} reviewed the plan: ${event.data.text}`);
        break;
      case "delivery.proposed":
        this.stateChanges += 1;
        this.workChanges += 1;
        this.waits = { ...common, kind: "delivery", delivery: event.data, decision: null };
        this.person = this.times.begin("Person", "Delivery approval", at);
        this.push(this.waits);
        break;
      case "mcp.called": {
        const { server, tool, outcome, duration_ms } = event.data;
        this.times.over("Tools", `${server} ${tool}`, at - duration_ms, at, outcome !== "answered");
        this.note(
          common,
          `${outcome === "answered" ? "Called" : outcome === "failed" ? "Failed to call" : "Blocked call to"} ${server}`,
          outcome === "answered" ? "plain" : "warn",
          tool,
        );
        break;
      }
      case "plan.decided": {
        this.stateChanges += 1;
        const { approved, author, comment, plan } = event.data;
        const decision = `${approved ? "Approved" : "Rejected"} by ${author}${plan ? ", with edits" : ""}${comment ? `: ${comment}` : ""}`;
        if (this.waits?.kind === "plan") this.replace({ ...this.waits, text: plan ?? this.waits.text, decision });
        else if (this.waits) this.replace({ ...this.waits, decision });
        if (this.person) this.times.end(this.person, at, !approved);
        this.waits = null;
        this.note(common, decision, approved ? "good" : "warn");
        break;
      }
      case "session.interrupted": {
        const { author, reason } = event.data;
        this.growing = null;
        this.stateChanges += 1;
        this.workChanges += 1;
        this.interruption = { at: event.at, author, reason: reason ?? null };
        this.person = this.times.begin("Person", "Interruption", at);
        this.note(common, `Interrupted by ${author}${reason ? `: ${reason}` : ""}`, "warn");
        break;
      }
      case "session.resumed": {
        const { author, prompt } = event.data;
        this.stateChanges += 1;
        this.interruption = null;
        if (this.person) this.times.end(this.person, at, false);
        this.note(common, `Resumed by ${author}${prompt ? `: ${prompt}` : ""}`);
        break;
      }
      case "race.placed":
        this.stateChanges += 1;
        this.note(
          common,
          `Passed its tests: ${counted(event.data.changed_lines, "changed line")}, ${money(event.data.cost_usd)}. Waiting for the other entrants`,
          "good",
        );
        break;
      case "race.judged":
        this.stateChanges += 1;
        this.note(common, `${event.data.agent} judged the race: ${event.data.reason}`);
        break;
      case "race.decided":
        this.stateChanges += 1;
        this.note(common, "Won the race", "good", event.data.race);
        break;
      case "agent.reattached":
        this.step(common, "The worker was replaced; the agent kept running");
        break;
      // What an agent needs to go on with a conversation; there is nothing to see.
      case "conversation.kept":
        break;
      case "message.delta":
        if (this.growing) this.replace((this.growing = { ...this.growing, text: this.growing.text + event.data.text, whole: event.seq }));
        else this.push((this.growing = { ...common, kind: "message", role: "assistant", text: event.data.text, growing: true, whole: event.seq }));
        break;
      case "message": {
        const { role, text } = event.data;
        if (this.growing && role === "assistant") this.replace({ ...this.growing, text, growing: false, whole: event.seq });
        else this.push({ ...common, kind: "message", role, text, growing: false, whole: event.seq });
        this.growing = null;
        if (role === "assistant" && text.trim()) this.lastSaid = text;
        break;
      }
      case "tool.call": {
        const { id, name, input } = event.data;
        const call: Call = { name, input, output: null, failed: false, endedAt: null };
        const entry: Of<"call"> = { ...common, kind: "call", call, result: null };
        this.calls.set(id, { entry, span: this.times.begin("Tools", name, at) });
        this.push(entry);
        break;
      }
      case "tool.result": {
        const { id, output, is_error } = event.data;
        const known = this.calls.get(id);
        if (!known) {
          this.push({ ...common, kind: "call", call: { name: "result", input: null, output, failed: is_error, endedAt: event.at }, result: event.seq });
          break;
        }
        this.calls.delete(id);
        this.times.end(known.span, at, is_error);
        this.replace({ ...known.entry, result: event.seq, call: { ...known.entry.call, output, failed: is_error, endedAt: event.at } });
        break;
      }
      case "file.changed": {
        const last = this.entries.at(-1);
        const { path, change } = event.data;
        this.changed.set(path, change);
        if (last?.kind === "files") {
          last.files.set(path, change);
          this.replace({ ...last, last: event.seq });
        } else this.push({ ...common, kind: "files", files: new Map([[path, change]]), last: event.seq });
        break;
      }
      case "usage":
        this.bill.take(common, event.data);
        break;
      case "sandbox.ready": {
        const { duration_ms, purpose, provider, workspace, warm } = event.data;
        this.sandboxes.push({ ...event.data, at: event.at });
        this.times.over("Sandbox", purpose, at - (warm ? 0 : duration_ms), at, false);
        this.step(common, `${SANDBOXES[purpose] ?? "Sandbox"} ready: ${provider}, ${workspace}, ${warm ? "warm start" : `created in ${duration_ms} ms`}`);
        break;
      }
      case "agent.started": {
        this.stateChanges += 1;
        const { agent, model } = event.data;
        if (this.agent) this.times.end(this.agent, at, false);
        this.agent = this.times.begin("Agent", agent, at);
        this.step(common, `${agent} started${model ? ` with ${model}` : ""}`);
        break;
      }
      case "agent.finished": {
        const { exit_code, reason } = event.data;
        this.growing = null;
        // Its run has an end now, which counts in the time of the task.
        this.stateChanges += 1;
        if (this.agent) this.times.end(this.agent, at, Boolean(reason));
        this.agent = null;
        for (const { entry, span } of this.calls.values()) {
          this.times.end(span, at, true);
          this.replace({ ...entry, call: { ...entry.call, endedAt: event.at } });
        }
        this.calls.clear();
        const asked = reason === "interrupted" || reason === "cancelled";
        const how = exit_code == null ? "Agent stopped" : `Agent exited with code ${exit_code}`;
        const text = `${how}${reason ? `: ${reason.replaceAll("_", " ")}` : ""}`;
        if (reason && !asked) this.note(common, text, "bad");
        else this.step(common, text);
        break;
      }
      case "limit.reached":
        this.limits.push({ at: event.at, message: errorWords(event.data.message) });
        this.note(common, errorWords(event.data.message), "bad");
        break;
      case "hook.finished":
        this.times.over("Tests", `${event.data.stage} hook`, at - event.data.duration_ms, at, event.data.exit_code !== 0);
        this.push({ ...common, kind: "hook", hook: event.data });
        break;
      case "checkpoint.created": {
        this.workChanges += 1;
        this.saved ??= event.seq;
        const { number, commit } = event.data;
        this.step(common, `Checkpoint ${number}`, commit.slice(0, 8), true);
        break;
      }
      case "commit.created":
        this.workChanges += 1;
        this.saved ??= event.seq;
        this.commits.push({ ...common, ...event.data, parent: this.tip });
        this.tip = event.data.commit;
        this.step(common, `Commit: ${event.data.subject}`, event.data.commit.slice(0, 10), true);
        break;
      case "tests.finished": {
        const run = event.data;
        this.tests.push({ ...run, ...common });
        this.times.over("Tests", run.purpose, at - run.duration_ms, at, run.exit_code !== 0);
        this.push({ ...common, kind: "tests", run });
        break;
      }
      case "stage.finished":
        this.workChanges += 1;
        break;
      case "branch.delivered":
        // Failed work is pushed as well: only the end of the task says whether it was delivered.
        this.pushed = event.data.branch;
        this.step(common, "Branch updated", event.data.branch);
        break;
      case "base.moved": {
        const { conflicts, to } = event.data;
        if (conflicts.length === 0) this.note(common, "The target branch moved; the work was rebased onto it", "plain", to.slice(0, 10));
        else this.note(common, "The target branch moved, and the work conflicts with it in", "warn", conflicts.join(" "));
        break;
      }
      case "pull_request.delivered":
        this.pullRequest = event.data;
        this.note(
          common,
          `${event.data.draft ? "Draft pull" : "Pull"} request ${event.data.number} opened`,
          event.data.draft ? "plain" : "good",
          event.data.url,
        );
        break;
      case "budget.reached": {
        const { percent, spent_usd, limit_usd, account } = event.data;
        // A task has one budget; people and projects have one for each day.
        const [kind = "", name] = account.split(":", 2);
        const of = kind === "task" ? "task budget" : `daily budget of ${kind} ${name}`;
        // One call may go far beyond the threshold that is told of.
        const share = limit_usd > 0 ? Math.max(percent, Math.floor((spent_usd / limit_usd) * 100 + 1e-9)) : percent;
        this.note(common, `${share}% of the ${of} is spent: ${money(spent_usd)} of ${money(limit_usd)}`, "warn");
        break;
      }
      case "model.trouble": {
        const { provider, model, problem, remedy, count } = event.data;
        const times = count > 1 ? ` (${count.toLocaleString()} times)` : "";
        this.note(common, `${model} at ${provider} failed (${problem}): ${REMEDIES[remedy] ?? remedy}${times}`, "warn");
        break;
      }
      case "egress": {
        const { host, port, verdict } = event.data;
        const key = `${host}:${port} ${verdict}`;
        if (!this.egress.has(key) && verdict === "refused") this.note(common, "Blocked access to", "warn", `${host}:${port}`);
        this.egress.set(key, event.data);
        break;
      }
      case "warning":
        this.note(common, errorWords(event.data.message), "warn");
        break;
      case "raw": {
        const last = this.entries.at(-1);
        const { line } = event.data;
        if (last?.kind !== "raw") this.push({ ...common, kind: "raw", lines: [line], size: line.length, more: 0 });
        else if (last.lines.length < MOST_RAW) {
          last.lines.push(line);
          this.replace({ ...last, size: last.size + line.length });
        } else this.replace({ ...last, more: last.more + 1 });
        break;
      }
      case "task.retried":
        this.stateChanges += 1;
        // A person who asks for it does not wait.
        this.retried = event.data.delay_ms === 0;
        this.note(
          common,
          `${this.retried ? "Retrying" : `Retrying in ${Math.round(event.data.delay_ms / 1000)} s`} after: ${pageWords(event.data.error)}`,
          "warn",
        );
        break;
      case "turn.finished":
        this.growing = null;
        this.stateChanges += 1;
        if (this.waiting.delete(event.data.turn_id)) {
          this.withdrawn = true;
          this.note(common, "The follow-up was cancelled before it started", "warn");
        }
        break;
      case "task.finished": {
        this.outcome = event.data;
        this.stateChanges += 1;
        this.workChanges += 1;
        const turn = this.turns.at(-1);
        this.tip = event.data.commit;
        if (turn) turn.to = this.tip;
        if (this.retried) {
          this.withdrawn = true;
          this.note(common, "The retry was cancelled before it started", "warn");
        }
        this.retried = false;
        // The former result holds again; its end is in the timeline already.
        if (!this.withdrawn) this.push({ ...common, kind: "end", outcome: event.data, pushed: this.pushed !== null && this.pushed === event.data.branch });
        this.withdrawn = false;
        break;
      }
      default:
        this.unknown(common, event);
    }
  }

  /** Lets go of what is old and large, as much as is too much. */
  trim(): void {
    const end = this.entries.length - KEPT;
    while (this.weight > this.mostWeight && this.trimmed < end) {
      const entry = this.entries[this.trimmed];
      if (!entry) return;
      const place = away(entry);
      if (place) {
        this.weight -= weigh(entry);
        this.entries[this.trimmed] = place;
      }
      this.trimmed += 1;
    }
  }

  /** A server that is newer than this page says things that it has no picture for; they are shown as they came. */
  private unknown(common: Common, event: { type?: string; data?: unknown }) {
    this.note(common, event.type ?? "event", "plain", JSON.stringify(event.data ?? null));
  }

  /** The agent's last message is the plan itself: it is shown once, where it was said. */
  private plan(common: Common, text: string) {
    const said = this.entries.findLast((entry) => entry.kind === "message" || entry.kind === "prompt");
    const same = said?.kind === "message" && said.role === "assistant" && said.text.trim() === text.trim();
    this.waits = { ...(same ? { seq: said.seq, at: said.at } : common), kind: "plan", text, decision: null, reviews: [] };
    if (same) this.replace(this.waits);
    else this.push(this.waits);
  }

  private step(common: Common, text: string, mono?: string, saves = false) {
    const last = this.entries.at(-1);
    const saved = saves ? common.seq : last?.kind === "plumbing" ? last.saved : null;
    if (last?.kind === "plumbing") {
      last.steps.push({ ...common, text, mono });
      this.replace({ ...last, saved });
    } else this.push({ ...common, kind: "plumbing", steps: [{ ...common, text, mono }], saved });
  }

  private note(common: Common, text: string, tone: Tone = "plain", mono?: string) {
    this.push({ ...common, kind: "note", text, tone, mono });
  }

  private push(entry: Entry) {
    // What the agent does next ends a message that it was writing; what Harvest does meanwhile, as a checkpoint, does not.
    if ((entry.kind === "call" || entry.kind === "prompt" || entry.kind === "end") && this.growing) {
      this.replace({ ...this.growing, growing: false });
      this.growing = null;
    }
    this.weight += weigh(entry);
    this.entries.push(entry);
  }

  /** The same entry, further on. */
  private replace(entry: Entry) {
    const index = this.find(entry.seq);
    const before = this.entries[index];
    if (!before) return;
    this.weight += weigh(entry) - weigh(before);
    this.entries[index] = entry;
  }

  /** Entries are in the order of their numbers; most that change are at the end. */
  private find(seq: number): number {
    let low = 0;
    let high = this.entries.length - 1;
    if (this.entries[high]?.seq === seq) return high;
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
