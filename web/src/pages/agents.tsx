// The agents that there are, and whether they work here: a rehearsal tells.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, ok } from "../api/client";
import { useMay } from "../api/may";
import { pageWords } from "../api/page-words";
import { queries } from "../api/queries";
import type { SchemaAgentCheck, SchemaAgentInfo } from "../api/schema";
import { providerName } from "../api/words";
import { firstLine } from "../text/harmless";
import { StatusIcon, words } from "../ui/icons";
import { Badge, Button, Code, Dialog, Page, Table, Trouble } from "../ui/parts";
import { took, useNow } from "../ui/time";
import { Shown } from "./tables";

export function AgentsPage() {
  const agents = useQuery(queries.agents);
  const [checked, setChecked] = useState<SchemaAgentInfo | null>(null);
  const may = useMay("member");
  return (
    <Page
      title="Agents"
      about="Command-line coding agents that Harvest can drive. An agent is usable when it is installed on the worker and there is a credential for one of its models. A check needs no key: the agent runs in a real sandbox against a scripted model."
    >
      <Shown of={agents} what="agents">
        {({ items }) => (
          <Table
            label="Agents"
            rows={items}
            id={(row) => row.id}
            columns={[
              {
                name: "Agent",
                cell: (row) => (
                  <span className="font-medium">
                    {row.name} {row.default && <Badge tone="accent">Default</Badge>}
                  </span>
                ),
              },
              {
                name: "State",
                cell: (row) =>
                  !row.installed ? (
                    <Badge>Not installed</Badge>
                  ) : row.usable_providers.length > 0 ? (
                    <Badge tone="good">Usable</Badge>
                  ) : (
                    <Badge tone="warn">No key</Badge>
                  ),
              },
              { name: "Version", minor: true, cell: (row) => row.version ?? "" },
              { name: "Vendors", minor: true, cell: (row) => row.providers.map(providerName).join(", ") },
              {
                name: "Capabilities",
                minor: true,
                cell: (row) => (
                  <span className="text-dim">
                    {Object.entries(row.features)
                      .filter(([, has]) => has)
                      .map(([name]) => (name === "mcp" ? "MCP" : name.replaceAll("_", " ")))
                      .join(", ")}
                  </span>
                ),
              },
              {
                name: "Next step",
                minor: true,
                cell: (row) =>
                  !row.installed ? (
                    <Code>{row.install_hint}</Code>
                  ) : row.usable_providers.length === 0 && may ? (
                    <Link to="/credentials" className="text-accent underline">
                      Add a key
                    </Link>
                  ) : null,
              },
              {
                name: "",
                number: true,
                cell: (row) =>
                  row.installed && may ? (
                    <Button aria-label={`Check ${row.name}`} onClick={() => setChecked(row)}>
                      Check
                    </Button>
                  ) : null,
              },
            ]}
          />
        )}
      </Shown>
      {checked && <CheckDialog key={checked.id} agent={checked} onClose={() => setChecked(null)} />}
    </Page>
  );
}

function CheckDialog({ agent, onClose }: { agent: SchemaAgentInfo; onClose: () => void }) {
  const check = useMutation({ mutationFn: () => ok(api.POST("/api/agents/{id}/check", { params: { path: { id: agent.id } } })) });
  const { mutate, isIdle } = check;
  useEffect(() => {
    if (isIdle) mutate();
  }, [isIdle, mutate]);
  return (
    <Dialog title={`Check ${agent.name}`} onClose={onClose}>
      <div className="flex flex-col gap-3 p-4">
        {check.isPending || isIdle ? <Rehearsing /> : check.isError ? <Trouble error={check.error} /> : <Result of={check.data} name={agent.name} />}
        <div className="flex justify-end gap-2">
          {!check.isPending && (
            <Button icon="retry" onClick={() => mutate()}>
              Check again
            </Button>
          )}
          <Button look="primary" onClick={onClose}>
            Close
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

function Rehearsing() {
  const [began] = useState(() => Date.now());
  const now = useNow(1_000);
  return (
    <p role="status" className="flex items-center gap-2">
      <span className="pulse size-2 rounded-full bg-warn" aria-hidden />
      Running the check in a sandbox{" "}
      <span className="ml-auto text-dim tabular-nums" aria-hidden>
        {took(Math.max(0, now - began))}
      </span>
    </p>
  );
}

const SIGNS = { works: "completed", fails: "failed", absent: "cancelled" } as const;

function Result({ of, name }: { of: SchemaAgentCheck; name: string }) {
  return (
    <>
      <p role="status" className={`rounded-md px-3 py-2 font-medium ${of.works ? "bg-good-soft text-good" : "bg-bad-soft text-bad"}`}>
        {of.works ? `${name} works here.` : `${name} does not work here.`}
      </p>
      <ul className="flex flex-col gap-1.5">
        {of.checks.map((one) => (
          <li key={one.name} className="flex items-start gap-2">
            <span className="mt-0.5">
              <StatusIcon status={SIGNS[one.state]} />
            </span>
            <span className="w-20 shrink-0 font-medium">{words(one.name)}</span>
            <span className="min-w-0 break-words text-dim">{firstLine(pageWords(one.detail), 400)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
