// What a session changed: all of it, what a turn did, or one commit; file by file, with what people say about its lines.
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { parseDiff, type FileData } from "react-diff-view";
import { api, ok } from "../api/client";
import { queries } from "../api/queries";
import type { SchemaSessionDetail } from "../api/schema";
import { isOver } from "../api/words";
import type { Fold } from "../stream/fold";
import type { Journal } from "../stream/journal";
import { counted } from "../text/counted";
import { firstLine, harmless, LONGEST_LINE } from "../text/harmless";
import { Badge, Button, Code, Empty, Trouble, Waiting } from "../ui/parts";
import { Added, count, DiffFile } from "./diff-file";
import { byTree } from "./file-order";
import { FileTree } from "./file-tree";
import { FixComments } from "./fix-comments";
import { useNowAndThen } from "./journal";
import { DownloadPatch } from "./summary";

const MOST_FILES = 300;

interface Range {
  id: string;
  name: string;
  from?: string;
  to?: string;
}

export default function Changes({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  useNowAndThen(journal);
  const { fold } = journal;
  const over = isOver(session.task.status);
  const navigate = useNavigate();
  const { of } = useSearch({ strict: false });
  const { all, turns, commits } = ranges(session, fold);
  const range = [all, ...turns, ...commits].find((one) => one.id === of) ?? all;
  const diff = useQuery(queries.diff(session.id, fold.workChanges, range.from, range.to));
  const [split, setSplit] = useState(false);
  const files = useMemo(() => parsed(diff.data?.diff ?? ""), [diff.data?.diff]);
  const pick = (id: string) => void navigate({ to: ".", search: { tab: "changes", of: id === all.id ? undefined : id }, replace: true });
  const option = (one: Range) => (
    <option key={one.id} value={one.id}>
      {one.name}
    </option>
  );
  const whole = async (path: string) => {
    const query = { from: range.from, to: range.to, path, context: 1_000_000 };
    const found = await ok(api.GET("/api/sessions/{id}/diff", { params: { path: { id: session.id }, query }, headers: { Accept: "application/json" } }));
    return typeof found === "string" ? found : found.diff;
  };
  const sums = files.map(count);
  const added = sums.reduce((sum, one) => sum + one.added, 0);
  const removed = sums.reduce((sum, one) => sum + one.removed, 0);
  return (
    <div className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label="Changes">
      <div className="sticky top-0 z-10 flex flex-wrap items-center gap-2 border-b border-line bg-page px-4 py-2">
        {turns.length + commits.length > 0 && (
          <select
            aria-label="Which changes"
            value={range.id}
            onChange={(event) => pick(event.target.value)}
            className="h-7 max-w-full min-w-0 rounded-md border border-line bg-page px-2 sm:max-w-80"
          >
            {option(all)}
            {turns.length > 0 && <optgroup label="By turn">{turns.map(option)}</optgroup>}
            {commits.length > 0 && <optgroup label="By commit">{commits.map(option)}</optgroup>}
          </select>
        )}
        <span className="font-medium">{counted(files.length, "file")}</span>
        <Added added={added} removed={removed} />
        {diff.data?.commit && <Code>{`${diff.data.base.slice(0, 8)}..${diff.data.commit.slice(0, 8)}`}</Code>}
        {!over && <Badge tone="warn">as of the last checkpoint</Badge>}
        <span className="ml-auto" />
        <FixComments session={session} />
        {!over && <DownloadPatch session={session} disabled={files.length === 0} />}
        <Button className="!hidden md:!inline-flex" aria-pressed={split} onClick={() => setSplit(!split)}>
          {split ? "Unified" : "Side by side"}
        </Button>
      </div>
      {diff.isPending ? (
        <Waiting what="the changes" />
      ) : diff.isError ? (
        <div className="p-4">
          <Trouble error={diff.error} again={() => void diff.refetch()} />
        </div>
      ) : files.length === 0 ? (
        <Empty title={over ? "No changes" : "No changes yet"} icon="file">
          {over ? null : "Changes appear here with the first checkpoint, seconds after the agent edits a file."}
        </Empty>
      ) : (
        <div className="flex gap-4 p-4">
          {files.length > 1 && <FileTree files={files.slice(0, MOST_FILES)} />}
          <div className="flex min-w-0 flex-1 flex-col gap-4">
            {files.length > 1 && <Contents files={files} />}
            {files.slice(0, MOST_FILES).map((file, index) => (
              <DiffFile key={`${range.id} ${file.oldPath} ${file.newPath}`} file={file} sum={sums[index] ?? count(file)} split={split} whole={whole} />
            ))}
            {files.length > MOST_FILES && (
              <p className="text-dim">{counted(files.length - MOST_FILES, "more file")} not shown; download the patch to see all changes</p>
            )}
          </div>
        </div>
      )}
    </div>
  );
}

function Contents({ files }: { files: FileData[] }) {
  return (
    <nav aria-label="Changed files" className="card max-h-56 overflow-auto p-2 lg:hidden" tabIndex={0}>
      <ul className="grid gap-x-4 sm:grid-cols-2">
        {files.slice(0, MOST_FILES).map((file) => {
          const path = pathOf(file);
          return (
            <li key={`${file.oldPath} ${file.newPath}`}>
              <a
                href={`#${anchor(path)}`}
                onClick={(event) => {
                  event.preventDefault();
                  document.getElementById(anchor(path))?.scrollIntoView();
                }}
                className="flex items-center gap-2 rounded px-1 py-0.5 hover:bg-hover"
              >
                <span className="min-w-0 flex-1 truncate font-mono text-xs" dir="ltr">
                  {firstLine(path, 300)}
                </span>
                <Added {...count(file)} />
              </a>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

export function pathOf(file: FileData): string {
  return file.type === "delete" ? file.oldPath : file.newPath;
}

export function anchor(path: string): string {
  return `file-${encodeURIComponent(path)}`;
}

function ranges(session: SchemaSessionDetail, fold: Fold): { all: Range; turns: Range[]; commits: Range[] } {
  const all = { id: "whole", name: "All changes" };
  const prompt = (number: number) => firstLine(session.turns.find((turn) => turn.number === number)?.prompt ?? "", 50);
  const known = fold.turns.length > 1 ? fold.turns : [];
  const turns = known.map((turn): Range => ({
    id: `turn-${turn.number}`,
    name: `Turn ${turn.number}, ${turn.author}: ${prompt(turn.number)}`,
    from: turn.from ?? undefined,
    to: turn.to ?? undefined,
  }));
  const last = turns.at(-1);
  if (last) turns.unshift({ ...last, id: "last-turn", name: "Last turn" });
  const commits =
    fold.commits.length > 1
      ? fold.commits.map((one): Range => ({
          id: one.commit.slice(0, 12),
          name: `${one.commit.slice(0, 8)} ${firstLine(one.subject, 60)}`,
          from: one.parent ?? undefined,
          to: one.commit,
        }))
      : [];
  return { all, turns, commits: commits.toReversed() };
}

/** Lines are made harmless after parsing: what is shown differs, what is compared does not. */
function parsed(text: string): FileData[] {
  if (!text.trim()) return [];
  const files = parseDiff(text, { nearbySequences: "zip" });
  for (const change of files.flatMap((file) => file.hunks).flatMap((hunk) => hunk.changes)) {
    const line = harmless(change.content);
    change.content = line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}… (${counted(line.length - LONGEST_LINE, "more character")})` : line;
  }
  return files.sort((one, other) => byTree(pathOf(one), pathOf(other)));
}
