// Line icons, drawn here so that nothing is fetched.
import type { ReactNode } from "react";

const paths = {
  tasks: "M4 6h1M9 6h11M4 12h1M9 12h11M4 18h1M9 18h11",
  board: "M4 4h5v16H4zM15 4h5v10h-5z",
  queue: "M4 7h16M4 12h16M4 17h10",
  repository: "M6 3h12v18l-6-4-6 4z",
  agent: "M8 9h.01M16 9h.01M5 4h14v10H5zM12 14v4M8 20h8",
  key: "M14 10a4 4 0 1 0-3.5 4L12 12.500h2V10.500h2zM20 4l-7 7",
  token: "M4 7h16v10H4zM8 12h.01M12 12h4",
  schedule: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  convoy: "M3 7h7v7H3zM14 7h7v7h-7zM10 10.500h4M6 18h.01M18 18h.01",
  chart: "M4 20V4M4 20h16M8 16v-4M12 16V8M16 16v-6",
  audit: "M6 3h9l4 4v14H6zM9 12h6M9 16h6",
  approve: "M9 12l2 2 4-4M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  chevron: "M9 6l6 6-6 6",
  check: "M5 12.500l4.500 4.500L19 7",
  more: "M5.500 12h1M11.500 12h1M17.500 12h1",
  stop: "M7 7h10v10H7z",
  retry: "M4 12a8 8 0 1 0 3-6.200M4 4v4h4",
  copy: "M8 8h12v12H8zM16 8V4H4v12h4",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M19 5l-1.500 1.500M6.500 17.500L5 19",
  moon: "M20 14A8 8 0 1 1 10 4a6.500 6.500 0 0 0 10 10z",
  out: "M10 4H4v16h6M14 8l4 4-4 4M18 12H9",
  down: "M12 5v14M6 13l6 6 6-6",
  keyboard: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  comment: "M4 5h16v11H11l-4 4v-4H4z",
  fork: "M7 4v6a4 4 0 0 0 4 4h6M7 10v10M14 11l3 3-3 3",
  pause: "M9 6v12M15 6v12",
  play: "M8 5l11 7-11 7z",
  people: "M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM3 20c0-4 2.500-6 6-6s6 2 6 6M16 4.500a3.500 3.500 0 0 1 0 6.500M18 14.500c2 .8 3 2.800 3 5.500",
  project: "M4 7h6l2 2h8v10H4z",
  tool: "M5 8l4 4-4 4M12 16h7",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.500 11v5M13.500 11v5",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.75}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden
      className="shrink-0"
    >
      <path d={paths[name]} />
    </svg>
  );
}

export function Sheaf({ size = 20 }: { size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 32 32"
      fill="none"
      stroke="currentColor"
      strokeWidth={2.25}
      strokeLinejoin="round"
      strokeLinecap="round"
      aria-hidden
      className="shrink-0 text-accent"
    >
      <path d="M16 28V7m0 7c-5 0-7-2.500-7-7 5 0 7 2.500 7 7Zm0 0c5 0 7-2.500 7-7-5 0-7 2.500-7 7Zm0 9c-5 0-7-2.500-7-7 5 0 7 2.500 7 7Zm0 0c5 0 7-2.500 7-7-5 0-7 2.500-7 7Z" />
    </svg>
  );
}

/** What a task is doing, told by shape and colour and name. */
export function StatusIcon({ status, size = 15 }: { status: string; size?: number }) {
  const look = looks[status] ?? pending;
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" role="img" aria-label={words(status)} className={`shrink-0 ${look.colour}`}>
      <title>{words(status)}</title>
      {look.draw}
    </svg>
  );
}

const ring = { fill: "none", stroke: "currentColor", strokeWidth: 1.6 } as const;
const disc = <circle cx="8" cy="8" r="7" fill="currentColor" />;
const sign = { fill: "none", stroke: "var(--page)", strokeWidth: 1.6, strokeLinecap: "round", strokeLinejoin: "round" } as const;

const pending = { colour: "text-dim", draw: <circle cx="8" cy="8" r="6.200" {...ring} strokeDasharray="2.200 2" /> };
const looks: Record<string, { colour: string; draw: ReactNode }> = {
  pending,
  provisioning: {
    colour: "text-warn",
    draw: (
      <>
        <circle cx="8" cy="8" r="6.200" {...ring} />
        <path className="pulse" d="M8 8V4.200A3.800 3.800 0 0 1 11.800 8z" fill="currentColor" />
      </>
    ),
  },
  running: {
    colour: "text-warn",
    draw: (
      <>
        <circle cx="8" cy="8" r="6.200" {...ring} />
        <path className="pulse" d="M8 4.200a3.800 3.800 0 0 1 0 7.600z" fill="currentColor" />
      </>
    ),
  },
  awaiting_approval: {
    colour: "text-accent",
    draw: (
      <>
        <circle cx="8" cy="8" r="6.200" {...ring} />
        <path d="M8 4.800v3.700M8 11h.01" {...ring} strokeLinecap="round" />
      </>
    ),
  },
  interrupted: {
    colour: "text-accent",
    draw: (
      <>
        <circle cx="8" cy="8" r="6.200" {...ring} />
        <path d="M6.500 6v4M9.500 6v4" {...ring} strokeLinecap="round" />
      </>
    ),
  },
  completed: {
    colour: "text-good",
    draw: (
      <>
        {disc}
        <path d="M5 8.200l2.100 2.100L11 6.200" {...sign} />
      </>
    ),
  },
  failed: {
    colour: "text-bad",
    draw: (
      <>
        {disc}
        <path d="M5.800 5.800l4.400 4.400M10.200 5.800l-4.400 4.400" {...sign} />
      </>
    ),
  },
  cancelled: {
    colour: "text-dim",
    draw: (
      <>
        {disc}
        <path d="M5 8h6" {...sign} />
      </>
    ),
  },
};

/** `awaiting_approval` as people say it. */
export function words(name: string): string {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
