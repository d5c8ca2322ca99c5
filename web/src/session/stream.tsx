// The stream of a session. Only what can be seen is drawn, however long it is; whoever is at its end stays there.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { SchemaSessionDetail } from "../api/schema";
import type { Entry } from "../stream/entries";
import { readPage } from "../stream/follow";
import type { Journal } from "../stream/journal";
import { isWriting } from "../keyboard";
import { Button, Empty } from "../ui/parts";
import { took, useNow } from "../ui/time";
import { EntryView } from "./entry";
import { useEvery, useNowAndThen } from "./journal";

/** So close to the end counts as being there. */
const CLOSE = 80;
const ROOM = 12;

/** What rows are taken to be high before they are drawn. */
function guess(entry: Entry | undefined): number {
  switch (entry?.kind) {
    case "note":
    case "checkpoint":
    case "files":
    case "raw":
      return 28;
    case "call":
    case "tests":
    case "hook":
      return 42;
    default:
      return 58;
  }
}

export function Stream({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  useEvery(journal);
  const { status } = session.task;
  const working = status === "provisioning" || status === "running";
  const { entries } = journal.shown;
  const box = useRef<HTMLDivElement>(null);
  const [stays, setStays] = useState(true);
  const staying = useRef(true);
  // The same functions every time: new ones would have every row measured again.
  const keyOf = useCallback((index: number) => journal.shown.entries[index]?.seq ?? -index, [journal]);
  const sizeOf = useCallback((index: number) => guess(journal.shown.entries[index]), [journal]);
  const rows = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: sizeOf,
    getItemKey: keyOf,
    overscan: 6,
    paddingStart: ROOM,
    paddingEnd: ROOM,
  });

  const toEnd = useCallback(() => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, []);
  const height = rows.getTotalSize();
  // The beginning of a long journal arrives at once, above what is shown: whoever reads stays where they are.
  const before = useRef({ partial: journal.partial, height });
  useLayoutEffect(() => {
    const element = box.current;
    if (element && before.current.partial && !journal.partial && !staying.current) element.scrollTop += height - before.current.height;
    before.current = { partial: journal.partial, height };
  });
  // Also when what is there grows: a row is measured after it was drawn.
  useLayoutEffect(() => { if (staying.current) toEnd(); }, [height, entries.length, working, toEnd]);

  const stay = useCallback((value: boolean) => {
    staying.current = value;
    setStays(value);
    if (value) toEnd();
  }, [toEnd]);
  const seen = useRef(0);
  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    const left = element.scrollHeight - element.scrollTop - element.clientHeight;
    // Only a person scrolls up; when the content grows, the place stays and the end moves away.
    if (left < CLOSE) { if (!staying.current) { staying.current = true; setStays(true); } }
    else if (element.scrollTop < seen.current - 2) { staying.current = false; setStays(false); }
    seen.current = element.scrollTop;
  };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key === "End" && !isWriting(event.target)) stay(true);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [stay]);

  if (entries.length === 0 && !working) {
    return status === "pending"
      ? <Empty title="Waiting for a worker" icon="queue">The task is in the queue. What the agent does appears here as it happens.</Empty>
      : <Empty title="Nothing has happened yet" icon="tasks" />;
  }
  return (
    <div className="relative min-h-0 flex-1">
      <div ref={box} onScroll={scrolled} className="h-full overflow-y-auto overflow-x-hidden [overflow-anchor:none]" tabIndex={0} role="region" aria-label="Activity">
        <div role="feed" aria-busy={working} aria-label="What happened" className="relative mx-auto max-w-4xl" style={{ height }}>
          {journal.partial && <p role="status" className="absolute inset-x-0 top-0 px-4 text-center text-xs text-dim">Reading what was before, {journal.after.toLocaleString()} of {session.last_seq.toLocaleString()} events</p>}
          {rows.getVirtualItems().map((item) => (
            <div key={item.key} ref={rows.measureElement} data-index={item.index} className="absolute inset-x-0 top-0 px-4" style={{ transform: `translateY(${item.start}px)` }}>
              <Row entry={entries[item.index]!} session={session} journal={journal} position={item.index + 1} size={entries.length} />
            </div>
          ))}
        </div>
        {working && <Working journal={journal} status={status} />}
      </div>
      {!stays && <Button icon="down" className="absolute bottom-4 left-1/2 -translate-x-1/2 shadow-lg" onClick={() => stay(true)}>To the newest</Button>}
    </div>
  );
}

/** An entry, or the place of one that was let go: then it is asked for again. */
function Row({ entry, session, journal, position, size }: { entry: Entry; session: SchemaSessionDetail; journal: Journal; position: number; size: number }) {
  const here = entry.kind === "away" ? (journal.recall(entry) ?? entry) : entry;
  useEffect(() => {
    if (here.kind !== "away") return;
    let over = false;
    Promise.all(here.needs.map((seq) => readPage(session.id, seq - 1, 1)))
      .then((pages) => { if (!over) journal.remember(here, pages.flat()); })
      .catch(() => {});
    return () => { over = true; };
  }, [here, session.id, journal]);
  return <EntryView entry={here} turns={session.turns} position={position} size={size} />;
}

function Working({ journal, status }: { journal: Journal; status: string }) {
  useNowAndThen(journal);
  const now = useNow(1_000);
  const since = journal.fold.lastAt;
  const quiet = since ? now - since : 0;
  return (
    <p role="status" className="mx-auto flex max-w-4xl items-center gap-2 px-4 pb-6 text-dim">
      <span className="pulse size-2 rounded-full bg-warn" aria-hidden />
      {status === "provisioning" ? "The sandbox is being made" : "Working"}
      {quiet > 5_000 && <span aria-hidden>· nothing new for {took(Math.floor(quiet / 1000) * 1000)}</span>}
    </p>
  );
}
