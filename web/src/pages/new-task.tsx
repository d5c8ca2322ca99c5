import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useRef, useState, type KeyboardEvent, type SubmitEvent } from "react";
import { api, ok } from "../api/client";
import { queries } from "../api/queries";
import type { SchemaAsk } from "../api/schema";
import { Race, racing } from "./race-field";
import { LAST_REPOSITORY, RepositoryField } from "./repository-field";
import { firstLine } from "../text/harmless";
import { fieldText } from "../ui/form";
import { Button, Dialog, Field, Key, Trouble } from "../ui/parts";

export default function NewTask({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const agents = useQuery(queries.agents);
  const form = useRef<HTMLFormElement>(null);
  // Asking twice with the same key makes one task: a lost answer costs nothing.
  const [key] = useState(() => crypto.randomUUID());
  const standard = agents.data?.items.find((agent) => agent.default);

  const create = useMutation({
    mutationFn: (ask: SchemaAsk) => ok(api.POST("/api/tasks", { body: ask, params: { header: { "Idempotency-Key": `${key}-${hash(JSON.stringify(ask))}` } } })),
    onSuccess: (task, ask) => {
      localStorage.setItem(LAST_REPOSITORY, ask.repository);
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
      gate: data.get("gate") === "on",
      plan_review: data.get("plan") === "on" ? text("plan_review") : undefined,
      workflow: text("workflow") as SchemaAsk["workflow"],
      retries: number("retries"),
      after: several(text("after")),
      on_failed_dependency: text("after") ? (text("on_failed_dependency") as SchemaAsk["on_failed_dependency"]) : undefined,
      mcp: several(text("mcp")),
      fallback_agents: several(text("fallback_agents")),
    });
  };
  const [plan, setPlan] = useState(false);
  const installed = (agents.data?.items ?? []).filter((agent) => agent.installed);
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
              placeholder="Describe it as you would to a colleague: files, errors, and the expected result."
            />
          )}
        </Field>
        <div className="grid gap-3 sm:grid-cols-2">
          <RepositoryField preset />
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
          <Field label="Model">{(id) => <input id={id} name="model" className="field" autoComplete="off" placeholder="The agent's default" />}</Field>
          <Field label="Budget (US dollars)">
            {(id) => <input id={id} name="budget" className="field" type="number" min="0.01" step="0.01" placeholder="Project default" />}
          </Field>
        </div>
        <Race agents={agents.data?.items ?? []} />
        <div className="flex flex-wrap gap-x-5 gap-y-1.5">
          <label className="flex items-center gap-2">
            <input type="checkbox" name="plan" checked={plan} onChange={(event) => setPlan(event.target.checked)} /> Plan first and wait for approval
          </label>
          <label className="flex items-center gap-2">
            <input type="checkbox" name="gate" /> Hold the result until someone approves it
          </label>
        </div>
        <details className="rounded-md border border-line px-3 py-2">
          <summary className="font-medium text-dim">More</summary>
          <div className="mt-3 grid gap-3 sm:grid-cols-2">
            <Field label="Start from">{(id) => <input id={id} name="base" className="field" placeholder="Default branch" />}</Field>
            <Field label="Test command">{(id) => <input id={id} name="test" className="field font-mono" placeholder="Detected in the repository" />}</Field>
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
            <Field label="Time limit (minutes)">
              {(id) => <input id={id} name="minutes" className="field" type="number" min="1" placeholder="Project default" />}
            </Field>
            <Field label="Convoy" hint="A batch of tasks with its own progress">
              {(id) => <input id={id} name="convoy" className="field" />}
            </Field>
            <Field label="Retries" hint="After temporary failures">
              {(id) => <input id={id} name="retries" className="field" type="number" min="0" max="20" placeholder="Project default" />}
            </Field>
            <Field label="Workflow">
              {(id) => (
                <select id={id} name="workflow" className="field" defaultValue="">
                  <option value="">Project default</option>
                  <option value="direct">Direct</option>
                  <option value="research-plan-implement">Research, plan, then implement</option>
                </select>
              )}
            </Field>
            <Field label="Plan review" hint={plan ? "Another agent reviews the plan" : "For tasks that plan first"}>
              {(id) => (
                <select id={id} name="plan_review" className="field" defaultValue="" disabled={!plan}>
                  <option value="">None</option>
                  {installed.map((agent) => (
                    <option key={agent.id} value={agent.id}>
                      {agent.name}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            <After />
            <Field label="MCP servers" hint="Names from the settings, separated by commas; they replace the project's list">
              {(id) => <input id={id} name="mcp" className="field" autoComplete="off" placeholder="Project default" />}
            </Field>
            <Field label="Fallback agents" hint="They take over, in this order, when a model's quota is exhausted">
              {(id) => (
                <input id={id} name="fallback_agents" className="field" autoComplete="off" placeholder={installed.map((one) => one.id).join(", ") || "None"} />
              )}
            </Field>
            <label className="flex items-center gap-2 self-end pb-2">
              <input type="checkbox" name="require_tests" /> Fail rather than deliver untested work
            </label>
          </div>
        </details>
        {create.isError && <Trouble error={create.error} />}
        <div className="sticky bottom-0 -mx-4 -mb-4 flex items-center justify-end gap-2 border-t border-line bg-raised px-4 py-3">
          <span className="mr-auto hidden items-center gap-1 text-xs text-dim sm:flex">
            <Key>Ctrl</Key>
            <Key>Enter</Key> to start
          </span>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={create.isPending}>
            {create.isPending ? "Starting…" : "Start"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The tasks that have to complete before, and what happens when one does not. */
function After() {
  const names = useId();
  const tasks = useInfiniteQuery(queries.tasks({}));
  const [value, setValue] = useState("");
  const recent = (tasks.data?.pages ?? []).flatMap((page) => page.items).slice(0, 100);
  const last = value.split(",").at(-1) ?? "";
  const before = value.slice(0, value.length - last.trimStart().length);
  return (
    <>
      <Field label="After" hint="Starts when these tasks have completed; separate several with commas">
        {(id) => (
          <>
            <input
              id={id}
              name="after"
              list={names}
              className="field"
              autoComplete="off"
              placeholder="Starts immediately"
              value={value}
              onChange={(event) => setValue(event.target.value)}
            />
            <datalist id={names}>
              {recent.map((task) => (
                <option key={task.id} value={`${before}${task.id.slice(0, 8)}`}>
                  {firstLine(task.prompt, 60)}
                </option>
              ))}
            </datalist>
          </>
        )}
      </Field>
      {value.trim() && (
        <Field label="If one of them fails">
          {(id) => (
            <select id={id} name="on_failed_dependency" className="field" defaultValue="hold">
              <option value="hold">Keep waiting: it may be retried</option>
              <option value="cancel">Cancel this task</option>
            </select>
          )}
        </Field>
      )}
    </>
  );
}

function several(text: string | undefined): string[] | undefined {
  const all = (text ?? "").split(/[\s,]+/).filter(Boolean);
  return all.length > 0 ? all : undefined;
}

/** Tells changed requests apart; a key stands for one request. */
function hash(text: string): string {
  let sum = 5381;
  for (let at = 0; at < text.length; at += 1) sum = ((sum * 33) ^ text.charCodeAt(at)) >>> 0;
  return sum.toString(36);
}
