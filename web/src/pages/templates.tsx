// Templates: tasks with blanks, filled in when they are started.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, ok } from "../api/client";
import { useMay } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaTemplate } from "../api/schema";
import { firstLine } from "../text/harmless";
import { Button, Code, Dialog, Empty, Field, Page, Table } from "../ui/parts";
import { RepositoryField } from "./repository-field";
import { Confirm, FormOf, Shown, When } from "./tables";

export function TemplatesPage() {
  const templates = useQuery(queries.templates);
  const [open, setOpen] = useState<"add" | SchemaTemplate | null>(null);
  const close = () => setOpen(null);
  const may = useMay("member");
  return (
    <Page
      title="Templates"
      actions={
        may && (
          <Button look="primary" icon="plus" onClick={() => setOpen("add")}>
            New template
          </Button>
        )
      }
      about="Prompts for recurring tasks, with parameters such as {{ package }}."
    >
      <Shown of={templates} what="templates">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No templates yet" icon="copy">
              For example: Upgrade {"{{ package }}"} to its newest version and make the tests pass.
            </Empty>
          ) : (
            <Table
              label="Templates"
              rows={items}
              id={(row) => row.name}
              columns={[
                { name: "Name", cell: (row) => <span className="font-medium">{row.name}</span> },
                { name: "Task", cell: (row) => <span className="line-clamp-2 break-words">{firstLine(row.prompt, 160)}</span> },
                {
                  name: "Parameters",
                  minor: true,
                  cell: (row) => (
                    <span className="flex flex-wrap gap-1">
                      {row.parameters.map((one) => (
                        <Code key={one}>{firstLine(one, 60)}</Code>
                      ))}
                    </span>
                  ),
                },
                { name: "Added", minor: true, cell: (row) => <When at={row.created_at} /> },
                {
                  name: "",
                  number: true,
                  cell: (row) =>
                    may ? (
                      <span className="inline-flex items-center">
                        <Button onClick={() => setOpen(row)}>Use</Button>
                        <RemoveTemplate name={row.name} />
                      </span>
                    ) : null,
                },
              ]}
            />
          )
        }
      </Shown>
      {open === "add" && <AddTemplate onClose={close} />}
      {open && open !== "add" && <UseTemplate template={open} onClose={close} />}
    </Page>
  );
}

function AddTemplate({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const add = useMutation({
    mutationFn: (body: { name: string; task: { prompt: string; repository: string; test?: string } }) => ok(api.POST("/api/templates", { body })),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["templates"] });
      onClose();
    },
  });
  return (
    <Dialog title="New template" onClose={onClose}>
      <FormOf
        error={add.error}
        busy={add.isPending}
        act="Save"
        onClose={onClose}
        submit={(text) =>
          add.mutate({ name: text("name") ?? "", task: { prompt: text("prompt") ?? "", repository: text("repository") ?? "", test: text("test") } })
        }
      >
        <Field label="Name">{(id) => <input id={id} name="name" required autoFocus className="field" placeholder="upgrade" />}</Field>
        <Field label="Task" hint="Names in double braces are parameters: {{ package }}">
          {(id) => <textarea id={id} name="prompt" required rows={4} className="field" placeholder="Upgrade {{ package }} to its newest version" />}
        </Field>
        <RepositoryField preset />
        <Field label="Test command">{(id) => <input id={id} name="test" className="field font-mono" placeholder="Detected in the repository" />}</Field>
      </FormOf>
    </Dialog>
  );
}

function UseTemplate({ template, onClose }: { template: SchemaTemplate; onClose: () => void }) {
  const navigate = useNavigate();
  const use = useMutation({
    mutationFn: (values: Record<string, string>) =>
      ok(api.POST("/api/templates/{name}/tasks", { params: { path: { name: template.name } }, body: { values } })),
    onSuccess: (task) => navigate({ to: "/tasks/$id", params: { id: task.id } }),
  });
  return (
    <Dialog title={`New task from ${template.name}`} onClose={onClose}>
      <FormOf
        error={use.error}
        busy={use.isPending}
        act="Start"
        onClose={onClose}
        submit={(text) => use.mutate(Object.fromEntries(template.parameters.map((name) => [name, text(`value of ${name}`) ?? ""])))}
      >
        <p className="rounded-md bg-side px-3 py-2 break-words whitespace-pre-wrap">{firstLine(template.prompt, 600)}</p>
        {template.parameters.map((name, index) => (
          <Field key={name} label={firstLine(name, 60)}>
            {(id) => <input id={id} name={`value of ${name}`} required autoFocus={index === 0} className="field" />}
          </Field>
        ))}
      </FormOf>
    </Dialog>
  );
}

function RemoveTemplate({ name }: { name: string }) {
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => ok(api.DELETE("/api/templates/{name}", { params: { path: { name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: ["templates"] }),
  });
  return <Confirm what={`Remove ${firstLine(name, 40)}`} sure="Tasks created from it are kept." act={() => remove.mutate()} error={remove.error} />;
}
