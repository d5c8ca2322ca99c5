// Reads a journal over a WebSocket from wherever it stands, and comes back by itself when the connection is lost. What
// arrives is handed over in bundles, one for each frame, so that a thousand events a second draw no more than one would.
import type { Journal, JournalEvent } from "./journal";

export type Link = "connecting" | "live" | "away";

export interface Followed {
  stop(): void;
}

const SHORTEST_WAIT = 250;
const LONGEST_WAIT = 10_000;
/** Of one bundle, so that the page stays alive while a long journal is read. */
const BUNDLE = 2_000;

interface Parts {
  open: (url: string) => WebSocket;
  /** Runs soon; hidden pages have no frames. */
  soon: (work: () => void) => void;
}

const parts: Parts = {
  open: (url) => new WebSocket(url),
  soon: (work) => {
    if (document.hidden) setTimeout(work, 50);
    else requestAnimationFrame(() => work());
  },
};

export function follow(session: string, journal: Journal, told: (link: Link) => void, { open, soon } = parts): Followed {
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
    const own = open(url.href);
    socket = own;
    let waiting: string[] = [];
    let planned = false;

    const hand = () => {
      planned = false;
      if (over || socket !== own) return;
      const bundle = waiting.splice(0, BUNDLE);
      const events = bundle.map((text) => JSON.parse(text) as JournalEvent);
      if (journal.take(events) === "gap") return again();
      if (waiting.length > 0) plan();
    };
    const plan = () => {
      if (planned) return;
      planned = true;
      soon(hand);
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
      if (waiting.length > 0 && socket === own) hand();
      again();
    };
  };

  connect();
  return {
    stop() {
      over = true;
      clearTimeout(timer);
      socket?.close();
    },
  };
}
