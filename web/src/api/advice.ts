// What to do about a problem, for people who use the page. What the server says is for the command line and for programs as well:
// where it names a command or an address of the API, the page has words of its own.
import type { SchemaProblem } from "./schema";

export interface Advice {
  text: string;
  /** A page that helps. */
  to?: string;
  page?: string;
}

const at = (text: string, to: string, page: string): Advice => ({ text, to, page });

const ADVICE: Record<string, Advice> = {
  "HV-0101": at("Use a known repository, an absolute path on the server's machine, or a URL:", "/repositories", "Repositories"),
  "HV-0103": { text: "Check the branch, tag or commit under “Start from”." },
  "HV-0121": at("Choose one that is installed:", "/agents", "Agents"),
  "HV-0122": at("Agents need a key for their model:", "/credentials", "Credentials"),
  "HV-0123": at("Install it on the server's machine, or choose another:", "/agents", "Agents"),
  "HV-0151": at("It may have been deleted, or belong to a project you cannot see:", "/tasks", "All tasks"),
  "HV-0152": at("Use more characters of the ID:", "/tasks", "All tasks"),
  "HV-0153": { text: "Reload the page to see its result." },
  "HV-0154": at("It may have been deleted, or belong to a project you cannot see:", "/tasks", "All tasks"),
  "HV-0156": { text: "Someone else may have decided already. Reload the page." },
  "HV-0161": { text: "There is nothing to merge or download: the activity shows what happened." },
  "HV-0162": { text: "Nothing was merged. Resolve this in the repository itself, then try again." },
  "HV-0171": at("Use the ID of a task or its first characters:", "/tasks", "All tasks"),
  "HV-0174": { text: "Only failed and cancelled tasks can be retried. Send a follow-up instead." },
  "HV-0181": { text: "Write five fields: minute, hour, day, month, weekday." },
  "HV-0182": at("It may have been removed:", "/schedules", "Schedules"),
  "HV-0183": at("It may have been removed:", "/templates", "Templates"),
  "HV-0184": at("It may have been removed, or it has not been built yet:", "/repositories", "Repositories"),
  "HV-0192": { text: "Only tasks whose tests ran have evidence to sign." },
  "HV-0331": { text: "The task starts when there is capacity; an admin can see why on the queue page." },
  "HV-0341": at("Choose another name, or replace the secret of the existing one:", "/credentials", "Credentials"),
  "HV-0342": at("It may have been removed:", "/credentials", "Credentials"),
  "HV-0601": { text: "Sign in again." },
  "HV-0602": { text: "Ask an admin of the project or of the installation." },
  "HV-0603": { text: "Reload the page and try again." },
  "HV-0608": { text: "Reload the page to see the change, then make yours." },
  "HV-0611": at("It may have been removed:", "/tokens", "Tokens"),
  "HV-0612": at("It may have been removed, or you are not a member of it:", "/projects", "Projects"),
  "HV-0617": { text: "Wait until tomorrow (UTC), or ask an admin for a higher limit." },
  "HV-0901": { text: "Try again. If it happens again, an admin can find the cause in the server's log." },
};

/** Commands, flags and addresses of the API mean nothing to someone in a browser. */
const ELSEWHERE = /\bharvest [a-z]|\b(?:GET|POST|PUT|PATCH|DELETE) \/|\/api\b|\bgit [a-z]|(?:^|\s)--[a-z]|`[A-Z][\w-]+:|\bIf-Match\b/;

export function adviceFor({ code, help }: Pick<SchemaProblem, "code" | "help">): Advice | null {
  if (help && !ELSEWHERE.test(help)) return { text: `${help.charAt(0).toUpperCase()}${help.slice(1)}${/[.!?]$/.test(help) ? "" : "."}` };
  return ADVICE[code] ?? null;
}
