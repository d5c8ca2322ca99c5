// Where nothing has been asked for yet: what is needed for the first task, and something to look at without any of it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { api, ok } from "../api/client";
import { useMay } from "../api/may";
import { queries } from "../api/queries";
import { shortRepository } from "../api/words";
import { Icon, Sheaf, StatusIcon, type IconName } from "../ui/icons";
import { Button, Trouble } from "../ui/parts";
import { AddCredential } from "./keys";
import { AddRepository } from "./repositories";

export default function First({ create }: { create: () => void }) {
  const repositories = useQuery(queries.repositories);
  const agents = useQuery(queries.agents);
  const queue = useQuery(queries.queue);
  const [open, setOpen] = useState<"key" | "repository" | null>(null);
  const close = () => setOpen(null);
  const usable = agents.data?.items.filter((agent) => agent.installed && agent.usable_providers.length > 0) ?? [];
  const known = repositories.data?.items ?? [];
  const member = useMay("member");
  const admin = useMay("everywhere");
  return (
    <div className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label="First steps">
      <div className="mx-auto flex max-w-4xl flex-col gap-6 px-4 py-10 sm:py-16">
        <header className="flex flex-col items-center gap-3 text-center">
          <Sheaf size={44} />
          <h2 className="text-xl font-semibold text-balance">Create a task</h2>
          <p className="max-w-xl text-sm text-dim text-pretty">
            Describe it in plain words. An agent works on it in its own sandbox, Harvest runs the tests again in another, and you get a branch with the
            evidence.
          </p>
        </header>
        <div className="grid gap-4 md:grid-cols-[3fr_2fr]">
          <section aria-label="Your first task" className="card flex flex-col p-4">
            <h3 className="mb-3 text-sm font-semibold">Your first task</h3>
            <ol className="mb-4 flex flex-col gap-4">
              <Step
                done={usable.length > 0}
                title="An agent that can reach a model"
                act={usable.length === 0 && member ? <Button onClick={() => setOpen("key")}>Add a key</Button> : null}
              >
                {usable.length > 0
                  ? `${usable
                      .slice(0, 3)
                      .map((agent) => agent.name)
                      .join(", ")}.`
                  : "An API key for Anthropic, OpenAI or Gemini, or the address of an Ollama server. Keys are encrypted and never enter a sandbox."}
              </Step>
              <Step
                done={known.length > 0}
                title="A repository"
                act={known.length === 0 && admin ? <Button onClick={() => setOpen("repository")}>Add a repository</Button> : null}
              >
                {known.length > 0
                  ? `${known
                      .slice(0, 3)
                      .map((one) => one.name || shortRepository(one.source))
                      .join(", ")}.`
                  : "Any path on the server's machine, or a URL. Tasks in added repositories start in milliseconds, but a task can use any repository."}
              </Step>
              <Step done={false} title="A task">
                “Make the failing test pass”, “Update the dependencies”, “Why does the importer drop the last line?”
              </Step>
            </ol>
            {queue.data?.workers === 0 && (
              <p className="mb-3 rounded-md bg-warn-soft px-3 py-2 text-warn">
                No worker is running: tasks wait until an admin starts one, on the server's machine or another.
              </p>
            )}
            {member ? (
              <Button look="primary" icon="plus" className="mt-auto self-start" onClick={create}>
                New task
              </Button>
            ) : (
              <p className="mt-auto text-dim">Your role can read tasks, but not create them.</p>
            )}
          </section>
          <Demo may={admin} />
        </div>
      </div>
      {open === "key" && <AddCredential onClose={close} />}
      {open === "repository" && <AddRepository onClose={close} />}
    </div>
  );
}

function Step({ done, title, act, children }: { done: boolean; title: string; act?: ReactNode; children: ReactNode }) {
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-2 sm:flex-nowrap">
      <span className="mt-0.5">
        <StatusIcon status={done ? "completed" : "pending"} />
      </span>
      <div className="min-w-0 flex-1">
        <p className="font-medium">{title}</p>
        <p className="text-dim text-pretty">{children}</p>
      </div>
      {act && <span className="basis-full pl-[27px] sm:basis-auto sm:pl-0">{act}</span>}
    </li>
  );
}

const SHOWN: [IconName, string][] = [
  ["approve", "Two succeed, and their tests pass"],
  ["close", "One fails its tests"],
  ["chart", "One is stopped by its budget"],
];

function Demo({ may }: { may: boolean }) {
  const begin = useMutation({ mutationFn: () => ok(api.POST("/api/demo")) });
  return (
    <section aria-label="Demo" className="flex flex-col gap-3 rounded-lg border border-line bg-side p-4">
      <h3 className="text-sm font-semibold">Or try the demo</h3>
      <p className="text-dim text-pretty">
        The demo creates a sample repository and runs four tasks on it, live and in real sandboxes, with a scripted model. No key, no account, no network.
      </p>
      <ul className="flex flex-col gap-1.5">
        {SHOWN.map(([icon, text]) => (
          <li key={text} className="flex items-center gap-2">
            <span className="text-accent">
              <Icon name={icon} />
            </span>
            {text}
          </li>
        ))}
      </ul>
      {begin.isError && <Trouble error={begin.error} />}
      {may ? (
        <Button className="mt-auto self-start" icon="play" disabled={begin.isPending} onClick={() => begin.mutate()}>
          {begin.isPending ? "Starting…" : "Try the demo"}
        </Button>
      ) : (
        <p className="mt-auto text-dim">An admin can start it.</p>
      )}
    </section>
  );
}
