// In place of the box for prompts while a session is interrupted: who interrupted it and why, and how it goes on.
import { useMutation } from "@tanstack/react-query";
import { useState, useSyncExternalStore } from "react";
import { api, ok } from "../api/client";
import { useMayIn } from "../api/may";
import type { SchemaSessionDetail } from "../api/schema";
import type { Journal } from "../stream/journal";
import { firstLine } from "../text/harmless";
import { StatusIcon } from "../ui/icons";
import { Button, Trouble } from "../ui/parts";
import { exact, since, useNow } from "../ui/time";
import { sends } from "./keys";

export function Paused({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  const may = useMayIn("member", session.task.repository);
  const read = () => journal.shown.interruption;
  const interruption = useSyncExternalStore(journal.subscribe, read, read);
  const now = useNow();
  const [text, setText] = useState("");
  // What was typed stays until it is taken.
  const resume = useMutation({
    mutationFn: () => ok(api.POST("/api/sessions/{id}/resume", { params: { path: { id: session.id } }, body: { prompt: text.trim() || undefined } })),
    onSuccess: () => setText(""),
  });
  const { isSuccess, isPending } = resume;
  return (
    <section aria-label="Interrupted" className="shrink-0 border-t border-line bg-side px-4 py-3">
      <form
        className="mx-auto flex max-w-4xl flex-col gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isPending) resume.mutate();
        }}
      >
        {resume.isError && <Trouble error={resume.error} />}
        <div className="flex items-start gap-2">
          <span className="mt-0.5">
            <StatusIcon status="interrupted" />
          </span>
          <div className="min-w-0">
            <p className="font-medium">
              {interruption ? (
                <>
                  Interrupted by {firstLine(interruption.author, 60)}{" "}
                  <time dateTime={interruption.at} title={exact(interruption.at)} className="font-normal text-dim">
                    {since(interruption.at, now)}
                  </time>
                </>
              ) : (
                "Interrupted"
              )}
            </p>
            {interruption?.reason && <p className="break-words">{firstLine(interruption.reason, 1_000)}</p>}
            <p className="text-dim">The work so far and the agent's memory are kept. While it is interrupted, it uses no sandbox and costs nothing.</p>
          </div>
        </div>
        {may && (
          <>
            <textarea
              rows={Math.min(8, Math.max(2, text.split("\n").length))}
              value={text}
              onChange={(event) => setText(event.target.value)}
              aria-label="Message for the agent"
              data-compose
              onKeyDown={(event) => {
                if (sends(event)) event.currentTarget.form?.requestSubmit();
              }}
              className="field resize-none"
              placeholder="Instructions for the agent. Leave empty to continue unchanged."
            />
            <div className="flex items-center gap-2">
              <span className="mr-auto hidden text-xs text-dim sm:inline">Ctrl+Enter to resume</span>
              <Button look="primary" type="submit" icon="play" className="ml-auto" disabled={isPending || isSuccess}>
                {isSuccess ? "Resuming…" : "Resume"}
              </Button>
            </div>
          </>
        )}
      </form>
    </section>
  );
}
