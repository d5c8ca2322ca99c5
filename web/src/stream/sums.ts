// What a session has used, counted as it goes by: nobody adds up a journal again to draw a frame.
import type { Body, Common } from "./entries";

export interface Spent extends Common {
  provider: string;
  model: string;
  input: number;
  output: number;
  cached: number;
  cost: number;
  estimated: boolean;
  /** From asking to the end of the answer, where it is known. */
  took: number | null;
  total: number;
}

export class Bill {
  readonly calls: Spent[] = [];
  readonly models = new Map<string, { calls: number; input: number; output: number; cached: number; cost: number }>();
  input = 0;
  output = 0;
  cached = 0;
  total = 0;

  take(common: Common, usage: Body<"usage">): void {
    const cached = (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
    this.input += usage.input_tokens;
    this.output += usage.output_tokens;
    this.cached += cached;
    this.total += usage.cost_usd;
    const model = this.models.get(usage.model) ?? { calls: 0, input: 0, output: 0, cached: 0, cost: 0 };
    model.calls += 1;
    model.input += usage.input_tokens;
    model.output += usage.output_tokens;
    model.cached += cached;
    model.cost += usage.cost_usd;
    this.models.set(usage.model, model);
    this.calls.push({
      ...common,
      provider: usage.provider,
      model: usage.model,
      input: usage.input_tokens,
      output: usage.output_tokens,
      cached,
      cost: usage.cost_usd,
      estimated: usage.estimated,
      took: usage.duration_ms ?? null,
      total: this.total,
    });
  }
}

export const LANES = ["Sandbox", "Agent", "Tools", "Tests", "Person"] as const;
export type Lane = (typeof LANES)[number];

/** Something that took time. */
export interface Span {
  lane: Lane;
  label: string;
  from: number;
  /** Absent while it goes on. */
  to: number | null;
  failed: boolean;
}

export interface LaneSum {
  count: number;
  /** Of those that have ended. */
  time: number;
  longest: Span | null;
}

/** Time by activity. */
export class Times {
  readonly spans: Span[] = [];
  readonly open = new Set<Span>();
  readonly sums = new Map<Lane, LaneSum>(LANES.map((lane) => [lane, { count: 0, time: 0, longest: null }]));

  begin(lane: Lane, label: string, from: number): Span {
    const span: Span = { lane, label, from, to: null, failed: false };
    this.spans.push(span);
    this.open.add(span);
    this.sum(lane).count += 1;
    return span;
  }

  end(span: Span, to: number, failed: boolean): void {
    if (!this.open.delete(span)) return;
    span.to = to;
    span.failed = failed;
    const sum = this.sum(span.lane);
    sum.time += to - span.from;
    if (!sum.longest || to - span.from > (sum.longest.to ?? 0) - sum.longest.from) sum.longest = span;
  }

  /** Told only when it was over. */
  over(lane: Lane, label: string, from: number, to: number, failed: boolean): void {
    this.end(this.begin(lane, label, from), to, failed);
  }

  private sum(lane: Lane): LaneSum {
    return this.sums.get(lane) ?? { count: 0, time: 0, longest: null };
  }
}

const NANOS_PER_CENT = 10_000_000;

/** As the command line writes it: with cents; amounts below ten cents with two digits more unless they are whole cents. */
export function money(usd: number): string {
  // Sums of fractions are not exact; the server counts whole nano-dollars.
  const nanos = Math.round(usd * 1e9);
  if (nanos > 0 && nanos < 50_000) return "<$0.0001";
  const small = nanos < 10 * NANOS_PER_CENT && nanos % NANOS_PER_CENT !== 0;
  return `$${usd.toFixed(small ? 4 : 2)}`;
}
