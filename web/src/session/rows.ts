// Of a stream only what can be seen is drawn. Rows are as high as they turn out to be; what is learnt about those above moves
// nothing that someone looks at, and whoever is at the end stays there.
import { useCallback, useEffect, useLayoutEffect, useReducer, useRef, useState, type RefObject } from "react";
import type { Entry } from "../stream/entries";
import { Heights } from "../stream/heights";

/** So close to the end counts as being there. */
const CLOSE = 80;
/** Drawn beyond what can be seen, above and below. */
const BEYOND = 500;
/** Free at the beginning and at the end. */
export const ROOM = 12;

export interface Rows {
  box: RefObject<HTMLDivElement | null>;
  inner: RefObject<HTMLDivElement | null>;
  from: number;
  to: number;
  height: number;
  top: (index: number) => number;
  /** Whether what is new is followed. */
  stays: boolean;
  stay: () => void;
  show: (index: number) => void;
  scrolled: () => void;
}

export function useRows(entries: readonly Entry[], guess: (entry: Entry) => number): Rows {
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [, draw] = useReducer((times: number) => times + 1, 0);
  const [stays, setStays] = useState(true);
  const view = useRef({ top: 0, height: 900, stays: true, seen: 0 });
  const known = useRef(new Map<number, number>());
  const kept = useRef<{ of: readonly Entry[]; heights: Heights }>({ of: entries, heights: new Heights() });

  const before = kept.current.heights.total;
  // Another list: the beginning of a long journal has arrived, above what is shown.
  const other = kept.current.of !== entries;
  if (other) kept.current = { of: entries, heights: new Heights() };
  const { heights } = kept.current;
  for (let index = heights.length; index < entries.length; index += 1) heights.push(known.current.get(entries[index]!.seq) ?? guess(entries[index]!));
  if (other && !view.current.stays) view.current.top += heights.total - before;

  const now = view.current;
  const first = now.stays ? heights.total + 2 * ROOM - now.height : now.top;
  const from = heights.length > 0 ? heights.at(Math.max(0, first - ROOM - BEYOND)) : 0;
  const to = heights.length > 0 ? heights.at(Math.max(0, first - ROOM + now.height + BEYOND)) + 1 : 0;

  const measure = useCallback(() => {
    const [element, rows] = [box.current, inner.current];
    if (!element || !rows) return;
    let changed = now.height !== element.clientHeight;
    let moved = 0;
    now.height = element.clientHeight;
    // All are read before anything is written: the page is laid out once.
    for (const row of rows.querySelectorAll<HTMLElement>(":scope > [data-index]")) {
      const index = Number(row.dataset.index);
      const entry = kept.current.of[index];
      const height = row.offsetHeight;
      if (!entry || height === 0 || height === heights.of(index)) continue;
      if (heights.top(index) + heights.of(index) <= now.top - ROOM) moved += height - heights.of(index);
      known.current.set(entry.seq, height);
      heights.set(index, height);
      changed = true;
    }
    if (now.stays) {
      rows.style.height = `${heights.total + 2 * ROOM}px`;
      element.scrollTop = element.scrollHeight;
    } else if (moved !== 0) element.scrollTop = now.top + moved;
    now.top = now.seen = element.scrollTop;
    if (changed) draw();
  }, [heights, now]);

  useLayoutEffect(() => {
    if (other && !now.stays && box.current) box.current.scrollTop = now.top;
    measure();
  });

  // What is opened or folded, and the window itself.
  useEffect(() => {
    const [element, rows] = [box.current, inner.current];
    if (!element || !rows) return;
    const watch = new ResizeObserver(() => measure());
    watch.observe(element);
    for (const row of rows.querySelectorAll(":scope > [data-index]")) watch.observe(row);
    return () => watch.disconnect();
  }, [measure, from, to, entries.length > 0]);

  const follow = useCallback((value: boolean) => {
    now.stays = value;
    setStays(value);
  }, [now]);

  const scrolled = () => {
    const element = box.current;
    if (!element) return;
    const left = element.scrollHeight - element.scrollTop - element.clientHeight;
    // Only a person scrolls up; when the content grows, the place stays and the end moves away.
    if (left < CLOSE) { if (!now.stays) follow(true); }
    else if (element.scrollTop < now.seen - 2 && now.stays) follow(false);
    now.top = now.seen = element.scrollTop;
    const shown = now.top - ROOM;
    if (heights.at(Math.max(0, shown - BEYOND / 2)) < from || heights.at(shown + now.height + BEYOND / 2) >= to) draw();
  };

  const stay = useCallback(() => {
    follow(true);
    measure();
  }, [follow, measure]);

  const show = useCallback((index: number) => {
    follow(false);
    const element = box.current;
    if (!element) return;
    element.scrollTop = Math.max(0, heights.top(index) - element.clientHeight / 3);
    now.top = now.seen = element.scrollTop;
    draw();
  }, [follow, heights, now]);

  const top = (index: number) => heights.top(index) + ROOM;
  return { box, inner, from, to, height: heights.total + 2 * ROOM, top, stays, stay, show, scrolled };
}
