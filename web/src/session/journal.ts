import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { follow, type Link } from "../stream/follow";
import { Journal } from "../stream/journal";

/** The journal of a session, followed while it is on the screen. */
export function useJournal(session: string): { journal: Journal; version: number; link: Link } {
  const client = useQueryClient();
  const journal = useMemo(() => ({ of: session, journal: new Journal() }).journal, [session]);
  const [link, setLink] = useState<Link>("connecting");
  useEffect(() => {
    const followed = follow(session, journal, setLink);
    return () => followed.stop();
  }, [session, journal]);
  const version = useSyncExternalStore(journal.subscribe, journal.version);
  const { stateChanges } = journal.fold;
  useEffect(() => {
    if (stateChanges > 0) void client.invalidateQueries({ queryKey: ["session", session] });
  }, [client, session, stateChanges]);
  return { journal, version, link };
}
