// One changed file.
import { useState, type KeyboardEvent } from "react";
import { Diff, getChangeKey, Hunk, type ChangeData, type FileData, type GutterOptions } from "react-diff-view";
import "react-diff-view/style/index.css";
import "./changes.css";
import { firstLine } from "../text/harmless";
import { Badge, Button } from "../ui/parts";
import { anchor, pathOf } from "./changes";
import { keyOf, Thread, useSaid } from "./comments";

/** Files with more changed lines are shown when asked for. */
const LARGE = 800;

export interface Sum {
  added: number;
  removed: number;
}

export function DiffFile({ file, sum, split }: { file: FileData; sum: Sum; split: boolean }) {
  const large = sum.added + sum.removed > LARGE;
  const [open, setOpen] = useState(!large);
  const path = pathOf(file);
  const renamed = file.type === "rename" ? `${file.oldPath} → ` : "";
  return (
    <section id={anchor(path)} aria-label={path} className="card scroll-mt-14 overflow-hidden">
      <h2 className="flex flex-wrap items-center gap-2 bg-side px-3 py-1.5">
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="min-w-0 text-left font-mono text-xs font-medium break-all">
          {firstLine(renamed + path, 400)}
        </button>
        {file.type !== "modify" && (
          <Badge tone={file.type === "add" ? "good" : file.type === "delete" ? "bad" : "plain"}>
            {{ add: "Added", delete: "Deleted", rename: "Renamed", copy: "Copied" }[file.type]}
          </Badge>
        )}
        <span className="ml-auto">
          <Added {...sum} />
        </span>
      </h2>
      {open &&
        (file.isBinary ? (
          <p className="px-3 py-2 text-dim">Binary file</p>
        ) : file.hunks.length === 0 ? (
          <p className="px-3 py-2 text-dim">No differences</p>
        ) : (
          <div className="overflow-x-auto border-t border-line" tabIndex={0} role="region" aria-label={`Changes of ${path}`}>
            <Lines file={file} path={path} split={split} />
          </div>
        ))}
      {!open && large && (
        <p className="px-3 py-2 text-dim">
          A large change.{" "}
          <Button look="quiet" onClick={() => setOpen(true)}>
            Show it
          </Button>
        </p>
      )}
    </section>
  );
}

interface LinePlace {
  kind: "line";
  path: string;
  side: "old" | "new";
  line: number;
}

/** A line that is there afterwards is spoken of by its new number. */
function placeOf(change: ChangeData, path: string): LinePlace {
  if (change.type === "delete") return { kind: "line", path, side: "old", line: change.lineNumber };
  return { kind: "line", path, side: "new", line: change.type === "insert" ? change.lineNumber : change.newLineNumber };
}

function Lines({ file, path, split }: { file: FileData; path: string; split: boolean }) {
  const { by, open, setOpen } = useSaid();
  const widgets = Object.fromEntries(
    file.hunks
      .flatMap((hunk) => hunk.changes)
      .map((change) => ({ change, place: placeOf(change, path) }))
      .filter(({ place }) => by.has(keyOf(place)) || open === keyOf(place))
      .map(({ change, place }) => [
        getChangeKey(change),
        <div key={keyOf(place)} className="px-3">
          <Thread about={place} />
        </div>,
      ]),
  );
  const first = file.hunks[0]?.changes[0];
  // Tab reaches the first line of a file, the arrows all others.
  const move = (event: KeyboardEvent<HTMLDivElement>) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step || !(event.target instanceof HTMLElement) || !event.target.matches("[data-line]")) return;
    const all = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-line]")];
    all[all.indexOf(event.target) + step]?.focus();
    event.preventDefault();
  };
  const gutter = ({ change, side, renderDefault }: GutterOptions) => {
    const place = placeOf(change, path);
    const shown = renderDefault();
    // One of the two numbers is enough to reach.
    if (side !== place.side || !shown) return shown;
    return (
      <button
        type="button"
        data-line
        tabIndex={change === first ? 0 : -1}
        aria-label={`Comment on line ${place.line}${place.side === "old" ? ", which was removed" : ""}`}
        onClick={() => setOpen(keyOf(place))}
        className="w-full cursor-pointer text-right hover:text-accent hover:underline"
      >
        {shown}
      </button>
    );
  };
  return (
    <div onKeyDown={move}>
      <Diff viewType={split ? "split" : "unified"} diffType={file.type} hunks={file.hunks} widgets={widgets} renderGutter={gutter}>
        {(hunks) => hunks.map((hunk) => <Hunk key={hunk.content} hunk={hunk} />)}
      </Diff>
    </div>
  );
}

export function Added({ added, removed }: Sum) {
  return (
    <span className="shrink-0 font-mono text-xs tabular-nums">
      <span className="text-good">+{added}</span> <span className="text-bad">−{removed}</span>
    </span>
  );
}

export function count(file: FileData): Sum {
  const changes = file.hunks.flatMap((hunk) => hunk.changes);
  return { added: changes.filter((one) => one.type === "insert").length, removed: changes.filter((one) => one.type === "delete").length };
}
