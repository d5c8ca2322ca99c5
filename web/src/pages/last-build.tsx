// What came of the last build of a snapshot: stage by stage, and all that it said.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { download } from "../api/download";
import { errorWords, pageWords } from "../api/page-words";
import { queries } from "../api/queries";
import type { SchemaRepository } from "../api/schema";
import { counted } from "../text/counted";
import { firstLine } from "../text/harmless";
import { Stranger } from "../text/show";
import { words } from "../ui/icons";
import { Button, Dialog, Trouble, Waiting } from "../ui/parts";
import { exact, took } from "../ui/time";

interface Build {
  status: string;
  error?: string | null;
  build_error?: string | null;
  reused: boolean;
  stages: { stage: string; duration_ms: number }[];
  installed: string[];
  notes: string[];
  duration_ms: number;
  at: string;
}

/** More is in the log itself, a click away. */
const LINES_SHOWN = 1_000;

export function LastBuild({ of }: { of: SchemaRepository }) {
  const [open, setOpen] = useState(false);
  const build = of.snapshot.last_build as Build | null | undefined;
  const building = of.snapshot.state === "building";
  if (!build && !building) return <span className="text-dim">none yet</span>;
  return (
    <>
      <Button look="quiet" className={`-ml-2.5 ${build?.status === "failed" && !building ? "!text-bad" : ""}`} onClick={() => setOpen(true)}>
        {building || !build ? "In progress" : build.status === "failed" ? "Failed: see the log" : words(build.status)}
        {!building && build && build.status !== "failed" && <span className="hidden md:inline">in {took(build.duration_ms)}</span>}
      </Button>
      {open && (
        <Dialog title={`${building ? "Build" : "Last build"} of ${of.name}`} wide onClose={() => setOpen(false)}>
          <div className="flex flex-col gap-4 p-4 text-left">
            {build && <Told build={build} />}
            <BuildLog name={of.name} building={building} />
          </div>
        </Dialog>
      )}
    </>
  );
}

function Told({ build }: { build: Build }) {
  const longest = Math.max(1, ...build.stages.map((one) => one.duration_ms));
  return (
    <>
      {build.error && <p className="rounded-md bg-bad-soft px-3 py-2 break-words text-bad">{firstLine(errorWords(build.error), 1_000)}</p>}
      {build.build_error && (
        <p className="rounded-md bg-warn-soft px-3 py-2 break-words text-warn">
          The build command failed, but the snapshot can be used: {firstLine(pageWords(build.build_error), 1_000)}
        </p>
      )}
      <dl className="grid grid-cols-[7rem_1fr_5rem] items-center gap-x-3 gap-y-1">
        {build.stages.map((one) => (
          <div key={one.stage} className="contents">
            <dt>{words(one.stage)}</dt>
            <dd>
              <div className="h-2 rounded bg-accent" style={{ width: `${Math.max(1, (one.duration_ms / longest) * 100)}%` }} />
            </dd>
            <dd className="text-right text-dim tabular-nums">{took(one.duration_ms)}</dd>
          </div>
        ))}
      </dl>
      <p className="text-dim">
        {exact(build.at)}.{" "}
        {build.reused
          ? "Lockfiles are unchanged: dependencies come from the previous snapshot."
          : build.installed.length > 0
            ? "Install commands:"
            : "Nothing to install."}
      </p>
      {!build.reused && build.installed.length > 0 && <Stranger text={build.installed.join("\n")} lines={40} />}
      {build.notes.length > 0 && <Stranger text={build.notes.map(errorWords).join("\n")} lines={100} />}
    </>
  );
}

function BuildLog({ name, building }: { name: string; building: boolean }) {
  const log = useQuery(queries.buildLog(name, building));
  const lines = log.data?.trimEnd().split("\n") ?? [];
  const hidden = Math.max(0, lines.length - LINES_SHOWN);
  return (
    <section aria-label="Log" className="rounded-md border border-line">
      <header className="flex flex-wrap items-center gap-2 border-b border-line bg-side px-3 py-1.5">
        <h3 className="mr-auto font-semibold">Log</h3>
        <button
          type="button"
          onClick={() => void download(`/api/repositories/${encodeURIComponent(name)}/build-log`, "build.log")}
          className="text-accent underline"
        >
          Download the log
        </button>
      </header>
      <div className="max-h-96 overflow-auto px-3 py-2" tabIndex={0} role="region" aria-label="Build log">
        {log.isPending ? (
          <Waiting what="the log" />
        ) : log.isError ? (
          <Trouble error={log.error} />
        ) : (
          <>
            {hidden > 0 && <p className="text-dim">{counted(hidden, "earlier line")} not shown</p>}
            <Stranger text={lines.slice(hidden).join("\n") || "No output"} lines={LINES_SHOWN} />
          </>
        )}
      </div>
    </section>
  );
}
