// What proves a result: which command, at which commit, with which outcome, and what it printed.
import { useMutation, useQuery } from "@tanstack/react-query";
import { download } from "../api/download";
import { queries } from "../api/queries";
import type { SchemaTask } from "../api/schema";
import { changedNothing, doubts, isOver, outcome, withoutFlags } from "../api/words";
import type { Journal } from "../stream/journal";
import { firstLine, harmless, reason } from "../text/harmless";
import { Stranger } from "../text/show";
import { words } from "../ui/icons";
import { Badge, Button, Code, CopyButton, Empty, Trouble } from "../ui/parts";
import { exact, took } from "../ui/time";
import { Counts, TestsView } from "./entry";
import { useNowAndThen } from "./journal";
import { Facts, Part, Section } from "./part";

const FLAGS: Record<string, string> = {
  test_command_changed: "Files that the test command uses were changed; the versions from the base were used",
  test_helpers_changed: "Helper files of the tests were changed; the changed versions were used",
  tests_changed: "Existing tests were changed",
  tests_deleted: "Test files, or files of the test command, were deleted or emptied",
  tests_vanished: "Tests that ran before the change are missing; they are listed above",
  fewer_tests: "Fewer tests ran than before the change",
  tests_skipped: "More tests were skipped than before the change",
  ci_changed: "The CI configuration was changed",
  settings_changed: "Tool or agent settings were changed",
  tests_timed_out: "The tests did not finish in time",
  not_isolated: "The tests ran without a sandbox",
};

const VERDICTS: Record<ReturnType<typeof outcome>, { text: string; tone: "good" | "bad" | "warn" }> = {
  verified: { text: "Verified", tone: "good" },
  unchanged: { text: "Unchanged: the tests that fail also fail at the base", tone: "warn" },
  no_tests: { text: "Not verified: no tests ran, before or after", tone: "warn" },
  cannot_run: { text: "Not verified: the tests could not run", tone: "bad" },
  doubtful: { text: "Not verified: the test command passes but proves nothing", tone: "bad" },
  failed: { text: "The tests fail", tone: "bad" },
};

const CHANGES = [
  ["broken", "Pass → fail", "bad"],
  ["added_failing", "New, fails", "bad"],
  ["fixed", "Fail → pass", "good"],
  ["no_longer_failing", "No longer listed as failing", "warn"],
  ["still_failing", "Still failing", "warn"],
  ["added", "New", "good"],
  ["vanished", "Vanished", "warn"],
] as const;

/** Which tests differ between the base and the result, by name. */
function TestChanges({ of }: { of: NonNullable<NonNullable<SchemaTask["evidence"]>["tests"]> }) {
  const lists = CHANGES.filter(([name]) => (of[name] ?? []).length > 0);
  if (lists.length === 0 && !of.incomplete) return null;
  return (
    <section aria-labelledby="test-changes">
      <h2 id="test-changes" className="mb-2 font-semibold">
        Tests that changed
      </h2>
      <dl className="flex flex-col gap-2">
        {lists.map(([name, title, tone]) => (
          <div key={name} className="flex flex-wrap items-baseline gap-2">
            <dt>
              <Badge tone={tone}>
                {title} ({(of[name] ?? []).length})
              </Badge>
            </dt>
            <dd className="flex min-w-0 flex-wrap gap-1">
              {(of[name] ?? []).slice(0, 50).map((test) => (
                <Code key={test}>{firstLine(test)}</Code>
              ))}
            </dd>
          </div>
        ))}
      </dl>
      {of.left_off ? <p className="mt-1 text-dim">and {of.left_off} more</p> : null}
      {of.incomplete && (
        <p role="note" className="mt-1 text-warn">
          {reason(of.incomplete)}
        </p>
      )}
    </section>
  );
}

function VerdictBadge({ task, evidence }: { task: SchemaTask; evidence: NonNullable<SchemaTask["evidence"]> }) {
  if (changedNothing(task)) return <Badge tone="warn">No changes: the tests ran at the base</Badge>;
  const { text, tone } = VERDICTS[outcome(evidence)];
  if (outcome(evidence) !== "verified") return <Badge tone={tone}>{text}</Badge>;
  return (
    <Badge wraps tone={evidence.flags.length > 0 ? "warn" : tone}>
      {`${text}${evidence.passed == null ? ", no counts" : ""}${doubts(evidence)}`}
    </Badge>
  );
}

/** The same as a signed statement, for people who were not here. */
function SignedEvidence({ task }: { task: string }) {
  const save = useMutation({ mutationFn: () => download(`/api/tasks/${task}/evidence`, `evidence-${task.slice(0, 8)}.dsse.json`) });
  const key = useQuery(queries.evidenceKey);
  return (
    <>
      <Button className="ml-auto" disabled={save.isPending} onClick={() => save.mutate()}>
        Download signed evidence
      </Button>
      {save.isError && <Trouble error={save.error} />}
      {key.data && (
        <span className="basis-full text-xs text-dim">
          A DSSE envelope, signed with the key <Code>{key.data.public_key}</Code> <CopyButton text={key.data.public_key} label="Copy the public key" />
        </span>
      )}
    </>
  );
}

export function EvidenceTab({ task, journal }: { task: SchemaTask; journal: Journal }) {
  useNowAndThen(journal);
  const { fold } = journal;
  const { evidence } = task;
  if (!evidence && fold.tests.length === 0) {
    return (
      <Empty title={isOver(task.status) ? "No evidence" : "No evidence yet"} icon="approve">
        {task.status === "completed" && task.kind !== "pr_review"
          ? "The work is not verified: no test command was found."
          : isOver(task.status)
            ? "No tests ran: the task ended before them, or no test command was found."
            : "When the agent finishes, Harvest runs the tests in fresh sandboxes, on the result and on its base. The results appear here."}
      </Empty>
    );
  }
  const files = evidence?.changed;
  // A file of the test command may be one of the settings as well.
  const changed = files ? [...new Set([...(files.command ?? []), ...(files.helpers ?? []), ...files.tests, ...files.ci, ...files.settings])] : [];
  return (
    <Part label="Evidence">
      {evidence && (
        <>
          <p className="flex flex-wrap items-center gap-2">
            <VerdictBadge task={task} evidence={evidence} />
            <SignedEvidence task={task.id} />
          </p>
          {evidence.hint && (
            <p role="note" className="rounded-md border border-line bg-warn-soft px-3 py-2">
              {harmless(evidence.hint)}
            </p>
          )}
          <Facts
            rows={[
              ["Command", <Code key="c">{harmless(evidence.command)}</Code>],
              ["At commit", <Code key="k">{evidence.commit}</Code>],
              ["Result", <Counts key="r" run={evidence} />],
              ["Before the change", <Counts key="b" run={evidence.baseline} />],
              ["Duration", took(evidence.duration_ms)],
              ["Environment", <Code key="e">{evidence.environment}</Code>],
            ]}
          />
          {evidence.tests && <TestChanges of={evidence.tests} />}
          {evidence.output && (
            <section aria-labelledby="last-lines">
              <h2 id="last-lines" className="mb-2 font-semibold">
                Last lines of the test output
              </h2>
              <div className="rounded-md border border-line bg-side px-3 py-2">
                <Stranger text={evidence.output} />
              </div>
            </section>
          )}
          <section aria-labelledby="flags">
            <h2 id="flags" className="mb-2 font-semibold">
              What to check
            </h2>
            {evidence.flags.length === 0 ? (
              <p className="text-dim">{withoutFlags(evidence)}</p>
            ) : (
              <ul className="flex flex-col gap-1.5">
                {evidence.flags.map((flag) => (
                  <li key={flag} className="flex flex-wrap items-center gap-2">
                    <Badge tone="warn">{words(flag)}</Badge>
                    <span>{FLAGS[flag] ?? ""}</span>
                  </li>
                ))}
              </ul>
            )}
            {changed.length > 0 && (
              <p className="mt-2 flex flex-wrap gap-1">
                {changed.slice(0, 50).map((path) => (
                  <Code key={path}>{firstLine(path)}</Code>
                ))}
              </p>
            )}
          </section>
        </>
      )}
      <Section title="Test runs and their output">
        {fold.tests.length === 0 && <p className="text-dim">No test runs in the journal.</p>}
        {fold.tests.toReversed().map((run, index) => (
          <div key={run.seq} className="flex flex-col gap-1">
            <p className="text-xs text-dim">
              <time dateTime={run.at}>{exact(run.at)}</time>, at <Code>{run.commit.slice(0, 10)}</Code>
            </p>
            <TestsView run={run} open={run.purpose === "verify" && index < 2} />
          </div>
        ))}
      </Section>
    </Part>
  );
}
