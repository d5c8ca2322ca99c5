import { useEffect, useState } from "react";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago, as short as it can be said. */
export function ago(at: string | null | undefined, now = Date.now()): string {
  if (!at) return "never";
  const seconds = Math.round((now - Date.parse(at)) / 1000);
  if (seconds < -1) return `in ${span(-seconds)}`;
  if (seconds < 10) return "now";
  return span(seconds);
}

/** The same in a sentence. */
export function since(at: string, now = Date.now()): string {
  const told = ago(at, now);
  return told === "now" ? "just now" : told.startsWith("in ") ? told : `${told} ago`;
}

function span(seconds: number): string {
  if (seconds < MINUTE) return `${seconds}s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)}h`;
  return `${Math.floor(seconds / DAY)}d`;
}

// Made once: making one takes longer than drawing a row.
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const ofDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export function exact(at: string): string {
  return whole.format(Date.parse(at));
}

export function clock(at: string): string {
  return ofDay.format(Date.parse(at));
}

export function took(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < MINUTE) return `${seconds.toFixed(1)} s`;
  if (seconds < HOUR) return both(Math.floor(seconds / MINUTE), "min", Math.floor(seconds % MINUTE), "s");
  return both(Math.floor(seconds / HOUR), "h", Math.floor((seconds % HOUR) / MINUTE), "min");
}

function both(many: number, of: string, rest: number, than: string): string {
  return rest > 0 ? `${many} ${of} ${rest} ${than}` : `${many} ${of}`;
}

/** The time, told again every so often. */
export function useNow(every = 30_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
