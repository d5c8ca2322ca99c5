// What the keyboard does in a session, and what the palette offers there.
import { useEffect, useLayoutEffect, useRef, type KeyboardEvent as Pressed } from "react";
import { isWriting } from "../keyboard";
import type { IconName } from "../ui/icons";

export interface Offer {
  id: string;
  text: string;
  icon: IconName;
  act: () => void;
}

let offers: readonly Offer[] = [];

/** Until it is taken back. */
export function offer(what: Offer[]): () => void {
  offers = what;
  return () => {
    if (offers === what) offers = [];
  };
}

export function offered(): readonly Offer[] {
  return offers;
}

/** Ctrl Enter sends what was written. */
export const sends = (event: Pressed) => event.key === "Enter" && (event.ctrlKey || event.metaKey);

/** `r` writes to the session, `1` to `7` show its parts, Escape stops writing. */
export function useSessionKeys(actions: { tab: (index: number) => void }) {
  const latest = useRef(actions);
  useLayoutEffect(() => {
    latest.current = actions;
  });
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "Escape" && event.target instanceof HTMLTextAreaElement) event.target.blur();
      else if (isWriting(event.target)) return;
      else if (event.key === "r") document.querySelector<HTMLElement>("[data-compose]")?.focus();
      else if (/^[1-7]$/.test(event.key)) latest.current.tab(Number(event.key) - 1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
