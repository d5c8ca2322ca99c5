// News from /api/events keep what is shown up to date: a task that is on the screen changes in place, and lists are read again
// when something is new to them, at most once a second.
import type { InfiniteData, QueryClient } from "@tanstack/react-query";
import type { SchemaPagePerson, SchemaPageListedTask, SchemaListedTask, SchemaPerson, SchemaTaskStatus } from "./schema";
import { proved } from "./proof";
import { taskPage, type TaskFilter } from "./queries";
import { isOver } from "./words";

interface Notice {
  task_id: string;
  session_id: string;
  type: string;
  status: SchemaTaskStatus;
}

const PAUSE = 1_000;
/** News of so long are told together. */
const SOON = 100;
const REST = 5_000;

/** Lists of more pages than this are not read again as a whole: what is new stands in the first. */
const FEW_PAGES = 3;

type Tasks = InfiniteData<SchemaPageListedTask, string | undefined>;

function isLong(data: unknown): data is Tasks {
  return typeof data === "object" && data !== null && "pages" in data && Array.isArray(data.pages) && data.pages.length > FEW_PAGES;
}

async function refreshLong(client: QueryClient): Promise<void> {
  for (const query of client.getQueryCache().findAll({ queryKey: ["tasks"], type: "active" })) {
    if (!isLong(query.state.data)) continue;
    const first = await taskPage(query.queryKey[1] as TaskFilter).catch(() => null);
    if (first) client.setQueryData<Tasks>(query.queryKey, (lists) => (lists ? { ...lists, pages: [first, ...lists.pages.slice(1)] } : lists));
  }
}

export function listen(client: QueryClient): () => void {
  const again = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lost = false;
  let over = false;

  const later = (...keys: string[]) => {
    keys.forEach((key) => again.add(key));
    timer ??= setTimeout(() => {
      timer = undefined;
      for (const key of again) void client.invalidateQueries({ queryKey: key.split("/"), predicate: (query) => !isLong(query.state.data) });
      if (again.has("tasks")) void refreshLong(client);
      again.clear();
    }, PAUSE);
  };
  const everything = () => later("tasks", "task", "session", "race", "queue", "convoys", "stats", "people", "comments");

  // An agent that prints a thousand lines a second is news of one task.
  const news = new Map<string, Notice>();
  let telling: ReturnType<typeof setTimeout> | undefined;
  const heard = (message: Event) => {
    const notice = JSON.parse((message as MessageEvent<string>).data) as Notice;
    news.set(notice.task_id, notice);
    telling ??= setTimeout(tell, SOON);
  };
  const tell = () => {
    telling = undefined;
    const found = new Set<string>();
    client.setQueriesData<InfiniteData<SchemaPageListedTask>>({ queryKey: ["tasks"] }, (lists) => {
      if (!lists) return lists;
      const pages = lists.pages.map((page) => {
        let items: SchemaListedTask[] | null = null;
        for (const [index, task] of page.items.entries()) {
          const notice = news.get(task.id);
          if (!notice) continue;
          found.add(task.id);
          if (task.status !== notice.status) (items ??= page.items.slice())[index] = { ...task, status: notice.status };
        }
        return items ? { ...page, items } : page;
      });
      const changed = pages.some((page, index) => page !== lists.pages[index]);
      return changed ? { ...lists, pages } : lists;
    });
    later("queue", "race");
    for (const { task_id, session_id, status } of news.values()) {
      later(`task/${task_id}`, `session/${session_id}`);
      if (!found.has(task_id) || isOver(status)) later("tasks", "convoys", "stats");
    }
    news.clear();
  };

  const present = (message: Event) => {
    const { session_id, people } = JSON.parse((message as MessageEvent<string>).data) as { session_id: string; people: SchemaPerson[] };
    client.setQueryData<SchemaPagePerson>(["people", session_id], { items: people, next_cursor: null });
  };
  const commented = (message: Event) => {
    const { session_id } = JSON.parse((message as MessageEvent<string>).data) as { session_id: string };
    void client.invalidateQueries({ queryKey: ["comments", session_id] });
  };

  let source: EventSource | null = null;
  const open = () => {
    if (source) return;
    source = new EventSource(proved("/api/events"));
    source.addEventListener("notice", heard);
    source.addEventListener("missed", everything);
    source.addEventListener("presence", present);
    source.addEventListener("comment", commented);
    source.onerror = () => {
      lost = true;
      // It comes back by itself unless the server refused; then it has to be asked for again.
      if (source?.readyState === EventSource.CLOSED) setTimeout(reopen, REST);
    };
    source.onopen = () => {
      // What happened between the reading of a list and this is in neither.
      if (lost) everything();
      else later("tasks");
      lost = false;
    };
  };
  const close = () => {
    source?.close();
    source = null;
    lost = true;
  };
  const reopen = () => {
    if (over || document.hidden) return;
    close();
    open();
  };
  // Browsers have six connections for a server, over all tabs: those that nobody looks at do without.
  const looked = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", looked);
  looked();
  return () => {
    over = true;
    document.removeEventListener("visibilitychange", looked);
    clearTimeout(timer);
    clearTimeout(telling);
    close();
  };
}
