// The field for a repository: those that are prepared, and those that tasks have used.
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { queries } from "../api/queries";
import type { SchemaRepository } from "../api/schema";
import { Field } from "../ui/parts";
import { Link } from "@tanstack/react-router";

export const LAST_REPOSITORY = "harvest-last-repository";

/** Paths and URLs of repositories that tasks have used and that are not prepared. */
export function useUsedRepositories(): string[] {
  const known = useQuery(queries.repositories);
  const stats = useQuery(queries.stats("repository"));
  const prepared = new Set((known.data?.items ?? []).map((one) => one.source));
  return (stats.data?.items ?? []).map((one) => one.key).filter((source) => source && !prepared.has(source));
}

/** There is no snapshot and the last build failed; one that is being built again stays broken until it is there. */
export function isBroken({ snapshot }: SchemaRepository): boolean {
  const last = snapshot.last_build as { status?: string } | null | undefined;
  return snapshot.state === "failed" || (!snapshot.commit && last?.status === "failed");
}

/** What a new task starts with: the last one that was used, else the first whose snapshot is not broken. */
function standard(known: SchemaRepository[]): string {
  const last = localStorage.getItem(LAST_REPOSITORY) ?? "";
  const broken = known.find((one) => one.name === last || one.source === last);
  if (last && !(broken && isBroken(broken))) return last;
  return known.find((one) => !isBroken(one))?.name ?? "";
}

export function RepositoryField({ preset = false }: { preset?: boolean }) {
  const repositories = useQuery(queries.repositories);
  const used = useUsedRepositories();
  const names = useId();
  const known = repositories.data?.items ?? [];
  const [typed, setTyped] = useState<string | null>(null);
  // Whether the last one is broken is not known before the list is here.
  const value = typed ?? (preset && !repositories.isPending ? standard(known) : "");
  const chosen = known.find((one) => one.name === value || one.source === value);
  const hint =
    chosen && isBroken(chosen) ? (
      <span role="status" className="text-bad">
        The last snapshot build of {chosen.name} failed: tasks start without its dependencies.{" "}
        <Link to="/repositories" className="underline">
          See its log
        </Link>
      </span>
    ) : known.length === 0 ? (
      "A path on the server's machine, or a URL"
    ) : undefined;
  return (
    <Field label="Repository" hint={hint}>
      {(id) => (
        <>
          <input
            id={id}
            name="repository"
            required
            list={names}
            className="field"
            autoComplete="off"
            placeholder="Name, path or URL"
            value={value}
            onChange={(event) => setTyped(event.target.value)}
          />
          <datalist id={names}>
            {known.map((one) => (
              <option key={one.name} value={one.name}>
                {isBroken(one) ? `${one.source} (snapshot failed)` : one.source}
              </option>
            ))}
            {used.map((source) => (
              <option key={source} value={source} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
