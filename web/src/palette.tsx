// Ctrl K: go somewhere, do something, find a task.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useId, useState, type KeyboardEvent } from "react";
import { api, ok } from "./api/client";
import { useMay } from "./api/may";
import { shortRepository } from "./api/words";
import { NAV } from "./nav";
import { offered } from "./session/keys";
import { firstLine } from "./text/harmless";
import { Icon, StatusIcon, type IconName } from "./ui/icons";
import { Dialog } from "./ui/parts";
import { toggleTheme } from "./ui/theme";

interface Choice {
  id: string;
  text: string;
  hint: string;
  icon?: IconName;
  status?: string;
  act: () => void;
}

export default function Palette({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const list = useId();
  const mayCreate = useMay("member");
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const wanted = typed.trim();
  // Only the search may lag behind: Enter does what is on top for what was typed.
  const asked = useDeferredValue(wanted);
  const found = useQuery({
    queryKey: ["tasks-found", asked],
    placeholderData: keepPreviousData,
    queryFn: () => ok(api.GET("/api/tasks", { params: { query: { limit: 8, q: asked || undefined } } })),
  });

  const then = (act: () => void) => () => {
    onClose();
    act();
  };
  const [here] = useState(offered);
  const commands: Choice[] = [
    ...here.map((one): Choice => ({ ...one, hint: "", act: then(one.act) })),
    ...(mayCreate
      ? [{ id: "new", text: "New task", hint: "C", icon: "plus" as const, act: then(() => void navigate({ to: "/tasks", search: { new: true } })) }]
      : []),
    { id: "board", text: "Task board", hint: "", icon: "board", act: then(() => void navigate({ to: "/tasks", search: { view: "board" } })) },
    { id: "theme", text: "Switch theme", hint: "", icon: "moon", act: then(toggleTheme) },
    ...NAV.flatMap((group) => group.items).map((item): Choice => ({
      id: item.to,
      text: item.name,
      hint: `G ${item.key.toUpperCase()}`,
      icon: item.icon,
      act: then(() => void navigate({ to: item.to })),
    })),
  ];
  const fits = commands.filter((one) => one.text.toLowerCase().includes(wanted.toLowerCase()));
  const tasks = (found.data?.items ?? []).map((task): Choice => ({
    id: task.id,
    text: firstLine(task.prompt, 90),
    hint: shortRepository(task.repository),
    status: task.status,
    act: then(() => void navigate({ to: "/tasks/$id", params: { id: task.id } })),
  }));
  const choices = wanted ? [...fits, ...tasks] : [...fits.slice(0, 4), ...tasks, ...fits.slice(4)];
  const current = Math.min(at, choices.length - 1);

  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) setAt((current + step + choices.length) % choices.length);
    else if (event.key === "Enter") choices[current]?.act();
    else return;
    event.preventDefault();
  };

  return (
    <Dialog title="Search and commands" bare wide onClose={onClose}>
      <input
        autoFocus
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={press}
        role="combobox"
        aria-expanded
        aria-controls={list}
        aria-activedescendant={`${list}-${current}`}
        aria-label="Search and commands"
        placeholder="Find a task, page or command"
        className="h-12 w-full border-b border-line bg-transparent px-4 text-sm outline-none placeholder:text-dim"
      />
      <ul id={list} role="listbox" aria-label="Choices" className="max-h-[50vh] overflow-auto p-1.5">
        {choices.map((choice, index) => (
          <li
            key={choice.id}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === current}
            ref={(node) => {
              if (index === current) node?.scrollIntoView({ block: "nearest" });
            }}
            onMouseMove={() => setAt(index)}
            onClick={choice.act}
            className="flex h-9 cursor-pointer items-center gap-2.5 rounded-md px-2.5 aria-selected:bg-hover aria-selected:shadow-[inset_2px_0_var(--accent)]"
          >
            <span className="flex w-4 justify-center text-dim">
              {choice.status ? <StatusIcon status={choice.status} /> : choice.icon && <Icon name={choice.icon} />}
            </span>
            <span className="mr-auto truncate">{choice.text}</span>
            <span className="shrink-0 text-xs text-dim">{choice.hint}</span>
          </li>
        ))}
        {choices.length === 0 && (
          <li role="option" aria-selected={false} className="px-3 py-6 text-center text-dim">
            No results
          </li>
        )}
      </ul>
    </Dialog>
  );
}
