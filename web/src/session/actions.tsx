// What can be done with a session as a whole.
import * as Menu from "@radix-ui/react-dropdown-menu";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { api, ok } from "../api/client";
import { save } from "../api/download";
import { useMayIn } from "../api/may";
import type { SchemaSessionDetail } from "../api/schema";
import { isOver } from "../api/words";
import { readPage } from "../stream/follow";
import { copy } from "../ui/clipboard";
import { Button, Dialog, Field, Trouble } from "../ui/parts";
import { offer, sends } from "./keys";

export function Actions({ session }: { session: SchemaSessionDetail }) {
  const { task } = session;
  const path = { params: { path: { id: task.id } } };
  const own = { params: { path: { id: session.id } } };
  const stop = useMutation({ mutationFn: () => ok(api.POST("/api/sessions/{id}/stop", own)) });
  const retry = useMutation({ mutationFn: () => ok(api.POST("/api/tasks/{id}/retry", path)) });
  const terminate = useMutation({ mutationFn: () => ok(api.POST("/api/tasks/{id}/terminate", path)) });
  const interrupt = useMutation({ mutationFn: (reason?: string) => ok(api.POST("/api/sessions/{id}/interrupt", { ...own, body: { reason } })) });
  const events = useMutation({ mutationFn: () => downloadEvents(session.id) });
  const [asking, setAsking] = useState(false);
  const trouble = events.error ?? stop.error ?? retry.error ?? terminate.error ?? (asking ? null : interrupt.error);
  // The name that a session has reserved is of no use before something is on the branch.
  const { branch } = task;
  const may = useMayIn("member", task.repository);
  const stoppable = may && !isOver(task.status);
  const works = may && (task.status === "provisioning" || task.status === "running");
  const { mutate: doStop, reset: forgetStop } = stop;
  const { mutate: doRetry } = retry;
  const { reset: forgetInterrupt } = interrupt;
  const retries = may && (task.status === "failed" || task.status === "cancelled");
  useEffect(
    () =>
      offer([
        ...(works ? [{ id: "interrupt", text: "Interrupt this task", icon: "pause" as const, act: () => setAsking(true) }] : []),
        ...(stoppable ? [{ id: "stop", text: "Stop this task", icon: "stop" as const, act: () => doStop() }] : []),
        ...(retries ? [{ id: "retry", text: "Retry this task", icon: "retry" as const, act: () => doRetry() }] : []),
      ]),
    [works, stoppable, retries, doStop, doRetry],
  );
  // Whatever was asked for has come about, or something else has.
  useEffect(() => {
    forgetStop();
    forgetInterrupt();
  }, [task.status, forgetStop, forgetInterrupt]);
  return (
    <>
      {works && (
        <Button icon="pause" disabled={interrupt.isPending || interrupt.isSuccess} onClick={() => setAsking(true)}>
          {interrupt.isSuccess ? "Interrupting…" : "Interrupt"}
        </Button>
      )}
      {stoppable && (
        <Button look="danger" icon="stop" disabled={stop.isPending} onClick={() => stop.mutate()}>
          {stop.isSuccess ? "Stopping…" : "Stop"}
        </Button>
      )}
      {retries && (
        <Button look="primary" icon="retry" disabled={retry.isPending} onClick={() => retry.mutate()}>
          Retry
        </Button>
      )}
      <Menu.Root modal={false}>
        <Menu.Trigger asChild>
          <Button look="quiet" icon="more" label="More actions" />
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Content align="end" sideOffset={4} className="z-40 min-w-48 rounded-lg border border-line bg-raised p-1 shadow-lg">
            {branch && <Item act={() => void copy(branch)}>Copy branch name</Item>}
            <Item act={() => void copy(location.origin + `/sessions/${session.id}`)}>Copy link</Item>
            <Item act={() => events.mutate()}>Download events</Item>
            {stoppable && (
              <Item act={() => terminate.mutate()} danger>
                Terminate immediately
              </Item>
            )}
          </Menu.Content>
        </Menu.Portal>
      </Menu.Root>
      {trouble && (
        <div className="basis-full">
          <Trouble error={trouble} />
        </div>
      )}
      {asking && (
        <AskWhy
          busy={interrupt.isPending}
          error={interrupt.error}
          onClose={() => setAsking(false)}
          act={(reason) => interrupt.mutate(reason, { onSuccess: () => setAsking(false) })}
        />
      )}
    </>
  );
}

const PAGE = 1_000;

/** All events of a session, one per line. */
async function downloadEvents(session: string): Promise<void> {
  const lines: string[] = [];
  for (let last = 0; ;) {
    const page = await readPage(session, last, PAGE);
    lines.push(...page.map((event) => `${JSON.stringify(event)}\n`));
    last = page.at(-1)?.seq ?? last;
    if (page.length < PAGE) break;
  }
  save(new Blob(lines, { type: "application/x-ndjson" }), `events-${session}.jsonl`);
}

function AskWhy({ busy, error, act, onClose }: { busy: boolean; error: unknown; act: (reason?: string) => void; onClose: () => void }) {
  const [reason, setReason] = useState("");
  return (
    <Dialog title="Interrupt" onClose={onClose}>
      <form
        className="flex flex-col gap-3 p-4"
        onSubmit={(event) => {
          event.preventDefault();
          act(reason.trim() || undefined);
        }}
      >
        <p className="text-dim">The agent finishes its step and pauses. Its work and memory are kept, and nothing is spent until someone resumes it.</p>
        <Field label="Reason">
          {(id) => (
            <textarea
              id={id}
              autoFocus
              rows={2}
              maxLength={1000}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
              className="field"
              onKeyDown={(event) => {
                if (sends(event)) event.currentTarget.form?.requestSubmit();
              }}
              placeholder="Optional"
            />
          )}
        </Field>
        {error ? <Trouble error={error} /> : null}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" icon="pause" disabled={busy}>
            Interrupt
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Item({ act, danger, children }: { act: () => void; danger?: boolean; children: ReactNode }) {
  return (
    <Menu.Item onSelect={act} className={`cursor-pointer rounded px-2 py-1 outline-none data-[highlighted]:bg-hover ${danger ? "text-bad" : ""}`}>
      {children}
    </Menu.Item>
  );
}
