// Who else is in a session.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { queries } from "../api/queries";
import type { Link } from "../stream/follow";
import { firstLine } from "../text/harmless";

const MOST = 5;

export function People({ session, link }: { session: string; link: Link }) {
  const client = useQueryClient();
  const me = useQuery(queries.me);
  const people = useQuery(queries.people(session));
  // One is there oneself as soon as the stream is.
  useEffect(() => {
    if (link === "live") void client.invalidateQueries({ queryKey: ["people", session] });
  }, [client, session, link]);
  const others = (people.data?.items ?? [])
    .map((one) => ({ ...one, windows: one.user === me.data?.user ? one.windows - 1 : one.windows }))
    .filter((one) => one.windows > 0);
  if (others.length === 0) return null;
  const names = others.map((one) => (one.user === me.data?.user ? "you, in another window" : firstLine(one.user, 60))).join(", ");
  return (
    <span role="group" aria-label={`Also here: ${names}`} title={`Also here: ${names}`} className="flex shrink-0 -space-x-1">
      {others.slice(0, MOST).map((one) => (
        <Face key={one.user} name={one.user} />
      ))}
      {others.length > MOST && (
        <span className="z-10 flex size-6 items-center justify-center rounded-full border-2 border-page bg-hover text-[10px] font-semibold">
          +{others.length - MOST}
        </span>
      )}
    </span>
  );
}

const TONES = ["bg-accent-soft text-accent", "bg-good-soft text-good", "bg-warn-soft text-warn", "bg-bad-soft text-bad"];

/** The same person looks the same everywhere. */
export function Face({ name }: { name: string }) {
  const sum = Array.from(name).reduce((total, character) => total + (character.codePointAt(0) ?? 0), 0);
  return (
    <span
      aria-hidden
      className={`flex size-6 shrink-0 items-center justify-center rounded-full border-2 border-page text-[11px] font-semibold uppercase ${TONES[sum % TONES.length]}`}
    >
      {firstLine(name, 40).slice(0, 1)}
    </span>
  );
}
