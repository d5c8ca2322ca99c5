// Several who do the same, of whom the best is delivered: so many of one agent, or agents against each other.
import { useState } from "react";
import type { SchemaAgentInfo, SchemaAsk } from "../api/schema";
import { fieldText } from "../ui/form";
import { Field } from "../ui/parts";

export function Race({ agents }: { agents: SchemaAgentInfo[] }) {
  const [kind, setKind] = useState("");
  const there = agents.filter((agent) => agent.installed);
  return (
    <fieldset className="grid gap-3 sm:grid-cols-2">
      <legend className="sr-only">Race</legend>
      <Field label="Race">
        {(id) => (
          <select id={id} name="race" className="field" value={kind} onChange={(event) => setKind(event.target.value)}>
            <option value="">No race</option>
            {[2, 3, 4, 5].map((number) => (
              <option key={number} value={number}>
                {number} runs of this agent
              </option>
            ))}
            <option value="agents" disabled={there.length === 0}>
              Several agents
            </option>
          </select>
        )}
      </Field>
      {kind !== "" && (
        <Field label="Winner">
          {(id) => (
            <select id={id} name="judged_by" className="field" defaultValue="cost">
              <option value="cost">Cheapest result that passes, then smallest change</option>
              <option value="time">First result that passes</option>
            </select>
          )}
        </Field>
      )}
      {kind !== "" && (
        <Field label="Judge" hint="Picks the best result if several pass">
          {(id) => (
            <select id={id} name="judge" className="field" defaultValue="">
              <option value="">None: the rule above decides</option>
              {there.map((agent) => (
                <option key={agent.id} value={agent.id}>
                  {agent.name}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {kind === "agents" && (
        <ul aria-label="Entrants" className="flex flex-col gap-1.5 sm:col-span-2">
          {there.map((agent) => (
            <li key={agent.id} className="flex items-center gap-3">
              <label className="flex min-w-0 flex-1 items-center gap-2">
                <input type="checkbox" name="racer" value={agent.id} />
                <span className="truncate">
                  {agent.name}
                  {agent.usable_providers.length > 0 ? "" : " (no key)"}
                </span>
              </label>
              <input
                name={`model of ${agent.id}`}
                aria-label={`Model of ${agent.name}`}
                className="field !w-1/2"
                autoComplete="off"
                placeholder="Agent default"
              />
            </li>
          ))}
        </ul>
      )}
    </fieldset>
  );
}

/** What the form says about a race. */
export function racing(data: FormData): SchemaAsk["race"] {
  const kind = fieldText(data, "race");
  if (kind === "") return undefined;
  const judged_by = data.get("judged_by") === "time" ? "time" : "cost";
  const judge = fieldText(data, "judge") || undefined;
  if (kind !== "agents") return { number: Number(kind), judged_by, judge };
  const agents = data
    .getAll("racer")
    .filter((id) => typeof id === "string")
    .map((id) => {
      const model = fieldText(data, `model of ${id}`).trim();
      return model ? `${id}:${model}` : id;
    });
  return { agents, judged_by, judge };
}
