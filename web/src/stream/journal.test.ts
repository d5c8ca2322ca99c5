import { describe, expect, it, vi } from "vitest";
import { follow, type Link } from "./follow";
import type { Of } from "./entries";
import { Fold } from "./fold";
import { Journal, type JournalEvent } from "./journal";

const AT = "2026-11-15T10:00:00Z";

function event(seq: number, type: string, data: unknown): JournalEvent {
  return { seq, at: AT, session_id: "s", type, data } as JournalEvent;
}

const says = (seq: number) => event(seq, "message", { role: "assistant", text: `line ${seq}` });
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => says(from + index));
const numbers = (journal: Journal) => journal.fold.entries.map((entry) => entry.seq);

describe("a journal", () => {
  it("joins replay and live without gap or repetition, however they overlap", () => {
    const journal = new Journal();
    expect(journal.take(range(1, 40))).toBe("whole");
    expect(journal.take(range(30, 60))).toBe("whole");
    expect(journal.take(range(1, 5))).toBe("whole");
    expect(numbers(journal)).toEqual(Array.from({ length: 60 }, (_, index) => index + 1));
  });

  it("stops at a gap and goes on behind what it has", () => {
    const journal = new Journal();
    expect(journal.take([...range(1, 3), ...range(5, 9)])).toBe("gap");
    expect(journal.after).toBe(3);
    expect(journal.take(range(4, 9))).toBe("whole");
    expect(numbers(journal)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it("looks at each event once, however it arrives", () => {
    const journal = new Journal();
    const take = vi.spyOn(Fold.prototype, "take");
    for (let from = 1; from <= 3_000; from += 7) journal.take(range(Math.max(1, from - 3), from + 6));
    expect(take).toHaveBeenCalledTimes(journal.after);
    take.mockRestore();
  });

  it("copies nothing when a run of one kind grows", () => {
    const journal = new Journal();
    const changed = (seq: number) => event(seq, "file.changed", { path: `src/${seq}.rs`, change: "added" });
    const raw = (seq: number) => event(seq, "raw", { stream: "stdout", line: "?" });
    journal.take([changed(1)]);
    const first = journal.fold.entries[0] as Of<"files">;
    for (let seq = 2; seq <= 1_000; seq += 1) journal.take([changed(seq)]);
    const last = journal.fold.entries[0] as Of<"files">;
    expect(journal.fold.entries).toHaveLength(1);
    expect(last).not.toBe(first);
    expect(last.files).toBe(first.files);
    expect(last.files.size).toBe(1_000);
    for (let seq = 1_001; seq <= 2_000; seq += 1) journal.take([raw(seq)]);
    expect(journal.fold.entries[1]).toMatchObject({ kind: "raw", lines: { length: 200 }, more: 800 });
  });

  it("shows the end of a long one until all of it is there", () => {
    const journal = new Journal();
    journal.show(range(901, 1000));
    expect([journal.partial, journal.after, journal.shown.entries.length]).toEqual([true, 0, 100]);
    journal.take(range(1, 600));
    expect(journal.partial).toBe(true);
    journal.take(range(601, 1100));
    expect([journal.partial, journal.shown.entries.length]).toEqual([false, 1100]);
  });

  it("lets go of what is old and large, and takes it back when it is read again", () => {
    const fold = new Fold(1_000_000);
    const text = "x".repeat(1_000);
    const says = (seq: number) => event(seq, "message", { role: "assistant", text: `${seq} ${text}` });
    for (let seq = 1; seq <= 5_000; seq += 1) fold.take(says(seq));
    fold.trim();
    expect(fold.entries).toHaveLength(5_000);
    expect(fold.entries[2_999]).toMatchObject({ seq: 3_000, kind: "away", was: "message", needs: [3_000] });
    expect(fold.entries[3_000]).toMatchObject({ seq: 3_001, kind: "message" });
    const journal = new Journal();
    const place = fold.entries[10] as Of<"away">;
    journal.remember(place, [says(11)]);
    expect(journal.recall(place)).toMatchObject({ seq: 11, kind: "message", text: `11 ${text}` });
  });

  it("tells listeners once for a bundle, and not at all for what is known", () => {
    const journal = new Journal();
    const told = vi.fn();
    journal.subscribe(told);
    journal.take(range(1, 1000));
    journal.take(range(1, 1000));
    expect(told).toHaveBeenCalledTimes(1);
  });
});

describe("what a person reads", () => {
  it("grows a message from its pieces and keeps its place", () => {
    const { fold } = taken([
      event(1, "message.delta", { text: "Hel" }),
      event(2, "message.delta", { text: "lo" }),
      event(3, "message", { role: "assistant", text: "Hello." }),
      event(4, "message.delta", { text: "Next" }),
    ]);
    expect(fold.entries).toMatchObject([
      { seq: 1, kind: "message", text: "Hello.", growing: false },
      { seq: 4, kind: "message", text: "Next", growing: true },
    ]);
  });

  it("keeps a message one when something else happens while it is written", () => {
    const { fold } = taken([
      event(1, "message.delta", { text: "Hel" }),
      event(2, "checkpoint.created", { number: 1, commit: "c".repeat(40) }),
      event(3, "message.delta", { text: "lo" }),
      event(4, "message", { role: "assistant", text: "Hello." }),
    ]);
    expect(fold.entries).toMatchObject([
      { seq: 1, kind: "message", text: "Hello.", growing: false },
      { seq: 2, kind: "plumbing" },
    ]);
  });

  it("puts a result to its call, also when calls overlap", () => {
    const { fold } = taken([
      event(1, "tool.call", { id: "a", name: "shell", input: { command: "ls" } }),
      event(2, "tool.call", { id: "b", name: "read", input: {} }),
      event(3, "tool.result", { id: "a", output: "one", is_error: false }),
      event(4, "tool.result", { id: "b", output: "no such file", is_error: true }),
    ]);
    expect(fold.entries).toMatchObject([
      { seq: 1, call: { output: "one", failed: false } },
      { seq: 2, call: { output: "no such file", failed: true } },
    ]);
  });

  it("adds up what was spent", () => {
    const usage = { provider: "p", model: "m", input_tokens: 10, output_tokens: 1, cost_usd: 0.25, estimated: false };
    const { fold } = taken([event(1, "usage", usage), event(2, "usage", usage)]);
    expect(fold.bill.calls.map((one) => one.total)).toEqual([0.25, 0.5]);
    expect(fold.bill).toMatchObject({ input: 20, output: 2, total: 0.5 });
  });

  it("shows what it does not know instead of leaving it out", () => {
    const { fold } = taken([event(1, "future.event", { answer: 42 })]);
    expect(fold.entries).toMatchObject([{ kind: "note", text: "future.event", mono: '{"answer":42}' }]);
  });
});

describe("following", () => {
  it("comes back behind the last event after a loss, and keeps what arrived before it", () => {
    vi.useFakeTimers();
    vi.stubGlobal("location", { href: "http://127.0.0.1:7070/sessions/s" });
    const sockets: Fake[] = [];
    const links: Link[] = [];
    const journal = new Journal();
    const open = (url: string) => {
      const socket = new Fake(url);
      sockets.push(socket);
      return socket as unknown as WebSocket;
    };
    const followed = follow("s", journal, 0, (link) => links.push(link), { open, page: nothing, soon: (work) => void setTimeout(work, 16) });
    const first = sockets[0]!;
    first.onopen();
    range(1, 3).forEach((one) => first.onmessage({ data: JSON.stringify(one) }));
    first.onclose();
    expect(journal.after).toBe(3);
    vi.advanceTimersByTime(1_000);
    const second = sockets[1]!;
    expect(new URL(second.url).searchParams.get("after")).toBe("3");
    second.onopen();
    // Something was lost on the way: it asks again rather than show a gap.
    second.onmessage({ data: JSON.stringify(says(5)) });
    vi.advanceTimersByTime(2_000);
    expect(new URL(sockets[2]!.url).searchParams.get("after")).toBe("3");
    range(4, 6).forEach((one) => sockets[2]!.onmessage({ data: JSON.stringify(one) }));
    vi.advanceTimersByTime(20);
    expect(numbers(journal)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(links.slice(0, 3)).toEqual(["connecting", "live", "away"]);
    followed.stop();
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(3);
    vi.useRealTimers();
  });

  it("ends when it is stopped with events that nobody has drawn yet", () => {
    vi.stubGlobal("location", { href: "http://127.0.0.1:7070/sessions/s" });
    const journal = new Journal();
    const sockets: Fake[] = [];
    const open = (url: string) => {
      sockets.push(new Fake(url));
      return sockets[0] as unknown as WebSocket;
    };
    const frames: (() => void)[] = [];
    const followed = follow("s", journal, 0, () => {}, { open, page: nothing, soon: (work) => void frames.push(work) });
    sockets[0]!.onopen();
    range(1, 3).forEach((one) => sockets[0]!.onmessage({ data: JSON.stringify(one) }));
    followed.stop();
    sockets[0]!.onclose();
    frames.forEach((work) => work());
    expect([journal.after, sockets.length]).toEqual([0, 1]);
  });
});

const nothing = () => Promise.resolve([]);

describe("opening a long session", () => {
  it("reads the end first, then everything in pages, and follows from there", async () => {
    vi.stubGlobal("location", { href: "http://127.0.0.1:7070/sessions/s" });
    const journal = new Journal();
    const asked: [number, number][] = [];
    const page = (_: string, after: number, limit: number) => {
      asked.push([after, limit]);
      return Promise.resolve(range(after + 1, Math.min(2_500, after + limit)));
    };
    const followed = await new Promise<string>((resolve) => {
      const open = (url: string) => {
        resolve(url);
        return new Fake(url) as unknown as WebSocket;
      };
      follow("s", journal, 2_500, () => {}, { open, page, soon: (work) => work() });
    });
    expect(asked).toEqual([
      [2_200, 300],
      [0, 1_000],
      [1_000, 1_000],
      [2_000, 1_000],
    ]);
    expect(new URL(followed).searchParams.get("after")).toBe("2500");
    expect(numbers(journal)).toHaveLength(2_500);
  });
});

class Fake {
  onopen = () => {};
  onmessage: (event: { data: string }) => void = () => {};
  onclose = () => {};
  constructor(readonly url: string) {}
  close() {}
}

function taken(events: JournalEvent[]): Journal {
  const journal = new Journal();
  expect(journal.take(events)).toBe("whole");
  return journal;
}
