import type { ReactNode } from "react";

export function Part({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label={label}>
      <div className="mx-auto flex max-w-4xl flex-col gap-4 p-4">{children}</div>
    </div>
  );
}

export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="card grid grid-cols-[minmax(7rem,auto)_1fr] gap-x-4 gap-y-1.5 p-3">
      {rows.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-dim">{name}</dt>
          <dd className="min-w-0 break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="flex flex-col gap-2">
      <h2 className="font-semibold">{title}</h2>
      {children}
    </section>
  );
}
