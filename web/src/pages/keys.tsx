// Credentials and tokens. A secret goes in and never comes out again.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, ok } from "../api/client";
import { may, rolesUpTo, useMay } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaModelProvider, SchemaRole } from "../api/schema";
import { providerName } from "../api/words";
import { firstLine } from "../text/harmless";
import { words } from "../ui/icons";
import { Badge, Button, Code, CopyButton, Dialog, Empty, Field, Page, Table } from "../ui/parts";
import { ago, exact, since } from "../ui/time";
import { Confirm, FormOf, Shown } from "./tables";

const PROVIDERS: [SchemaModelProvider, string][] = [
  ["anthropic", "Anthropic"],
  ["openai", "OpenAI"],
  ["gemini", "Gemini"],
  ["ollama", "Ollama"],
  ["github", "GitHub account"],
  ["mcp", "MCP server"],
];

const HINTS: Partial<Record<SchemaModelProvider, string>> = {
  ollama: "If your server needs no key, leave the secret empty.",
  github: "A personal token for repositories on GitHub. Pull requests are opened by its account.",
  mcp: "For MCP servers whose settings name this credential.",
};

export function CredentialsPage() {
  const mayAdd = useMay("member");
  const [open, setOpen] = useState<"add" | { rotate: string } | null>(null);
  const close = () => setOpen(null);
  return (
    <Page
      title="Credentials"
      actions={
        mayAdd && (
          <Button look="primary" icon="plus" onClick={() => setOpen("add")}>
            Add credential
          </Button>
        )
      }
      about="Keys for models, GitHub and MCP servers, encrypted on the server. Only the gateway uses them: they never appear in a sandbox, a log or on this page."
    >
      {mayAdd ? <Credentials rotate={(id) => setOpen({ rotate: id })} /> : <Empty title="Your role cannot see credentials" icon="key" />}
      {open === "add" && <AddCredential onClose={close} />}
      {open && open !== "add" && <Rotate id={open.rotate} onClose={close} />}
    </Page>
  );
}

function Credentials({ rotate }: { rotate: (id: string) => void }) {
  const credentials = useQuery(queries.credentials);
  return (
    <Shown of={credentials} what="credentials">
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="No credentials yet" icon="key">
            Agents need an API key from a model vendor, or the address of an Ollama server.
          </Empty>
        ) : (
          <Table
            label="Credentials"
            rows={items}
            id={(row) => row.id}
            columns={[
              { name: "Provider", cell: (row) => <span className="font-medium">{providerName(row.provider)}</span> },
              { name: "Name", cell: (row) => row.name },
              { name: "Ends in", cell: (row) => (row.last4 ? <Code>…{row.last4}</Code> : <span className="text-dim">No secret</span>) },
              { name: "Used by", minor: true, cell: (row) => scopeWords(row.scope) },
              { name: "Host", minor: true, cell: (row) => (row.base_url ? <Code>{row.base_url}</Code> : <span className="text-dim">Vendor default</span>) },
              {
                name: "Last used",
                minor: true,
                cell: (row) => (
                  <span className="text-dim" title={row.last_used_at ? exact(row.last_used_at) : undefined}>
                    {row.last_used_at ? since(row.last_used_at) : "never"}
                  </span>
                ),
              },
              {
                name: "",
                number: true,
                cell: (row) => (
                  <span className="inline-flex">
                    <Button look="quiet" icon="retry" label={`Replace the secret of ${row.name}`} onClick={() => rotate(row.id)} />
                    <RemoveCredential id={row.id} name={row.name} />
                  </span>
                ),
              },
            ]}
          />
        )
      }
    </Shown>
  );
}

export function AddCredential({ onClose }: { onClose: () => void }) {
  const me = useQuery(queries.me);
  const projects = useQuery(queries.projects);
  const [scope, setScope] = useState("");
  const [provider, setProvider] = useState<SchemaModelProvider>("anthropic");
  const admin = may(me.data, "everywhere");
  const add = useMutation({
    mutationFn: (body: { provider: SchemaModelProvider; secret: string; name?: string; base_url?: string; scope?: string }) =>
      ok(api.POST("/api/credentials", { body })),
    onSuccess: onClose,
    gcTime: 0,
  });
  return (
    <Dialog title="Add credential" onClose={onClose}>
      <FormOf
        error={add.error}
        busy={add.isPending}
        act="Add"
        onClose={onClose}
        submit={(text) =>
          add.mutate({
            provider,
            secret: text("secret") ?? "",
            name: text("name"),
            base_url: text("base_url"),
            scope: scope === "team" ? `team:${text("team") ?? ""}` : scope || undefined,
          })
        }
      >
        <Field label="Provider" hint={HINTS[provider]}>
          {(id) => (
            <select id={id} className="field" value={provider} onChange={(event) => setProvider(event.target.value as SchemaModelProvider)}>
              {PROVIDERS.filter(([one]) => one !== "github" || admin).map(([one, name]) => (
                <option key={one} value={one}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Secret provider={provider} />
        <Field
          label="Name"
          hint={
            provider === "mcp"
              ? "The name in the MCP server's settings"
              : "To tell several keys of one provider apart: if one is rejected or rate-limited, the next is used"
          }
        >
          {(id) => <input id={id} name="name" className="field" placeholder="default" />}
        </Field>
        {provider !== "github" && (
          <Field label="Used by" hint="Whose tasks can use it">
            {(id) => (
              <select id={id} className="field" value={scope} onChange={(event) => setScope(event.target.value)}>
                <option value="">My own tasks</option>
                {admin && <option value="team">A team</option>}
                {(projects.data?.items ?? [])
                  .filter((one) => may(me.data, "admin", one.name))
                  .map((one) => (
                    <option key={one.name} value={`project:${one.name}`}>
                      Project {one.name}
                    </option>
                  ))}
              </select>
            )}
          </Field>
        )}
        {scope === "team" && provider !== "github" && (
          <Field label="Team" hint="The team's name in the settings">
            {(id) => <input id={id} name="team" required className="field" />}
          </Field>
        )}
        {provider !== "mcp" && admin && (
          <Field
            label={provider === "ollama" ? "URL of the Ollama server" : "URL (default: the vendor's)"}
            hint={provider === "ollama" ? "Empty: ollama.com, which needs a key" : undefined}
          >
            {(id) => <input id={id} name="base_url" type="url" className="field" />}
          </Field>
        )}
      </FormOf>
    </Dialog>
  );
}

function scopeWords(scope: string): string {
  const [kind, name] = scope.split(":", 2);
  return kind === "team" ? `Team ${name}` : kind === "project" ? `Project ${name}` : (name ?? scope);
}

/** Ollama servers often need none. */
export function Secret({ provider }: { provider?: SchemaModelProvider }) {
  const optional = provider === "ollama";
  return (
    <Field label="Secret" hint="Only its last four characters are shown later">
      {(id) => (
        <input
          id={id}
          name="secret"
          type="password"
          required={!optional}
          placeholder={optional ? "Optional" : undefined}
          autoFocus
          autoComplete="off"
          className="field font-mono"
        />
      )}
    </Field>
  );
}

function Rotate({ id, onClose }: { id: string; onClose: () => void }) {
  const rotate = useMutation({
    mutationFn: (secret: string) => ok(api.PUT("/api/credentials/{id}/secret", { params: { path: { id } }, body: { secret } })),
    onSuccess: onClose,
    gcTime: 0,
  });
  return (
    <Dialog title="Replace the secret" onClose={onClose}>
      <FormOf error={rotate.error} busy={rotate.isPending} act="Replace" onClose={onClose} submit={(text) => rotate.mutate(text("secret") ?? "")}>
        <Secret />
      </FormOf>
    </Dialog>
  );
}

function RemoveCredential({ id, name }: { id: string; name: string }) {
  const remove = useMutation({ mutationFn: () => ok(api.DELETE("/api/credentials/{id}", { params: { path: { id } } })) });
  return (
    <Confirm what={`Remove ${name}`} sure="Harvest can no longer use it. Revoke it at the provider as well." act={() => remove.mutate()} error={remove.error} />
  );
}

export function TokensPage() {
  const mayCreate = useMay("member");
  const tokens = useQuery(queries.tokens);
  const [adding, setAdding] = useState(false);
  return (
    <Page
      title="Tokens"
      actions={
        mayCreate && (
          <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
            New token
          </Button>
        )
      }
      about="For programs that use the API. Harvest stores only a digest: the token itself is shown once."
    >
      <Shown of={tokens} what="tokens">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No tokens yet" icon="token">
              Scripts and other services need one to use the API. See the{" "}
              <a href="/api/docs" className="text-accent underline">
                API reference
              </a>
              .
            </Empty>
          ) : (
            <Table
              label="Tokens"
              rows={items}
              id={(row) => row.id}
              columns={[
                { name: "Name", cell: (row) => <span className="font-medium">{firstLine(row.name, 60)}</span> },
                { name: "User", minor: true, cell: (row) => row.user },
                { name: "Role", cell: (row) => words(row.role) },
                { name: "Projects", minor: true, cell: (row) => (row.projects ? row.projects.join(", ") : <span className="text-dim">All</span>) },
                { name: "Last used", minor: true, cell: (row) => <span className="text-dim">{row.last_used_at ? since(row.last_used_at) : "never"}</span> },
                {
                  name: "State",
                  cell: (row) =>
                    row.revoked_at ? (
                      <Badge tone="bad">Revoked</Badge>
                    ) : row.expires_at ? (
                      <Badge tone={Date.parse(row.expires_at) < Date.now() ? "bad" : "plain"}>
                        {Date.parse(row.expires_at) < Date.now() ? "Expired" : `Expires ${ago(row.expires_at)}`}
                      </Badge>
                    ) : (
                      <Badge tone="good">Valid</Badge>
                    ),
                },
                { name: "", number: true, cell: (row) => (row.revoked_at ? null : <RevokeToken id={row.id} name={row.name} />) },
              ]}
            />
          )
        }
      </Shown>
      {adding && <AddToken onClose={() => setAdding(false)} />}
    </Page>
  );
}

export function AddToken({ onClose }: { onClose: () => void }) {
  const me = useQuery(queries.me);
  const add = useMutation({
    mutationFn: (body: { name: string; role: SchemaRole; expires_in_days?: number }) => ok(api.POST("/api/tokens", { body })),
    gcTime: 0,
  });
  if (add.data) {
    return (
      <Dialog title="Your token" onClose={onClose}>
        <div className="flex flex-col gap-3 p-4">
          <p>Copy it now: it is not shown again.</p>
          <p className="flex items-center gap-2">
            <Code>{add.data.token}</Code>
            <CopyButton text={add.data.token} label="Copy token" />
          </p>
          <div className="flex justify-end">
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New token" onClose={onClose}>
      <FormOf
        error={add.error}
        busy={add.isPending}
        act="Create"
        onClose={onClose}
        submit={(text) =>
          add.mutate({ name: text("name") ?? "", role: text("role") as SchemaRole, expires_in_days: text("days") ? Number(text("days")) : undefined })
        }
      >
        <Field label="Name">{(id) => <input id={id} name="name" required autoFocus className="field" placeholder="ci" />}</Field>
        <Field label="Role" hint="Viewers read, members create tasks, admins change everything">
          {(id) => (
            <select id={id} name="role" className="field">
              {rolesUpTo(me.data).map((role) => (
                <option key={role} value={role}>
                  {words(role)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Expires after (days)">
          {(id) => <input id={id} name="days" type="number" min="1" max="3650" className="field" placeholder="Never" />}
        </Field>
      </FormOf>
    </Dialog>
  );
}

function RevokeToken({ id, name }: { id: string; name: string }) {
  const revoke = useMutation({ mutationFn: () => ok(api.DELETE("/api/tokens/{id}", { params: { path: { id } } })) });
  return <Confirm what={`Revoke ${firstLine(name, 40)}`} sure="It stops working immediately." act={() => revoke.mutate()} error={revoke.error} />;
}
