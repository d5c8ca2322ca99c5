// The stream of a session. Only what can be seen is drawn, however long it is; whoever is at its end stays there.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { SchemaTurn } from "../api/schema";
import type { Fold } from "../stream/fold";
import { isWriting } from "../keyboard";
import { Button, Empty } from "../ui/parts";
import { took, useNow } from "../ui/time";
import { EntryView } from "./entry";

/** So close to the end counts as being there. */
const CLOSE = 80;

interface Props {
  fold: Fold;
  turns: SchemaTurn[];
  working: boolean;
  status: string;
}

export function Stream({ fold, turns, working, status }: Props) {
  const { entries } = fold;
  const box = useRef<HTMLDivElement>(null);
  const [stays, setStays] = useState(true);
  const staying = useRef(true);
  const rows = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => (entries[index]?.kind === "note" ? 30 : 72),
    getItemKey: (index) => entries[index]?.seq ?? index,
    overscan: 8,
    paddingStart: 12,
    paddingEnd: 12,
  });

  const toEnd = useCallback(() => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, []);
  const height = rows.getTotalSize();
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
          {rows.getVirtualItems().map((item) => (
            <div key={item.key} ref={rows.measureElement} data-index={item.index} className="absolute inset-x-0 top-0 px-4" style={{ transform: `translateY(${item.start}px)` }}>
              <EntryView entry={entries[item.index]!} turns={turns} position={item.index + 1} size={entries.length} />
            </div>
          ))}
        </div>
        {working && <Working since={fold.lastAt} status={status} />}
      </div>
      {!stays && <Button icon="down" className="absolute bottom-4 left-1/2 -translate-x-1/2 shadow-lg" onClick={() => stay(true)}>To the newest</Button>}
    </div>
  );
}

function Working({ since, status }: { since: number | null; status: string }) {
  const now = useNow(1_000);
  const quiet = since ? now - since : 0;
  return (
    <p role="status" className="mx-auto flex max-w-4xl items-center gap-2 px-4 pb-6 text-dim">
      <span className="pulse size-2 rounded-full bg-warn" aria-hidden />
      {status === "provisioning" ? "The sandbox is being made" : "Working"}
      {quiet > 5_000 && <span aria-hidden>· nothing new for {took(Math.floor(quiet / 1000) * 1000)}</span>}
    </p>
  );
}
