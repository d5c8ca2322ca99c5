import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { follow, type Link } from "../stream/follow";
import { Journal } from "../stream/journal";

/** The journal of a session, followed while it is on the screen. `last` is the newest event that is known to be there. */
export function useJournal(session: string, last: number): { journal: Journal; link: Link } {
  const client = useQueryClient();
  const journal = useMemo(() => ({ of: session, journal: new Journal() }).journal, [session]);
  const [link, setLink] = useState<Link>("connecting");
  const known = useRef(last);
  useEffect(() => {
    const followed = follow(session, journal, known.current, setLink);
    return () => followed.stop();
  }, [session, journal]);
  const stateChanges = useSyncExternalStore(journal.subscribe, () => journal.fold.stateChanges);
  useEffect(() => {
    if (stateChanges > 0) void client.invalidateQueries({ queryKey: ["session", session] });
  }, [client, session, stateChanges]);
  return { journal, link };
}

/** Told about every bundle: for what changes with each. */
export function useEvery(journal: Journal): number {
  return useSyncExternalStore(journal.subscribe, journal.version);
}

const PAUSE = 500;

/** Told at once, and then twice a second: for what adds up, where nobody sees a frame more or less. */
export function useNowAndThen(journal: Journal): number {
  const pace = useMemo(() => {
    let told = 0;
    let version = journal.version();
    const subscribe = (listener: () => void) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const tell = () => {
        timer = undefined;
        told = performance.now();
        version = journal.version();
        listener();
      };
      const stop = journal.subscribe(() => {
        timer ??= setTimeout(tell, Math.max(0, PAUSE - (performance.now() - told)));
      });
      if (version !== journal.version()) tell();
      return () => {
        stop();
        clearTimeout(timer);
      };
    };
    return { subscribe, version: () => version };
  }, [journal]);
  return useSyncExternalStore(pace.subscribe, pace.version, pace.version);
}
