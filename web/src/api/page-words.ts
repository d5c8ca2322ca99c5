// Messages of the server, as the page shows them. Some name a command or a flag of the command line: there, the page says where on the
// page the same is done. Commands of other programs stay: what an agent or a test printed is quoted as it came.

/** Commands, flags, headers, tokens and addresses of the API mean nothing to someone in a browser. */
const FOR_TERMINALS = new RegExp(
  [
    /\bharvest [a-z]|\bHARVEST_[A-Z]|\bgit [a-z]|\bpsql\b|\bapt install\b|(?:^|\s)--[a-z]/,
    /\b(?:GET|POST|PUT|PATCH|DELETE) \/|\/api\b|`[A-Z][\w-]+:|`[a-z_]+\.[a-z_.]+`/,
    /\b(?:ETag|If-Match|Retry-After|Idempotency-Key|X-Harvest-CSRF)\b|\btokens?\b|\b(?:new|another) key\b/,
  ]
    .map((one) => one.source)
    .join("|"),
);

export function isForTerminals(text: string): boolean {
  return FOR_TERMINALS.test(text);
}

/** Sentences of the server with their counterparts here, most exact first. */
const SENTENCES: [RegExp, string][] = [
  [/`harvest gc[^`]*` removed/g, "a cleanup removed"],
  [/; `harvest doctor --reach` tries all hosts; name a mirror under/g, "; an admin of the server can name a mirror under"],
  [/: harvest credential add mcp --name \S+/g, ": add it on the Credentials page, with the provider “MCP server”"],
  [/; `harvest queue resume` continues it/g, ""],
  [/(?:: |; )harvest task diff \S+(?: shows it)?/g, ": see “Changes”"],
  [/merge it in a clone: harvest task apply \S+/g, "download its patch to use it elsewhere"],
  [/`harvest repo list` says why, and `harvest repo [^`]*` builds it again/g, "the Repositories page has its log and builds it again"],
  [/`harvest repo add [^`]*` installs/g, "preparing the repository on the Repositories page installs"],
  [/`harvest repo build[^`]*` (installs|makes)/g, "a build on the Repositories page $1"],
  [/: set \S+ where Harvest runs, or give a model script with --model-script/g, ": add one on the Credentials page"],
  [/; (?:name|set) one with --test\b/g, "; set one under “More” in a new task, or in the project's settings"],
  [/\(--test, or /g, "(under “More” in a new task, or "],
  [/, or give an install command with --setup\b/g, ", or enter an install command on the Repositories page"],
  [/, or `--sandbox local`/g, ", or the local sandbox"],
  [/so `--sandbox container` does not work/g, "so the container sandbox does not work"],
  [/--base names another\b/g, "“Start from” in a new task names another"],
  [/, or name (?:this one|its address) with --public-url\b/g, ""],
  [/a proxy that --trusted-proxy does not name/g, "a proxy that the server is not told to trust"],
];

/** What a flag sets, as the page calls it. */
const FLAGS: Record<string, string> = {
  agent: "“Agent”",
  base: "“Start from”",
  "budget-usd": "“Budget”",
  model: "“Model”",
  priority: "“Priority”",
  repo: "“Repository”",
  setup: "“Install command”",
  test: "“Test command”",
  timeout: "“Time limit”",
};

/** Where on the page the commands of a group are. */
const PLACES: Record<string, string> = {
  agent: "the Agents page",
  credential: "the Credentials page",
  github: "the Credentials page",
  project: "the Projects page",
  queue: "the Queue and workers page",
  repo: "the Repositories page",
  schedule: "the Schedules page",
  status: "the Queue and workers page",
  task: "the Tasks page",
  template: "the Templates page",
  token: "the Tokens page",
  up: "the Queue and workers page",
};
const place = (group: string) => PLACES[group] ?? "an admin of the server";

export function pageWords(text: string): string {
  if (!/harvest |--[a-z]/.test(text)) return text;
  // Below a message is what a program printed, as it came.
  const [message = "", ...quoted] = text.split("\n");
  return [wordsOf(message), ...quoted].join("\n");
}

function wordsOf(message: string): string {
  return (
    SENTENCES.reduce((said, [from, to]) => said.replace(from, to), message)
      .replace(/`harvest ([a-z]+)\b[^`]*`/g, (_, group: string) => place(group))
      .replace(/: harvest ([a-z]+) [^;.]*/g, (_, group: string) => `: see ${place(group)}`)
      // A flag of another program is in a command, which has quotes.
      .replace(/(with |; |\()--([a-z-]+)/g, (all, before: string, flag: string) => (flag in FLAGS ? `${before}${FLAGS[flag]}` : all))
  );
}

/** Why something failed, as the beginning of a sentence. Names at the beginning stay as they are. */
export function errorWords(text: string): string {
  return pageWords(text).replace(/^(?:an?|every|it|no|not|nothing|only|someone|stopped|task|tests|that|the|there|this)\b/, capital);
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The same in a list, without what introduces the lines below it. */
export function shortError(text: string): string {
  return errorWords(text.split("\n", 1)[0] ?? "").replace(/; the last lines it printed:$/, "");
}
