// Comments that people made, sent to the agent as a follow-up: those that are chosen, with the lines that they are about.
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, ok } from "../api/client";
import { useMayIn } from "../api/may";
import type { SchemaComment, SchemaSessionDetail } from "../api/schema";
import { counted } from "../text/counted";
import { firstLine } from "../text/harmless";
import { Button, Code, Dialog, Trouble } from "../ui/parts";
import { useSaid } from "./comments";

export function FixComments({ session }: { session: SchemaSessionDetail }) {
  const { by } = useSaid();
  const may = useMayIn("member", session.task.repository);
  const [open, setOpen] = useState(false);
  const comments = [...by.values()].flat();
  if (comments.length === 0 || !may) return null;
  return (
    <>
      <Button onClick={() => setOpen(true)}>Fix comments ({comments.length})</Button>
      {open && <Choose session={session} comments={comments} onClose={() => setOpen(false)} />}
    </>
  );
}

function placeOf({ about }: SchemaComment): string {
  return about.kind === "line" ? `${about.path}:${about.line}${about.side === "old" ? " (removed line)" : ""}` : "About the session";
}

/** What the agent is told: each remark with its place. */
export function fixPrompt(comments: SchemaComment[]): string {
  // The first line is the title of the turn and of its commit.
  return [
    "Address review comments",
    "",
    "Address these review comments, and nothing else:",
    "",
    ...comments.map((one) => `- ${placeOf(one)}: ${one.text.replaceAll("\n", "\n  ")}`),
  ].join("\n");
}

function Choose({ session, comments, onClose }: { session: SchemaSessionDetail; comments: SchemaComment[]; onClose: () => void }) {
  const navigate = useNavigate();
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const chosen = comments.filter((one) => !left.has(one.id));
  const send = useMutation({
    mutationFn: () => ok(api.POST("/api/sessions/{id}/prompts", { params: { path: { id: session.id } }, body: { prompt: fixPrompt(chosen) } })),
    onSuccess: () => {
      onClose();
      void navigate({ to: ".", search: {} });
    },
  });
  const toggle = (id: string) =>
    setLeft((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  return (
    <Dialog title="Fix these comments" wide onClose={onClose}>
      <form
        className="flex flex-col gap-3 p-4"
        onSubmit={(event) => {
          event.preventDefault();
          if (chosen.length > 0 && !send.isPending) send.mutate();
        }}
      >
        <p className="text-dim">The agent gets the selected comments as a follow-up and continues where it stopped.</p>
        <ul className="flex max-h-[50vh] flex-col gap-2 overflow-auto" tabIndex={0} aria-label="Comments">
          {comments.map((one) => (
            <li key={one.id}>
              <label className="flex items-start gap-2 rounded-md border border-line px-3 py-2">
                <input type="checkbox" className="mt-1" checked={!left.has(one.id)} onChange={() => toggle(one.id)} />
                <span className="min-w-0">
                  <span className="flex flex-wrap items-center gap-2 text-xs text-dim">
                    {firstLine(one.author, 60)} <Code>{firstLine(placeOf(one), 200)}</Code>
                  </span>
                  <span className="break-words whitespace-pre-wrap">{firstLine(one.text, 400)}</span>
                </span>
              </label>
            </li>
          ))}
        </ul>
        {send.isError && <Trouble error={send.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={chosen.length === 0 || send.isPending}>
            Send {counted(chosen.length, "comment")} to the agent
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
