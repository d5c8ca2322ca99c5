import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useRef, useState, type KeyboardEvent, type SubmitEvent } from "react";
import { api, ok } from "../api/client";
import { queries } from "../api/queries";
import type { SchemaAsk } from "../api/schema";
import { Race, racing } from "./race-field";
import { fieldText } from "../ui/form";
import { Button, Dialog, Field, Key, Trouble } from "../ui/parts";

const LAST = "harvest-last-repository";

export default function NewTask({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const repositories = useQuery(queries.repositories);
  const agents = useQuery(queries.agents);
  const names = useId();
  const form = useRef<HTMLFormElement>(null);
  // Asking twice with the same key makes one task: a lost answer costs nothing.
  const [key] = useState(() => crypto.randomUUID());
  const known = repositories.data?.items ?? [];
  const standard = agents.data?.items.find((agent) => agent.default);

  const create = useMutation({
    mutationFn: (ask: SchemaAsk) => ok(api.POST("/api/tasks", { body: ask, params: { header: { "Idempotency-Key": `${key}-${hash(JSON.stringify(ask))}` } } })),
    onSuccess: (task, ask) => {
      localStorage.setItem(LAST, ask.repository);
      void navigate({ to: "/tasks/$id", params: { id: task.id }, search: ask.race ? { tab: "race" } : {} });
    },
  });

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    const text = (name: string) => fieldText(data, name).trim() || undefined;
    const number = (name: string) => (text(name) === undefined ? undefined : Number(text(name)));
    create.mutate({
      prompt: fieldText(data, "prompt"),
      repository: text("repository") ?? "",
      // Agents that race are named there.
      agent: text("race") === "agents" ? undefined : text("agent"),
      model: text("race") === "agents" ? undefined : text("model"),
      base: text("base"),
      test: text("test"),
      budget_usd: number("budget"),
      timeout: number("minutes") === undefined ? undefined : Math.round((number("minutes") ?? 0) * 60),
      convoy: text("convoy"),
      priority: text("priority") as SchemaAsk["priority"],
      race: racing(data),
      plan: data.get("plan") === "on",
      require_tests: data.get("require_tests") === "on",
    });
  };
  const send = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
  };

  return (
    <Dialog title="New task" wide onClose={onClose}>
      <form ref={form} onSubmit={submit} onKeyDown={send} className="flex flex-col gap-3 p-4">
        <Field label="Task">
          {(id) => (
            <textarea
              id={id}
              name="prompt"
              required
              autoFocus
              rows={5}
              className="field resize-y"
              placeholder="In plain words, as you would tell a colleague. Name files, errors, and what must be true at the end."
            />
          )}
        </Field>
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label="Repository" hint={known.length === 0 ? "A path on the server's machine, or a URL" : undefined}>
            {(id) => (
              <>
                <input
                  id={id}
                  key={known.length > 0 ? "known" : "none"}
                  name="repository"
                  required
                  list={names}
                  className="field"
                  autoComplete="off"
                  placeholder="Name, path or URL"
                  defaultValue={localStorage.getItem(LAST) ?? known[0]?.name ?? ""}
                />
                <datalist id={names}>
                  {known.map((one) => (
                    <option key={one.name} value={one.name}>
                      {one.source}
                    </option>
                  ))}
                </datalist>
              </>
            )}
          </Field>
          <Field label="Agent">
            {(id) => (
              <select id={id} name="agent" className="field" defaultValue="">
                <option value="">{standard ? `${standard.name} (default)` : "Default"}</option>
                {(agents.data?.items ?? [])
                  .filter((agent) => !agent.default)
                  .map((agent) => (
                    <option key={agent.id} value={agent.id}>
                      {agent.name}
                      {agent.installed ? (agent.usable_providers.length ? "" : " (no key)") : " (not installed)"}
                    </option>
                  ))}
              </select>
            )}
          </Field>
          <Field label="Model">{(id) => <input id={id} name="model" className="field" autoComplete="off" placeholder="The agent's own choice" />}</Field>
          <Field label="Budget, US dollars">
            {(id) => <input id={id} name="budget" className="field" type="number" min="0.01" step="0.01" placeholder="As set for the project" />}
          </Field>
        </div>
        <Race agents={agents.data?.items ?? []} />
        <label className="flex items-center gap-2">
          <input type="checkbox" name="plan" /> Plan first, and wait for someone to approve
        </label>
        <details className="rounded-md border border-line px-3 py-2">
          <summary className="font-medium text-dim">More</summary>
          <div className="mt-3 grid gap-3 sm:grid-cols-2">
            <Field label="Start from">{(id) => <input id={id} name="base" className="field" placeholder="The repository's own branch" />}</Field>
            <Field label="Test command">{(id) => <input id={id} name="test" className="field font-mono" placeholder="Found in the repository" />}</Field>
            <Field label="Priority">
              {(id) => (
                <select id={id} name="priority" className="field" defaultValue="">
                  <option value="">Normal</option>
                  <option value="low">Low</option>
                  <option value="high">High</option>
                  <option value="urgent">Urgent</option>
                </select>
              )}
            </Field>
            <Field label="Time limit, minutes">
              {(id) => <input id={id} name="minutes" className="field" type="number" min="1" placeholder="As set for the project" />}
            </Field>
            <Field label="Convoy" hint="A batch that is followed as one">
              {(id) => <input id={id} name="convoy" className="field" />}
            </Field>
            <label className="flex items-center gap-2 self-end pb-2">
              <input type="checkbox" name="require_tests" /> Fail rather than deliver untested work
            </label>
          </div>
        </details>
        {create.isError && <Trouble error={create.error} />}
        <div className="flex items-center justify-end gap-2">
          <span className="mr-auto hidden items-center gap-1 text-xs text-dim sm:flex">
            <Key>Ctrl</Key>
            <Key>Enter</Key> to begin
          </span>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={create.isPending}>
            {create.isPending ? "Starting …" : "Start"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Tells changed requests apart; a key stands for one request. */
function hash(text: string): string {
  let sum = 5381;
  for (let at = 0; at < text.length; at += 1) sum = ((sum * 33) ^ text.charCodeAt(at)) >>> 0;
  return sum.toString(36);
}
