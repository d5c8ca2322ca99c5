// Projects: which repositories belong together, who may do what in them, and what holds for their tasks.
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Fragment, useState } from "react";
import { api, ok } from "../api/client";
import { useMay } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaProject, SchemaRole } from "../api/schema";
import { shortRepository } from "../api/words";
import { money } from "../stream/sums";
import { firstLine } from "../text/harmless";
import { words } from "../ui/icons";
import { Badge, Button, Code, Dialog, Empty, Field, Page, Table, Trouble } from "../ui/parts";
import { useUsedRepositories } from "./repository-field";
import { Confirm, FormOf, Shown, When } from "./tables";

const ROLES: SchemaRole[] = ["viewer", "member", "admin"];
const route = getRouteApi("/projects/$name");

const lines = (text: string | undefined) =>
  (text ?? "")
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter(Boolean);

export function ProjectsPage() {
  const projects = useQuery(queries.projects);
  const mayCreate = useMay("everywhere");
  const [adding, setAdding] = useState(false);
  return (
    <Page
      title="Projects"
      actions={
        mayCreate && (
          <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
            New project
          </Button>
        )
      }
      about="Groups of repositories with shared settings and members."
    >
      <Shown of={projects} what="projects">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No projects yet" icon="project">
              Without a project, everyone who can sign in sees every repository.
            </Empty>
          ) : (
            <Table
              label="Projects"
              rows={items}
              id={(row) => row.name}
              columns={[
                {
                  name: "Name",
                  cell: (row) => (
                    <Link to="/projects/$name" params={{ name: row.name }} className="font-medium hover:underline">
                      {row.name}
                    </Link>
                  ),
                },
                {
                  name: "Repositories",
                  cell: (row) => (
                    <span className="flex flex-wrap gap-1">
                      {row.repositories.slice(0, 8).map((one) => (
                        <Code key={one}>{shortRepository(one)}</Code>
                      ))}
                      {row.repositories.length > 8 && <span className="text-dim">and {row.repositories.length - 8} more</span>}
                    </span>
                  ),
                },
                {
                  name: "Daily limit",
                  number: true,
                  minor: true,
                  cell: (row) => (row.daily_usd == null ? <span className="text-dim">none</span> : money(row.daily_usd)),
                },
              ]}
            />
          )
        }
      </Shown>
      {adding && <AddProject onClose={() => setAdding(false)} />}
    </Page>
  );
}

function AddProject({ onClose }: { onClose: () => void }) {
  const add = useMutation({ mutationFn: (body: { name: string; repositories: string[] }) => ok(api.POST("/api/projects", { body })), onSuccess: onClose });
  return (
    <Dialog title="New project" onClose={onClose}>
      <FormOf
        error={add.error}
        busy={add.isPending}
        act="Create"
        onClose={onClose}
        submit={(text) => add.mutate({ name: text("name") ?? "", repositories: lines(text("repositories")) })}
      >
        <Field label="Name" hint="Lowercase letters, digits, dots and dashes">
          {(id) => <input id={id} name="name" required autoFocus pattern="[a-z0-9][a-z0-9._\-]*" className="field" placeholder="shop" />}
        </Field>
        <RepositoryLines hint="Names, paths or URLs, one per line" />
      </FormOf>
    </Dialog>
  );
}

export function ProjectPage() {
  const { name } = route.useParams();
  const project = useQuery(queries.project(name));
  const admin = useMay("admin", name);
  // Which repositories belong to a project is decided for the whole installation.
  const everywhere = useMay("everywhere");
  return (
    <Page title={name} actions={everywhere && <RemoveProject name={name} />}>
      <Shown of={project} what="the project">
        {(data) => <Repositories project={data} may={everywhere} />}
      </Shown>
      <Members project={name} may={admin} />
      <Settings project={name} may={admin} />
    </Page>
  );
}

function RemoveProject({ name }: { name: string }) {
  const remove = useMutation({ mutationFn: () => ok(api.DELETE("/api/projects/{name}", { params: { path: { name } } })), onSuccess: () => history.back() });
  return (
    <Confirm
      named
      what="Remove project"
      sure="Its members lose the access it gave them. Tasks and repositories are kept."
      act={() => remove.mutate()}
      error={remove.error}
    />
  );
}

function Repositories({ project, may }: { project: SchemaProject; may: boolean }) {
  const [editing, setEditing] = useState(false);
  const change = useMutation({
    mutationFn: (repositories: string[]) => ok(api.PATCH("/api/projects/{name}", { params: { path: { name: project.name } }, body: { repositories } })),
    onSuccess: () => setEditing(false),
  });
  return (
    <section aria-label="Repositories" className="card p-3">
      <p className="mb-2 flex items-center gap-2">
        <strong className="mr-auto font-semibold">Repositories</strong>
        {may && <Button onClick={() => setEditing(true)}>Edit</Button>}
      </p>
      {project.repositories.length === 0 ? (
        <p className="text-dim">None</p>
      ) : (
        <ul className="flex flex-col gap-1">
          {project.repositories.map((one) => (
            <li key={one}>
              <Link to="/tasks" search={{ repository: one }} className="hover:underline">
                <Code>{one}</Code>
              </Link>
            </li>
          ))}
        </ul>
      )}
      {editing && (
        <Dialog title="Project repositories" onClose={() => setEditing(false)}>
          <FormOf
            error={change.error}
            busy={change.isPending}
            act="Save"
            onClose={() => setEditing(false)}
            submit={(text) => change.mutate(lines(text("repositories")))}
          >
            <RepositoryLines before={project.repositories} hint="One per line. Repositories from harvest.toml cannot be removed here." />
          </FormOf>
        </Dialog>
      )}
    </section>
  );
}

/** Repositories to write down, and those that are prepared or were used as buttons. */
function RepositoryLines({ before = [], hint }: { before?: string[]; hint: string }) {
  const prepared = useQuery(queries.repositories);
  const used = useUsedRepositories();
  const [text, setText] = useState(before.join("\n"));
  const written = new Set(lines(text));
  const offered = [
    ...(prepared.data?.items ?? []).filter((one) => !written.has(one.name) && !written.has(one.source)).map((one) => one.name),
    ...used.filter((one) => !written.has(one)),
  ];
  return (
    <>
      <Field label="Repositories" hint={hint}>
        {(id) => (
          <textarea
            id={id}
            name="repositories"
            rows={4}
            autoFocus={before.length > 0}
            value={text}
            onChange={(event) => setText(event.target.value)}
            className="field font-mono"
          />
        )}
      </Field>
      {offered.length > 0 && (
        <p role="group" aria-label="Known repositories" className="flex max-h-32 flex-wrap gap-1.5 overflow-auto">
          {offered.slice(0, 30).map((one) => (
            <Button key={one} icon="plus" label={`Add ${one}`} className="max-w-full" onClick={() => setText([...lines(text), one].join("\n"))}>
              <span className="truncate">{shortRepository(one)}</span>
            </Button>
          ))}
        </p>
      )}
    </>
  );
}

function Members({ project, may }: { project: string; may: boolean }) {
  const members = useQuery(queries.members(project));
  const [adding, setAdding] = useState(false);
  const set = useMutation({
    mutationFn: ({ user, role }: { user: string; role: SchemaRole }) =>
      ok(api.PUT("/api/projects/{name}/members/{user}", { params: { path: { name: project, user } }, body: { role } })),
    onSuccess: () => setAdding(false),
  });
  const remove = useMutation({
    mutationFn: (user: string) => ok(api.DELETE("/api/projects/{name}/members/{user}", { params: { path: { name: project, user } } })),
  });
  return (
    <section aria-label="Members" className="flex flex-col gap-2">
      <p className="flex items-center gap-2">
        <strong className="mr-auto font-semibold">Members</strong>
        {may && (
          <Button icon="plus" onClick={() => setAdding(true)}>
            Add member
          </Button>
        )}
      </p>
      {set.isError && !adding && <Trouble error={set.error} />}
      <Shown of={members} what="members">
        {({ items }) =>
          items.length === 0 ? (
            <p className="text-dim">No members. Roles for the whole installation also apply here.</p>
          ) : (
            <Table
              label="Members"
              rows={items}
              id={(row) => row.user}
              columns={[
                { name: "User", cell: (row) => <span className="font-medium">{firstLine(row.user, 80)}</span> },
                {
                  name: "Role",
                  cell: (row) =>
                    may ? (
                      <select
                        aria-label={`Role of ${row.user}`}
                        value={row.role}
                        onChange={(event) => set.mutate({ user: row.user, role: event.target.value as SchemaRole })}
                        className="h-7 rounded-md border border-line bg-page px-2"
                      >
                        {ROLES.map((role) => (
                          <option key={role} value={role}>
                            {words(role)}
                          </option>
                        ))}
                      </select>
                    ) : (
                      words(row.role)
                    ),
                },
                { name: "Since", minor: true, cell: (row) => <When at={row.since} /> },
                {
                  name: "",
                  number: true,
                  cell: (row) =>
                    may ? (
                      <Confirm
                        what={`Remove ${firstLine(row.user, 40)}`}
                        sure="They lose access to the project."
                        act={() => remove.mutate(row.user)}
                        error={remove.error}
                      />
                    ) : null,
                },
              ]}
            />
          )
        }
      </Shown>
      {adding && (
        <Dialog title="Add member" onClose={() => setAdding(false)}>
          <FormOf
            error={set.error}
            busy={set.isPending}
            act="Add"
            onClose={() => setAdding(false)}
            submit={(text) => set.mutate({ user: text("user") ?? "", role: text("role") as SchemaRole })}
          >
            <Field label="User" hint="The name they sign in with">
              {(id) => <input id={id} name="user" required autoFocus className="field" />}
            </Field>
            <Field label="Role" hint="Viewers read, members create tasks, admins manage members">
              {(id) => (
                <select id={id} name="role" className="field" defaultValue="member">
                  {ROLES.map((role) => (
                    <option key={role} value={role}>
                      {words(role)}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          </FormOf>
        </Dialog>
      )}
    </section>
  );
}

function Settings({ project, may }: { project: string; may: boolean }) {
  const settings = useQuery(queries.projectSettings(project));
  const [editing, setEditing] = useState<{ name: string; value: string } | null>(null);
  const put = useMutation({
    mutationFn: (next: Record<string, unknown>) =>
      ok(
        api.PUT("/api/projects/{name}/settings", {
          params: { path: { name: project } },
          headers: { "If-Match": settings.data?.version ?? "" },
          body: { settings: next },
        }),
      ),
    onSuccess: () => setEditing(null),
  });
  const save = (name: string, text: string | undefined) => {
    const others = Object.entries(settings.data?.settings ?? {}).filter(([key]) => key !== name);
    put.mutate(Object.fromEntries(text === undefined ? others : [...others, [name, valueOf(text)]]));
  };
  return (
    <section aria-label="Settings" className="flex flex-col gap-2">
      <strong className="font-semibold">Settings</strong>
      <Shown of={settings} what="settings">
        {({ in_force, settings: own }) => (
          <Table
            label="Settings"
            rows={in_force}
            id={(row) => row.key}
            columns={[
              {
                name: "Setting",
                cell: (row) => (
                  <code className="rounded bg-hover px-1 py-0.5 font-mono text-xs">
                    {row.key.split(/(?<=[._])/).map((part, index) => (
                      <Fragment key={index}>
                        {part}
                        <wbr />
                      </Fragment>
                    ))}
                  </code>
                ),
              },
              {
                name: "Value",
                cell: (row) =>
                  row.value == null ? (
                    <span className="text-dim">not set</span>
                  ) : (
                    <span className="inline-block min-w-24">
                      <Code>{typeof row.value === "string" ? row.value : JSON.stringify(row.value)}</Code>
                    </span>
                  ),
              },
              {
                name: "From",
                minor: true,
                cell: (row) => (row.key in own ? <Badge tone="accent">this project</Badge> : <span className="text-dim">{firstLine(row.source, 120)}</span>),
              },
              {
                name: "",
                number: true,
                cell: (row) =>
                  may ? (
                    <Button
                      look="quiet"
                      aria-label={`Edit ${row.key}`}
                      onClick={() => setEditing({ name: row.key, value: row.key in own ? shown(own[row.key]) : "" })}
                    >
                      Edit
                    </Button>
                  ) : null,
              },
            ]}
          />
        )}
      </Shown>
      {editing && (
        <Dialog title={editing.name} onClose={() => setEditing(null)}>
          <FormOf error={put.error} busy={put.isPending} act="Save" onClose={() => setEditing(null)} submit={(text) => save(editing.name, text("value"))}>
            <Field label="Value for this project" hint="Leave empty to inherit. Write lists and tables as JSON.">
              {(id) => <input id={id} name="value" autoFocus defaultValue={editing.value} className="field font-mono" />}
            </Field>
          </FormOf>
        </Dialog>
      )}
    </section>
  );
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Numbers, lists and yes or no as they are meant; everything else is a text. */
function valueOf(text: string): unknown {
  if (!/^(true|false|-?\d|\[|\{)/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
