// Colours for source code: strings, comments, numbers and the words of the language. One small scanner for families of languages;
// what it does not know stays plain, and the text is never changed.

export type Kind = "comment" | "string" | "number" | "keyword";
export interface Piece {
  text: string;
  kind: Kind | null;
}

interface Family {
  line: string[];
  block: [string, string] | null;
  /** Quotes that end on the same line unless they are in `long`. */
  quotes: string[];
  long: string[];
  keywords: Set<string>;
}

const words = (text: string) => new Set(text.split(" "));

const C_LIKE = words(
  "as async await break case catch class const continue crate default defer do else enum export extends extern false final finally fn for from func function go if impl implements import in instanceof interface is let loop match mod move mut namespace new nil null nullptr of override package private protected pub public readonly ref return self Self static struct super switch this throw throws trait true try type typeof undefined union unsafe use using val var virtual void volatile when where while with yield",
);
const PYTHON = words(
  "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield match case",
);
const RUBY = words(
  "alias and begin break case class def do else elsif end ensure false for if in module next nil not or raise redo require rescue retry return self super then true undef unless until when while yield",
);
const SHELL = words("if then else elif fi for while until do done case esac in function return local export set unset exit echo printf cd test");
const SQL = words(
  "select from where and or not null insert into values update set delete create table index drop alter add column primary key references join left right inner outer on group by order limit as distinct begin commit rollback",
);
const DATA = words("true false null yes no on off");
const NONE = new Set<string>();

const C: Family = { line: ["//"], block: ["/*", "*/"], quotes: ['"', "'", "`"], long: ["`"], keywords: C_LIKE };
const HASH = (keywords: Set<string>, long: string[] = []): Family => ({ line: ["#"], block: null, quotes: ['"', "'"], long, keywords });
const FAMILIES: Record<string, Family> = {
  c: C,
  // A single quote is the mark of a lifetime more often than of a character.
  rust: { ...C, quotes: ['"'], long: [] },
  python: HASH(PYTHON, ['"""', "'''"]),
  ruby: HASH(RUBY),
  shell: HASH(SHELL),
  data: HASH(DATA),
  json: { line: [], block: null, quotes: ['"'], long: [], keywords: DATA },
  sql: { line: ["--"], block: ["/*", "*/"], quotes: ["'"], long: [], keywords: SQL },
  css: { line: [], block: ["/*", "*/"], quotes: ['"', "'"], long: [], keywords: NONE },
  markup: { line: [], block: ["<!--", "-->"], quotes: ['"'], long: [], keywords: NONE },
};
const ENDINGS: Record<string, string> = {
  ...of("c", "c h cc cpp hpp cxx cs java js jsx mjs cjs ts tsx mts go kt kts swift scala php dart zig proto groovy m v sol"),
  ...of("rust", "rs"),
  ...of("python", "py pyi pyx bzl"),
  ...of("ruby", "rb rake gemspec ex exs cr"),
  ...of("shell", "sh bash zsh fish bats mk"),
  ...of("data", "toml yaml yml ini cfg conf env tf hcl nix"),
  ...of("json", "json jsonc json5"),
  ...of("sql", "sql"),
  ...of("css", "css scss less"),
  ...of("markup", "html htm xml svg vue svelte"),
};
const NAMES: Record<string, string> = {
  Makefile: "shell",
  Dockerfile: "shell",
  Containerfile: "shell",
  Gemfile: "ruby",
  Rakefile: "ruby",
  ".gitignore": "data",
};

function of(family: string, endings: string): Record<string, string> {
  return Object.fromEntries(endings.split(" ").map((ending) => [ending, family]));
}

export function familyOf(path: string): Family | null {
  const name = path.split("/").pop() ?? "";
  const found = NAMES[name] ?? ENDINGS[name.split(".").pop()?.toLowerCase() ?? ""];
  return found ? (FAMILIES[found] ?? null) : null;
}

/** Lines one after the other: what one leaves open, the next goes on with. */
export class Scanner {
  private open: { end: string; kind: Kind } | null = null;

  constructor(private readonly family: Family) {}

  /** The lines that follow do not adjoin those before. */
  restart() {
    this.open = null;
  }

  line(text: string): Piece[] {
    const pieces: Piece[] = [];
    const { line, block, quotes, long, keywords } = this.family;
    let plain = 0;
    let at = 0;
    const put = (from: number, to: number, kind: Kind) => {
      if (from > plain) pieces.push({ text: text.slice(plain, from), kind: null });
      pieces.push({ text: text.slice(from, to), kind });
      plain = at = to;
    };
    if (this.open) {
      const found = text.indexOf(this.open.end);
      const { end, kind } = this.open;
      if (found < 0) return text ? [{ text, kind }] : [];
      this.open = null;
      put(0, found + end.length, kind);
    }
    while (at < text.length) {
      const rest = (sign: string) => text.startsWith(sign, at);
      const longQuote = long.find(rest);
      if (line.some((sign) => rest(sign) && (sign !== "#" || at === 0 || /\s/.test(text[at - 1] ?? "")))) {
        put(at, text.length, "comment");
      } else if (block && rest(block[0])) {
        const end = text.indexOf(block[1], at + block[0].length);
        if (end < 0) this.open = { end: block[1], kind: "comment" };
        put(at, end < 0 ? text.length : end + block[1].length, "comment");
      } else if (longQuote) {
        const end = text.indexOf(longQuote, at + longQuote.length);
        if (end < 0) this.open = { end: longQuote, kind: "string" };
        put(at, end < 0 ? text.length : end + longQuote.length, "string");
      } else if (quotes.includes(text[at] ?? "")) {
        const end = closing(text, at);
        // A quote that does not end here is an apostrophe or the mark of a lifetime.
        if (end < 0) at += 1;
        else put(at, end + 1, "string");
      } else {
        const word = /^[A-Za-z_$][\w$]*|^\d[\w.]*/.exec(text.slice(at, at + 200))?.[0];
        if (!word) at += 1;
        else if (/^\d/.test(word)) put(at, at + word.length, "number");
        else if (keywords.has(word) || (keywords === SQL && keywords.has(word.toLowerCase()))) put(at, at + word.length, "keyword");
        else at += word.length;
      }
    }
    if (plain < text.length) pieces.push({ text: text.slice(plain), kind: null });
    return pieces;
  }
}

function closing(text: string, from: number): number {
  const quote = text[from];
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === quote) return at;
  }
  return -1;
}
