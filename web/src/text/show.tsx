// Text of agents and tools on the screen: never markup, never longer than a person reads at once.
import { memo, useMemo, useState, type ReactNode } from "react";
import { Button } from "../ui/parts";
import { counted } from "./counted";
import { clamp, harmless, LONGEST_LINE, MOST_LINES } from "./harmless";

const ALL_LINES = 20_000;
const ALL_CHARACTERS = 20_000;

/** Output as it came. */
export const Stranger = memo(function Stranger({ text, lines = MOST_LINES }: { text: string; lines?: number }) {
  const [all, setAll] = useState(false);
  const shown = useMemo(() => clamp(harmless(text), all ? ALL_LINES : lines, all ? ALL_CHARACTERS : LONGEST_LINE), [text, lines, all]);
  return (
    <>
      <pre className="stranger" dir="ltr">
        {shown.text}
      </pre>
      <Rest shown={shown} all={all} setAll={setAll} />
    </>
  );
});

function Rest({ shown, all, setAll }: { shown: ReturnType<typeof clamp>; all: boolean; setAll: (all: boolean) => void }) {
  if (shown.hiddenCharacters === 0) return null;
  const what = shown.hiddenLines > 0 ? counted(shown.hiddenLines, "more line") : counted(shown.hiddenCharacters, "more character");
  return all ? (
    <p className="mt-1 text-xs text-dim">{what} not shown</p>
  ) : (
    <Button look="quiet" className="mt-1" onClick={() => setAll(true)}>
      Show {what}
    </Button>
  );
}

/** What agents write: paragraphs, lists, code, emphasis. Nothing in it can be a link or an image. */
export const Prose = memo(function Prose({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const shown = useMemo(() => clamp(harmless(text), all ? ALL_LINES : 200, all ? ALL_CHARACTERS : 4_000), [text, all]);
  return (
    <div className="leading-relaxed break-words" dir="auto">
      {blocks(shown.text)}
      <Rest shown={shown} all={all} setAll={setAll} />
    </div>
  );
});

function blocks(text: string): ReactNode[] {
  const made: ReactNode[] = [];
  text.split(/^```[^\n]*$/m).forEach((part, index) => {
    if (index % 2 === 1) {
      made.push(
        <pre key={`c${index}`} className="stranger my-1.5 rounded-md border border-line bg-side px-3 py-2" dir="ltr">
          {part.replace(/^\n|\n$/g, "")}
        </pre>,
      );
      return;
    }
    part.split(/\n{2,}/).forEach((paragraph, place) => {
      const trimmed = paragraph.replace(/^\n+|\n+$/g, "");
      if (!trimmed) return;
      const items = trimmed.split("\n");
      if (items.every((line) => /^\s*(?:[-*]|\d{1,3}\.) /.test(line))) {
        made.push(<List key={`${index}.${place}`} items={items} />);
        return;
      }
      const heading = /^#{1,6} (.*)$/.exec(trimmed);
      const look = heading ? "font-semibold" : "";
      made.push(
        <p key={`${index}.${place}`} className={`my-1 whitespace-pre-wrap ${look}`}>
          {spans(heading?.[1] ?? trimmed)}
        </p>,
      );
    });
  });
  return made;
}

/** Of what the text says in lists; numbers stay as they were written. */
function List({ items }: { items: string[] }) {
  return (
    <ul className="my-1">
      {items.map((line, index) => {
        const [, indent = "", sign = "", text = ""] = /^(\s*)(\S+) (.*)$/.exec(line) ?? [];
        return (
          <li key={index} className="flex gap-2" style={{ paddingInlineStart: `${Math.min(8, indent.length) * 0.5}rem` }}>
            <span aria-hidden={!/\d/.test(sign)} className="min-w-3 shrink-0 text-right text-dim tabular-nums">
              {/\d/.test(sign) ? sign : "•"}
            </span>
            <span className="min-w-0">{spans(text)}</span>
          </li>
        );
      })}
    </ul>
  );
}

function spans(text: string): ReactNode[] {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part, index) => {
    if (index % 2 === 0) return part;
    if (part.startsWith("`"))
      return (
        <code key={index} className="rounded bg-hover px-1 font-mono text-[12px]">
          {part.slice(1, -1)}
        </code>
      );
    return (
      <strong key={index} className="font-semibold">
        {part.slice(2, -2)}
      </strong>
    );
  });
}
