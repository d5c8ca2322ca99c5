// The stream of a session. Only what can be seen is drawn, however long it is; whoever is at its end stays there.
import { memo, useEffect } from "react";
import type { SchemaSessionDetail, SchemaTurn } from "../api/schema";
import type { Entry } from "../stream/entries";
import { readPage } from "../stream/follow";
import type { Journal } from "../stream/journal";
import { isWriting } from "../keyboard";
import { Button, Empty } from "../ui/parts";
import { took, useNow } from "../ui/time";
import { EntryView } from "./entry";
import { useEvery, useNowAndThen } from "./journal";
import { useRows } from "./rows";

/** What rows are taken to be high before they are drawn. */
function guess(entry: Entry): number {
  switch (entry.kind) {
    case "note":
    case "plumbing":
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
  const rows = useRows(entries, guess);
  const { stay } = rows;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key === "End" && !isWriting(event.target)) stay();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [stay]);

  if (entries.length === 0 && !working) {
    return status === "pending" ? (
      <Empty title="Not started yet" icon="queue">
        Once the agent starts, its work appears here as it happens.
      </Empty>
    ) : (
      <Empty title="No activity yet" icon="tasks" />
    );
  }
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={rows.box}
        onScroll={rows.scrolled}
        className="h-full overflow-y-auto overflow-x-hidden [overflow-anchor:none]"
        tabIndex={0}
        role="region"
        aria-label="Activity"
      >
        <div ref={rows.inner} role="feed" aria-busy={working} aria-label="Events" className="relative mx-auto max-w-4xl">
          {journal.partial && (
            <p role="status" className="absolute inset-x-0 top-0 px-4 text-center text-xs text-dim">
              Loading earlier activity: {journal.after.toLocaleString()} of {session.last_seq.toLocaleString()} events
            </p>
          )}
          <div ref={rows.band} className="absolute inset-x-0 top-0">
            {entries.slice(rows.from, rows.to).map((entry, place) => (
              <div key={entry.seq} ref={rows.row} data-index={rows.from + place} className="flow-root px-4 [contain:layout_style]">
                <Row entry={entry} session={session.id} turns={session.turns} journal={journal} position={rows.from + place + 1} size={entries.length} />
              </div>
            ))}
          </div>
        </div>
        {working && <Working journal={journal} status={status} />}
      </div>
      {!rows.stays && (
        <Button icon="down" className="absolute bottom-4 left-1/2 -translate-x-1/2 shadow-lg" onClick={stay}>
          Jump to latest
        </Button>
      )}
    </div>
  );
}

/** An entry, or the place of one that was let go: then it is asked for again. */
const Row = memo(
  function Row({
    entry,
    session,
    turns,
    journal,
    position,
    size,
  }: {
    entry: Entry;
    session: string;
    turns: SchemaTurn[];
    journal: Journal;
    position: number;
    size: number;
  }) {
    const here = entry.kind === "away" ? (journal.recall(entry) ?? entry) : entry;
    useEffect(() => {
      if (here.kind !== "away") return;
      let over = false;
      Promise.all(here.needs.map((seq) => readPage(session, seq - 1, 1)))
        .then((pages) => {
          if (!over) journal.remember(here, pages.flat());
        })
        .catch(() => {});
      return () => {
        over = true;
      };
    }, [here, session, journal]);
    return <EntryView entry={here} turns={turns} position={position} size={size} />;
  },
  (before, after) => before.entry === after.entry && before.turns === after.turns && before.position === after.position && after.entry.kind !== "away",
);

function Working({ journal, status }: { journal: Journal; status: string }) {
  useNowAndThen(journal);
  const now = useNow(1_000);
  const since = journal.fold.lastAt;
  const quiet = since ? now - since : 0;
  return (
    <p role="status" className="mx-auto flex max-w-4xl items-center gap-2 px-4 pb-6 text-dim">
      <span className="pulse size-2 rounded-full bg-warn" aria-hidden />
      {status === "provisioning" ? "Creating the sandbox" : "Working"}
      {quiet > 5_000 && <span aria-hidden>· no activity for {took(Math.floor(quiet / 1000) * 1000)}</span>}
    </p>
  );
}
