// Links may have a short ID, such as the command line prints. Paths of the API take whole IDs; its lists find the one that a prefix
// belongs to.
import { harmless } from "../text/harmless";
import { api, ok, Refused } from "./client";

const WHOLE = /^[0-9a-hjkmnp-tv-z]{16}$/;
const PREFIX = /^[0-9a-z]{1,16}$/i;

export function isWholeId(id: string): boolean {
  return WHOLE.test(id);
}

type What = "task" | "session";
/** Lists what has an ID with this prefix, one at most; refuses a prefix of several. */
type Find = (prefix: string) => Promise<{ items: { id: string }[] }>;

const FIND: Record<What, Find> = {
  task: (id) => ok(api.GET("/api/tasks", { params: { query: { id } } })),
  session: (id) => ok(api.GET("/api/sessions", { params: { query: { id } } })),
};

/** The whole ID that begins with `id`. */
export async function wholeId(what: What, id: string, find: Find = FIND[what]): Promise<string> {
  if (isWholeId(id)) return id;
  const found = PREFIX.test(id) ? (await find(id)).items[0] : undefined;
  if (found) return found.id;
  const detail = `No ${what} has an ID that begins with “${harmless(id)}”`;
  throw new Refused({ type: "about:blank", title: detail, status: 404, detail, code: what === "task" ? "HV-0151" : "HV-0154", help: null });
}
