// The API, to read and to try: every operation with its parameters, schemas and examples, made from the server's own document.
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState, type SubmitEvent } from "react";
import { proof } from "../api/proof";
import { queries } from "../api/queries";
import { Prose, Stranger } from "../text/show";
import { words } from "../ui/icons";
import { Badge, Button, Code, CopyButton, Field, Page, Trouble, Waiting } from "../ui/parts";
import { took } from "../ui/time";
import { addressOf, curlOf, exampleOf, limits, nameOf, operations, resolve, typeOf, type ApiDocument, type Operation, type Schema } from "./document";

const document = queryOptions({
  queryKey: ["openapi"],
  staleTime: Infinity,
  queryFn: async () => {
    const answer = await fetch("/api/openapi.json");
    if (!answer.ok) throw new Error(`The API description could not be read: ${answer.status}`);
    return (await answer.json()) as ApiDocument;
  },
});

const TONES: Record<string, "good" | "accent" | "warn" | "bad"> = { GET: "good", POST: "accent", PUT: "warn", PATCH: "warn", DELETE: "bad" };

export function ApiDocsPage() {
  const read = useQuery(document);
  const [search, setSearch] = useState("");
  const [chosen, choose] = useState(() => decodeURIComponent(location.hash.slice(1)));
  const [token, setToken] = useState("");
  const all = useMemo(() => (read.data ? operations(read.data) : []), [read.data]);
  const wanted = search.toLowerCase();
  const found = all.filter((one) => `${one.method} ${one.path} ${one.id} ${one.summary}`.toLowerCase().includes(wanted));
  const tags = [...new Set(found.map((one) => one.tag))];
  const operation = all.find((one) => one.id === chosen);
  const open = (id: string) => {
    choose(id);
    history.replaceState(history.state, "", `#${encodeURIComponent(id)}`);
  };
  if (!read.data)
    return <Page title="API">{read.isError ? <Trouble error={read.error} again={() => void read.refetch()} /> : <Waiting what="the API description" />}</Page>;
  const api = read.data;
  return (
    <Page
      fill
      title={`API ${api.info.version}`}
      actions={
        <a href="/api/openapi.json" className="text-accent underline">
          openapi.json
        </a>
      }
    >
      <div className="flex min-h-0 flex-1 flex-col md:flex-row">
        <nav
          aria-label="Operations"
          className={`flex shrink-0 flex-col border-line md:w-80 md:border-r ${operation ? "max-h-48 border-b md:max-h-none md:border-b-0" : "min-h-0 flex-1 md:flex-none"}`}
        >
          <div className="p-3">
            <input
              type="search"
              aria-label="Search operations"
              placeholder="Search operations"
              className="field"
              value={search}
              onChange={(event) => setSearch(event.target.value)}
            />
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto px-2 pb-4" tabIndex={0} role="region" aria-label="List of operations">
            {tags.map((tag) => (
              <section key={tag} aria-label={words(tag)}>
                <h2 className="px-1 pt-2 pb-1 text-xs font-medium text-dim">{words(tag)}</h2>
                <ul>
                  {found
                    .filter((one) => one.tag === tag)
                    .map((one) => (
                      <li key={one.id}>
                        <button
                          type="button"
                          aria-current={one.id === chosen ? "true" : undefined}
                          onClick={() => open(one.id)}
                          className={`flex w-full items-center gap-2 rounded px-1 py-0.5 text-left hover:bg-hover ${one.id === chosen ? "bg-hover" : ""}`}
                        >
                          <span className="w-14 shrink-0">
                            <Badge tone={TONES[one.method]}>{one.method}</Badge>
                          </span>
                          <span className="min-w-0 truncate font-mono text-xs" title={one.summary}>
                            {one.path.replace(/^\/api/, "")}
                          </span>
                        </button>
                      </li>
                    ))}
                </ul>
              </section>
            ))}
            {found.length === 0 && <p className="px-1 text-dim">No matching operations</p>}
          </div>
        </nav>
        <div className="min-h-0 min-w-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label="Operation">
          <div className="mx-auto flex max-w-4xl flex-col gap-4 p-4">
            {operation ? (
              <OperationView key={operation.id} operation={operation} document={api} token={token} setToken={setToken} />
            ) : (
              <Prose text={api.info.description ?? ""} />
            )}
          </div>
        </div>
      </div>
    </Page>
  );
}

function OperationView({ operation, document, token, setToken }: { operation: Operation; document: ApiDocument } & Tokens) {
  return (
    <>
      <header className="flex flex-col gap-1">
        <p className="flex flex-wrap items-center gap-2">
          <Badge tone={TONES[operation.method]}>{operation.method}</Badge>
          <Code>{operation.path}</Code>
          <CopyButton text={operation.path} label="Copy path" />
        </p>
        <h2 className="text-base font-semibold">{operation.summary}</h2>
        {operation.description && <Prose text={operation.description} />}
        <p className="text-dim">
          {operation.needs.length === 0 ? "Open to everyone." : `Requires the ${operation.needs[0]} role`}
          {operation.needs.includes("everywhere") ? ", with a token that is not limited to projects." : operation.needs.length > 0 ? "." : ""}
        </p>
      </header>
      <Try operation={operation} document={document} token={token} setToken={setToken} />
      {operation.body && (
        <section aria-label="Request body">
          <h3 className="mb-1 font-semibold">Request body</h3>
          <SchemaView schema={operation.body} document={document} />
        </section>
      )}
      <section aria-label="Responses" className="flex flex-col gap-2">
        <h3 className="font-semibold">Responses</h3>
        {operation.answers.map((answer) => (
          <details key={`${answer.status} ${answer.type}`} open={answer.status.startsWith("2")} className="card">
            <summary className="flex flex-wrap items-center gap-2 px-3 py-1.5">
              <Badge tone={answer.status.startsWith("2") ? "good" : "bad"}>{answer.status}</Badge>
              <span>{answer.description}</span>
              {answer.type && <Code>{answer.type}</Code>}
            </summary>
            {answer.schema && (
              <div className="flex flex-col gap-2 border-t border-line px-3 py-2">
                <SchemaView schema={answer.schema} document={document} />
                <details>
                  <summary className="text-dim">Example</summary>
                  <Stranger text={JSON.stringify(exampleOf(answer.schema, document), null, 2)} lines={200} />
                </details>
              </div>
            )}
          </details>
        ))}
      </section>
    </>
  );
}

/** The parts of a schema; those that are schemas of their own open in place. */
function SchemaView({ schema, document, depth = 0 }: { schema: Schema; document: ApiDocument; depth?: number }) {
  const found = resolve(schema, document);
  const merged = found.allOf ? found.allOf.map((one) => resolve(one, document)) : [found];
  const parts = merged.flatMap((one) => Object.entries(one.properties ?? {}));
  const required = new Set(merged.flatMap((one) => one.required ?? []));
  const items = found.items;
  if (parts.length === 0 && items && depth < 8)
    return (
      <div>
        <p className="text-dim">{typeOf(found, document)}</p>
        <SchemaView schema={items} document={document} depth={depth + 1} />
      </div>
    );
  if (parts.length === 0) return <Simple schema={found} document={document} />;
  return (
    <div className="flex flex-col">
      {nameOf(schema) && (
        <p className="mb-1 text-xs text-dim">
          <span className="font-medium">{nameOf(schema)}</span>
          {found.description && (
            <>
              : <Words text={found.description} />
            </>
          )}
        </p>
      )}
      <dl className="flex flex-col rounded-md border border-line">
        {parts.map(([name, part]) => (
          <div key={name} className="border-b border-line px-3 py-1.5 last:border-0">
            <dt className="flex flex-wrap items-baseline gap-2">
              <code className="font-mono text-xs font-medium">{name}</code>
              <span className="text-xs text-dim">{typeOf(part, document)}</span>
              {required.has(name) && <Badge tone="accent">required</Badge>}
            </dt>
            <dd className="text-dim">
              <Words text={part.description ?? (nameOf(part) ? resolve(part, document).description : undefined)} />
              <Limits of={resolve(part, document)} />
              <Inner of={part} document={document} depth={depth} />
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** A sentence with code between backticks. */
function Words({ text }: { text?: string }) {
  return text?.split("`").map((part, index) => (index % 2 ? <Code key={index}>{part}</Code> : part));
}

function Inner({ of, document, depth }: { of: Schema; document: ApiDocument; depth: number }) {
  const choice = (of.oneOf ?? of.anyOf)?.find((one) => nameOf(one)) ?? of;
  const target = choice.items ?? choice;
  const name = nameOf(target);
  const found = resolve(target, document);
  if (!name || depth > 5 || !(found.properties ?? found.allOf ?? found.oneOf)) return null;
  return (
    <details className="mt-1">
      <summary className="text-xs text-accent">{name}</summary>
      <SchemaView schema={target} document={document} depth={depth + 1} />
    </details>
  );
}

function Simple({ schema, document }: { schema: Schema; document: ApiDocument }) {
  return (
    <p className="text-dim">
      {typeOf(schema, document)} <Limits of={schema} />
    </p>
  );
}

function Limits({ of }: { of: Schema }) {
  const said = limits(of);
  return said.length > 0 ? <span className="block font-mono text-xs break-all">{said.join(", ")}</span> : null;
}

interface Tokens {
  token: string;
  setToken: (token: string) => void;
}

interface Answer {
  status: number;
  type: string;
  text: string;
  time: number;
}

/** Streams go on for ever: so much of them is shown. */
const MOST_READ = 200_000;
const LONGEST_STREAM = 3_000;

async function ask(address: string, request: { method: string; headers: Record<string, string>; body?: string }, token: string): Promise<Answer> {
  const began = performance.now();
  const proved: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : { "X-Harvest-CSRF": proof() ?? "" };
  const answer = await fetch(address, { ...request, credentials: token ? "omit" : "same-origin", headers: { ...request.headers, ...proved } });
  const text = await readSome(answer);
  return { status: answer.status, type: answer.headers.get("content-type") ?? "", text, time: performance.now() - began };
}

/** Sends the request as the person who is signed in, or with a token, which is kept nowhere. */
function Try({ operation, document, token, setToken }: { operation: Operation; document: ApiDocument } & Tokens) {
  const me = useQuery(queries.me);
  const [values, setValues] = useState<Record<string, string>>({});
  const [body, setBody] = useState(() => (operation.body ? JSON.stringify(exampleOf(operation.body, document, false), null, 2) : ""));
  const parameters = operation.parameters.filter((one) => one.in !== "cookie");
  const address = addressOf(operation, values);
  const headers = Object.fromEntries([
    ...parameters.filter((one) => one.in === "header" && values[one.name]).map((one) => [one.name, values[one.name] ?? ""]),
    ...(operation.body ? [["Content-Type", "application/json"]] : []),
  ]) as Record<string, string>;
  const send = useMutation({
    gcTime: 0,
    mutationFn: () => ask(address, { method: operation.method, headers, body: operation.body ? body : undefined }, token),
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (!send.isPending) send.mutate();
  };
  return (
    <section aria-label="Try it" className="card">
      <form className="flex flex-col gap-3 p-3" onSubmit={submit}>
        <p className="flex items-center gap-2">
          <strong className="mr-auto font-semibold">Try it</strong>
          <span className="text-xs text-dim">{token ? "with the token below" : me.data ? `as ${me.data.user}, on this installation` : "with a token"}</span>
        </p>
        {parameters.length > 0 && (
          <div className="grid gap-3 sm:grid-cols-2">
            {parameters.map((one) => (
              <Field key={one.name} label={`${one.name}${one.required ? "" : ` (optional${one.in === "header" ? ", header" : ""})`}`} hint={one.description}>
                {(id) =>
                  one.schema?.enum ? (
                    <select
                      id={id}
                      className="field"
                      value={values[one.name] ?? ""}
                      onChange={(event) => setValues({ ...values, [one.name]: event.target.value })}
                    >
                      <option value="" />
                      {one.schema.enum.map((choice) => (
                        <option key={String(choice)}>{String(choice)}</option>
                      ))}
                    </select>
                  ) : (
                    <input
                      id={id}
                      className="field font-mono"
                      autoComplete="off"
                      required={one.required}
                      value={values[one.name] ?? ""}
                      onChange={(event) => setValues({ ...values, [one.name]: event.target.value })}
                      placeholder={one.schema ? limits(one.schema).join(", ") || typeOf(one.schema, document) : ""}
                    />
                  )
                }
              </Field>
            ))}
          </div>
        )}
        {operation.body && (
          <Field label="Body (JSON)">
            {(id) => (
              <textarea
                id={id}
                className="field font-mono text-xs"
                rows={Math.min(16, body.split("\n").length + 1)}
                value={body}
                onChange={(event) => setBody(event.target.value)}
              />
            )}
          </Field>
        )}
        <details>
          <summary className="text-dim">Use another token, or a terminal</summary>
          <div className="mt-2 flex flex-col gap-2">
            <Field
              label="Token"
              hint={me.data ? "Leave empty to use your own sign-in. It is kept only in this tab's memory." : "It is kept only in this tab's memory."}
            >
              {(id) => (
                <input
                  id={id}
                  type="password"
                  className="field font-mono"
                  autoComplete="off"
                  value={token}
                  onChange={(event) => setToken(event.target.value.trim())}
                  placeholder="hv_…"
                />
              )}
            </Field>
            <div className="flex items-start gap-1 rounded-md border border-line bg-side px-3 py-2">
              <div className="min-w-0 flex-1">
                <Stranger text={curlOf(operation, location.origin + address, headers, operation.body ? body : null)} />
              </div>
              <CopyButton text={curlOf(operation, location.origin + address, headers, operation.body ? body : null)} label="Copy command" />
            </div>
          </div>
        </details>
        <div className="flex items-center gap-2">
          <Code>{`${operation.method} ${address}`}</Code>
          <Button
            look={operation.method === "DELETE" ? "danger" : "primary"}
            type="submit"
            className="ml-auto"
            disabled={send.isPending || (!me.data && !token)}
          >
            {send.isPending ? "Sending…" : "Send"}
          </Button>
        </div>
        {!me.data && !token && <p className="text-dim">Sign in, or paste a token above, to send requests. Browsing needs neither.</p>}
      </form>
      {send.isError && <Trouble error={send.error} />}
      {send.data && (
        <div role="status" aria-label="Response" className="flex flex-col gap-2 border-t border-line px-3 py-2">
          <p className="flex items-center gap-2">
            <Badge tone={send.data.status < 400 ? "good" : "bad"}>{send.data.status}</Badge>
            <span className="text-xs text-dim">
              {send.data.type} · {took(send.data.time)}
            </span>
          </p>
          <div className="max-h-96 overflow-auto" tabIndex={0} role="region" aria-label="Response body">
            <Stranger text={pretty(send.data.text) || "No content"} lines={1_000} />
          </div>
        </div>
      )}
    </section>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** All of an answer, or the beginning of one that does not end. */
async function readSome(answer: Response): Promise<string> {
  const reader = answer.body?.getReader();
  if (!reader) return "";
  const decoder = new TextDecoder();
  const streams = answer.headers.get("content-type")?.startsWith("text/event-stream");
  const timer = streams ? setTimeout(() => void reader.cancel(), LONGEST_STREAM) : undefined;
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    if (text.length > MOST_READ) {
      void reader.cancel();
      break;
    }
  }
  clearTimeout(timer);
  return text;
}
