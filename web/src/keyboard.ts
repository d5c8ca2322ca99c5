// Keys that work on every page. While someone writes, only those with Ctrl do.
import { useEffect, useLayoutEffect, useRef } from "react";
import { NAV, type NavItem } from "./nav";

interface Actions {
  palette: () => void;
  help: () => void;
  create: () => void;
  go: (to: NavItem["to"]) => void;
}

const PATIENCE = 1_200;

export function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function useKeys(actions: Actions) {
  const latest = useRef(actions);
  useLayoutEffect(() => {
    latest.current = actions;
  });
  useEffect(() => {
    let leader = 0;
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        latest.current.palette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target) || document.querySelector("dialog[open]")) return;
      // The time of the key itself: a busy page may handle it late.
      const led = event.timeStamp - leader < PATIENCE && leader > 0;
      leader = 0;
      const item = led && NAV.flatMap((group) => group.items).find((one) => one.key === event.key);
      if (item) latest.current.go(item.to);
      else if (event.key === "g") leader = event.timeStamp;
      else if (event.key === "c") latest.current.create();
      else if (event.key === "?") latest.current.help();
      else if (event.key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
