// A session: what was asked, what the agent does about it, and what came of it.
import { useQuery } from "@tanstack/react-query";
import * as Tabs from "@radix-ui/react-tabs";
import { getRouteApi, Link as To, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useMemo, useState, useSyncExternalStore, type ReactNode } from "react";
import { useMayIn } from "../api/may";
import { queries } from "../api/queries";
import type { SchemaSessionDetail, SchemaTask } from "../api/schema";
import { errorWords } from "../api/page-words";
import { isOver, shortRepository, sourceWords } from "../api/words";
import { TABS, type Tab } from "../router";
import type { Journal } from "../stream/journal";
import { money } from "../stream/sums";
import { counted } from "../text/counted";
import { firstLine } from "../text/harmless";
import { StatusIcon, words } from "../ui/icons";
import { Badge, Code, Meter, Trouble, Waiting } from "../ui/parts";
import { exact, since, useNow } from "../ui/time";
import { useJournal, useNowAndThen } from "./journal";
import { Actions } from "./actions";
import { Composer, Decide, ForkDialog } from "./composer";
import { Fork } from "./entry";
import { CommentsOf } from "./comments";
import { People } from "./people";
import { Stream } from "./stream";
import { useSessionKeys } from "./keys";
import { Paused } from "./paused";
import { Summary } from "./summary";

const Changes = lazy(() => import("./changes"));
const EvidenceTab = lazy(() => import("./evidence").then((all) => ({ default: all.EvidenceTab })));
const CostTab = lazy(() => import("./cost").then((all) => ({ default: all.CostTab })));
const TimelineTab = lazy(() => import("./timeline").then((all) => ({ default: all.TimelineTab })));
const RaceTab = lazy(() => import("./race").then((all) => ({ default: all.RaceTab })));
const EnvironmentTab = lazy(() => import("./environment").then((all) => ({ default: all.EnvironmentTab })));

const taskRoute = getRouteApi("/tasks/$id");
const sessionRoute = getRouteApi("/sessions/$id");

export function TaskPage() {
  const { id } = taskRoute.useParams();
  const { tab } = taskRoute.useSearch();
  const task = useQuery(queries.task(id));
  const [chosen, choose] = useState(0);
  if (task.isPending) return <Waiting what="the task" />;
  if (task.isError) return <Missing error={task.error} />;
  const sessions = task.data.sessions;
  const session = sessions[Math.min(chosen, sessions.length - 1)];
  if (!session) return <Missing error={new Error("The task has no session")} />;
  const others = sessions.length > 1 && (
    <select
      aria-label="Session"
      className="h-7 rounded-md border border-line bg-page px-2"
      value={chosen}
      onChange={(event) => choose(Number(event.target.value))}
    >
      {sessions.map((one, index) => (
        <option key={one.id} value={index}>
          Session {index + 1}
        </option>
      ))}
    </select>
  );
  return <Loaded key={session.id} id={session.id} tab={tab} extra={others} />;
}

export function SessionPage() {
  const { id } = sessionRoute.useParams();
  const { tab } = sessionRoute.useSearch();
  return <Loaded key={id} id={id} tab={tab} />;
}

function Missing({ error }: { error: unknown }) {
  return (
    <div className="mx-auto max-w-xl p-6">
      <Trouble error={error} />
      <To to="/tasks" className="mt-3 inline-block text-accent underline">
        All tasks
      </To>
    </div>
  );
}

function Loaded({ id, tab, extra }: { id: string; tab?: Tab; extra?: ReactNode }) {
  const session = useQuery(queries.session(id));
  if (session.isPending) return <Waiting what="the session" />;
  if (session.isError) return <Missing error={session.error} />;
  return <View session={session.data} tab={tab ?? "activity"} extra={extra} />;
}

function View({ session, tab: wanted, extra }: { session: SchemaSessionDetail; tab: Tab; extra?: ReactNode }) {
  const { journal, link } = useJournal(session.id, session.last_seq);
  const navigate = useNavigate();
  const { task } = session;
  const race = task.settings.race;
  const tabs = TABS.filter((one) => one !== "race" || race);
  const tab = tabs.includes(wanted) ? wanted : "activity";
  const title = firstLine(task.prompt);
  useEffect(() => {
    document.title = `${title.slice(0, 60)} · Harvest`;
  }, [title]);
  const go = (next: string) => void navigate({ to: ".", search: next === "activity" ? {} : { tab: next as Tab }, replace: true });
  useSessionKeys({
    tab: (index) => {
      const next = tabs[index];
      if (next) go(next);
    },
  });

  return (
    <div className="flex h-full min-h-0">
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <header className="shrink-0 border-b border-line px-4 pt-2.5">
          <div className="flex flex-wrap items-center gap-2">
            <StatusIcon status={task.status} size={17} />
            <h1 className="mr-auto min-w-0 flex-1 basis-24 truncate text-sm font-semibold" title={title}>
              {title}
            </h1>
            {link !== "live" && <Badge tone={link === "away" ? "warn" : "plain"}>{link === "away" ? "Connection lost, reconnecting" : "Connecting"}</Badge>}
            {task.settings.trust === "stranger" && <Badge tone="warn">From a stranger</Badge>}
            <People session={session.id} link={link} />
            {extra}
            <Actions session={session} />
          </div>
          <Summary session={session} journal={journal} />
          <Tabs.Root value={tab} onValueChange={go} activationMode="manual">
            <Tabs.List aria-label="Session tabs" className="-mb-px mt-1 flex gap-4 overflow-x-auto">
              {tabs.map((one) => (
                <Tabs.Trigger
                  key={one}
                  value={one}
                  aria-controls="session-part"
                  ref={one === tab ? inSight : undefined}
                  className="flex items-center gap-1 border-b-2 border-transparent py-1.5 font-medium whitespace-nowrap text-dim hover:text-text data-[state=active]:border-accent data-[state=active]:text-text"
                >
                  {words(one)}
                  <Count journal={journal} of={one} />
                </Tabs.Trigger>
              ))}
            </Tabs.List>
          </Tabs.Root>
        </header>
        <div id="session-part" role="tabpanel" aria-label={words(tab)} className="flex min-h-0 flex-1 flex-col">
          <CommentsOf session={session}>
            <Suspense fallback={<Waiting what={tab} />}>
              {tab === "activity" && <Activity session={session} journal={journal} />}
              {tab === "changes" && <Changes session={session} journal={journal} />}
              {tab === "evidence" && <EvidenceTab task={withPageWords(task)} journal={journal} />}
              {tab === "cost" && <CostTab task={task} journal={journal} />}
              {tab === "timeline" && <TimelineTab session={session} journal={journal} />}
              {tab === "race" && race && <RaceTab race={race.id} own={task.id} />}
              {tab === "environment" && <EnvironmentTab session={session} journal={journal} />}
            </Suspense>
          </CommentsOf>
        </div>
      </div>
      <Properties session={session} journal={journal} />
    </div>
  );
}

/** On a phone there is not room for all tabs. */
function inSight(tab: HTMLElement | null) {
  tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** The hint of the evidence says what to do on the page. */
function withPageWords(task: SchemaTask): SchemaTask {
  const { evidence } = task;
  return evidence?.hint ? { ...task, evidence: { ...evidence, hint: errorWords(evidence.hint) } } : task;
}

function Count({ journal, of }: { journal: Journal; of: Tab }) {
  useNowAndThen(journal);
  const { fold } = journal;
  const [count, noun] = of === "evidence" ? [fold.tests.length, "run"] : of === "cost" ? [fold.bill.calls.length, "call"] : [0, ""];
  // With its unit: a bare number beside "Cost" reads as dollars.
  return count > 0 ? <span className="hidden rounded-full bg-hover px-1.5 text-xs font-normal text-dim sm:inline">{counted(count, noun)}</span> : null;
}

function Activity({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  const { task } = session;
  const [forking, setForking] = useState<number | null>(null);
  const mayFork = useMayIn("member", task.repository);
  const fork = useMemo(() => ({ begin: setForking, since: () => (mayFork ? journal.fold.saved : null) }), [journal, mayFork]);
  // Only what decides whether there is something to decide on: the stream watches the rest itself.
  const waits = useSyncExternalStore(journal.subscribe, () => journal.fold.waits);
  return (
    <Fork.Provider value={fork}>
      <Stream session={session} journal={journal} />
      {task.status === "interrupted" ? (
        <Paused session={session} journal={journal} />
      ) : task.status === "awaiting_approval" && waits ? (
        <Decide key={waits.seq} task={task} plan={waits.kind === "plan" ? waits.text : undefined} />
      ) : (
        <Composer session={session} />
      )}
      {forking !== null && <ForkDialog session={session.id} at={forking} onClose={() => setForking(null)} />}
    </Fork.Provider>
  );
}

/** What is known about it, beside everything else, where there is room. */
function Properties({ session, journal }: { session: SchemaSessionDetail; journal: Journal }) {
  const { task } = session;
  useNowAndThen(journal);
  const now = useNow(isOver(task.status) ? 60_000 : 1_000);
  const spent = Math.max(task.cost_usd, journal.fold.bill.total);
  return (
    <aside aria-label="Properties" className="hidden w-72 shrink-0 overflow-y-auto border-l border-line p-4 xl:block" tabIndex={0}>
      <dl className="grid grid-cols-[6rem_1fr] gap-x-2 gap-y-2">
        <Row name="Repository">
          <span title={task.repository}>{shortRepository(task.repository)}</span>
        </Row>
        <Row name="Base">
          <Code>{task.base.slice(0, 10)}</Code>
        </Row>
        {task.commit && (
          <Row name="Result">
            <Code>{task.commit.slice(0, 10)}</Code>
          </Row>
        )}
        <Row name="Agent">{task.agent}</Row>
        {task.model && <Row name="Model">{task.model}</Row>}
        <Row name="Requested by">
          <To to="/tasks" search={{ requested_by: task.requested_by }} className="hover:underline">
            {task.requested_by}
          </To>{" "}
          ({sourceWords(task.source)})
        </Row>
        <Row name="Created">
          <time dateTime={task.created_at} title={exact(task.created_at)}>
            {since(task.created_at, now)}
          </time>
        </Row>
        <Row name="Cost">
          <span className="tabular-nums">
            {money(spent)} of {money(task.budget_usd)}
          </span>
          <Meter part={task.budget_usd > 0 ? spent / task.budget_usd : 0} label="Budget used" />
        </Row>
        {task.settings.race && (
          <Row name="Race">
            <To to="." search={{ tab: "race" }} className="text-accent hover:underline">
              {task.settings.race.id}
            </To>
          </Row>
        )}
        {task.convoy && !task.settings.race && (
          <Row name="Convoy">
            <To to="/tasks" search={{ convoy: task.convoy }} className="text-accent hover:underline">
              {task.convoy}
            </To>
          </Row>
        )}
        {task.tries > 1 && <Row name="Tries">{task.tries}</Row>}
      </dl>
    </aside>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-dim">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  );
}
