import { counted } from "../text/counted";
import { firstLine } from "../text/harmless";
import type { SchemaTask, SchemaTaskStatus } from "./schema";

export type SchemaStatus = SchemaTaskStatus;

export const STATUSES: SchemaStatus[] = ["pending", "provisioning", "running", "awaiting_approval", "interrupted", "completed", "failed", "cancelled"];

export function isStatus(text: unknown): text is SchemaStatus {
  return typeof text === "string" && (STATUSES as string[]).includes(text);
}

export function isOver(status: SchemaStatus): boolean {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** A path or URL without what leads to it. */
export function shortRepository(source: string): string {
  return (
    source
      .replace(/\/+$/, "")
      .replace(/\.git$/, "")
      .split("/")
      .pop() || source
  );
}

const SOURCES: Record<string, string> = {
  cli: "command line",
  api: "API",
  web: "web",
  slack: "Slack",
  github_issue: "GitHub issue",
  github_pr: "GitHub pull request",
  mcp: "MCP",
  schedule: "schedule",
  agent: "agent",
} satisfies Record<SchemaTask["source"], string>;

/** Where a task came from. A newer server may know more places. */
export function sourceWords(source: SchemaTask["source"]): string {
  return SOURCES[source] ?? source;
}

const PROVIDERS: Record<string, string> = { anthropic: "Anthropic", openai: "OpenAI", gemini: "Gemini", ollama: "Ollama", github: "GitHub", mcp: "MCP" };

/** A vendor or service as it writes its own name. */
export function providerName(id: string): string {
  return PROVIDERS[id] ?? id;
}

type Evidence = NonNullable<SchemaTask["evidence"]>;

/** With one of these, a test command that passes proves nothing. */
const DISQUALIFYING: Evidence["flags"] = ["fewer_tests", "tests_deleted", "tests_timed_out"];

function disqualifying(evidence: Evidence): Evidence["flags"][number] | undefined {
  return evidence.flags.find((flag) => DISQUALIFYING.includes(flag));
}

/** What the runs of the tests come to; evidence from before there were verdicts has the one that its exit code and flags allow. */
export function outcome(evidence: Evidence): NonNullable<Evidence["verdict"]> {
  if (evidence.verdict) return evidence.verdict;
  if (evidence.exit_code !== 0) return "failed";
  return disqualifying(evidence) ? "doubtful" : "verified";
}

/** A completed task that left the repository as it was. A review changes nothing by its nature. */
export function changedNothing(task: Pick<SchemaTask, "status" | "branch" | "kind">): boolean {
  return task.status === "completed" && !task.branch && task.kind !== "pr_review";
}

/** Whether there is work to look at: delivered on a branch, or kept by Harvest because it failed. */
export function hasWork(task: Pick<SchemaTask, "branch" | "commit" | "base">): boolean {
  return Boolean(task.branch) || (task.commit != null && task.commit !== task.base);
}

/** Where the work of a task is that failed or was cancelled. `pushed`: its last turn has put it on the branch. */
export function leftWords(task: Pick<SchemaTask, "status" | "reason" | "branch" | "commit" | "base">, pushed: boolean): string | null {
  if (task.status !== "failed" && task.status !== "cancelled") return null;
  if (!task.branch) return hasWork(task) ? "The work so far was not delivered; Harvest keeps it." : null;
  if (pushed) return `The work so far is on branch ${task.branch}; nothing was merged.`;
  // The error of a failed hook says where the work is.
  return task.reason === "hook" ? null : `Branch ${task.branch} has only the work of earlier turns.`;
}

/** Whether the work of a task that has ended can still become a pull request. */
export function mayBeProposed(task: Pick<SchemaTask, "status" | "branch" | "commit" | "base" | "kind" | "repository">, hasPullRequest: boolean): boolean {
  return isOver(task.status) && hasWork(task) && task.kind !== "pr_review" && /^https?:/.test(task.repository) && !hasPullRequest;
}

/** What approving a finished result does. */
export function deliveryWords(task: Pick<SchemaTask, "source">): string {
  return task.source === "github_issue" || task.source === "github_pr" ? "Create pull request" : "Deliver";
}

/** Why a person should look at a result whose tests pass, in two or three words. */
const DOUBTS: Record<Evidence["flags"][number], string> = {
  test_command_changed: "test command edited",
  test_helpers_changed: "test helpers edited",
  tests_changed: "tests edited",
  tests_deleted: "tests deleted",
  tests_vanished: "tests vanished",
  fewer_tests: "fewer tests",
  tests_skipped: "more tests skipped",
  ci_changed: "CI edited",
  settings_changed: "settings edited",
  tests_timed_out: "tests timed out",
  not_isolated: "not isolated",
};

/** The same for all flags of a result, with the name of a test that vanished. */
export function doubts(evidence: Evidence): string {
  const [first, ...more] = evidence.flags;
  if (!first) return "";
  const [gone, ...others] = evidence.tests?.vanished ?? [];
  const words =
    first === "tests_vanished" && gone !== undefined
      ? `${counted(others.length + 1, "test")} vanished (${firstLine(gone, 60)}${others.length > 0 ? ", …" : ""})`
      : DOUBTS[first];
  return `, ${words}${more.length > 0 ? `, ${counted(more.length, "more flag")}` : ""}`;
}

/** What there is to check in a result without flags. */
export function withoutFlags(evidence: Evidence): string {
  if (outcome(evidence) !== "verified") return "No flags. The verdict above says why the work is not verified.";
  if (evidence.passed == null || evidence.baseline.passed == null)
    return "No flags. How many tests ran is not known: the test runner printed no counts that Harvest can read.";
  const isNew = (evidence.tests?.added ?? []).length > 0;
  return `Nothing: no fewer tests ran than at the base, and no more were skipped.${isNew ? " New tests are listed above." : ""}`;
}

/** What the evidence of a task says, in a few words. Only completed work is called verified or not verified. */
export function verdict(
  task: Pick<SchemaTask, "evidence" | "status" | "branch" | "kind" | "finished_at">,
): { text: string; tone: "good" | "bad" | "warn" } | null {
  // A notice told that it completed; what it came to has not been read yet.
  if (task.status === "completed" && !task.finished_at) return null;
  if (changedNothing(task)) return { text: "no changes", tone: "warn" };
  const { evidence } = task;
  const delivered = task.status === "completed" && Boolean(task.branch);
  if (!evidence) return delivered ? { text: "not verified", tone: "warn" } : null;
  const not = delivered ? "not verified: " : "";
  const failed = evidence.failed ? `${evidence.failed} failed` : `exit ${evidence.exit_code}`;
  const results =
    evidence.passed != null
      ? `${evidence.passed} passed${evidence.failed ? `, ${evidence.failed} failed` : ""}`
      : evidence.exit_code === 0
        ? "exit code 0, no counts"
        : `exit ${evidence.exit_code}`;
  switch (outcome(evidence)) {
    case "verified":
      return { text: `${delivered ? "verified: " : ""}${results}${doubts(evidence)}`, tone: evidence.flags.length > 0 ? "warn" : "good" };
    case "unchanged":
      return { text: `${not}${failed}, same as the base`, tone: "warn" };
    case "no_tests":
      return { text: `${not}no tests ran`, tone: "warn" };
    case "cannot_run":
      return { text: `${not}tests could not run`, tone: "bad" };
    case "doubtful": {
      const flag = disqualifying(evidence);
      return { text: `${not}${results}${flag ? `, ${DOUBTS[flag]}` : ""}`, tone: "bad" };
    }
    case "failed":
      return { text: `${not}${results}`, tone: "bad" };
  }
}
