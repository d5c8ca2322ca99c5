// What to do about a problem, for people who use the page. What the server says is for the command line and for programs as well:
// where it names a command or an address of the API, the page has words of its own.
import { capital, errorWords, isForTerminals, pageWords } from "./page-words";
import type { SchemaProblem } from "./schema";

export interface Advice {
  text: string;
  /** A page that helps. */
  to?: string;
  page?: string;
}

const at = (text: string, to: string, page: string): Advice => ({ text, to, page });
const say = (text: string): Advice => ({ text });

const RELOAD = say("Reload the page and try again.");
const ADMIN_OF_SERVER = say("Ask an admin of the server: its log has the details.");
const GONE_TASK = at("It may have been deleted, or belong to a project you cannot see:", "/tasks", "All tasks");
const SEE_ACTIVITY = say("The activity shows what happened. Send a follow-up, or retry the task.");
const SCRIPT = say("The server was started with a scripted model. Ask an admin of the server to correct the script.");
const SANDBOX = say("Ask an admin of the server: workers cannot create sandboxes until this is fixed.");

/** By code. `docs/errors` has a page for each code, written for the command line. */
export const ADVICE: Record<string, Advice> = {
  "HV-0101": at("Use a known repository, an absolute path on the server's machine, or a URL:", "/repositories", "Repositories"),
  "HV-0102": say("Make a first commit in the repository, then try again."),
  "HV-0103": say("Check the branch, tag or commit under “Start from”."),
  "HV-0104": say("Enter a branch, tag or commit hash under “Start from”."),
  "HV-0105": say("Finish or abort it in the repository, then try again."),
  "HV-0106": say("Try again when no other program is changing it. If it is not writable, or has a branch called “harvest”, ask an admin of the server."),
  "HV-0107": say("Use a path on the server's machine, or a URL that starts with https://, http:// or ssh://, without a password in it."),
  "HV-0108": at("Check the URL and whether the server has access to it:", "/credentials", "Credentials"),
  "HV-0109": at("Check the permissions of the GitHub App or token, and that the App is installed in the repository:", "/credentials", "Credentials"),
  "HV-0110": say("Wait a moment and try again. www.githubstatus.com shows GitHub's status."),
  "HV-0111": say("Describe the task in at most a few pages; put longer text into a file in the repository."),
  "HV-0112": say("The agent works without the submodules. Put what it needs into the repository itself."),
  "HV-0113": say("The agent works without these files. Put what it needs into the repository itself."),
  "HV-0121": at("Choose one that is installed:", "/agents", "Agents"),
  "HV-0122": at("Agents need a key for their model:", "/credentials", "Credentials"),
  "HV-0123": at("Install it on the server's machine, or choose another:", "/agents", "Agents"),
  "HV-0131": SCRIPT,
  "HV-0132": SCRIPT,
  "HV-0133": SCRIPT,
  "HV-0134": SCRIPT,
  "HV-0141": say("Correct the value and try again."),
  "HV-0151": GONE_TASK,
  "HV-0152": at("Use more characters of the ID:", "/tasks", "All tasks"),
  "HV-0153": say("Reload the page to see its result."),
  "HV-0154": GONE_TASK,
  "HV-0155": say("Fork from a later message: nothing was saved before this one."),
  "HV-0156": say("Someone else may have decided already. Reload the page."),
  "HV-0157": say("Start a new task instead."),
  "HV-0158": say("Download its patch first, or start a follow-up that delivers it."),
  "HV-0161": say("There is nothing to merge or download: the activity shows what happened."),
  "HV-0162": say("Nothing was merged. Resolve this in the repository itself, then try again."),
  "HV-0163": say("Review the changes, then merge the work or download its patch instead."),
  "HV-0171": at("Use the ID of a task or its first characters:", "/tasks", "All tasks"),
  "HV-0172": say("Remove one of the tasks from “After”."),
  "HV-0173": RELOAD,
  "HV-0174": say("Only failed and cancelled tasks can be retried. Send a follow-up instead."),
  "HV-0175": say("Only a running task can be interrupted. To end one that is waiting, use “Stop”."),
  "HV-0176": say("It may have been resumed already. Reload the page, or send a follow-up."),
  "HV-0181": say("Enter five fields: minute, hour, day, month, weekday."),
  "HV-0182": at("It may have been removed:", "/schedules", "Schedules"),
  "HV-0183": at("It may have been removed:", "/templates", "Templates"),
  "HV-0184": at("It may have been removed, or it has not been built yet:", "/repositories", "Repositories"),
  "HV-0191": say("Correct the file and try again."),
  "HV-0192": say("Only tasks whose tests ran have evidence to sign."),
  "HV-0201": SANDBOX,
  "HV-0202": SANDBOX,
  "HV-0203": SANDBOX,
  "HV-0204": SEE_ACTIVITY,
  "HV-0205": SANDBOX,
  "HV-0301": ADMIN_OF_SERVER,
  "HV-0302": say("Ask an admin of the server to free disk space, then try again."),
  "HV-0303": ADMIN_OF_SERVER,
  "HV-0304": ADMIN_OF_SERVER,
  "HV-0305": say("Try again in a moment. If it happens again, ask an admin of the server."),
  "HV-0306": ADMIN_OF_SERVER,
  "HV-0311": at("Ask an admin of the server to correct it, or change the project's own settings:", "/projects", "Projects"),
  "HV-0321": ADMIN_OF_SERVER,
  "HV-0331": say("The task starts when there is capacity; an admin can see why on the queue page."),
  "HV-0341": at("Choose another name, or replace the secret of the existing one:", "/credentials", "Credentials"),
  "HV-0342": at("It may have been removed:", "/credentials", "Credentials"),
  "HV-0343": ADMIN_OF_SERVER,
  "HV-0344": say("Paste the whole secret, on one line and without spaces."),
  "HV-0401": say("Start a new task with a larger budget, or send a follow-up to continue from the work so far."),
  "HV-0402": at("Check that its key is valid and has quota left:", "/credentials", "Credentials"),
  "HV-0403": say("Send a follow-up to continue, or start a new task with a longer time limit."),
  "HV-0404": SEE_ACTIVITY,
  "HV-0405": say("Retry the task, or send a follow-up to continue from the work so far."),
  "HV-0406": SEE_ACTIVITY,
  "HV-0407": say("The evidence shows which tests fail. Send a follow-up to have them fixed."),
  "HV-0408": say("Set a test command under “More” in a new task, or in the project's settings."),
  "HV-0409": SEE_ACTIVITY,
  "HV-0410": say("Send a follow-up to continue, or split the task into smaller ones."),
  "HV-0411": say("The activity shows the hook's output. Fix the cause, then retry the task."),
  "HV-0412": say("Such requests are blocked. Retry with another agent or model."),
  "HV-0413": say("Choose another model, or ask an admin of the server to set its price."),
  "HV-0501": say("The work so far is saved. Retry the task."),
  "HV-0601": say("Sign in again."),
  "HV-0602": say("Ask an admin of the project or of the installation."),
  "HV-0603": RELOAD,
  "HV-0604": say("Correct the value and try again."),
  "HV-0605": at("The link may be outdated or belong to another installation:", "/tasks", "All tasks"),
  "HV-0606": say("Put long text into a file in the repository."),
  "HV-0607": say("Wait a few seconds, then try again."),
  "HV-0608": say("Reload the page to see the change, then make yours."),
  "HV-0609": ADMIN_OF_SERVER,
  "HV-0610": ADMIN_OF_SERVER,
  "HV-0611": at("It may have been removed:", "/tokens", "Tokens"),
  "HV-0612": at("It may have been removed, or you are not a member of it:", "/projects", "Projects"),
  "HV-0613": say("Tell an admin of the server at once: entries of the audit log were changed or removed."),
  "HV-0614": say("They may have been removed already. Reload the page."),
  "HV-0615": at("Choose another name, or change the existing one:", "/projects", "Projects"),
  "HV-0616": say("Try again in a moment, or sign in with a link."),
  "HV-0617": say("Wait until tomorrow (UTC), or ask an admin for a higher limit."),
  "HV-0618": say("Wait until its work is done, or stop it first."),
  "HV-0619": say("The page reconnects automatically."),
  "HV-0901": say("Try again. If it happens again, an admin can find the cause in the server's log."),
};

export function adviceFor({ code, help }: Pick<SchemaProblem, "code" | "help">): Advice | null {
  if (help && !isForTerminals(help)) return { text: sentence(help) };
  return ADVICE[code] ?? null;
}

/** Fields of requests by their labels on the page. A header is nothing that a person has filled in. */
const FIELDS: Record<string, string | null> = {
  prompt: "Task",
  base: "Start from",
  test: "Test command",
  budget_usd: "Budget",
  timeout: "Time limit",
  fallback_agents: "Fallback agents",
  plan_review: "Plan review",
  on_failed_dependency: "If one of them fails",
  mcp: "MCP servers",
  cron: "When",
  time_zone: "Time zone",
  base_url: "URL",
  expires_in_days: "Expires after",
  setup: "Install command",
  build: "Build command",
  source: "Path or URL",
  scope: "Used by",
  agents: "Concurrency",
  size: "Maximum concurrent tasks",
  body: null,
};

/** What happened, with the label of the field that it is about. */
export function detailOf({ detail, field }: Pick<SchemaProblem, "detail" | "field">): string {
  // Headers have capitals and dashes.
  const label = !field || /^[A-Z]/.test(field) ? null : field in FIELDS ? FIELDS[field] : capital(field.replaceAll("_", " "));
  return label ? `${label}: ${pageWords(detail)}` : errorWords(detail);
}

function sentence(text: string): string {
  return `${capital(text)}${/[.!?]$/.test(text) ? "" : "."}`;
}
