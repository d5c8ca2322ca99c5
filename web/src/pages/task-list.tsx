// A list of tasks, however long. All rows are equally high, so where each belongs is known without asking the page; what is drawn
// moves in blocks, and scrolling within one draws nothing.
import { useNavigate } from "@tanstack/react-router";
import { memo, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore, type MouseEvent } from "react";
import type { SchemaPageListedTask, SchemaTask } from "../api/schema";
import { shortError } from "../api/page-words";
import { shortRepository, verdict } from "../api/words";
import { isWriting } from "../keyboard";
import { money } from "../stream/sums";
import { firstLine } from "../text/harmless";
import { StatusIcon, words } from "../ui/icons";
import { Badge } from "../ui/parts";
import { ago, exact, useNow } from "../ui/time";

/** On a phone a row has a second line. */
const ROW = 40;
const TALL_ROW = 60;
const WIDE = "(min-width: 40rem)";
/** What is drawn begins and ends at a multiple of this. */
const BLOCK = 8;
/** So close to the end the next page is asked for. */
const AHEAD = 100;

/** All tasks of the pages that were read, each once: what is new moves others to the next page, where they may be already. */
export function useTasks(pages: SchemaPageListedTask[] | undefined): SchemaTask[] {
  const made = useRef<{ pages: SchemaPageListedTask[]; ids: Set<string>; all: SchemaTask[] }>({ pages: [], ids: new Set(), all: [] });
  const before = made.current;
  const wanted = pages ?? before.pages.slice(0, 0);
  if (before.pages === wanted || (before.pages.length === wanted.length && before.pages.every((page, index) => page === wanted[index]))) return before.all;
  // Pages that were there before are not gone through again.
  const longer = wanted.length > before.pages.length && before.pages.every((page, index) => page === wanted[index]);
  const ids = longer ? before.ids : new Set<string>();
  const all = longer ? before.all.slice() : [];
  for (const page of longer ? wanted.slice(before.pages.length) : wanted) {
    for (const task of page.items) {
      if (ids.has(task.id)) continue;
      ids.add(task.id);
      all.push(task);
    }
  }
  made.current = { pages: wanted, ids, all };
  return all;
}

export function TaskList({ tasks, more }: { tasks: SchemaTask[]; more: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const now = useNow();
  const [at, setAt] = useState(-1);
  const row = useRowHeight();
  const [height, setHeight] = useState(900);
  const [block, setBlock] = useState(0);
  const from = Math.min(Math.max(0, (block - 1) * BLOCK), tasks.length);
  const to = Math.min(tasks.length, (block + 2) * BLOCK + Math.ceil(height / row));
  useEffect(() => {
    if (to >= tasks.length - AHEAD) more();
  }, [to, tasks.length, more]);

  const look = () => {
    if (box.current) setBlock(Math.floor(box.current.scrollTop / (row * BLOCK)));
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setHeight(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  const open = (event: MouseEvent) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLElement>("a[data-task]") : null;
    // Another tab or window is the browser's own business.
    if (!link?.dataset.task || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void navigate({ to: "/tasks/$id", params: { id: link.dataset.task } });
  };

  const state = useRef({ at, tasks, row });
  useLayoutEffect(() => {
    state.current = { at, tasks, row };
  });
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target) || document.querySelector("dialog[open]")) return;
      const { at, tasks } = state.current;
      const step = event.key === "j" || event.key === "ArrowDown" ? 1 : event.key === "k" || event.key === "ArrowUp" ? -1 : 0;
      if (step) {
        const next = Math.max(0, Math.min(tasks.length - 1, at + step));
        setAt(next);
        reveal(box.current, next, state.current.row);
      } else if (event.key === "Enter" && at >= 0 && !(event.target instanceof HTMLAnchorElement) && !(event.target instanceof HTMLButtonElement)) {
        const task = tasks[at];
        if (task) void navigate({ to: "/tasks/$id", params: { id: task.id } });
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [navigate]);

  return (
    <div ref={box} onScroll={look} className="min-h-0 flex-1 overflow-auto [overflow-anchor:none]" tabIndex={0} role="region" aria-label="List of tasks">
      <div role="list" onClick={open} style={{ height: tasks.length * row, paddingTop: from * row }} className="[contain:strict]">
        {tasks.slice(from, to).map((task, index) => (
          <Row key={task.id} task={task} now={now} chosen={from + index === at} />
        ))}
      </div>
    </div>
  );
}

function useRowHeight(): number {
  return useSyncExternalStore(
    (changed) => {
      const wide = matchMedia(WIDE);
      wide.addEventListener("change", changed);
      return () => wide.removeEventListener("change", changed);
    },
    () => (matchMedia(WIDE).matches ? ROW : TALL_ROW),
  );
}

function reveal(box: HTMLElement | null, index: number, row: number) {
  if (!box) return;
  const top = index * row;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + row > box.scrollTop + box.clientHeight) box.scrollTop = top + row - box.clientHeight;
}

const Row = memo(function Row({ task, now, chosen }: { task: SchemaTask; now: number; chosen: boolean }) {
  const tests = verdict(task);
  // A plain link: the list opens it. One that knows all of the router takes longer to draw than the rest of the row.
  return (
    <div role="listitem" className="h-[60px] [contain:strict] sm:h-10">
      <a
        href={`/tasks/${task.id}`}
        data-task={task.id}
        className={`flex h-full flex-wrap content-center items-center gap-x-3 border-b border-line px-4 hover:bg-hover sm:flex-nowrap ${chosen ? "bg-hover shadow-[inset_2px_0_var(--accent)]" : ""}`}
      >
        <StatusIcon status={task.status} />
        <span className="min-w-0 flex-1 truncate">{firstLine(task.prompt)}</span>
        {task.error && (
          <span className={`hidden max-w-[35%] truncate xl:inline ${task.status === "failed" ? "text-bad" : "text-dim"}`}>
            {firstLine(shortError(task.error), 160)}
          </span>
        )}
        {task.priority !== "normal" && (
          <span className="hidden sm:inline">
            <Badge tone={task.priority === "low" ? "plain" : "warn"}>{words(task.priority)}</Badge>
          </span>
        )}
        {tests && (
          <span className="hidden max-w-96 overflow-hidden sm:inline">
            <Badge tone={tests.tone}>{tests.text}</Badge>
          </span>
        )}
        <span className="hidden w-28 truncate text-dim md:inline">{shortRepository(task.repository)}</span>
        <span className="hidden w-24 truncate text-dim lg:inline">{task.agent}</span>
        <span className="hidden w-14 text-right text-dim tabular-nums sm:inline">{task.cost_usd > 0 ? money(task.cost_usd) : ""}</span>
        <time dateTime={task.created_at} title={exact(task.created_at)} className="w-9 text-right text-dim tabular-nums">
          {ago(task.created_at, now)}
        </time>
        <span className="flex h-5 min-w-0 basis-full items-center gap-2 pl-[27px] text-xs text-dim sm:hidden">
          {tests && <Badge tone={tests.tone}>{tests.text}</Badge>}
          <span className={`min-w-0 flex-1 truncate ${task.status === "failed" ? "text-bad" : ""}`}>
            {task.error ? firstLine(shortError(task.error), 120) : shortRepository(task.repository)}
          </span>
          <span className="tabular-nums">{task.cost_usd > 0 ? money(task.cost_usd) : ""}</span>
        </span>
      </a>
    </div>
  );
});
