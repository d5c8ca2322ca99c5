// One changed file.
import { useMutation } from "@tanstack/react-query";
import { Fragment, useMemo, useState, type KeyboardEvent } from "react";
import {
  Decoration,
  Diff,
  expandFromRawCode,
  getChangeKey,
  Hunk,
  parseDiff,
  type ChangeData,
  type FileData,
  type GutterOptions,
  type HunkData,
  type HunkTokens,
} from "react-diff-view";
import "react-diff-view/style/index.css";
import "./changes.css";
import { counted } from "../text/counted";
import { firstLine, harmless } from "../text/harmless";
import { familyOf, Scanner } from "../text/syntax";
import { Badge, Button, Trouble } from "../ui/parts";
import { anchor, pathOf } from "./changes";
import { keyOf, Thread, useSaid } from "./comments";

/** Files with more changed lines are shown when asked for. */
const LARGE = 800;

export interface Sum {
  added: number;
  removed: number;
}

/** Reads the diff of one file with all of its lines around the changes. */
export type ReadWhole = (path: string) => Promise<string>;

export function DiffFile({ file, sum, split, whole }: { file: FileData; sum: Sum; split: boolean; whole: ReadWhole }) {
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
          <p className="px-3 py-2 text-dim">No changed lines</p>
        ) : (
          <div className="overflow-x-auto border-t border-line" tabIndex={0} role="region" aria-label={`Changes in ${path}`}>
            <Lines file={file} path={path} split={split} whole={whole} />
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

/** So many lines more with each click. */
const STEP = 20;

/** The old file as lines, from a diff that shows all of it. */
function oldLines(diff: string): string[] {
  const changes = parseDiff(diff)[0]?.hunks.flatMap((hunk) => hunk.changes) ?? [];
  return changes.filter((change) => change.type !== "insert").map((change) => harmless(change.content));
}

/** The colours of each line, by its number in the old and in the new file. */
function colours(hunks: HunkData[], path: string): HunkTokens | null {
  const family = familyOf(path);
  if (!family) return null;
  const tokens: HunkTokens = { old: [], new: [] };
  for (const hunk of hunks) {
    const scanners = { old: new Scanner(family), new: new Scanner(family) };
    const put = (side: "old" | "new", line: number, text: string) => {
      tokens[side][line - 1] = scanners[side]
        .line(text)
        .map(({ text, kind }) =>
          kind ? { type: "element", className: `code-${kind}`, children: [{ type: "text", value: text }] } : { type: "text", value: text },
        );
    };
    for (const change of hunk.changes) {
      if (change.type === "normal") {
        put("old", change.oldLineNumber, change.content);
        put("new", change.newLineNumber, change.content);
      } else put(change.type === "delete" ? "old" : "new", change.lineNumber, change.content);
    }
  }
  return tokens;
}

interface Gap {
  /** Line numbers of the old file, the second not included; absent where the end is not known. */
  from: number;
  to: number | null;
}

/** Git shows three lines after a change; where there are fewer, the file ends. */
function endsWithFile(hunks: HunkData[]): boolean {
  const changes = hunks.at(-1)?.changes ?? [];
  return changes.length - 1 - changes.findLastIndex((change) => change.type !== "normal") < 3;
}

function gapsOf(hunks: HunkData[], length: number | null): (Gap | null)[] {
  const gaps: (Gap | null)[] = [];
  let from = 1;
  for (const hunk of hunks) {
    gaps.push(hunk.oldStart > from ? { from, to: hunk.oldStart } : null);
    from = hunk.oldStart + hunk.oldLines;
  }
  gaps.push(length === null ? (endsWithFile(hunks) ? null : { from, to: null }) : from <= length ? { from, to: length + 1 } : null);
  return gaps;
}

function More({ gap, last, busy, show }: { gap: Gap; last: boolean; busy: boolean; show: (from: number, to: number) => void }) {
  const count = gap.to === null ? null : gap.to - gap.from;
  const all = count !== null && count <= STEP;
  const down = last ? [gap.from, Math.min(gap.from + STEP, gap.to ?? Infinity)] : [Math.max(gap.from, (gap.to ?? 1) - STEP), gap.to ?? 1];
  return (
    <div className="flex items-center gap-2 bg-side px-3 font-sans text-xs text-dim">
      <button type="button" disabled={busy} className="py-0.5 hover:text-accent hover:underline" onClick={() => show(down[0] ?? 1, down[1] ?? 1)}>
        {all ? `Show ${counted(count, "unchanged line")}` : `Show ${STEP} more lines`}
      </button>
      {!all && count !== null && (
        <button type="button" disabled={busy} className="py-0.5 hover:text-accent hover:underline" onClick={() => show(gap.from, gap.to ?? gap.from)}>
          All {count.toLocaleString()}
        </button>
      )}
    </div>
  );
}

function Lines({ file, path, split, whole }: { file: FileData; path: string; split: boolean; whole: ReadWhole }) {
  const { by, open, setOpen } = useSaid();
  const expands = file.type === "modify";
  const [shown, setShown] = useState<[number, number][]>([]);
  const source = useMutation({ mutationFn: async () => oldLines(await whole(path)) });
  const lines = source.data;
  const hunks = useMemo(
    () => (lines ? shown.reduce((hunks, [from, to]) => expandFromRawCode(hunks, lines, from, Math.min(to, lines.length + 1)), file.hunks) : file.hunks),
    [file.hunks, lines, shown],
  );
  const tokens = useMemo(() => colours(hunks, path), [hunks, path]);
  const gaps = expands ? gapsOf(hunks, lines?.length ?? null) : [];
  const show = (from: number, to: number) => {
    setShown((before) => [...before, [from, to]]);
    if (!lines) source.mutate();
  };
  const widgets = Object.fromEntries(
    hunks
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
  const first = hunks[0]?.changes[0];
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
      <Diff viewType={split ? "split" : "unified"} diffType={file.type} hunks={hunks} widgets={widgets} renderGutter={gutter} tokens={tokens}>
        {(hunks) => [
          ...hunks.map((hunk, index) => (
            <Fragment key={hunk.content}>
              {gaps[index] && (
                <Decoration>
                  <More gap={gaps[index]} last={false} busy={source.isPending} show={show} />
                </Decoration>
              )}
              <Hunk hunk={hunk} />
            </Fragment>
          )),
          <Fragment key="end">
            {gaps[hunks.length] && (
              <Decoration>
                <More gap={gaps[hunks.length] ?? { from: 1, to: 1 }} last busy={source.isPending} show={show} />
              </Decoration>
            )}
          </Fragment>,
        ]}
      </Diff>
      {source.isError && <Trouble error={source.error} />}
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
