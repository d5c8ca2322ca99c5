// What a session changed, file by file.
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Diff, Hunk, parseDiff, type FileData } from "react-diff-view";
import "react-diff-view/style/index.css";
import "./changes.css";
import { queries } from "../api/queries";
import { firstLine, harmless, LONGEST_LINE } from "../text/harmless";
import { Badge, Button, Code, Empty, Trouble, Waiting } from "../ui/parts";

/** Files with more changed lines are shown when asked for. */
const LARGE = 800;
const MOST_FILES = 300;

export default function Changes({ session, version, over }: { session: string; version: number; over: boolean }) {
  const diff = useQuery(queries.diff(session, version));
  const [split, setSplit] = useState(false);
  const files = useMemo(() => parsed(diff.data?.diff ?? ""), [diff.data?.diff]);
  if (diff.isPending) return <Waiting what="the changes" />;
  if (diff.isError) return <div className="p-4"><Trouble error={diff.error} again={() => void diff.refetch()} /></div>;
  if (files.length === 0) {
    return <Empty title={over ? "Nothing was changed" : "Nothing has been changed yet"} icon="file">{over ? null : "Work appears here with the first checkpoint, seconds after the agent writes."}</Empty>;
  }
  const sums = files.map(count);
  const added = sums.reduce((sum, one) => sum + one.added, 0);
  const removed = sums.reduce((sum, one) => sum + one.removed, 0);
  return (
    <div className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label="Changes">
      <div className="sticky top-0 z-10 flex flex-wrap items-center gap-2 border-b border-line bg-page px-4 py-2">
        <span className="font-medium">{files.length} {files.length === 1 ? "file" : "files"}</span>
        <Added added={added} removed={removed} />
        {diff.data.commit && <Code>{`${diff.data.base.slice(0, 8)}..${diff.data.commit.slice(0, 8)}`}</Code>}
        {!over && <Badge tone="warn">as of the last checkpoint</Badge>}
        <Button className="ml-auto hidden md:inline-flex" aria-pressed={split} onClick={() => setSplit(!split)}>{split ? "One column" : "Side by side"}</Button>
      </div>
      <div className="flex flex-col gap-4 p-4">
        {files.slice(0, MOST_FILES).map((file, index) => <File key={`${file.oldPath} ${file.newPath}`} file={file} sum={sums[index]!} split={split} />)}
        {files.length > MOST_FILES && <p className="text-dim">and {files.length - MOST_FILES} more files: look at the branch</p>}
      </div>
    </div>
  );
}

function File({ file, sum, split }: { file: FileData; sum: Sum; split: boolean }) {
  const large = sum.added + sum.removed > LARGE;
  const [open, setOpen] = useState(!large);
  const path = file.type === "delete" ? file.oldPath : file.newPath;
  const renamed = file.type === "rename" ? `${file.oldPath} → ` : "";
  return (
    <section aria-label={path} className="card overflow-hidden">
      <h2 className="flex flex-wrap items-center gap-2 bg-side px-3 py-1.5">
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="min-w-0 text-left font-mono text-xs font-medium break-all">{firstLine(renamed + path, 400)}</button>
        {file.type !== "modify" && <Badge tone={file.type === "add" ? "good" : file.type === "delete" ? "bad" : "plain"}>{{ add: "Added", delete: "Deleted", rename: "Renamed", copy: "Copied" }[file.type]}</Badge>}
        <span className="ml-auto"><Added {...sum} /></span>
      </h2>
      {open && (file.isBinary ? <p className="px-3 py-2 text-dim">Not a text</p> : file.hunks.length === 0 ? <p className="px-3 py-2 text-dim">No lines differ</p> : (
        <div className="overflow-x-auto border-t border-line" tabIndex={0} role="region" aria-label={`Changes of ${path}`}>
          <Diff viewType={split ? "split" : "unified"} diffType={file.type} hunks={file.hunks}>
            {(hunks) => hunks.map((hunk) => <Hunk key={hunk.content} hunk={hunk} />)}
          </Diff>
        </div>
      ))}
      {!open && large && <p className="px-3 py-2 text-dim">A large change. <Button look="quiet" onClick={() => setOpen(true)}>Show it</Button></p>}
    </section>
  );
}

interface Sum {
  added: number;
  removed: number;
}

function Added({ added, removed }: Sum) {
  return <span className="font-mono text-xs tabular-nums"><span className="text-good">+{added}</span> <span className="text-bad">−{removed}</span></span>;
}

function count(file: FileData): Sum {
  const changes = file.hunks.flatMap((hunk) => hunk.changes);
  return { added: changes.filter((one) => one.type === "insert").length, removed: changes.filter((one) => one.type === "delete").length };
}

/** Lines are made harmless after parsing: what is shown differs, what is compared does not. */
function parsed(text: string): FileData[] {
  if (!text.trim()) return [];
  const files = parseDiff(text, { nearbySequences: "zip" });
  for (const change of files.flatMap((file) => file.hunks).flatMap((hunk) => hunk.changes)) {
    const line = harmless(change.content);
    change.content = line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}… (${(line.length - LONGEST_LINE).toLocaleString()} more characters)` : line;
  }
  return files;
}
