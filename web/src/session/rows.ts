// Of a stream only what can be seen is drawn, one row below the other in a band that is put where they belong. Rows are as high
// as they turn out to be: that is learnt once for each, all of a frame together, and moves nothing that someone looks at.
// Whoever is at the end stays there.
import { useCallback, useEffect, useLayoutEffect, useReducer, useRef, useState, type RefObject } from "react";
import type { Entry } from "../stream/entries";
import { Heights } from "../stream/heights";

/** So close to the end counts as being there. */
const CLOSE = 80;
/** Drawn beyond what can be seen, above and below. */
const BEYOND = 500;
/** Free at the beginning and at the end. */
const ROOM = 12;

export interface Rows {
  box: RefObject<HTMLDivElement | null>;
  inner: RefObject<HTMLDivElement | null>;
  band: RefObject<HTMLDivElement | null>;
  /** For each row that is drawn. */
  row: (element: HTMLElement | null) => (() => void) | undefined;
  from: number;
  to: number;
  /** Whether what is new is followed. */
  stays: boolean;
  stay: () => void;
  scrolled: () => void;
}

export function useRows(entries: readonly Entry[], guess: (entry: Entry) => number): Rows {
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const band = useRef<HTMLDivElement>(null);
  const [, draw] = useReducer((times: number) => times + 1, 0);
  const [stays, setStays] = useState(true);
  const view = useRef({ top: 0, height: 900, stays: true, seen: 0 });
  /** Which entries were measured as they are now, and what came out. */
  const known = useRef(new Map<number, { entry: Entry; height: number }>());
  const kept = useRef<{ of: readonly Entry[]; heights: Heights }>({ of: entries, heights: new Heights() });

  const before = kept.current.heights.total;
  // Another list: the beginning of a long journal has arrived, above what is shown.
  const other = kept.current.of !== entries;
  if (other) kept.current = { of: entries, heights: new Heights() };
  const { heights } = kept.current;
  for (const entry of entries.slice(heights.length)) heights.push(known.current.get(entry.seq)?.height ?? guess(entry));
  if (other && !view.current.stays) view.current.top += heights.total - before;

  const now = view.current;
  const first = (now.stays ? heights.total + 2 * ROOM - now.height : now.top) - ROOM;
  const from = heights.length > 0 ? heights.at(Math.max(0, first - BEYOND)) : 0;
  const to = heights.length > 0 ? heights.at(Math.max(0, first + now.height + BEYOND)) + 1 : 0;

  /** Whether something is missing of what can be seen, or soon will be. */
  const lacks = useCallback(() => {
    if (heights.length === 0) return false;
    const first = now.top - ROOM;
    return heights.at(Math.max(0, first - BEYOND / 2)) < from || heights.at(first + now.height + BEYOND / 2) >= to;
  }, [heights, now, from, to]);

  /** Learns how high rows are. Everything is read before anything is written, so that the page is laid out once. */
  const learn = useCallback(
    (found: Iterable<[HTMLElement, number]>) => {
      const [element, rows, drawn] = [box.current, inner.current, band.current];
      if (!element || !rows || !drawn) return;
      let moved = 0;
      for (const [row, height] of found) {
        const index = Number(row.dataset.index);
        const entry = kept.current.of[index];
        if (!entry || height === 0) continue;
        known.current.set(entry.seq, { entry, height });
        const change = height - heights.of(index);
        if (Math.abs(change) < 0.1) continue;
        if (heights.top(index) + heights.of(index) <= now.top - ROOM) moved += change;
        heights.set(index, height);
      }
      rows.style.height = `${heights.total + 2 * ROOM}px`;
      drawn.style.transform = `translateY(${heights.top(from) + ROOM}px)`;
      // Beyond the end is the end, and nobody has to find out where that is.
      if (now.stays) element.scrollTop = heights.total + 2 * element.clientHeight;
      else if (Math.abs(moved) >= 1) element.scrollTop = now.top + moved;
      now.top = now.seen = element.scrollTop;
      if (lacks()) draw();
    },
    [heights, now, from, lacks],
  );

  useLayoutEffect(() => {
    const [element, drawn] = [box.current, band.current];
    if (!element || !drawn) return;
    if (other && !now.stays) element.scrollTop = now.top;
    const found: [HTMLElement, number][] = [];
    for (const row of drawn.children as HTMLCollectionOf<HTMLElement>) {
      const entry = kept.current.of[Number(row.dataset.index)];
      if (entry && known.current.get(entry.seq)?.entry !== entry) found.push([row, row.getBoundingClientRect().height]);
    }
    learn(found);
  });

  // What is opened or folded, and the window itself. One watches all: it is told of rows as they come and go.
  const latest = useRef(learn);
  latest.current = learn;
  const watch = useRef<ResizeObserver>(undefined);
  const watching = useCallback(
    () =>
      (watch.current ??= new ResizeObserver((changes) => {
        const rows = changes.filter((one) => one.target !== box.current);
        if (rows.length < changes.length && box.current) view.current.height = box.current.clientHeight;
        latest.current(rows.map((one) => [one.target as HTMLElement, one.borderBoxSize[0]?.blockSize ?? 0] as [HTMLElement, number]));
      })),
    [],
  );
  const row = useCallback(
    (element: HTMLElement | null) => {
      if (!element) return undefined;
      watching().observe(element);
      return () => watching().unobserve(element);
    },
    [watching],
  );
  const isThere = entries.length > 0;
  useEffect(() => {
    if (!box.current) return;
    view.current.height = box.current.clientHeight;
    return row(box.current);
  }, [row, isThere]);

  const follow = useCallback(
    (value: boolean) => {
      now.stays = value;
      setStays(value);
    },
    [now],
  );

  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    const { scrollTop } = element;
    const left = element.scrollHeight - scrollTop - now.height;
    // Only a person scrolls up; when the content grows, the place stays and the end moves away.
    if (left < CLOSE) {
      if (!now.stays) follow(true);
    } else if (scrollTop < now.seen - 2 && now.stays) follow(false);
    now.top = now.seen = scrollTop;
    if (lacks()) draw();
  };

  const stay = useCallback(() => {
    follow(true);
    latest.current([]);
  }, [follow]);

  return { box, inner, band, row, from, to, stays, stay, scrolled };
}
