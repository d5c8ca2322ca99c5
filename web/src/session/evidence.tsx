// What proves a result: which command, at which commit, with which outcome, and what it printed.
import type { SchemaTask } from "../api/schema";
import { isOver } from "../api/words";
import type { Journal } from "../stream/journal";
import { firstLine, harmless } from "../text/harmless";
import { words } from "../ui/icons";
import { Badge, Code, Empty } from "../ui/parts";
import { exact, took } from "../ui/time";
import { Counts, TestsView } from "./entry";
import { useNowAndThen } from "./journal";
import { Facts, Part, Section } from "./part";

const FLAGS: Record<string, string> = {
  test_command_changed: "Files that the test command is made of were changed; the versions of the base were used",
  tests_changed: "Tests that were there before were changed",
  tests_deleted: "Tests were deleted",
  fewer_tests: "Fewer tests ran than before the change",
  tests_skipped: "Tests are skipped that ran before",
  ci_changed: "The settings of continuous integration were changed",
  settings_changed: "Settings of tools or agents were changed",
  tests_timed_out: "The tests did not end in time",
  not_isolated: "The tests ran without a sandbox",
};

export function EvidenceTab({ task, journal }: { task: SchemaTask; journal: Journal }) {
  useNowAndThen(journal);
  const { fold } = journal;
  const { evidence } = task;
  if (!evidence && fold.tests.length === 0) {
    return (
      <Empty title={isOver(task.status) ? "There is no evidence" : "No evidence yet"} icon="approve">
        {isOver(task.status)
          ? "Nothing was tested: the work did not get that far, or the repository has no tests that Harvest knows."
          : "When the agent ends, Harvest runs the tests in fresh sandboxes, at the result and at its base. What they say appears here."}
      </Empty>
    );
  }
  return (
    <Part label="Evidence">
      {evidence && (
        <>
          <Facts
            rows={[
              ["Command", <Code key="c">{harmless(evidence.command)}</Code>],
              ["At commit", <Code key="k">{evidence.commit}</Code>],
              ["Result", <Counts key="r" run={evidence} />],
              ["Before the change", <Counts key="b" run={evidence.baseline} />],
              ["Took", took(evidence.duration_ms)],
              ["Environment", <Code key="e">{evidence.environment}</Code>],
            ]}
          />
          <section aria-labelledby="flags">
            <h2 id="flags" className="mb-2 font-semibold">
              What to look at
            </h2>
            {evidence.flags.length === 0 ? (
              <p className="text-dim">Nothing: the tests are those of the base, and none was left out.</p>
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
            {evidence.changed && [...evidence.changed.tests, ...evidence.changed.ci, ...evidence.changed.settings].length > 0 && (
              <p className="mt-2 flex flex-wrap gap-1">
                {[...evidence.changed.tests, ...evidence.changed.ci, ...evidence.changed.settings].slice(0, 50).map((path) => (
                  <Code key={path}>{firstLine(path)}</Code>
                ))}
              </p>
            )}
          </section>
        </>
      )}
      <Section title="Runs and what they printed">
        {fold.tests.length === 0 && <p className="text-dim">None is in the journal.</p>}
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
