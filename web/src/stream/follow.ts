// Reads a journal over a WebSocket from wherever it stands, and comes back by itself when the connection is lost. What
// arrives is handed over in bundles, one for each frame, so that a thousand events a second draw no more than one would. A long
// journal is read in pages first: its end, so that there is something to see, and then all of it.
import { proof } from "../api/proof";
import type { Journal, JournalEvent } from "./journal";

export type Link = "connecting" | "live" | "away";

export interface Followed {
  stop(): void;
}

const SHORTEST_WAIT = 250;
const LONGEST_WAIT = 10_000;
/** Milliseconds of a frame that reading may take, so that there is something left of it to draw in. */
const SHARE = 5;
/** Nobody reads so many at once: then a few frames are left to whatever else there is to do. */
const MANY = 20;
const LEFT = 2;
/** So many are read before anyone looks at the clock. */
const STEP = 50;

/** Pages of the API, and how far behind is worth reading in pages. */
const PAGE = 1_000;
const GLIMPSE = 300;

interface Parts {
  open: (url: string) => WebSocket;
  page: (session: string, after: number, limit: number) => Promise<JournalEvent[]>;
  /** Runs soon; hidden pages have no frames. */
  soon: (work: () => void) => void;
}

const parts: Parts = {
  open: (url) => new WebSocket(url),
  page: readPage,
  soon: (work) => {
    if (document.hidden) setTimeout(work, 50);
    else requestAnimationFrame(() => work());
  },
};

/** Events behind a number, as many as asked for if there are. */
export async function readPage(session: string, after: number, limit: number): Promise<JournalEvent[]> {
  const path = `/api/sessions/${encodeURIComponent(session)}/events?after=${after}&limit=${limit}`;
  const answer = await fetch(path, { headers: { "X-Harvest-CSRF": proof() ?? "" } });
  if (!answer.ok) throw new Error(`The journal could not be read: the server answered ${answer.status}`);
  return ((await answer.json()) as { items: JournalEvent[] }).items;
}

/** `last`: the number of the newest event that is known to be there. */
export function follow(session: string, journal: Journal, last: number, told: (link: Link) => void, { open, soon, page } = parts): Followed {
  let over = false;
  let socket: WebSocket | null = null;
  let wait = SHORTEST_WAIT;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const connect = () => {
    if (over) return;
    told("connecting");
    const url = new URL(`/api/sessions/${encodeURIComponent(session)}/events`, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("after", String(journal.after));
    const known = proof();
    if (known) url.searchParams.set("proof", known);
    const own = open(url.href);
    socket = own;
    let waiting: string[] = [];
    let planned = false;
    let pause = 0;

    const hand = () => {
      planned = false;
      if (over || socket !== own) return;
      const until = performance.now() + SHARE;
      const events: JournalEvent[] = [];
      do {
        for (const text of waiting.slice(events.length, events.length + STEP)) events.push(JSON.parse(text) as JournalEvent);
      } while (events.length < waiting.length && performance.now() < until);
      waiting = waiting.slice(events.length);
      pause = events.length > MANY ? LEFT : 0;
      if (journal.take(events) === "gap") {
        again();
        return;
      }
      if (waiting.length > 0) plan();
    };
    const plan = () => {
      if (planned) return;
      planned = true;
      let left = pause;
      const step = () => {
        if (left === 0) {
          hand();
          return;
        }
        left -= 1;
        soon(step);
      };
      soon(step);
    };
    const again = () => {
      if (over || socket !== own) return;
      socket = null;
      waiting = [];
      own.close();
      told("away");
      timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, LONGEST_WAIT);
    };

    own.onopen = () => {
      wait = SHORTEST_WAIT;
      told("live");
    };
    own.onmessage = (message) => {
      waiting.push(String(message.data));
      plan();
    };
    // What has arrived before it closed is still taken.
    own.onclose = () => {
      while (waiting.length > 0 && socket === own) hand();
      again();
    };
  };

  const isOver = () => over;
  const readAhead = async () => {
    if (journal.after === 0) {
      const end = await page(session, last - GLIMPSE, GLIMPSE);
      if (over) return;
      journal.show(end);
    }
    for (let next = page(session, journal.after, PAGE); !isOver();) {
      const events = await next;
      // The next is under way while this one is looked at.
      const more = events.length === PAGE;
      const behind = events.at(-1)?.seq ?? 0;
      if (more) next = page(session, behind, PAGE);
      if (isOver() || journal.take(events) === "gap" || !more) return;
    }
  };

  if (last - journal.after <= PAGE) connect();
  else {
    told("connecting");
    // Whatever cannot be read in pages comes over the socket.
    void readAhead()
      .catch(() => {})
      .finally(connect);
  }
  return {
    stop() {
      over = true;
      clearTimeout(timer);
      // Its close event comes later and must find nothing left to do.
      const own = socket;
      socket = null;
      own?.close();
    },
  };
}
