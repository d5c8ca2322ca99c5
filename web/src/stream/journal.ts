// A session's journal as this page has it: numbered 1, 2, 3 … without gap or repetition, however it arrives.
import type { SchemaEvent } from "../api/schema";
import { Fold } from "./fold";

export type JournalEvent = SchemaEvent;

export class Journal {
  readonly fold = new Fold();
  private last = 0;
  private listeners = new Set<() => void>();
  private changes = 0;

  /** The number behind which to go on. */
  get after(): number {
    return this.last;
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
    if (this.last !== before) this.tell();
    return outcome;
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
