// A session's journal as this page has it: numbered 1, 2, 3 … without gap or repetition, however it arrives. Of a long one the
// newest are shown first, while the rest is read.
import type { SchemaEvent } from "../api/schema";
import type { Entry, Of } from "./entries";
import { Fold } from "./fold";

export type JournalEvent = SchemaEvent;

/** Old entries that were read again and are kept. */
const MOST_RECALLED = 400;

export class Journal {
  readonly fold = new Fold();
  /** The end of a long journal, for as long as its beginning is not there. */
  private glimpse: Fold | null = null;
  private glimpsed = 0;
  private last = 0;
  private listeners = new Set<() => void>();
  private changes = 0;
  private recalled = new Map<number, Entry>();

  /** The number behind which to go on. */
  get after(): number {
    return this.last;
  }

  /** What there is to see. */
  get shown(): Fold {
    return this.glimpse ?? this.fold;
  }

  get partial(): boolean {
    return this.glimpse !== null;
  }

  /** The end of a journal that is to be read from its beginning as well. */
  show(end: readonly JournalEvent[]): void {
    const last = end.at(-1)?.seq ?? 0;
    if (last <= this.last) return;
    this.glimpse = new Fold();
    this.glimpsed = last;
    for (const event of end) this.glimpse.take(event);
    this.tell();
  }

  /**
   * Takes what arrived. What is known already is left out; at a gap it stops and says so: then whoever reads goes on behind
   * `after`, and nothing is lost.
   */
  take(events: readonly JournalEvent[]): "whole" | "gap" {
    const before = this.last;
    let outcome: "whole" | "gap" = "whole";
    for (const event of events) {
      if (event.seq <= this.last) continue;
      if (event.seq !== this.last + 1) {
        outcome = "gap";
        break;
      }
      this.last = event.seq;
      this.fold.take(event);
    }
    this.fold.trim();
    if (this.last >= this.glimpsed) this.glimpse = null;
    if (this.last !== before) this.tell();
    return outcome;
  }

  /** The entry that was let go, if it is here again. */
  recall(place: Of<"away">): Entry | undefined {
    return this.recalled.get(place.seq);
  }

  /** What an entry that was let go is made of, read again. */
  remember(place: Of<"away">, events: readonly JournalEvent[]): void {
    const fold = new Fold();
    events.forEach((event) => fold.take(event));
    const entry = fold.entries[0];
    if (!entry) return;
    const oldest = this.recalled.size >= MOST_RECALLED ? this.recalled.keys().next().value : undefined;
    if (oldest !== undefined) this.recalled.delete(oldest);
    this.recalled.set(place.seq, { ...entry, seq: place.seq, at: place.at });
    this.tell();
  }

  /** For `useSyncExternalStore`. */
  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  version = (): number => this.changes;

  private tell() {
    this.changes += 1;
    for (const listener of this.listeners) listener();
  }
}
