// Repositories that Harvest keeps prepared, and how their snapshots are.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ok } from "../api/client";
import { useMay } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaRepository } from "../api/schema";
import { words } from "../ui/icons";
import { Badge, Button, Code, Dialog, Empty, Field, Page, Table, Trouble } from "../ui/parts";
import { LastBuild } from "./last-build";
import { useUsedRepositories } from "./repository-field";
import { Confirm, FormOf, Shown, When } from "./tables";

export function RepositoriesPage() {
  const repositories = useQuery(queries.repositories);
  const admin = useMay("everywhere");
  const [adding, setAdding] = useState<string | false>(false);
  return (
    <Page
      title="Repositories"
      actions={
        admin && (
          <Button look="primary" icon="plus" onClick={() => setAdding("")}>
            Add repository
          </Button>
        )
      }
      about="Harvest keeps these repositories ready: cloned, built, and with their dependencies installed. Sessions start from that state in milliseconds."
    >
      <Shown of={repositories} what="repositories">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No repositories yet" icon="repository">
              Tasks can use any path or URL. Repositories added here start faster.
            </Empty>
          ) : (
            <Table
              label="Repositories"
              rows={items}
              id={(row) => row.name}
              columns={[
                {
                  name: "Name",
                  cell: (row) => (
                    <Link to="/tasks" search={{ repository: row.name }} className="font-medium hover:underline">
                      {row.name}
                    </Link>
                  ),
                },
                { name: "Source", minor: true, cell: (row) => <Code>{row.source}</Code> },
                { name: "Snapshot", cell: (row) => <SnapshotState of={row} /> },
                { name: "Commit", minor: true, cell: (row) => (row.snapshot.commit ? <Code>{row.snapshot.commit.slice(0, 10)}</Code> : null) },
                { name: "Built", minor: true, cell: (row) => <When at={row.snapshot.built_at} /> },
                { name: "Next build", minor: true, cell: (row) => (row.snapshot.next_at ? <When at={row.snapshot.next_at} /> : null) },
                { name: "Last build", cell: (row) => <LastBuild of={row} /> },
                {
                  name: "",
                  number: true,
                  cell: (row) =>
                    admin ? (
                      <span className="inline-flex items-center">
                        <BuildNow of={row} />
                        <RemoveRepository name={row.name} />
                      </span>
                    ) : null,
                },
              ]}
            />
          )
        }
      </Shown>
      <Used add={admin ? (source) => setAdding(source) : null} />
      {adding !== false && <AddRepository source={adding} onClose={() => setAdding(false)} />}
    </Page>
  );
}

function SnapshotState({ of }: { of: SchemaRepository }) {
  const state = of.snapshot.state;
  return <Badge tone={/ready|fresh|built/.test(state) ? "good" : /fail/.test(state) ? "bad" : "plain"}>{words(state)}</Badge>;
}

/** Asks for a build now; a worker begins with it a moment later. */
export function BuildNow({ of }: { of: SchemaRepository }) {
  const client = useQueryClient();
  const build = useMutation({
    mutationFn: () => ok(api.POST("/api/repositories/{name}/build", { params: { path: { name: of.name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["repositories"] }),
  });
  const last = of.snapshot.last_build as { at: string } | null | undefined;
  // Until the build has begun and ended, its result is older than the click.
  const waits = build.isSuccess && of.snapshot.state !== "building" && last?.at === (build.data.snapshot.last_build as { at: string } | null | undefined)?.at;
  return (
    <>
      <Button disabled={build.isPending || waits || of.snapshot.state === "building"} onClick={() => build.mutate()}>
        {of.snapshot.state === "building"
          ? "Building…"
          : waits
            ? "Requested"
            : of.snapshot.state === "failed" || of.snapshot.state === "outdated"
              ? "Rebuild"
              : "Build now"}
      </Button>
      {build.isError && <Trouble error={build.error} />}
    </>
  );
}

/** Repositories of earlier tasks that were never added here. */
function Used({ add }: { add: ((source: string) => void) | null }) {
  const used = useUsedRepositories();
  if (used.length === 0) return null;
  return (
    <section aria-label="Used by tasks" className="flex flex-col gap-2">
      <h2 className="font-semibold">Used by tasks, but not prepared</h2>
      <Table
        label="Used by tasks"
        rows={used}
        id={(row) => row}
        columns={[
          {
            name: "Repository",
            cell: (row) => (
              <Link to="/tasks" search={{ repository: row }} className="hover:underline">
                <Code>{row}</Code>
              </Link>
            ),
          },
          { name: "", number: true, cell: (row) => (add ? <Button onClick={() => add(row)}>Prepare</Button> : null) },
        ]}
      />
    </section>
  );
}

function RemoveRepository({ name }: { name: string }) {
  const remove = useMutation({ mutationFn: () => ok(api.DELETE("/api/repositories/{name}", { params: { path: { name } } })) });
  return <Confirm what={`Remove ${name}`} sure="Its snapshots are removed. Its tasks are kept." act={() => remove.mutate()} error={remove.error} />;
}

export function AddRepository({ source, onClose }: { source?: string; onClose: () => void }) {
  const add = useMutation({
    mutationFn: (body: { source: string; name?: string; branch?: string; setup?: string; build?: string }) => ok(api.POST("/api/repositories", { body })),
    onSuccess: onClose,
  });
  return (
    <Dialog title="Add repository" onClose={onClose}>
      <FormOf
        error={add.error}
        busy={add.isPending}
        act="Add"
        onClose={onClose}
        submit={(text) => add.mutate({ source: text("source") ?? "", name: text("name"), branch: text("branch"), setup: text("setup"), build: text("build") })}
      >
        <Field label="Path on the server's machine, or URL">
          {(id) => <input id={id} name="source" required autoFocus defaultValue={source} className="field" />}
        </Field>
        <Field label="Name">{(id) => <input id={id} name="name" className="field" placeholder="Derived from the path or URL" />}</Field>
        <Field label="Branch">{(id) => <input id={id} name="branch" className="field" placeholder="Default branch" />}</Field>
        <Field label="Install command">{(id) => <input id={id} name="setup" className="field font-mono" placeholder="Detected in the repository" />}</Field>
        <Field label="Build command">{(id) => <input id={id} name="build" className="field font-mono" placeholder="Detected in the repository" />}</Field>
      </FormOf>
    </Dialog>
  );
}
