// What agents print is a stranger's text. It is shown as text and never as anything else; what would act on a terminal or
// turn around what follows it is shown as a sign that can be read.

/** Characters of one line, and lines of one block, that are shown before someone asks for more. */
export const LONGEST_LINE = 2_000;
export const MOST_LINES = 400;
export const MOST_LINES_FOLDED = 12;

/** Colours and cursor moves: they carry no meaning here. */
const ANSI = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]{0,4096}(?:\u0007|\u001b\\)|[PX^_][^\u001b]{0,4096}\u001b\\|[()*+][0-9A-Za-z]|[=>78cDEHMNOZ])/g;

/** All control characters but tab and line feed, and those that change direction or cannot be seen. */
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export function harmless(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(ANSI, "").replace(UNSEEN, sign);
}

function sign(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

export interface Clamped {
  text: string;
  /** Lines and characters that are there and not shown. */
  hiddenLines: number;
  hiddenCharacters: number;
}

/** The beginning of a text, in lines and in the length of each. */
export function clamp(text: string, lines: number = MOST_LINES, characters: number = LONGEST_LINE): Clamped {
  const kept: string[] = [];
  let hiddenCharacters = 0;
  let at = 0;
  while (at <= text.length && kept.length < lines) {
    const found = text.indexOf("\n", at);
    const end = found < 0 ? text.length : found;
    if (end - at > characters) {
      hiddenCharacters += end - at - characters;
      kept.push(text.slice(at, at + characters) + "…");
    } else {
      kept.push(text.slice(at, end));
    }
    at = end + 1;
  }
  const rest = at <= text.length ? text.slice(at) : "";
  const hiddenLines = at <= text.length ? count(rest) : 0;
  return { text: kept.join("\n"), hiddenLines, hiddenCharacters: hiddenCharacters + rest.length };
}

function count(text: string): number {
  let lines = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
  return text.endsWith("\n") ? lines - 1 : lines;
}

/** The reason of a failure: several lines, such as the last ones that an agent printed. */
export function reason(text: string): string {
  return clamp(harmless(text).trim(), MOST_LINES_FOLDED, 500).text;
}

/** One line for lists. */
export function firstLine(text: string, most = 200): string {
  const line =
    harmless(text.slice(0, most * 4))
      .trimStart()
      .split("\n", 1)[0] ?? "";
  return line.length > most ? line.slice(0, most) + "…" : line;
}

/** A message in one paragraph, without the signs of its markup. */
export function plainWords(text: string, most = 400): string {
  const plain = harmless(text.slice(0, most * 4))
    .replace(/```[^\n]*\n?/g, "")
    .replace(/^\s*(?:#{1,6}|[-*+]|\d+\.|>)\s+/gm, "")
    .replace(/\*\*|__|`/g, "")
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .reduce((all, line) => (all === "" ? line : /[.:;,!?]$/.test(all) ? `${all} ${line}` : `${all}; ${line}`), "");
  return plain.length > most ? `${plain.slice(0, most)}…` : plain;
}
