// What a stream is made of. An entry holds what is shown; of old ones in a long session only their place is kept, and they are
// read again when someone comes by.
import type { SchemaEvent, SchemaOutcome, SchemaTestRun } from "../api/schema";

export type Body<T extends SchemaEvent["type"]> = Extract<SchemaEvent, { type: T }>["data"];
export type Tone = "plain" | "warn" | "bad" | "good";

export interface Common {
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

export interface Step extends Common {
  text: string;
  mono?: string;
}

export type Entry = Common &
  (
    | { kind: "prompt"; author: string; number: number }
    | { kind: "message"; role: "assistant" | "user"; text: string; growing: boolean; whole: number }
    | { kind: "call"; call: Call; result: number | null }
    /** The same map grows with the entry: what is new is the entry around it. */
    | { kind: "files"; files: Map<string, string>; last: number }
    | { kind: "tests"; run: SchemaTestRun }
    | { kind: "hook"; hook: Body<"hook.finished"> }
    | { kind: "note"; text: string; tone: Tone; mono?: string }
    /** Steps that Harvest takes around the agent, one line until someone opens it. The same steps grow. */
    | { kind: "plumbing"; steps: Step[]; saved: number | null }
    /** As above: the same lines grow. */
    | { kind: "raw"; lines: string[]; size: number; more: number }
    | { kind: "plan"; text: string; decision: string | null; reviews: { agent: string; text: string }[] }
    | { kind: "delivery"; delivery: Body<"delivery.proposed">; decision: string | null }
    /** `pushed`: whether this turn put its work on the branch of the outcome. */
    | { kind: "end"; outcome: SchemaOutcome; pushed: boolean }
    | { kind: "away"; was: "message" | "call" | "raw"; needs: number[]; title: string }
  );

export type Of<K extends Entry["kind"]> = Entry & { kind: K };

/** Roughly how many characters an entry keeps in memory. Asked for every event: nothing here may count. */
export function weigh(entry: Entry): number {
  switch (entry.kind) {
    case "message":
      return entry.text.length;
    case "call":
      return (entry.call.output?.length ?? 0) + (typeof entry.call.input === "string" ? entry.call.input.length : 200);
    case "raw":
      return entry.size;
    default:
      return 0;
  }
}

/** Smaller ones are not worth asking the server for again. */
const WORTH = 500;

/** The place of an entry whose content is let go, or nothing where it stays. */
export function away(entry: Entry): Of<"away"> | null {
  if (weigh(entry) < WORTH) return null;
  const { seq, at } = entry;
  if (entry.kind === "message" && !entry.growing) return { seq, at, kind: "away", was: "message", needs: [entry.whole], title: entry.text.slice(0, 80) };
  if (entry.kind === "call" && entry.result !== null) return { seq, at, kind: "away", was: "call", needs: [seq, entry.result], title: entry.call.name };
  return null;
}
