// The inbox: plans and deliveries that wait for a person, each with what was asked and what there is to decide.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId } from "react";
import { queries } from "../api/queries";
import type { SchemaTask } from "../api/schema";
import { shortRepository } from "../api/words";
import { Decide } from "../session/composer";
import { DeliveryView, Reviews } from "../session/entry";
import { money } from "../stream/sums";
import { firstLine } from "../text/harmless";
import { Prose } from "../text/show";
import { StatusIcon } from "../ui/icons";
import { Badge, Button, Empty, Page, Trouble } from "../ui/parts";
import { Shown, When } from "./tables";

export function ApprovalsPage() {
  const waiting = useInfiniteQuery(queries.tasks({ status: "awaiting_approval" }));
  return (
    <Page title="Approvals" about="Plans and results that are waiting for approval. Waiting uses no sandbox and costs nothing.">
      <Shown of={waiting} what="approvals">
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          if (items.length === 0)
            return (
              <Empty title="Nothing is waiting for you" icon="approve">
                Plans and results that need a decision appear here. The number next to “Approvals” shows how many there are.
              </Empty>
            );
          return (
            <>
              {items.map((task) => (
                <Waiting key={task.id} task={task} />
              ))}
              {waiting.hasNextPage && (
                <Button className="self-center" onClick={() => void waiting.fetchNextPage()}>
                  Show more
                </Button>
              )}
            </>
          );
        }}
      </Shown>
    </Page>
  );
}

function Waiting({ task }: { task: SchemaTask }) {
  const heading = useId();
  const detail = useQuery(queries.task(task.id));
  const session = detail.data?.sessions.at(-1)?.id;
  const found = useQuery({ ...queries.waiting(session ?? ""), enabled: session !== undefined });
  const waits = found.data;
  return (
    <article aria-labelledby={heading} className="card overflow-hidden">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line bg-side px-4 py-2.5">
        <StatusIcon status={task.status} />
        <h2 id={heading} className="min-w-0 flex-1 basis-48 font-semibold">
          <Link to="/tasks/$id" params={{ id: task.id }} className="hover:underline">
            {firstLine(task.prompt, 160)}
          </Link>
        </h2>
        <Badge tone="accent">{waits?.kind === "delivery" ? "Delivery" : "Plan"}</Badge>
        {task.settings.trust === "stranger" && <Badge tone="warn">From a stranger</Badge>}
        <span className="text-dim">{shortRepository(task.repository)}</span>
        <span className="text-dim">{task.agent}</span>
        <span className="text-dim tabular-nums">{money(task.cost_usd)} so far</span>
        <When at={waits?.at ?? task.created_at} />
      </header>
      {waits ? (
        <>
          {waits.kind === "plan" ? (
            <div className={`grid gap-4 px-4 py-3 ${waits.reviews.length > 0 ? "lg:grid-cols-2" : "max-w-4xl"}`}>
              <div className="min-w-0">
                <Prose text={waits.text} />
              </div>
              {waits.reviews.length > 0 && (
                <div className="min-w-0">
                  <Reviews of={waits.reviews} />
                </div>
              )}
            </div>
          ) : (
            <div className="flex flex-col gap-2 px-4 py-3">
              <DeliveryView delivery={waits.delivery} />
              <p className="flex gap-3">
                <Link to="/tasks/$id" params={{ id: task.id }} search={{ tab: "changes" }} className="text-accent underline">
                  View changes
                </Link>
                <Link to="/tasks/$id" params={{ id: task.id }} search={{ tab: "evidence" }} className="text-accent underline">
                  View evidence
                </Link>
              </p>
            </div>
          )}
          <Decide wide key={waits.seq} task={task} plan={waits.kind === "plan" ? waits.text : undefined} />
        </>
      ) : found.isError ? (
        <div className="p-4">
          <Trouble error={found.error} again={() => void found.refetch()} />
        </div>
      ) : (
        <p role="status" className="px-4 py-3 text-dim">
          Loading the proposal…
        </p>
      )}
    </article>
  );
}
