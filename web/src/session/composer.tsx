// What a person says to a session: more to do, yes or no to a plan, another way from an earlier moment.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef, useState, type SubmitEvent } from "react";
import { api, ok } from "../api/client";
import { useMayIn } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaSessionDetail, SchemaTask } from "../api/schema";
import { deliveryWords, isOver } from "../api/words";
import { firstLine } from "../text/harmless";
import { Badge, Button, Dialog, Field, Trouble } from "../ui/parts";
import { sends } from "./keys";

export function Composer({ session }: { session: SchemaSessionDetail }) {
  const may = useMayIn("member", session.task.repository);
  const agents = useQuery(queries.agents);
  const [text, setText] = useState("");
  const [agent, setAgent] = useState("");
  const more = useMutation({
    mutationFn: () => ok(api.POST("/api/sessions/{id}/prompts", { params: { path: { id: session.id } }, body: { prompt: text, agent: agent || undefined } })),
    onSuccess: () => setText(""),
  });
  const over = isOver(session.task.status);
  const queued = session.turns.filter((turn) => turn.status === "queued");
  const send = () => {
    if (text.trim() && !more.isPending) more.mutate();
  };
  if (!may)
    return queued.length > 0 ? (
      <div className="shrink-0 border-t border-line px-4 py-3">
        <Queued turns={queued} />
      </div>
    ) : null;
  return (
    <div className="shrink-0 border-t border-line px-4 py-3">
      <form
        className="mx-auto flex max-w-4xl flex-col gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        {more.isError && <Trouble error={more.error} />}
        {queued.length > 0 && <Queued turns={queued} />}
        <textarea
          rows={Math.min(8, Math.max(2, text.split("\n").length))}
          value={text}
          onChange={(event) => setText(event.target.value)}
          aria-label="Follow-up"
          data-compose
          onKeyDown={(event) => {
            if (sends(event)) send();
          }}
          className="field resize-none"
          placeholder={over ? "Send a follow-up: the agent continues where it stopped" : "Send a follow-up: it is queued until the agent is done"}
        />
        <div className="flex items-center gap-2">
          <select
            aria-label="Agent for the follow-up"
            value={agent}
            onChange={(event) => setAgent(event.target.value)}
            className="h-7 max-w-48 rounded-md border border-line bg-page px-2 text-dim"
          >
            <option value="">Same agent</option>
            {(agents.data?.items ?? [])
              .filter((one) => one.installed)
              .map((one) => (
                <option key={one.id} value={one.id}>
                  {one.name}
                </option>
              ))}
          </select>
          <span className="mr-auto truncate text-xs text-dim">
            {queued.length > 0 ? `${queued.length} queued` : <span className="hidden sm:inline">Ctrl+Enter to send</span>}
          </span>
          <Button look="primary" type="submit" disabled={!text.trim() || more.isPending}>
            {over ? "Send" : "Queue"}
          </Button>
        </div>
      </form>
    </div>
  );
}

function Queued({ turns }: { turns: SchemaSessionDetail["turns"] }) {
  return (
    <ol aria-label="Queued" className="flex max-h-32 flex-col gap-1 overflow-auto" tabIndex={0}>
      {turns.map((turn) => (
        <li key={turn.number} className="flex items-baseline gap-2 rounded-md bg-side px-2.5 py-1">
          <span className="shrink-0 font-medium">{firstLine(turn.author, 60)}</span>
          <span className="min-w-0 flex-1 truncate">{firstLine(turn.prompt)}</span>
          <Badge>waiting</Badge>
        </li>
      ))}
    </ol>
  );
}

/** Yes or no to a plan, which can be changed, or to a delivery. */
export function Decide({ task, plan, wide }: { task: Pick<SchemaTask, "id" | "source" | "repository">; plan?: string; wide?: boolean }) {
  const may = useMayIn("member", task.repository);
  const [mode, setMode] = useState<"ask" | "edit" | "reject">("ask");
  const input = useRef<HTMLTextAreaElement>(null);
  const path = { params: { path: { id: task.id } } };
  const approve = useMutation({ mutationFn: (changed?: string) => ok(api.POST("/api/tasks/{id}/approve", { ...path, body: { plan: changed } })) });
  const reject = useMutation({ mutationFn: (comment?: string) => ok(api.POST("/api/tasks/{id}/reject", { ...path, body: { comment } })) });
  const busy = approve.isPending || reject.isPending;
  const error = approve.error ?? reject.error;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const text = input.current?.value.trim() || undefined;
    if (mode === "edit") approve.mutate(text);
    else reject.mutate(text);
  };
  return (
    <section
      aria-label={plan === undefined ? "Decide on the delivery" : "Decide on the plan"}
      className="max-h-[60%] shrink-0 overflow-auto border-t border-line bg-side px-4 py-3"
    >
      <form onSubmit={submit} className={`flex flex-col gap-2 ${wide ? "" : "mx-auto max-w-4xl"}`}>
        {error && <Trouble error={error} />}
        {mode !== "ask" && (
          <textarea
            ref={input}
            key={mode}
            autoFocus
            rows={mode === "edit" ? 12 : 3}
            defaultValue={mode === "edit" ? plan : ""}
            className="field font-mono text-xs"
            aria-label={mode === "edit" ? "The plan" : "What should change"}
            placeholder={
              plan === undefined
                ? "What should change? The agent continues. Leave empty to cancel the task."
                : "What should change? The agent makes another plan. Leave empty to cancel the task."
            }
          />
        )}
        <div className="flex flex-wrap items-center gap-2">
          <p className="mr-auto basis-full font-medium sm:basis-auto">
            {plan === undefined
              ? "The work is done and is waiting for approval"
              : may
                ? "The agent is waiting for your decision"
                : "The agent is waiting for a decision"}
          </p>
          {/* Each its own element: one that became a submit button while it was clicked would submit. */}
          {!may ? null : mode === "ask" ? (
            <>
              <Button key="reject" look="danger" onClick={() => setMode("reject")}>
                Reject
              </Button>
              {plan !== undefined && (
                <Button key="edit" onClick={() => setMode("edit")}>
                  Edit
                </Button>
              )}
              <Button key="approve" look="primary" disabled={busy} onClick={() => approve.mutate(undefined)}>
                {plan === undefined ? deliveryWords(task) : "Approve"}
              </Button>
            </>
          ) : (
            <>
              <Button key="back" onClick={() => setMode("ask")}>
                Back
              </Button>
              <Button key={`send ${mode}`} look={mode === "edit" ? "primary" : "danger"} type="submit" disabled={busy}>
                {mode === "edit" ? "Approve as edited" : "Reject"}
              </Button>
            </>
          )}
        </div>
      </form>
    </section>
  );
}

export function ForkDialog({ session, at, onClose }: { session: string; at: number; onClose: () => void }) {
  const navigate = useNavigate();
  const [prompt, setPrompt] = useState("");
  const fork = useMutation({
    mutationFn: () => ok(api.POST("/api/sessions/{id}/fork", { params: { path: { id: session } }, body: { at, prompt } })),
    onSuccess: (made) => {
      onClose();
      void navigate({ to: "/tasks/$id", params: { id: made.id } });
    },
  });
  return (
    <Dialog title="Fork from here" onClose={onClose}>
      <form
        className="flex flex-col gap-3 p-4"
        onSubmit={(event) => {
          event.preventDefault();
          fork.mutate();
        }}
      >
        <p className="text-dim">A new session starts with the work and the conversation as they were at event {at}. This session does not change.</p>
        <Field label="Task">
          {(id) => (
            <textarea
              id={id}
              required
              autoFocus
              rows={4}
              value={prompt}
              onChange={(event) => setPrompt(event.target.value)}
              onKeyDown={(event) => {
                if (sends(event)) event.currentTarget.form?.requestSubmit();
              }}
              className="field"
            />
          )}
        </Field>
        {fork.isError && <Trouble error={fork.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={fork.isPending}>
            Fork
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
