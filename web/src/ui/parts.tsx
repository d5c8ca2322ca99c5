// The small parts that every page is made of.
import { useEffect, useId, useRef, useState, type ButtonHTMLAttributes, type ReactNode } from "react";
import { adviceFor, detailOf } from "../api/advice";
import { problemOf } from "../api/client";
import { copy } from "./clipboard";
import { Icon, type IconName } from "./icons";

type Look = "plain" | "primary" | "danger" | "quiet";

const looks: Record<Look, string> = {
  plain: "border-strong bg-raised hover:bg-hover",
  primary: "border-transparent bg-accent text-on-accent hover:opacity-90",
  danger: "border-strong bg-raised text-bad hover:bg-bad-soft",
  quiet: "border-transparent text-dim hover:bg-hover hover:text-text",
};

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  icon?: IconName;
  /** For buttons that show an icon alone. */
  label?: string;
}

export function Button({ look = "plain", icon, label, children, className = "", type = "button", ...rest }: ButtonProps) {
  return (
    <button
      type={type}
      aria-label={label}
      title={label}
      className={`inline-flex h-7 shrink-0 items-center justify-center gap-1.5 rounded-md border px-2.5 text-[13px] font-medium whitespace-nowrap disabled:opacity-50 ${looks[look]} ${children ? "" : "w-7 px-0"} ${className}`}
      {...rest}
    >
      {icon && <Icon name={icon} size={15} />}
      {children}
    </button>
  );
}

export function Key({ children }: { children: ReactNode }) {
  return <kbd className="rounded border border-line bg-side px-1 font-mono text-[11px] text-dim">{children}</kbd>;
}

export function Trouble({ error, again }: { error: unknown; again?: () => void }) {
  const problem = problemOf(error);
  const { code } = problem;
  const advice = adviceFor(problem);
  return (
    <div role="alert" className="rounded-md border border-line bg-bad-soft px-3 py-2 text-left">
      <p className="font-medium text-bad">
        {detailOf(problem)}
        {code && <span className="ml-2 text-xs font-normal text-dim">{code}</span>}
      </p>
      {advice && (
        <p>
          {advice.text}{" "}
          {advice.to && (
            <a href={advice.to} className="text-accent underline">
              {advice.page}
            </a>
          )}
        </p>
      )}
      {again && (
        <Button className="mt-2" onClick={again}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Empty({ title, children, icon }: { title: string; children?: ReactNode; icon?: IconName }) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-16 text-center">
      {icon && (
        <span className="text-dim">
          <Icon name={icon} size={28} />
        </span>
      )}
      <h2 className="text-sm font-semibold">{title}</h2>
      <div className="text-dim">{children}</div>
    </div>
  );
}

export function Waiting({ what }: { what: string }) {
  return (
    <p role="status" className="px-4 py-6 text-dim">
      Loading {what}…
    </p>
  );
}

export function Code({ children }: { children: ReactNode }) {
  return <code className="rounded bg-hover px-1 py-0.5 font-mono text-xs [overflow-wrap:anywhere] text-text">{children}</code>;
}

const tones = {
  plain: "bg-hover text-dim",
  good: "bg-good-soft text-good",
  bad: "bg-bad-soft text-bad",
  warn: "bg-warn-soft text-warn",
  accent: "bg-accent-soft text-accent",
};

export type Tone = keyof typeof tones;

/** `wraps`: for words that may not fit into one line, such as the name of a test. */
export function Badge({ tone = "plain", wraps = false, children }: { tone?: Tone; wraps?: boolean; children: ReactNode }) {
  const fit = wraps ? "min-w-0 wrap-anywhere" : "shrink-0 whitespace-nowrap";
  return <span className={`inline-flex ${fit} items-center rounded px-1.5 text-xs font-medium ${tones[tone]}`}>{children}</span>;
}

/** The browser's own dialog: it keeps the focus, makes the rest inert and closes with Escape. */
export function Dialog({ title, onClose, children, wide, bare }: { title: string; onClose: () => void; children: ReactNode; wide?: boolean; bare?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const own = dialog.current;
    const before = document.activeElement;
    own?.showModal();
    return () => {
      own?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === dialog.current) onClose();
      }}
      className={`mx-auto mt-[8vh] mb-auto max-h-[84vh] w-[calc(100%-1.500rem)] overflow-auto rounded-xl border border-line bg-raised p-0 shadow-2xl ${wide ? "max-w-2xl" : "max-w-lg"}`}
    >
      <h2 id={heading} className={bare ? "sr-only" : "border-b border-line px-4 py-3 text-sm font-semibold"}>
        {title}
      </h2>
      {children}
    </dialog>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: ReactNode; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="min-w-0">
      <label htmlFor={id} className="mb-1 block text-xs font-medium text-dim">
        {label}
      </label>
      {children(id)}
      {hint && <p className="mt-1 text-xs text-dim">{hint}</p>}
    </div>
  );
}

export interface Column<T> {
  name: string;
  cell: (row: T) => ReactNode;
  /** Left out on a phone. */
  minor?: boolean;
  number?: boolean;
}

export function Table<T>({ label, columns, rows, id }: { label: string; columns: Column<T>[]; rows: T[]; id: (row: T) => string | number }) {
  const look = (column: Column<T>) =>
    `${column.minor ? "hidden md:table-cell" : ""} ${column.number ? "text-right whitespace-nowrap tabular-nums" : "text-left"}`;
  return (
    <div className="card relative overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
      <table className="w-full border-collapse">
        <thead>
          <tr className="border-b border-line">
            {columns.map((column) => (
              <th key={column.name} scope="col" className={`px-2 py-2 text-xs font-medium whitespace-nowrap text-dim sm:px-3 ${look(column)}`}>
                {column.name || <span className="sr-only">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)} className="border-b border-line last:border-0 hover:bg-hover">
              {columns.map((column) => (
                <td key={column.name} className={`px-2 py-1.5 align-middle sm:px-3 ${look(column)}`}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A page with its heading. `fill` leaves scrolling to what is inside. */
export function Page({
  title,
  actions,
  children,
  fill,
  about,
}: {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
  fill?: boolean;
  about?: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Harvest`;
  }, [title]);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <header className="flex min-h-12 shrink-0 flex-wrap items-center gap-2 border-b border-line px-4 py-2">
        <h1 className="mr-auto text-sm font-semibold">{title}</h1>
        {actions}
      </header>
      {fill ? (
        children
      ) : (
        <div className="min-h-0 flex-1 overflow-auto" tabIndex={-1}>
          <div className="flex max-w-7xl flex-col gap-4 p-4">
            {about && <p className="max-w-3xl text-dim">{about}</p>}
            {children}
          </div>
        </div>
      )}
    </div>
  );
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState<boolean | null>(null);
  useEffect(() => {
    if (done === null) return;
    const timer = setTimeout(() => setDone(null), 2_000);
    return () => clearTimeout(timer);
  }, [done]);
  const told = done === null ? "" : done ? "Copied" : "Could not copy";
  // What is only heard stays where it is in what scrolls.
  return (
    <span className="relative inline-flex">
      <Button look="quiet" icon={done ? "check" : "copy"} label={told || label} onClick={() => void copy(text).then(setDone)} />
      <span role="status" className="sr-only">
        {told}
      </span>
    </span>
  );
}

export function Meter({ part, label }: { part: number; label: string }) {
  const percent = Math.min(100, Math.round(part * 100));
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuenow={percent}
      aria-valuemin={0}
      aria-valuemax={100}
      className="mt-1 h-1.5 overflow-hidden rounded-full bg-hover"
    >
      <div className={`h-full rounded-full ${percent >= 80 ? "bg-warn" : "bg-accent"}`} style={{ width: `${percent}%` }} />
    </div>
  );
}
